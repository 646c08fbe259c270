// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func TestTreeShowsWhatAClusterDependsOn(t *testing.T) {
	env := aFleet()
	env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, secret := object.(*metav1.PartialObjectMetadata); secret {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, nil)
		}
		return c.Get(ctx, key, object, options...)
	}
	out, _, err := env.run(t, "tree", "team-a/broken")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimLeft(`
OBJECT                                          READY     REASON
Cluster/broken                                  False     Provisioning
├── CAPTCluster/broken                          True      -
└── CAPTControlPlane/broken                     False     ApplyFailed
    ├── CAPTCluster/broken                      True      -
    ├── Secret/broken-eks-connection            Unknown   no permission to read it
    │   └── WorkspaceTemplateApply/broken-eks   False     ApplyFailed
    │       └── CAPTCluster/broken              True      -
    ├── WorkspaceTemplate/eks                   False     TemplateNotFound
    └── WorkspaceTemplateApply/broken-eks ...   False     ApplyFailed

DEPENDENT                         READY     REASON
Secret/broken-kubeconfig          Unknown   no permission to read it
└── CAPTControlPlane/broken ...   False     ApplyFailed
Secret/broken-user-kubeconfig     Unknown   no permission to read it
└── CAPTControlPlane/broken ...   False     ApplyFailed
`, "\n"), out)
	for format, want := range map[string]string{
		"dot":     `"CAPTControlPlane/team-a/broken" -> "WorkspaceTemplateApply/team-a/broken-eks"` + "\n",
		"mermaid": "flowchart TD\n",
		"svg":     `<svg xmlns="http://www.w3.org/2000/svg"`,
		"json":    `"CAPTControlPlane/team-a/broken": [`,
	} {
		out, _, err := env.run(t, "tree", "team-a/broken", "-o", format)
		require.NoError(t, err)
		assert.Contains(t, out, want)
	}
}

// Of objects that are not ready, only the first ones are causes. An owner is drawn apart from what only depends on an object.
func TestTreeShowsConsequencesInGray(t *testing.T) {
	env := aFleet()
	printed := env.painted(t, 200, "tree", "team-a/broken")
	assert.Regexp(t, `WorkspaceTemplateApply/broken-eks +\x1b\[38;5;130mFalse\x1b\[0m +\x1b\[38;5;196mApplyFailed`, printed, "the cause")
	assert.Regexp(t, `─ CAPTControlPlane/broken +\x1b\[38;5;243mFalse\x1b\[0m +\x1b\[38;5;243mApplyFailed`, printed)
	out, _, err := env.run(t, "tree", "team-a/broken", "-o", "dot")
	require.NoError(t, err)
	assert.Contains(t, out, `"CAPTControlPlane/team-a/broken" -> "CAPTCluster/team-a/broken" [style=dashed]`)
	assert.Contains(t, out, `"CAPTControlPlane/team-a/broken" [label="CAPTControlPlane/broken\nApplyFailed" color=gray]`)
	assert.Contains(t, out, `"WorkspaceTemplateApply/team-a/broken-eks" [label="WorkspaceTemplateApply/broken-eks\nApplyFailed" color=red]`)
	out, _, err = env.run(t, "tree", "team-a/broken", "-o", "svg")
	require.NoError(t, err)
	assert.Contains(t, out, "svg.graph:root { background: var(--page) }", "text is readable on a dark page")
	assert.Contains(t, out, `<path class="depends" d="M`)
	assert.Contains(t, out, `<g class="waiting"`)
}

// Objects that the Cluster does not refer to are not read, and a template of another namespace can only be used if it allows that.
func TestTreeReadsWhatTheClusterRefersTo(t *testing.T) {
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "eks"}}
	template.Status.Conditions = []metav1.Condition{{Type: infrav1.ValidCondition, Status: metav1.ConditionTrue}}
	home := namespace("team-a")
	home.Labels = map[string]string{"tier": "production"}
	for name, row := range map[string]struct {
		allowed infrav1.AllowedNamespaces
		want    string
	}{
		"not allowed":            {infrav1.AllowedNamespaces{}, " +False +NamespaceNotAllowed"},
		"another is allowed":     {infrav1.AllowedNamespaces{Names: []string{"team-b"}}, " +False +NamespaceNotAllowed"},
		"allowed by name":        {infrav1.AllowedNamespaces{Names: []string{"team-a"}}, " +True +-"},
		"allowed by labels":      {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: home.Labels}}, " +True +-"},
		"other labels":           {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "test"}}}, " +False +NamespaceNotAllowed"},
		"the labels are unknown": {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"unreadable": ""}}}, " +Unknown +no permission to read it"},
	} {
		t.Run(name, func(t *testing.T) {
			env := aFleet()
			other := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("unrelated")}
			other.Spec.TemplateRef.Name, other.Spec.WaitForSecrets = "unrelated", []infrav1.SecretDependency{{Name: "unrelated"}}
			for _, object := range env.objects {
				if controlPlane, is := object.(*controlplanev1.CAPTControlPlane); is {
					controlPlane.Spec.WorkspaceTemplateRef.Namespace = template.Namespace
				}
			}
			template.Spec.AllowedNamespaces = row.allowed
			env.objects = append(env.objects, template, home, other)
			var read []string
			env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				read = append(read, key.String())
				if key.Namespace == "" && strings.Contains(row.want, "Unknown") {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, key.Name, nil)
				}
				return c.Get(ctx, key, object, options...)
			}
			out, _, err := env.run(t, "tree", "team-a/good")
			require.NoError(t, err)
			assert.Regexp(t, "WorkspaceTemplate/platform/eks"+row.want+"\n", out)
			assert.ElementsMatch(t, []string{"platform/eks", "team-a/good-eks-connection", "team-a/good-kubeconfig", "team-a/good-user-kubeconfig"},
				slices.DeleteFunc(read, func(key string) bool {
					return slices.Contains([]string{"/team-a", "team-a/good", "team-a/good-eks"}, key)
				}))
		})
	}
}

// While a Cluster is deleted, its control plane is gone before its VPC.
func TestTreeOfAClusterWithoutAControlPlane(t *testing.T) {
	env := aFleet()
	_, _, err := env.run(t, "get")
	require.NoError(t, err)
	require.NoError(t, env.connected.Delete(t.Context(), &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "good"}}))
	vpc := &infrav1.CAPTCluster{}
	require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "good"}, vpc))
	vpc.Spec.WorkspaceTemplateApplyRef.Name = "good-eks"
	require.NoError(t, env.connected.Update(t.Context(), vpc))
	out, _, err := env.run(t, "tree", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimLeft(`
OBJECT                                    READY   REASON
Cluster/good                              False   Provisioning
├── CAPTCluster/good                      True    -
│   └── WorkspaceTemplateApply/good-eks   True    -
└── CAPTControlPlane/good                 False   NotFound
`, "\n"), out)
}
