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

// An edited template, and a foreground deletion, reached what a paused owner controls.
func TestSafety17NothingOfAPausedOwnerIsChangedOrDestroyed(t *testing.T) {
	t.Parallel()
	w := shared.NewWorld(t, terraform.ScopeCluster)
	w.User(w.Everything()...)
	w.AwaitState(controlplanev1.StateReady, "")
	pauseObjects(&cell{World: w})
	applies := map[string]string{fixture.VPC: "CAPTCluster demo, which controls this object", fixture.ControlPlane: "CAPTControlPlane demo, which controls this object"}
	versions := map[string]string{}
	for name, message := range applies {
		w.Await(&infrav1.WorkspaceTemplateApply{}, name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, message)
		versions[name] = w.Workspace(name).GetResourceVersion()
	}

	w.User(w.VPCTemplate(fixture.VPCModule+"# edited\n"), w.ControlPlaneTemplate(fixture.ControlPlaneModule+"# edited\n"))
	w.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
	for name := range applies {
		w.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DeletingReason, "nothing is deleted while the object is paused")
		require.Equal(t, versions[name], w.Workspace(name).GetResourceVersion(), "neither the edit nor the deletion reaches Terraform")
		require.Empty(t, w.Operations(name, scripted.Destroy))
	}

	resumeObjects(&cell{World: w})
	for _, object := range []client.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		w.AwaitGone(object, fixture.Demo)
	}
	w.RequireNothingLeft()
	w.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
}
