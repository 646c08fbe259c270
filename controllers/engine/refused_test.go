// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
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

// keeping is a gate that keeps every summary.
type keeping struct{ OpenGate }

func (keeping) KeepsSummary(Object, string) bool { return true }

func TestARefusalIsReportedInTheDecisionIfTheGateKeepsTheSummary(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.engine.Gate = keeping{}
	s.show(True("Ready", "Ready", ""))
	s.ends(forbidden("policy says no"))
	_, err := s.reconcile()
	require.Error(t, err)
	assert.Equal(t, "Ready", conditions.GetReason(s.get(), "Ready"))
	decision := conditions.Get(s.get(), DecisionCondition)
	assert.Equal(t, metav1.ConditionUnknown, decision.Status)
	assert.Contains(t, decision.Message, "policy says no")
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
		"while observing": {Observe: func(context.Context, *infrav1.CAPTCluster, GateDecision) (*facts, error) { return nil, refused }},
		"while planning": {
			Observe: func(context.Context, *infrav1.CAPTCluster, GateDecision) (*facts, error) { return &facts{}, nil },
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
