// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/builder"
)

// withKubeconfigHelper adds the helper as CAPT v0.3 wrote it: template and Secret are in the namespace default.
func withKubeconfigHelper(t *testing.T, s *fixture) (*infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplate, *unstructured.Unstructured) {
	t.Helper()
	template := s.template("eks-kubeconfig-template", "cluster_name")
	template.Namespace, template.UID = "default", "WorkspaceTemplate/default/eks-kubeconfig-template"
	apply := s.apply(s.name+"-kubeconfig-apply", template.Name, map[string]string{"cluster_name": s.name}, builder.OwnedBy(s.plane))
	apply.Spec.TemplateRef.Namespace = "default"
	live := s.live(t, apply, template, nil)
	apply.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: s.name + "-outputs-kubeconfig", Namespace: "default"}
	secret := map[string]string{"name": s.name + "-outputs-kubeconfig", "namespace": "default"}
	require.NoError(t, unstructured.SetNestedStringMap(live.Object, secret, "spec", "writeConnectionSecretToRef"))
	s.add(apply, template, live)
	return apply, template, live
}

// helped is a fixture with a helper.
type helped struct {
	*fixture
	apply    *infrav1.WorkspaceTemplateApply
	template *infrav1.WorkspaceTemplate
	live     *unstructured.Unstructured
}

func TestAHelperNeverBlocksItsCluster(t *testing.T) {
	const (
		unit     = "WorkspaceTemplateApply demo-kubeconfig-apply: "
		finding  = " WorkspaceTemplateApply demo-kubeconfig-apply"
		recorded = unit + "/status/workspaceRef"
		alone    = unit + "/spec/deletionPolicy"
	)
	for name, tc := range map[string]struct {
		change func(h *helped)
		want   []string
		never  string
		leaves bool // Another client may change its Workspace.
	}{
		"template and Secret in default": {
			nil, []string{"WorkspaceTemplate eks-kubeconfig-template: /spec/allowedNamespaces/names", unit + "/spec/workspaceName", recorded}, "Warning RenderFailed" + finding, false,
		},
		"another Secret than its Workspace's": {
			func(h *helped) { h.apply.Spec.WriteConnectionSecretToRef.Name = "another" }, []string{alone, "Warning RenderFailed" + finding}, recorded, false,
		},
		"template gone": {
			func(h *helped) { h.gone[h.template] = true }, []string{alone, "Warning WorkspaceTemplateNotFound" + finding}, recorded, false,
		},
		"template changed": {
			func(h *helped) { h.template.Spec.Template.Spec.ForProvider.Module += "# changed" }, []string{alone, "Warning WorkspaceDiffers" + finding}, recorded, false,
		},
		"being deleted": {
			func(h *helped) { builder.Deleting()(h.apply) }, []string{"Warning BeingDeleted" + finding}, alone, true,
		},
		"Workspace being deleted": {
			func(h *helped) { builder.Deleting()(h.live) }, []string{alone, "Warning BeingDeleted" + finding}, recorded, true,
		},
		"Workspace claimed": {
			func(h *helped) { h.live.SetAnnotations(map[string]string{naming.ClaimAnnotation: "team-b/another"}) }, []string{alone, "Warning WorkspaceClaimed" + finding}, recorded, true,
		},
		"Workspace shared": {
			func(h *helped) {
				other := h.apply.DeepCopy()
				other.Namespace, other.UID, other.OwnerReferences = "team-b", "another", nil
				h.add(other)
			}, []string{alone, "Warning WorkspaceShared" + finding}, recorded, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			apply, template, live := withKubeconfigHelper(t, s)
			if tc.change != nil {
				tc.change(&helped{s, apply, template, live})
			}
			got := planFor(t, nil, s)
			for _, finding := range got.Findings {
				if finding.Object.UID == apply.UID {
					assert.Equal(t, migrate.Warning, finding.Severity, finding.Message)
				}
			}
			lines := summary(got)
			assert.Subset(t, lines, tc.want)
			assert.NotContains(t, lines, tc.never)
			assert.Contains(t, lines, "WorkspaceTemplateApply demo-eks-controlplane-apply: /spec/workspaceName")
			var proven []string
			for _, workspace := range unitOf(t, got, "team-a/demo").Workspaces {
				proven = append(proven, workspace.Name)
			}
			want := []string{"demo-vpc", "demo-eks-controlplane"}
			if !tc.leaves {
				want = append(want, live.GetName())
			}
			assert.Equal(t, want, proven, "also what is left alone must not change")
		})
	}
}
