// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// sharedFleet has two Clusters in two namespaces whose control planes use one template. A WorkspaceTemplateApply without a Cluster uses another one.
// The Workspace of the first control plane is cluster-scoped.
func sharedFleet() *environment {
	env := &environment{}
	for _, name := range []string{"demo", "other"} {
		objects := capt(name, infrav1.StateReady, func(c *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
			c.Spec.WorkspaceTemplateRef.Namespace = "platform"
			apply.Spec.TemplateRef = c.Spec.WorkspaceTemplateRef
			apply.Spec.WorkspaceName = name + "-eks"
		})
		if name == "other" {
			for _, object := range objects {
				object.SetNamespace("team-b")
			}
		}
		env.objects = append(env.objects, objects...)
	}
	template := func(name string) *infrav1.WorkspaceTemplate {
		t := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name}}
		t.Status.Conditions = []metav1.Condition{{Type: infrav1.ValidCondition, Status: metav1.ConditionTrue}}
		return t
	}
	alone := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("alone")}
	alone.Spec.TemplateRef.Name, alone.Spec.TemplateRef.Namespace = "dns", "platform"
	alone.Spec.WaitForWorkspaces = []infrav1.WorkspaceDependency{{Name: "other-eks", Namespace: "team-b"}}
	scoped := func(apply client.Object) {
		apply.(*infrav1.WorkspaceTemplateApply).Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "demo-eks"}
	}
	scoped(env.objects[2])
	object := func(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) client.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	clusterScope, namespaced := terraform.ScopeCluster.GroupVersionKind(), terraform.ScopeNamespaced.GroupVersionKind()
	variables := func(namespace string) map[string]any {
		return map[string]any{"source": "Inline", "varFiles": []any{map[string]any{"source": "SecretKey", "secretKeyRef": map[string]any{"namespace": namespace, "name": "database", "key": "tfvars"}}}}
	}
	env.objects = append(env.objects, template("eks"), template("dns"), template("unused"), alone,
		object(clusterScope, "", "demo-eks", map[string]any{"forProvider": variables("team-a"), "providerConfigRef": map[string]any{"name": "aws"}}),
		object(clusterScope, "", "of-another-client", map[string]any{"forProvider": variables("team-a")}),
		object(clusterScope.GroupVersion().WithKind("ProviderConfig"), "", "aws", map[string]any{
			"credentials": []any{map[string]any{"source": "Secret", "secretRef": map[string]any{"namespace": "crossplane-system", "name": "aws"}}}}),
		object(namespaced, "team-b", "other-eks", map[string]any{"forProvider": variables("")}))
	return env
}

func TestTreeShowsTheImpactOfATemplateInAllNamespaces(t *testing.T) {
	out, errOut, err := sharedFleet().run(t, "tree", "--impact", "workspacetemplate/platform/eks")
	require.NoError(t, err)
	assert.Empty(t, errOut)
	assert.Equal(t, strings.TrimLeft(`
OBJECT                                            READY     REASON
WorkspaceTemplate/eks                             True      -
├── CAPTControlPlane/team-a/demo                  True      -
│   └── Cluster/team-a/demo                       False     Provisioning
├── CAPTControlPlane/team-b/other                 True      -
│   └── Cluster/team-b/other                      False     Provisioning
├── WorkspaceTemplateApply/team-a/demo-eks        True      -
│   ├── CAPTControlPlane/team-a/demo ...          True      -
│   ├── Secret/team-a/demo-eks-connection         Unknown   -
│   │   └── CAPTControlPlane/team-a/demo ...      True      -
│   └── Workspace/demo-eks                        True      -
└── WorkspaceTemplateApply/team-b/other-eks       True      -
    ├── CAPTControlPlane/team-b/other ...         True      -
    ├── Secret/team-b/other-eks-connection        Unknown   -
    │   └── CAPTControlPlane/team-b/other ...     True      -
    └── Workspace/team-b/other-eks                True      -
        └── WorkspaceTemplateApply/team-a/alone   Unknown   -

2 Clusters and 2 Workspaces depend on it.
`, "\n"), out)
}

func TestTreeShowsTheImpactOfWhatWorkspacesReferTo(t *testing.T) {
	for _, row := range []struct {
		object               string
		clusters, workspaces []string
	}{
		{"WorkspaceTemplate/platform/dns", []string{}, []string{}},
		{"WorkspaceTemplate/platform/unused", []string{}, []string{}},
		{"WorkspaceTemplateApply/other-eks", []string{"Cluster/team-b/other"}, []string{"Workspace/team-b/other-eks"}},
		{"Workspace/team-b/other-eks", []string{"Cluster/team-b/other"}, []string{"Workspace/team-b/other-eks"}},
		{"Workspace/demo-eks", []string{"Cluster/team-a/demo"}, []string{"Workspace//demo-eks"}},
		{"Secret/team-a/database", []string{"Cluster/team-a/demo"}, []string{"Workspace//demo-eks"}},
		{"Secret/team-b/database", []string{"Cluster/team-b/other"}, []string{"Workspace/team-b/other-eks"}},
		{"Secret/crossplane-system/aws", []string{"Cluster/team-a/demo"}, []string{"Workspace//demo-eks"}},
		{"ProviderConfig/aws", []string{"Cluster/team-a/demo"}, []string{"Workspace//demo-eks"}},
		{"ClusterProviderConfig/default", []string{"Cluster/team-b/other"}, []string{"Workspace/team-b/other-eks"}},
		{"CAPTCluster/demo", []string{"Cluster/team-a/demo"}, []string{"Workspace//demo-eks"}},
	} {
		namespace := "team-a"
		if strings.HasSuffix(row.object, "/other-eks") {
			namespace = "team-b"
		}
		out, _, err := sharedFleet().run(t, "tree", "--impact", row.object, "-o", "json", "-n", namespace)
		require.NoError(t, err, row.object)
		var found graph.Impact
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		assert.Equal(t, row.clusters, found.Clusters, row.object)
		assert.Equal(t, row.workspaces, found.Workspaces, row.object)
		for _, dependents := range found.Graph.Edges {
			for _, name := range dependents {
				assert.Contains(t, found.Graph.Nodes, name, row.object)
			}
		}
	}
	for _, format := range []string{"dot", "svg", "mermaid", "yaml"} {
		out, _, err := sharedFleet().run(t, "tree", "--impact", "ProviderConfig/aws", "-o", format)
		require.NoError(t, err)
		assert.Contains(t, out, "demo-eks")
	}
}

func TestTreeExplainsAnImpactThatItCannotFind(t *testing.T) {
	for object, want := range map[string]string{
		"eks":                         `"eks": must be KIND/NAME or KIND/NAMESPACE/NAME`,
		"Pod/a":                       `no object of CAPT depends on the kind "Pod"; use one of CAPTCluster, `,
		"WorkspaceTemplate/eks":       "there is no WorkspaceTemplate eks in namespace default; did you mean WorkspaceTemplate/platform/eks?",
		"WorkspaceTemplate/a/missing": "there is no WorkspaceTemplate a/missing, or you may not read it; kubectl get workspacetemplate -A lists all",
		"Secret/team-a/unused":        "no object of CAPT that you may read refers to Secret team-a/unused",
	} {
		_, _, err := sharedFleet().run(t, "tree", "--impact", object)
		assert.ErrorContains(t, err, want)
	}
	_, _, err := sharedFleet().run(t, "tree", "team-a/demo", "--impact", "Secret/a")
	assert.ErrorContains(t, err, "wrong arguments")
}

func TestAClusterIsNotPartOfItsImpact(t *testing.T) {
	out, _, err := sharedFleet().run(t, "tree", "--impact", "Cluster/team-a/demo")
	require.NoError(t, err)
	assert.Contains(t, out, "0 Clusters and 0 Workspaces depend on it.")
}

func TestTreeShowsTheImpactThatTheUserMaySee(t *testing.T) {
	env := sharedFleet()
	env.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		given := (&client.ListOptions{}).ApplyOptions(options)
		if given.Namespace == "" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, "", nil)
		}
		return c.List(ctx, list, options...)
	}
	out, errOut, err := env.run(t, "tree", "--impact", "CAPTCluster/other", "-n", "team-b", "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, out, `"Workspace/team-b/other-eks"`)
	assert.Contains(t, errOut, "Warning: only namespace team-b is read: ")
	assert.Contains(t, errOut, "Warning: what Workspaces refer to (Secrets, ConfigMaps, ProviderConfigs) is not shown: ")
}

func TestImpactCompletesObjects(t *testing.T) {
	out, _, err := sharedFleet().run(t, "__complete", "tree", "--impact", "")
	require.NoError(t, err)
	for _, want := range []string{"WorkspaceTemplate/platform/eks\n", "WorkspaceTemplateApply/team-a/alone\n", "Cluster/team-b/other\n"} {
		assert.Contains(t, out, want)
	}
}
