/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	finalizer = "finalizer.managedresource.crossplane.io"
	success   = "True/ReconcileSuccess"
	failure   = "False/ReconcileError"
	available = "True/Available"
)

func TestLifeOfAWorkspace(t *testing.T) {
	for _, group := range []string{"tf.upbound.io", "tf.m.upbound.io"} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, group)
			history := s.recordConditions()
			s.isCreated()
			s.isUpdated()
			s.failsToUpdate()
			s.isMended()
			s.isDeleted()
			require.Equal(t, []string{
				" ",
				"False/Creating " + success,
				available + " " + success,
				available + " " + failure,
				available + " " + success,
				"False/Deleting " + success,
			}, history())
		})
	}
}

func (s *subject) isCreated() {
	s.Helper()
	require.NoError(s, api.Create(s.Context(), s.Unstructured))
	s.reached("applying-1")
	require.Equal(s, shown{
		marks: []string{"external-name", "external-create-pending", finalizer},
	}, s.look(), "while the first apply runs there are no conditions, and an empty Secret")

	s.open("apply-1", "0")
	rest := s.until(available, success)
	require.Equal(s, map[string]any{"generation": "1", "zones": []any{"a", "b"}}, rest.outputs, "typed, and without the sensitive one")
	require.Equal(s, `generation=1 password=hidden zones=["a","b"]`, rest.secret)
	require.Equal(s, []string{"external-name", "external-create-pending", "external-create-succeeded", finalizer}, rest.marks)
	require.Len(s, s.stateSecrets(), 1)
}

func (s *subject) isUpdated() {
	s.Helper()
	before := s.look()
	s.generation("2")
	s.reached("applying-2")
	applying := s.look()
	require.False(s, applying.current)
	applying.current = true
	require.Equal(s, before, applying, "while an update is applied nothing changes")

	s.open("apply-2", "0")
	rest := s.until(available, success)
	require.Equal(s, "2", rest.outputs["generation"])
	require.Contains(s, rest.secret, "generation=2 ")
}

func (s *subject) failsToUpdate() {
	s.Helper()
	s.open("apply-3", "7")
	s.generation("3")
	failed := s.until(available, failure)
	require.Equal(s, "update failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: local-exec provisioner error", failed.message)
}

func (s *subject) isMended() {
	s.Helper()
	s.open("apply-4", "0")
	s.generation("4")
	rest := s.until(available, success)
	require.Equal(s, "4", rest.outputs["generation"])
	require.Empty(s, rest.message)
}

func (s *subject) isDeleted() {
	s.Helper()
	before := s.look()
	require.NoError(s, api.Delete(s.Context(), s.Unstructured))
	s.reached("destroying")
	destroying := s.look()
	require.Equal(s, before.ready, destroying.ready, "while destroy runs Ready is stale")
	require.Equal(s, before.synced, destroying.synced)

	s.open("destroy", "0")
	require.Eventually(s, s.gone, patience, 50*time.Millisecond)
	require.Empty(s, s.stateSecrets(), "the state is gone")
	require.Eventually(s, func() bool {
		key := types.NamespacedName{Namespace: s.namespace, Name: "connection"}
		return apierrors.IsNotFound(api.Get(s.Context(), key, &corev1.Secret{}))
	}, patience, 50*time.Millisecond, "the connection Secret goes with its owner")
}

func TestAFirstApplyThatFailsIsRetried(t *testing.T) {
	for _, group := range []string{"tf.upbound.io", "tf.m.upbound.io"} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, group)
			s.open("apply-1", "7")
			require.NoError(t, api.Create(t.Context(), s.Unstructured))
			failed := s.until("False/Creating", failure)
			require.Contains(t, []string{
				"create failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: local-exec provisioner error",
				// The resource that failed is in the state, so what follows the create is an update.
				"update failed: cannot apply Terraform configuration: Terraform encountered an error. Summary: local-exec provisioner error",
			}, failed.message)

			s.open("apply-1", "0")
			s.until(available, success)
		})
	}
}

func TestABrokenModuleFailsToPlan(t *testing.T) {
	for _, group := range []string{"tf.upbound.io", "tf.m.upbound.io"} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, group)
			s.open("apply-1", "0")
			require.NoError(t, api.Create(t.Context(), s.Unstructured))
			s.until(available, success)

			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"forProvider":{"varmap":{"settings":"not an object"}}}}`))
			require.NoError(t, api.Patch(t.Context(), s.Unstructured, patch))
			failed := s.until(available, failure)
			require.Equal(t, "observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: Invalid value for input variable", failed.message)
		})
	}
}

func TestAMetadataEditWakesAPlan(t *testing.T) {
	s := newSubject(t, "tf.m.upbound.io")
	s.open("apply-1", "0")
	require.NoError(t, api.Create(t.Context(), s.Unstructured))
	s.until(available, success)
	key := types.NamespacedName{Namespace: s.namespace, Name: "connection"}
	require.NoError(t, api.Delete(t.Context(), &corev1.Secret{ObjectMeta: objectMeta(key)}))

	// An observation writes the Secret again; the next one that is due by itself is minutes away.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"yes"}}}`))
	require.NoError(t, api.Patch(t.Context(), s.Unstructured, patch))
	require.Eventually(t, func() bool { return api.Get(t.Context(), key, &corev1.Secret{}) == nil }, patience, 50*time.Millisecond)
}
