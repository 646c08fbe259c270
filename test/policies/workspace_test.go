// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// kubectl replace with a manifest that has other annotations, or none, gives a Workspace another state, or removes the mark that protects it.
func TestTheStateAndTheClaimOfAWorkspaceDoNotChange(t *testing.T) {
	t.Parallel()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, scope)
			workspace := fixture.NewWorkspace(scope, types.NamespacedName{Namespace: fixture.ScopeNamespace(scope, env.Namespace), Name: env.Namespace + "-held"})
			workspace.SetAnnotations(map[string]string{
				naming.ClaimAnnotation: env.Namespace + "/held", render.ExternalNameAnnotation: "state", terraform.PausedAnnotation: "true", "note": "a",
			})
			workspace.Object["spec"] = map[string]any{"managementPolicies": []any{"Observe"}, "forProvider": map[string]any{"source": "Inline", "module": "# empty"}}
			require.NoError(t, shared.API.Create(t.Context(), workspace))
			t.Cleanup(func() {
				require.NoError(t, shared.API.Patch(context.Background(), workspace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null,"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`))))
				require.NoError(t, client.IgnoreNotFound(shared.API.Delete(context.Background(), workspace)))
			})
			update := func(change func(annotations map[string]string)) error {
				annotations := maps.Clone(workspace.GetAnnotations())
				change(annotations)
				patch, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/metadata/annotations", "value": annotations}})
				require.NoError(t, err)
				return shared.API.Patch(t.Context(), workspace.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.DryRunAll)
			}
			annotation := func(name, value string) string {
				return "annotation " + name + " of Workspace " + workspace.GetName() + " cannot be changed or removed: it is " + value
			}
			claim, state := annotation(naming.ClaimAnnotation, env.Namespace+"/held, and connects the Workspace with the WorkspaceTemplateApply that CAPT created it for"),
				annotation(render.ExternalNameAnnotation, "state, and connects the Workspace with its Terraform state. With another state, Terraform would create everything a second time")
			for name, row := range map[string]struct {
				want   string
				change func(map[string]string)
			}{
				"the claim is removed": {claim, func(a map[string]string) { delete(a, naming.ClaimAnnotation) }},
				"another claim":        {claim, func(a map[string]string) { a[naming.ClaimAnnotation] = "other/held" }},
				"all are removed":      {claim, func(a map[string]string) { clear(a) }},
				"the state is removed": {state, func(a map[string]string) { delete(a, render.ExternalNameAnnotation) }},
				"an empty state":       {state, func(a map[string]string) { a[render.ExternalNameAnnotation] = "" }},
			} {
				require.Contains(t, refused(t, func(context.Context) error { return update(row.change) }), row.want, name)
			}
			require.NoError(t, update(func(a map[string]string) { a["note"] = "b" }))
			require.NoError(t, update(func(a map[string]string) { a[render.ExternalNameAnnotation] = "other" }), "an administrator corrects the state")
			manager, err := shared.InstalledManagerUser()
			require.NoError(t, err)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+render.ExternalNameAnnotation+`":"other"}}}`))
			require.Contains(t, refused(t, func(context.Context) error {
				return as(t, manager).Patch(t.Context(), workspace.DeepCopy(), patch, client.DryRunAll)
			}), state)
			require.NoError(t, update(func(a map[string]string) {
				clear(a)
				a[clusterctlv1.DeleteForMoveAnnotation] = ""
			}), "clusterctl move")
		})
	}
}
