// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// The EKS cluster was released, and then its VPC destroyed.
func TestSafety05AVPCIsNotDestroyedUnderARetainedControlPlane(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]client.DeleteOption{
		"Background": nil,
		"Foreground": {client.PropagationPolicy(metav1.DeletePropagationForeground)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shared.NewWorld(t, terraform.ScopeCluster)
			w.User(w.Everything()...)
			w.AwaitState(controlplanev1.StateReady, "")
			w.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, `{"spec":{"deletionPolicy":"Retain"}}`)
			before := w.Workspace(fixture.ControlPlane)

			w.Remove(&clusterv1.Cluster{}, fixture.Demo, options...)
			w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.DeletingCondition, metav1.ConditionTrue,
				infrav1.DeletionPolicyConflictReason, "spec.vpc.template.deletionPolicy of CAPTCluster demo", "WorkspaceTemplateApply "+fixture.ControlPlane+" to Delete")
			require.True(t, w.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane))

			w.Edit(&infrav1.CAPTCluster{}, fixture.Demo, `{"spec":{"vpc":{"template":{"deletionPolicy":"Retain"}}}}`)
			w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
			w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, fixture.VPC)
			for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
				require.NotNil(t, w.Workspace(apply), apply)
				require.Empty(t, w.Operations(apply, scripted.Destroy), apply)
			}
			require.Equal(t, before.GetResourceVersion(), w.Workspace(fixture.ControlPlane).GetResourceVersion())
		})
	}
}
