// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// asV03LeftIt is the status of a WorkspaceTemplateApply of CAPT v0.3: with Crossplane's reasons, of no generation.
func asV03LeftIt() builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Applied = metav1.ConditionTrue
		apply.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Available"}}
	})
}

// adopted is a control plane that was Ready in CAPT v0.3, before its first reconcile.
func adopted(t *testing.T) *scene {
	t.Helper()
	s := configured(t).apply(asV03LeftIt())
	s.controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	s.controlPlane.Status.Phase = controlplanev1.PhaseReady
	engine.Set(s.controlPlane, engine.True(controlplanev1.ReadyCondition, controlplanev1.ReadyReason, ""))
	s.controlPlane.Status.Conditions[0].ObservedGeneration = 0
	return s
}

// What CAPT v0.3 reported is what is so until the adoption: Ready, the failure for good of one that could not be connected to, and
// one that was never created.
func TestTheStatusIsKeptBeforeAdoption(t *testing.T) {
	legacy := func(change func(s *controlplanev1.CAPTControlPlaneStatus), conditions ...metav1.Condition) func(t *testing.T) *scene {
		return func(t *testing.T) *scene {
			t.Helper()
			s := adopted(t)
			for i := range conditions {
				conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
			}
			s.controlPlane.Status.Conditions = conditions
			change(&s.controlPlane.Status)
			return s
		}
	}
	lost := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "EndpointUpdateFailed", Message: "the object has been modified"}
	for name, scene := range map[string]func(t *testing.T) *scene{
		"ready": adopted,
		"failed": legacy(func(s *controlplanev1.CAPTControlPlaneStatus) {
			s.Phase, s.Initialization.ControlPlaneInitialized = controlplanev1.PhaseFailed, ptr.To(false)
		}, lost, metav1.Condition{Type: "Failed", Status: metav1.ConditionTrue, Reason: lost.Reason, Message: lost.Message}),
		"never created": legacy(func(s *controlplanev1.CAPTControlPlaneStatus) {
			s.Phase, s.Initialization.ControlPlaneInitialized = controlplanev1.PhaseCreating, ptr.To(false)
		}, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Creating", Message: "Control plane is being created"}),
		"rolled back": onceReady,
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(t).with(func(f *Facts) {
				f.Apply = owner.Facts{Candidates: []adoption.Candidate{{Name: applyName}}, Unadopted: "demo-eks-controlplane", AwaitsAdoption: true}
			})
			before := s.controlPlane.DeepCopy()
			want := builder.Story(before.Status.Conditions)
			want["AdoptionRequired"] = "True AdoptionRequired"
			s.status()
			assert.Equal(t, want, builder.Story(s.controlPlane.Status.Conditions))
			assert.Equal(t, owner.Wait, s.step())
			once := s.controlPlane.DeepCopy()
			s.status()
			assert.Equal(t, once, s.controlPlane, "at rest nothing is written")
			before.Status.Conditions, once.Status.Conditions = nil, nil
			assert.Equal(t, before, once)
		})
	}
}

// v0.3 used the finalizer for Fargate profiles as well.
func TestBeforeAdoptionNoFinalizerIsRemoved(t *testing.T) {
	objects := prepared()
	builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)(objects[2])
	builder.WithApplyRef(applyName)(objects[2])
	apply := builder.WorkspaceTemplateApply(applyName, asV03LeftIt(), builder.OwnedBy(objects[2]), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "eks" }))
	w := newWorld(t, append(objects, apply)...)
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "True AdoptionRequired", w.story()["AdoptionRequired"])
	assert.Contains(t, w.get().Finalizers, controlplanev1.FargateProfileFinalizer)
}

func TestAnAdoptedControlPlaneStaysReadyUntilItIsObserved(t *testing.T) {
	s := adopted(t)
	before := s.controlPlane.Status.DeepCopy()
	assert.Equal(t, *before, s.status(), "neither Degraded nor Provisioning, and nothing to write")

	s.apply(builder.WithGeneration(2), builder.UpToDate(outputs()))
	s.Apply.Apply.Generation = 3 // The owner has written it in between.
	assert.Equal(t, *before, s.status())

	s.Apply.Apply.Status.ObservedGeneration = 3
	after := s.status()
	assert.Equal(t, controlplanev1.StateReady, after.State)
	ready := meta.FindStatusCondition(after.Conditions, controlplanev1.ReadyCondition)
	assert.Equal(t, metav1.ConditionTrue, ready.Status)
	assert.Equal(t, before.Conditions[0].LastTransitionTime, ready.LastTransitionTime, "it was Ready all the time")
	assert.Equal(t, s.controlPlane.Generation, after.ObservedGeneration)
}

func TestProblemsAfterAnAdoptionAreReported(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		ready string
		state controlplanev1.State
	}{
		"Terraform failed": {adopted(t).apply(failing, builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.Applied = metav1.ConditionTrue })),
			"False ApplyFailed", controlplanev1.StateDegraded},
		"the WorkspaceTemplateApply is gone":          {adopted(t).with(func(f *Facts) { f.Apply.Apply = nil }), "False Provisioning", controlplanev1.StateConfiguring},
		"the WorkspaceTemplateApply is being deleted": {adopted(t).apply(asV03LeftIt(), builder.Deleting()), "False Deleting", controlplanev1.StateDegraded},
		"the WorkspaceTemplateApply is another's":     {adopted(t).with(func(f *Facts) { f.Apply.Apply, f.Apply.Conflict = nil, "it is b's" }), "False ReferenceConflict", controlplanev1.StateDegraded},
		"the API server refuses what is written":      {adopted(t).with(func(f *Facts) { f.Apply.Refused = assert.AnError }), "False WorkspaceTemplateApplyRefused", controlplanev1.StateDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.scene.status()
			assert.Equal(t, row.ready, builder.Story(got.Conditions)["Ready"])
			assert.Equal(t, row.state, got.State)
		})
	}
}

func TestAStatusOfThisVersionIsNotKept(t *testing.T) {
	for name, s := range map[string]*scene{
		"a new control plane":             newScene(t).apply(asV03LeftIt()),
		"one that this version had Ready": onceReady(t).apply(asV03LeftIt()),
		"one that lost its status":        configured(t).apply(asV03LeftIt()),
		"one that is being deleted":       adoptedAndDeleted(t),
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotEqual(t, "True Ready", builder.Story(s.status().Conditions)["Ready"])
			assert.Equal(t, s.controlPlane.Generation, s.controlPlane.Status.ObservedGeneration)
		})
	}
}

func adoptedAndDeleted(t *testing.T) *scene {
	t.Helper()
	s := adopted(t)
	builder.Deleting()(s.controlPlane)
	return s
}

func TestAnAdoptedControlPlaneReportsThatItIsPaused(t *testing.T) {
	s := adopted(t).with(func(f *Facts) { f.Paused = "annotation" })
	// It was seen, but what the owner wants is not written while it is paused.
	s.apply(builder.UpToDate(outputs()))
	s.unwritten = true
	assert.Equal(t, map[string]string{"Ready": "True Ready", "Paused": "True Paused"}, builder.Story(s.status().Conditions))

	s.Paused, s.unwritten = "", false
	s.apply(asV03LeftIt())
	assert.Equal(t, map[string]string{"Ready": "True Ready", "Paused": "False NotPaused"}, builder.Story(s.status().Conditions))
}
