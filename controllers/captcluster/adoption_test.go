// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// legacyControlPlane is as CAPT v0.3 left it.
func legacyControlPlane() *controlplanev1.CAPTControlPlane {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks"))
	controlPlane.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.NewTime(builder.Created)}}
	return controlPlane
}

// An existing VPC has nothing to adopt, so that the control plane shows whether the cluster was adopted.
func TestACAPTClusterWithAnExistingVPCIsAdoptedWithItsControlPlane(t *testing.T) {
	cluster := builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "CAPTControlPlane", Name: "demo"}
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "https://eks.example.com", Port: 443}
	}))
	captCluster := ofV03()
	owned(captCluster)
	builder.WithExistingVPC("vpc-1")(captCluster)
	apply := builder.WorkspaceTemplateApply("demo-eks", builder.OwnedBy(legacyControlPlane()), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.TemplateRef = legacyControlPlane().Spec.WorkspaceTemplateRef
		}))
	w := newWorld(t, cluster, captCluster, legacyControlPlane(), apply)

	require.NoError(t, w.reconcile())
	got := w.get()
	assert.Equal(t, "True AdoptionRequired", builder.Story(got.Status.Conditions)["AdoptionRequired"])
	assert.Empty(t, got.Finalizers)
	assert.Empty(t, got.Status.Endpoint)
	assert.Zero(t, got.Status.ObservedGeneration)
	assert.Equal(t, []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(got)}}, w.adoptedInNamespace(context.Background(), legacyControlPlane()))

	live := w.apply("demo-eks")
	live.Spec.WorkspaceName = "demo-eks"
	require.NoError(t, w.Client.Update(context.Background(), live))
	require.NoError(t, w.reconcile())
	got = w.get()
	assert.Equal(t, "True Ready", builder.Story(got.Status.Conditions)["Ready"])
	assert.Equal(t, "False AdoptionNotRequired", builder.Story(got.Status.Conditions)["AdoptionRequired"])
	assert.Equal(t, []string{infrav1.CAPTClusterFinalizer}, got.Finalizers)
	assert.Equal(t, int64(1), got.Status.ObservedGeneration)
	assert.Empty(t, w.adoptedInNamespace(context.Background(), legacyControlPlane()))
}

func TestOnlyTheAdoptionOfAControlPlaneCausesAReconcile(t *testing.T) {
	legacy, adopted := legacyControlPlane(), legacyControlPlane()
	engine.Set(legacy, engine.True(controlplanev1.AdoptionRequiredCondition, controlplanev1.AdoptionRequiredReason, ""))
	adopted.Status.ObservedGeneration = 1
	rolledBack := adopted.DeepCopy()
	engine.Set(rolledBack, engine.True(controlplanev1.AdoptionRequiredCondition, controlplanev1.AdoptionRequiredReason, ""))
	p := onAdoption()
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: legacyControlPlane(), ObjectNew: adopted}), "before its first reconcile")
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: rolledBack, ObjectNew: adopted}))
	assert.True(t, p.Update(event.UpdateEvent{ObjectOld: legacy, ObjectNew: adopted}))
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: legacy, ObjectNew: legacy}))
	assert.False(t, p.Update(event.UpdateEvent{ObjectOld: adopted, ObjectNew: adopted}))
	assert.False(t, p.Create(event.CreateEvent{Object: adopted}))
	assert.True(t, p.Delete(event.DeleteEvent{Object: legacy}), "nothing is left to adopt")
}

// The VPC was built once. To create what CAPT v0.3 recorded a second time would build another one.
func TestWhatV03RecordedIsNotCreatedAgain(t *testing.T) {
	captCluster := ofV03()
	owned(captCluster)
	builder.WithApplyRef("demo-vpc")(captCluster)
	captCluster.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "demo-vpc"}
	w := newWorld(t, builder.Cluster("demo"), captCluster)
	require.NoError(t, w.reconcile())
	assert.Zero(t, w.applies)
	assert.Nil(t, w.apply("demo-vpc"))
	story := builder.Story(w.get().Status.Conditions)
	assert.Equal(t, "True AdoptionRequired", story["AdoptionRequired"])
	assert.Equal(t, "True Ready", story["Ready"])

	chosen := w.get()
	chosen.Spec.WorkspaceTemplateApplyRef.Name = "another-vpc"
	require.NoError(t, w.Client.Update(context.Background(), chosen))
	require.NoError(t, w.reconcile())
	assert.NotNil(t, w.apply("another-vpc"), "the user decided")
}
