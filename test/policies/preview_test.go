// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// previewOf returns a Workspace with the marks of a preview of an object that does not exist. It is in no state of Terraform, and paused.
func previewOf(env *fixture.Environment, name string) *unstructured.Unstructured {
	env.Helper()
	workspace := fixture.NewWorkspace(env.Scope, types.NamespacedName{Namespace: fixture.ScopeNamespace(env.Scope, env.Namespace), Name: env.Namespace + "-" + name})
	workspace.SetLabels(map[string]string{naming.PreviewLabel: "true"})
	workspace.SetAnnotations(map[string]string{naming.PreviewOfAnnotation: env.Namespace + "/" + name, "crossplane.io/paused": "true"})
	config := map[string]any{"name": env.Namespace}
	if env.Scope == terraform.ScopeNamespaced {
		config["kind"] = "ClusterProviderConfig"
	}
	workspace.Object["spec"] = map[string]any{
		"managementPolicies": []any{"Observe"}, "providerConfigRef": config, "forProvider": map[string]any{"source": "Inline", "module": "# empty"},
	}
	return workspace
}

// Any other policy would let Terraform apply a content that is not approved, and a deletion destroy the resources of the real Workspace.
func TestAPreviewMayOnlyObserve(t *testing.T) {
	t.Parallel()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, scope)
			manager, err := shared.InstalledManagerUser()
			require.NoError(t, err)
			clients := map[string]client.Client{"an administrator": shared.API, "CAPT": as(t, manager), "the garbage collector": as(t, "system:serviceaccount:kube-system:generic-garbage-collector", "system:masters")}
			preview := previewOf(env, "absent")
			for name, change := range map[string]func(object *unstructured.Unstructured){
				"all": func(o *unstructured.Unstructured) { set(env, o, []any{"*"}, "spec", "managementPolicies") },
				"more": func(o *unstructured.Unstructured) {
					set(env, o, []any{"Observe", "Delete"}, "spec", "managementPolicies")
				},
				"none": func(o *unstructured.Unstructured) { set(env, o, []any{}, "spec", "managementPolicies") },
				"default": func(o *unstructured.Unstructured) {
					unstructured.RemoveNestedField(o.Object, "spec", "managementPolicies")
				},
				"annotation": func(o *unstructured.Unstructured) {
					o.SetLabels(nil)
					set(env, o, []any{"*"}, "spec", "managementPolicies")
				},
				"a Secret": func(o *unstructured.Unstructured) {
					set(env, o, map[string]any{"name": "a", "namespace": env.Namespace}, "spec", "writeConnectionSecretToRef")
				},
			} {
				changed := preview.DeepCopy()
				change(changed)
				message := refused(t, func(ctx context.Context) error { return shared.API.Create(ctx, changed.DeepCopy(), client.DryRunAll) })
				require.Contains(t, message, "is a preview, and must only observe", name)
				for user, c := range clients {
					err := c.Create(t.Context(), changed.DeepCopy(), client.DryRunAll)
					require.True(t, apierrors.IsForbidden(err), "%s %s: %v", user, name, err)
				}
			}
			exists := func(try func() error) (err error) { // The manager deletes a preview of an object that does not exist.
				for range 20 {
					if err = try(); !apierrors.IsNotFound(err) {
						return err
					}
					require.NoError(t, client.IgnoreAlreadyExists(shared.API.Create(t.Context(), preview.DeepCopy())))
				}
				return err
			}
			for _, patch := range []string{
				`{"spec":{"managementPolicies":["*"]}}`, `{"spec":{"managementPolicies":null}}`, `{"spec":{"managementPolicies":["Observe","Update"]}}`,
				`{"spec":{"writeConnectionSecretToRef":{"name":"a","namespace":"` + env.Namespace + `"}}}`,
				`{"metadata":{"labels":{"` + naming.PreviewLabel + `":null},"annotations":{"` + naming.PreviewOfAnnotation + `":null}},"spec":{"managementPolicies":["*"]}}`,
				`{"metadata":{"annotations":{"` + naming.PreviewOfAnnotation + `":null,"clusterctl.cluster.x-k8s.io/delete-for-move":""}},"spec":{"managementPolicies":["*"]}}`,
			} {
				for user, c := range clients {
					err := exists(func() error { return patched(env, c, preview, patch) })
					require.True(t, apierrors.IsForbidden(err), "%s %s: %v", user, patch, err)
					require.ErrorContains(t, err, "is a preview, and must only observe", user)
				}
			}
			provider := as(t, sandbox.ProviderUser)
			require.NoError(t, exists(func() error {
				return patched(env, shared.API, preview, `{"metadata":{"annotations":{"look":"again"},"labels":{"team":"a"}}}`)
			}))
			require.NoError(t, exists(func() error {
				return patched(env, provider, preview, `{"metadata":{"finalizers":["finalizer.managedresource.crossplane.io"]}}`)
			}))
			require.NoError(t, exists(func() error { return patched(env, provider, preview, `{"metadata":{"finalizers":null}}`) }))
			require.NoError(t, exists(func() error { return shared.API.Delete(t.Context(), preview) }), "deleting it destroys nothing")
		})
	}
}

// A Workspace without the marks of its kind would be taken for another kind.
func TestTheMarksOfPreviewsDoNotChange(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	preview, other := previewOf(env, "absent"), previewOf(env, "other")
	other.SetLabels(nil)
	other.SetAnnotations(map[string]string{"crossplane.io/paused": "true"})
	for _, object := range []*unstructured.Unstructured{preview, other} {
		require.NoError(t, shared.API.Create(t.Context(), object))
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(shared.API.Delete(context.Background(), object))) })
	}
	for object, patches := range map[*unstructured.Unstructured][]string{
		preview: {
			`{"metadata":{"labels":{"` + naming.PreviewLabel + `":null}}}`,
			`{"metadata":{"annotations":{"` + naming.PreviewOfAnnotation + `":null}}}`,
			`{"metadata":{"labels":null,"annotations":null}}`,
			`{"metadata":{"labels":null,"annotations":{"` + naming.PreviewOfAnnotation + `":null,"clusterctl.cluster.x-k8s.io/delete-for-move":""}}}`,
			`{"metadata":{"annotations":{"` + naming.ClaimAnnotation + `":"a/b"}}}`,
		},
		other: {
			`{"metadata":{"labels":{"` + naming.PreviewLabel + `":"true"}}}`,
			`{"metadata":{"labels":{"` + naming.PreviewLabel + `":"true"}},"spec":{"managementPolicies":["Observe"]}}`,
			`{"metadata":{"annotations":{"` + naming.PreviewOfAnnotation + `":"a/b"}},"spec":{"managementPolicies":["Observe"]}}`,
		},
	} {
		for _, patch := range patches {
			message := refused(t, func(context.Context) error { return patched(env, shared.API, object, patch) })
			require.Contains(t, message, object.GetName(), patch)
		}
	}
	require.NoError(t, patched(env, shared.API, other, `{"spec":{"managementPolicies":["Observe"]}}`), "a Workspace that is not a preview")
	require.NoError(t, patched(env, shared.API, preview, `{"metadata":{"annotations":{"`+naming.PreviewOfAnnotation+`":null,"clusterctl.cluster.x-k8s.io/delete-for-move":""}}}`), "clusterctl move removes annotations")
	require.True(t, render.OnlyObserves(preview))
}

// patched sends a patch without effect.
func patched(env *fixture.Environment, c client.Client, object *unstructured.Unstructured, patch string) error {
	return c.Patch(env.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
}

func set(env *fixture.Environment, object *unstructured.Unstructured, value any, fields ...string) {
	env.Helper()
	require.NoError(env, unstructured.SetNestedField(object.Object, value, fields...))
}
