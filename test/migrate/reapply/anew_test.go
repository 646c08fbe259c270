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

package reapply_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/test/sandbox"
)

// Somebody deletes a control plane that does not own what it made, and GitOps brings it back, before anything is adopted. It is as
// new as can be, and its EKS cluster runs all the same: under a name that no scheme gives.
func TestAControlPlaneThatIsMadeAnewBesideItsClusterIsNotBuiltASecondTime(t *testing.T) {
	w := newWorld(t, "hand-made-without-owner-reference")
	require.NoError(t, w.StopComponent(t.Context(), sandbox.ClusterAPI))
	require.NoError(t, w.Upgrade(t.Context()))
	before := w.truth()
	var controlPlane *controlplanev1.CAPTControlPlane
	for _, manifest := range w.git {
		if manifest.GetKind() == "CAPTControlPlane" {
			controlPlane = w.makeAnew(manifest)
		}
	}
	require.Nil(t, controlPlane.Spec.WorkspaceTemplateApplyRef, "admission does not know the Cluster, and leaves it to the manager")

	require.NoError(t, w.StartComponent(t.Context(), sandbox.ClusterAPI))
	require.NoError(t, w.StartControllers(t.Context()))
	require.Eventually(t, func() bool {
		require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane))
		c := meta.FindStatusCondition(controlPlane.Status.Conditions, controlplanev1.AdoptionRequiredCondition)
		return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "written-by-hand (nobody owns it")
	}, patience, tick, "the manager asks for a decision")
	require.Nil(t, controlPlane.Spec.WorkspaceTemplateApplyRef)
	require.Equal(t, made(before), made(w.truth()))
}

// makeAnew deletes a control plane, as it is, and makes it from its manifest.
func (w *world) makeAnew(manifest *unstructured.Unstructured) *controlplanev1.CAPTControlPlane {
	w.Helper()
	controlPlane, key := &controlplanev1.CAPTControlPlane{}, client.ObjectKeyFromObject(manifest)
	require.NoError(w, w.Admin.Get(w.Context(), key, controlPlane))
	controlPlane.Finalizers = nil
	require.NoError(w, w.Admin.Update(w.Context(), controlPlane))
	require.NoError(w, w.Admin.Delete(w.Context(), controlPlane))
	require.Eventually(w, func() bool { return apierrors.IsNotFound(w.Admin.Get(w.Context(), key, controlPlane)) }, time.Minute, tick)
	w.kubectl([]*unstructured.Unstructured{manifest}, "apply", "-f", "-")
	controlPlane = &controlplanev1.CAPTControlPlane{}
	require.NoError(w, w.Admin.Get(w.Context(), key, controlPlane))
	return controlPlane
}

// made are the lines about what Terraform works for.
func made(truth []string) (lines []string) {
	for _, line := range truth {
		if strings.HasPrefix(line, "Workspace ") || strings.HasPrefix(line, "WorkspaceTemplateApply ") {
			lines = append(lines, line)
		}
	}
	return lines
}
