// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func forbidden(why string) *apierrors.StatusError {
	return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "things"}, "demo", errors.New(why))
}

func terminating() error {
	err := forbidden("namespace is being terminated")
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestARefusedWriteIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		before Condition
		reason string
		parts  []string
	}{
		"a refusal takes the place of Ready": {
			fmt.Errorf("deleting Thing demo: %w", forbidden("policy says no")), True("Ready", "Ready", ""),
			infrav1.WriteRefusedReason, []string{"deleting Thing demo", "policy says no", "admission policies", "retries"},
		},
		"one of several errors": {
			fmt.Errorf("all: %w", errors.Join(errors.New("another"), apierrors.NewInternalError(errors.New("down")), forbidden("policy says no"))),
			False("Ready", "Waiting", "for another"), infrav1.WriteRefusedReason, []string{"policy says no"},
		},
		"what is reported already keeps its words": {
			forbidden("policy says no"), False("Ready", "Better", "the profile: "+forbidden("policy says no").Error()), "Better", nil,
		},
		"other errors are retried in silence": {apierrors.NewInternalError(errors.New("down")), True("Ready", "Ready", ""), "Ready", nil},
		"a namespace that ends":               {terminating(), True("Ready", "Ready", ""), "Ready", nil},
		"a version that admission learns of":  {forbidden("cannot find RESTMapping for APIVersion v1beta2 Kind Thing"), True("Ready", "Ready", ""), "Ready", nil},
		"nothing is wrong":                    {nil, True("Ready", "Ready", ""), "Ready", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestReconciler(t, builder.CAPTCluster("demo"))
			s.show(row.before)
			s.ends(row.err)
			_, err := s.reconcile()
			require.Equal(t, row.err != nil, err != nil, "a refused write is tried again")
			ready := conditions.Get(s.get(), "Ready")
			assert.Equal(t, row.reason, ready.Reason)
			for _, part := range row.parts {
				assert.Contains(t, ready.Message, part)
			}
			assert.Equal(t, 1, s.writes, "one write of status")
			_, _ = s.reconcile()
			assert.Equal(t, 1, s.writes, "and none when it is refused once more")
		})
	}
}

// Status sets Ready to True in each retry, before the refusal is known.
func TestARepeatedRefusalKeepsTheTransitionTime(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) {
		refused := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.WriteRefusedReason, LastTransitionTime: metav1.NewTime(builder.Created)}
		c.Status.Conditions = []metav1.Condition{refused}
	})))
	s.show(True("Ready", "Ready", ""))
	s.ends(forbidden("policy says no"))
	_, err := s.reconcile()
	require.Error(t, err)
	assert.Equal(t, 1, s.writes, "the message changed")
	ready := conditions.Get(s.get(), "Ready")
	assert.Contains(t, ready.Message, "policy says no")
	assert.Equal(t, builder.Created.Unix(), ready.LastTransitionTime.Unix())
	_, err = s.reconcile()
	require.NoError(t, err, "an equal refusal is retried later")
	assert.Equal(t, 1, s.writes)

	s.ends(nil)
	s.mustReconcile()
	assert.NotEqual(t, builder.Created.Unix(), conditions.Get(s.get(), "Ready").LastTransitionTime.Unix(), "the status changed")
}

// Before adoption nothing would restore the readiness that CAPT v0.3 left.
func TestARefusalBeforeAdoptionKeepsReady(t *testing.T) {
	legacy := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: metav1.NewTime(builder.Created)}
	for name, known := range map[string][]metav1.Condition{
		"first look":  {legacy},
		"later":       {legacy, {Type: "AdoptionRequired", Status: metav1.ConditionTrue, Reason: "AdoptionRequired", ObservedGeneration: 1}},
		"rolled back": {{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 1}, {Type: "AdoptionRequired", Status: metav1.ConditionTrue, Reason: "AdoptionRequired"}},
	} {
		t.Run(name, func(t *testing.T) {
			apply := builder.WorkspaceTemplateApply("demo")
			apply.Status.Conditions = slices.Clone(known)
			reportRefusal(apply, "Ready", forbidden("policy says no"))
			assert.Equal(t, known[0], *conditions.Get(apply, "Ready"))
			required := conditions.Get(apply, "AdoptionRequired")
			assert.Equal(t, metav1.ConditionUnknown, required.Status)
			assert.Contains(t, required.Message, "policy says no")
		})
	}
	adopted := builder.WorkspaceTemplateApply("demo")
	adopted.Status.Conditions = []metav1.Condition{legacy, {Type: "AdoptionRequired", Status: metav1.ConditionFalse, Reason: "AdoptionNotRequired"}}
	reportRefusal(adopted, "Ready", forbidden("policy says no"))
	assert.Equal(t, infrav1.WriteRefusedReason, conditions.GetReason(adopted, "Ready"))
}

func TestKeepStatusRemovesAnOutdatedRefusal(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo")
	reportRefusal(apply, "Ready", forbidden("policy says no")) // It has no status, and looks like a new object.
	KeepStatus(apply, "", True("AdoptionRequired", "AdoptionRequired", ""))
	assert.Equal(t, map[string]string{"AdoptionRequired": "True AdoptionRequired"}, builder.ConditionSummary(apply.Status.Conditions))
	KeepStatus(apply, "annotation", False("AdoptionRequired", "AdoptionNotRequired", ""))
	KeepStatus(apply, "", False("AdoptionRequired", "AdoptionNotRequired", ""))
	want := map[string]string{"AdoptionRequired": "True AdoptionRequired", "Paused": "False NotPaused"}
	assert.Equal(t, want, builder.ConditionSummary(apply.Status.Conditions), "until the status is computed again")
	apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{Type: "Synced", Status: metav1.ConditionTrue, Reason: "ReconcileSuccess"})
	KeepStatus(apply, "", False("AdoptionRequired", "AdoptionNotRequired", ""))
	want["AdoptionRequired"], want["Synced"] = "False AdoptionNotRequired", "True ReconcileSuccess"
	assert.Equal(t, want, builder.ConditionSummary(apply.Status.Conditions), "CAPT v0.3 left the status")
}

// After a rollback, the last status of the adopted object remains.
func TestKeepStatusRemovesAnOutdatedPause(t *testing.T) {
	apply := builder.WorkspaceTemplateApply("demo")
	for _, message := range []string{"", "waits for a Workspace (vpc): not ready"} {
		Set(apply, WithPause(True("Ready", "UpToDate", message), "Cluster spec.paused is set to true"))
		before := conditions.GetMessage(apply, "Ready")
		KeepStatus(apply, "Cluster spec.paused is set to true", True("AdoptionRequired", "AdoptionRequired", ""))
		assert.Equal(t, before, conditions.GetMessage(apply, "Ready"))
		KeepStatus(apply, "", True("AdoptionRequired", "AdoptionRequired", ""))
		assert.Equal(t, message, conditions.GetMessage(apply, "Ready"))
		KeepStatus(apply, "", True("AdoptionRequired", "AdoptionRequired", ""))
		assert.Equal(t, message, conditions.GetMessage(apply, "Ready"))
	}
}

func TestARefusedWriteIsReportedWhileDeleting(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo", builder.Deleting(), builder.WithFinalizers("example.com/held")))
	s.show(True("Deleting", "Waiting", "for another"), False("Ready", "Deleting", "for another"))
	s.ends(forbidden("policy says no"))
	_, err := s.reconcile()
	require.Error(t, err)
	for conditionType, reason := range map[string]string{"Deleting": infrav1.WriteRefusedReason, "Ready": infrav1.DeletingReason} {
		condition := conditions.Get(s.get(), conditionType)
		assert.Equal(t, reason, condition.Reason)
		assert.Contains(t, condition.Message, "policy says no")
	}
}

func TestARefusalIsReportedInTheSummaryOfTheKind(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.phases.SummaryCondition = infrav1.ValidCondition
	s.ends(forbidden("policy says no"))
	_, err := s.reconcile()
	require.Error(t, err)
	condition := conditions.Get(s.get(), infrav1.ValidCondition)
	assert.Equal(t, metav1.ConditionUnknown, condition.Status, "the template itself is not wrong")
	assert.Equal(t, infrav1.WriteRefusedReason, condition.Reason)
}

// Equal refusals are logged once, so that only the condition says why an object stands still.
func TestARefusedReadIsReported(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "clusters"}, "demo", nil)
	for name, phases := range map[string]Phases[*infrav1.CAPTCluster, facts, struct{}]{
		"while observing": {Observe: func(context.Context, *infrav1.CAPTCluster) (*facts, error) { return nil, refused }},
		"while planning": {
			Observe: func(context.Context, *infrav1.CAPTCluster) (*facts, error) { return &facts{}, nil },
			Plan:    func(*infrav1.CAPTCluster, *facts) (struct{}, error) { return struct{}{}, refused },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestReconciler(t, builder.CAPTCluster("demo"))
			s.phases = phases
			_, err := s.reconcile()
			require.ErrorIs(t, err, refused)
			condition := conditions.Get(s.get(), infrav1.ReadyCondition)
			require.NotNil(t, condition)
			assert.Equal(t, infrav1.WriteRefusedReason, condition.Reason)
			assert.Contains(t, condition.Message, "clusters")
		})
	}
}
