// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace/failure"
	"github.com/capt-provider/capt/test/builder"
)

// failingWith makes Terraform fail with an error of a class.
func failingWith(reason string, class failure.Class, since time.Time) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		builder.NotUpToDate(reason, "Terraform failed")(apply)
		apply.Status.LastFailureClass = string(class)
		apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{
			Type: infrav1.SyncedCondition, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(since),
		})
	})
}

func TestErrorsThatFailANewControlPlane(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "status.md"))
	require.NoError(t, err)
	stateOf := func(s *scene, reason string, class failure.Class, failing time.Duration) controlplanev1.State {
		s.apply(failingWith(reason, class, builder.Created))
		s.Running = Running{VPC: notRunning, ControlPlane: notRunning, Secret: notRunning, Failing: failing}
		return s.status().State
	}
	for _, class := range failure.Classes() {
		t.Run(string(class), func(t *testing.T) {
			after, listed := failsNew()[class]
			line := fmt.Sprintf("\n| `%s` | immediately |", class)
			if after > 0 {
				line = fmt.Sprintf("\n| `%s` | %s of", class, duration.HumanDuration(after))
			}
			for _, reason := range []string{infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason} {
				want := controlplanev1.StateProvisioning
				if listed {
					assert.Contains(t, string(manual), line)
					assert.Equal(t, want, stateOf(newScene(t), reason, class, after-1), "before it is confirmed")
					want = controlplanev1.StateFailed
				}
				assert.Equal(t, want, stateOf(newScene(t), reason, class, after+time.Hour))
				assert.Equal(t, controlplanev1.StateDegraded, stateOf(onceReady(t), reason, class, after+time.Hour), "an initialized one never fails")
			}
			assert.Equal(t, controlplanev1.StateProvisioning, stateOf(newScene(t), infrav1.ProvisioningReason, class, 0), "the spec was corrected")
			paused := newScene(t)
			paused.Paused = "annotation"
			assert.Equal(t, controlplanev1.StateProvisioning, stateOf(paused, infrav1.ApplyFailedReason, class, time.Hour))
		})
	}
}

func TestAnErrorOfClassConfigIsConfirmed(t *testing.T) {
	w := newWorld(t, prepared()...)
	w.reconcile()
	w.terraform(failingWith(infrav1.PlanFailedReason, failure.ClassConfig, w.clock.Now()))
	w.reconcile()
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)
	assert.Equal(t, 2*time.Minute, w.again, "no watch reports it")

	w.clock.Pass(2 * time.Minute)
	w.reconcile()
	assert.Equal(t, controlplanev1.StateFailed, w.get().Status.State)
	assert.Equal(t, "True PlanFailed", w.story()["Failed"])
	record := w.get().Status.Progress.History[0]
	assert.Equal(t, controlplanev1.OutcomeFailed, record.Outcome)
	assert.Contains(t, record.Message, "Terraform failed")

	w.clock.Pass(time.Second)
	w.State = &engine.StateCache{Clock: w.clock}
	assert.Empty(t, w.reconcile(), "a manager that is restarted does not revert it")
	w.terraformMade()
	w.reconcile()
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	assert.Equal(t, controlplanev1.OutcomeSucceeded, w.get().Status.Progress.History[0].Outcome)
}

func TestProgressOfAControlPlane(t *testing.T) {
	other := builder.CAPTControlPlane("other")
	other.Status.Progress = &controlplanev1.Progress{History: []controlplanev1.OperationRecord{{
		Name: controlplanev1.OperationCreation, StartTime: ptr.To(metav1.NewTime(builder.Created)),
		CompletionTime: ptr.To(metav1.NewTime(builder.Created.Add(20 * time.Minute))), Outcome: controlplanev1.OutcomeSucceeded,
	}}}
	w := newWorld(t, append(prepared(), other)...)
	progress := func() *controlplanev1.Progress { return w.get().Status.Progress }
	w.reconcile()
	assert.Equal(t, controlplanev1.OperationCreation, progress().CurrentOperation)
	assert.EqualValues(t, 25, *progress().PercentComplete)
	assert.EqualValues(t, 15*60, *progress().EstimatedSecondsRemaining)
	w.clock.Pass(time.Minute)
	assert.Empty(t, w.reconcile(), "time alone changes nothing")

	w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Generation++ })
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.EqualValues(t, 14*60, *progress().EstimatedSecondsRemaining, "as of the last status write")
	w.terraformMade()
	w.reconcile()
	w.reconcile()
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	assert.Empty(t, progress().CurrentOperation)
	assert.EqualValues(t, 100, *progress().PercentComplete)
	assert.Equal(t, controlplanev1.OutcomeSucceeded, progress().History[0].Outcome)
	assert.Nil(t, progress().EstimatedCompletionTime)
	w.clock.Pass(time.Hour)
	assert.Empty(t, w.reconcile(), "nothing is written at rest")

	w.terraform(working)
	w.reconcile()
	assert.Equal(t, controlplanev1.OperationUpdate, progress().CurrentOperation)
	assert.Nil(t, progress().EstimatedCompletionTime, "no update is known")
}

// clusterctl move drops the status.
func TestProgressAfterAMove(t *testing.T) {
	w := built(t)
	moved := w.get()
	moved.Status = controlplanev1.CAPTControlPlaneStatus{}
	require.NoError(t, w.Client.Status().Update(t.Context(), moved))
	w.terraform(working)
	w.reconcile()
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)
	assert.Nil(t, w.get().Status.Progress, "it is not a creation")
	w.terraform(builder.UpToDate(outputs()))
	w.reconcile()
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
	assert.Nil(t, w.get().Status.Progress)
}

func TestOperations(t *testing.T) {
	operation := func(s *scene) controlplanev1.Operation { return s.status().Progress.CurrentOperation }
	assert.Equal(t, controlplanev1.OperationCreation, operation(newScene(t).apply(working)))
	assert.Equal(t, controlplanev1.OperationUpdate, operation(onceReady(t).apply(working)))
	s := onceReady(t).apply(working)
	s.Apply.Apply.Status.Applied = ""
	assert.Equal(t, controlplanev1.OperationRecreation, operation(s))
	assert.Nil(t, onceReady(t).apply(failing).status().Progress, "a failure without an operation")
	assert.Nil(t, newScene(t).with(func(f *Facts) { f.Cluster = nil }).status().Progress, "Pending")
	required := configured(t)
	required.EndpointProbe = controlplanev1.EndpointProbeRequired
	assert.Nil(t, required.status().Progress, "the status was lost")
}
