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
