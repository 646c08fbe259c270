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

package captcontrolplane

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// Each of these would destroy, replace or double somebody's EKS cluster.

func TestACopiedReferenceNeitherWritesNorDeletesWhatIsAnothers(t *testing.T) {
	other := builder.CAPTControlPlane("prod")
	w := newWorld(t, other, vpc(), builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		builder.WorkspaceTemplateApply("prod-apply", builder.OwnedBy(other), builder.WithFinalizers("x/y"), builder.UpToDate(outputs())),
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithApplyRef("prod-apply"),
			builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)))
	before := read(w, "prod-apply", &infrav1.WorkspaceTemplateApply{}).Spec

	require.NoError(t, w.reconcile())
	assert.Equal(t, []string{"status"}, w.writes)
	assert.Contains(t, meta.FindStatusCondition(w.get().Status.Conditions, controlplanev1.ReadyCondition).Message, "belongs to CAPTControlPlane prod")

	require.NoError(t, w.Client.Delete(context.Background(), w.get()))
	require.NoError(t, w.reconcile())
	after := read(w, "prod-apply", &infrav1.WorkspaceTemplateApply{})
	assert.Equal(t, before, after.Spec)
	assert.Nil(t, after.DeletionTimestamp)
}

// Defaulting sets the reference when nothing of the name exists; then somebody makes one for another purpose.
func TestWhatAppearedUnderTheDefaultedNameIsNeitherWrittenNorDeleted(t *testing.T) {
	w := newWorld(t, vpc(), builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		builder.WorkspaceTemplateApply(applyName, builder.UpToDate(outputs())), // Of template vpc, not eks.
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithApplyRef(applyName),
			builder.WithFinalizers("held/by-the-test")))
	before := read(w, applyName, &infrav1.WorkspaceTemplateApply{})

	require.NoError(t, w.reconcile())
	assert.Equal(t, []string{"status"}, w.writes)
	assert.Equal(t, []string{"held/by-the-test"}, w.get().Finalizers, "it is not held for what is not its own")
	assert.Equal(t, "False ReferenceConflict", builder.Story(w.get().Status.Conditions)["DependenciesReady"])

	require.NoError(t, w.Client.Delete(context.Background(), w.get()))
	require.NoError(t, w.reconcile())
	after := read(w, applyName, &infrav1.WorkspaceTemplateApply{})
	assert.Equal(t, before.Spec, after.Spec)
	assert.Nil(t, after.DeletionTimestamp)
}

// An owner that was told to adopt by a name of a person's choice takes it, whatever it holds.
func TestWhatAPersonChoseIsTaken(t *testing.T) {
	w := newWorld(t, vpc(), builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		builder.WorkspaceTemplateApply("by-hand"),
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithApplyRef("by-hand")))
	require.NoError(t, w.reconcile())
	require.NoError(t, w.reconcile())
	taken := read(w, "by-hand", &infrav1.WorkspaceTemplateApply{})
	assert.Len(t, taken.OwnerReferences, 1)
	assert.Equal(t, "eks", taken.Spec.TemplateRef.Name)
}

func TestARunningClusterDoesNotMoveToAnotherRegion(t *testing.T) {
	w := newWorld(t, prepared()...)
	require.NoError(t, w.reconcile())
	w.terraformMade()
	require.NoError(t, w.reconcile())
	before := read(w, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.Variables

	require.NoError(t, w.Client.Delete(context.Background(), read(w, "demo", &infrav1.CAPTCluster{})))
	elsewhere := vpc(builder.WithRegion("us-east-1"))
	elsewhere.Status.VPC.ID, elsewhere.ResourceVersion = "vpc-2", ""
	require.NoError(t, w.Client.Create(context.Background(), elsewhere))
	require.NoError(t, w.reconcile())

	assert.Equal(t, before, read(w, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.Variables)
	assert.Contains(t, builder.Story(w.get().Status.Conditions)["DependenciesReady"], "RegionConflict")
}

func TestADeletedControlPlaneWaitsForAPersonToDecideAboutItsCandidate(t *testing.T) {
	w := newWorld(t, vpc(), builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)),
		builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.WithFinalizers("x/y")))
	require.NoError(t, w.reconcile())
	require.NoError(t, w.Client.Delete(context.Background(), w.get()))
	require.NoError(t, w.reconcile())
	assert.Contains(t, meta.FindStatusCondition(w.get().Status.Conditions, controlplanev1.DeletingCondition).Message, "by-hand would be deleted with this object")
}

func TestAnEndpointThatCouldNotBeWrittenDoesNotCount(t *testing.T) {
	w := newWorld(t, prepared()...)
	require.NoError(t, w.reconcile())
	w.terraformMade()
	w.fail = func(write string) error {
		if write == "patch" {
			return errors.New("denied by a webhook")
		}
		return nil
	}
	require.Error(t, w.reconcile())
	got := w.get()
	assert.False(t, got.Spec.ControlPlaneEndpoint.IsValid())
	assert.Nil(t, got.Status.Initialization.ControlPlaneInitialized)
	assert.NotEqual(t, controlplanev1.StateReady, got.Status.State)
}

func TestWhatAPersonSaidAboutDeletionStays(t *testing.T) {
	w := newWorld(t, prepared()...)
	require.NoError(t, w.reconcile())
	apply := read(w, applyName, &infrav1.WorkspaceTemplateApply{})
	apply.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	require.NoError(t, w.Client.Update(context.Background(), apply))
	require.NoError(t, w.reconcile())
	assert.Equal(t, infrav1.DeletionPolicyRetain, read(w, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.DeletionPolicy)
}

func TestTheVersionGoesUpOneMinorAtATime(t *testing.T) {
	for version, blocks := range map[string]bool{"1.31": false, "1.32": false, "1.33": true, "1.30": true} {
		s := newScene(t)
		s.Apply.Apply.Spec.Variables = map[string]string{"kubernetes_version": "1.31"}
		s.Version.EKS = version
		got := blocked(s.controlPlane, s.Facts)
		assert.Equal(t, blocks, got != nil && got.Reason == controlplanev1.InvalidVersionReason, "%s: %v", version, got)
	}
}
