// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetConditionsKeepsTheTimeOfWhatSaysTheSame(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	old := Condition{
		Type: TypeSynced, Status: corev1.ConditionTrue, Reason: ReasonReconcileSuccess, LastTransitionTime: then, ObservedGeneration: 3,
	}
	for name, tc := range map[string]struct {
		change func(*Condition)
		want   metav1.Time
	}{
		"same":                        {func(*Condition) {}, then},
		"no generation to compare":    {func(c *Condition) { c.ObservedGeneration = 0 }, then},
		"other generation":            {func(c *Condition) { c.ObservedGeneration = 4 }, now},
		"other status":                {func(c *Condition) { c.Status = corev1.ConditionFalse }, now},
		"other reason":                {func(c *Condition) { c.Reason = ReasonReconcileError }, now},
		"other message":               {func(c *Condition) { c.Message = "observe failed" }, now},
		"other type is another entry": {func(c *Condition) { c.Type = TypeReady }, then},
	} {
		t.Run(name, func(t *testing.T) {
			s := ConditionedStatus{Conditions: []Condition{old}}
			next := old
			next.LastTransitionTime = now
			tc.change(&next)
			s.SetConditions(next)
			require.Equal(t, tc.want, s.Condition(TypeSynced).LastTransitionTime)
		})
	}
}
