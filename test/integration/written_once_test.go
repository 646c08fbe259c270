// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
)

// writtenOnce are objects with what is written once, paused so that no controller writes it again, and where it is.
func writtenOnce() map[string]struct {
	manifest, field string
} {
	paused := func(manifest string) string {
		return strings.Replace(manifest, "metadata: {", "metadata: {finalizers: [test.example.com/kept], annotations: {"+clusterv1.PausedAnnotation+": ''}, ", 1)
	}
	return map[string]struct{ manifest, field string }{
		"CAPTCluster":            {paused(network(`{region: eu-central-1, vpc: {template: {ref: {name: vpc}}}, workspaceTemplateApplyRef: {name: one}}`)), "workspaceTemplateApplyRef"},
		"CAPTControlPlane":       {paused(planeWith(`workspaceTemplateApplyRef: {name: one}`)), "workspaceTemplateApplyRef"},
		"WorkspaceTemplateApply": {paused(document("WorkspaceTemplateApply", "demo", `{templateRef: {name: eks}, workspaceName: one}`)), "workspaceName"},
	}
}

// takeOut removes a field from the spec of an object, and returns what is there afterwards.
func (w *world) takeOut(object *unstructured.Unstructured, field, manager string) (any, error) {
	w.Helper()
	taken := object.DeepCopy()
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/`+field+`"}]`))
	err := w.Patch(w.Context(), taken, patch, client.FieldOwner(manager))
	left, _, _ := unstructured.NestedFieldNoCopy(taken.Object, "spec", field)
	return left, err
}

func TestImmutableFieldsAreRemovedByCaptctlOnly(t *testing.T) {
	t.Parallel()
	for kind, row := range writtenOnce() {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.apply(row.manifest)
			object := w.object(row.manifest)
			t.Cleanup(func() {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				require.NoError(t, w.Patch(context.Background(), object.DeepCopy(), patch))
			})

			left, err := w.takeOut(object, row.field, "user")
			require.NoError(t, err)
			require.NotNil(t, left, "it is put back for users")

			left, err = w.takeOut(object, row.field, naming.MigrationFieldManager)
			require.NoError(t, err)
			require.Nil(t, left, "a rollback takes it out")

			w.apply(row.manifest)
			another := strings.ReplaceAll(row.manifest, "one}", "two}")
			err = w.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(w.object(another)), client.FieldOwner(naming.MigrationFieldManager), client.ForceOwnership)
			require.ErrorContains(t, err, "is immutable", "no client may set another value")

			// The webhooks are not asked about objects that are being deleted.
			require.NoError(t, w.Delete(t.Context(), object.DeepCopy()))
			err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, prompt, true, func(context.Context) (bool, error) {
				_, refused := w.takeOut(object, row.field, "user")
				if refused == nil { // The API server learns of the policy a moment after it was installed.
					w.apply(row.manifest)
				}
				return apierrors.IsForbidden(refused) && strings.Contains(refused.Error(), "Restore the name"), nil
			})
			require.NoError(t, err, "nothing keeps a user from taking it out")
		})
	}
}
