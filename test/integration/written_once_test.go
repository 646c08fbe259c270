// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
)

// paused adds the annotation that keeps the controllers from writing an object.
func paused(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {annotations: {"+clusterv1.PausedAnnotation+": ''}, ", 1)
}

// remove removes a field from the spec of an object, and returns what is there afterwards.
func (w world) remove(object *unstructured.Unstructured, field, manager string) (any, error) {
	w.Helper()
	changed := object.DeepCopy()
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/`+field+`"}]`))
	err := w.Patch(w.Context(), changed, patch, client.FieldOwner(manager))
	left, _, _ := unstructured.NestedFieldNoCopy(changed.Object, "spec", field)
	return left, err
}

func TestImmutableFieldsAreRemovedByCaptctlOnly(t *testing.T) {
	t.Parallel()
	for field, manifests := range map[string][]string{
		"workspaceTemplateApplyRef": {network(`{region: eu-central-1, ` + vpcRef + `, workspaceTemplateApplyRef: {name: one}}`), plane(`workspaceTemplateApplyRef: {name: one}`)},
		"workspaceName":             {applied("demo", `workspaceName: one`)},
	} {
		for _, manifest := range manifests {
			manifest = strings.Replace(paused(manifest), "metadata: {", "metadata: {finalizers: [test.example.com/kept], ", 1)
			w := newWorld(t)
			w.User(manifest)
			object := w.object(manifest)
			t.Cleanup(func() {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				require.NoError(t, w.Patch(context.Background(), object.DeepCopy(), patch))
			})
			left, err := w.remove(object, field, "user")
			require.NoError(t, err)
			require.NotNil(t, left, "it is restored for users")
			left, err = w.remove(object, field, naming.MigrationFieldManager)
			require.NoError(t, err)
			require.Nil(t, left, "a rollback removes it")

			w.User(manifest)
			another := client.ApplyConfigurationFromUnstructured(w.object(strings.ReplaceAll(manifest, "one}", "two}")))
			err = w.Apply(t.Context(), another, client.FieldOwner(naming.MigrationFieldManager), client.ForceOwnership)
			require.ErrorContains(t, err, "is immutable", "no client may set another value")

			// The webhooks are not called for objects that are being deleted, but the policy applies.
			require.NoError(t, w.Delete(t.Context(), object.DeepCopy()))
			_, err = w.remove(object, field, "user")
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, "Restore the name")
		}
	}
}

// A manifest in v1beta1, without the annotation in which conversion keeps what v1beta1 has no fields for, replaces the object.
func TestFieldsThatAnOlderManifestCannotExpressAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(document("WorkspaceTemplate", "vpc", `{workspaceScope: Namespaced, allowedNamespaces: {names: [shop]}, publishOutputs: [words],
		template: {spec: {providerConfigRef: {kind: ClusterProviderConfig, name: aws}, forProvider: {source: Inline, module: ""}}}}`))
	w.User(strings.Replace(legacyDocument("WorkspaceTemplate", "vpc", `{template: {spec: {providerConfigRef: {name: aws}, forProvider: {source: Inline, module: "locals {}"}}}}`),
		"{name: vpc}", "{name: vpc, annotations: {cluster.x-k8s.io/conversion-data: ''}}", 1))
	template := w.object(document("WorkspaceTemplate", "vpc", `{}`))
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(template), template))
	for want, path := range map[any]string{
		"Namespaced": "workspaceScope", "ClusterProviderConfig": "template.spec.providerConfigRef.kind", "locals {}": "template.spec.forProvider.module",
	} {
		got, _, err := unstructured.NestedFieldNoCopy(template.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	names, _, err := unstructured.NestedStringSlice(template.Object, "spec", "allowedNamespaces", "names")
	require.NoError(t, err)
	require.Equal(t, []string{"shop"}, names)
}
