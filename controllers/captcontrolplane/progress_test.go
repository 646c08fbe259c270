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
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/provider/failures"
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
	stateOf := func(o *observation, reason string, class failure.Class, failing time.Duration) infrav1.State {
		o.apply(failingWith(reason, class, builder.Created))
		o.Running, o.RunningVPC, o.RunningSecret = owner.Running{Failing: &failing}, nil, nil
		return o.status().State
	}
	for _, name := range failures.Classes() {
		t.Run(name, func(t *testing.T) {
			class := failure.Class(name)
			after, listed := owner.FailureGracePeriods()[class]
			line := fmt.Sprintf("\n| `%s` | immediately |", class)
			if after > 0 {
				line = fmt.Sprintf("\n| `%s` | %s of", class, duration.HumanDuration(after))
			}
			for _, reason := range []string{infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason} {
				want := infrav1.StateProvisioning
				if listed {
					assert.Contains(t, string(manual), line)
					assert.Equal(t, want, stateOf(newObservation(t), reason, class, after-1), "before it is confirmed")
					want = infrav1.StateFailed
				}
				assert.Equal(t, want, stateOf(newObservation(t), reason, class, after+time.Hour))
				assert.Equal(t, infrav1.StateDegraded, stateOf(onceReady(t), reason, class, after+time.Hour), "an initialized one never fails")
			}
			assert.Equal(t, infrav1.StateProvisioning, stateOf(newObservation(t), infrav1.ProvisioningReason, class, 0), "the spec was corrected")
			paused := newObservation(t)
			paused.Paused = "annotation"
			assert.Equal(t, infrav1.StateProvisioning, stateOf(paused, infrav1.ApplyFailedReason, class, time.Hour))
		})
	}
}

func TestAnErrorOfClassConfigIsConfirmed(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraform(failingWith(infrav1.PlanFailedReason, failure.ClassConfig, env.clock.Now()))
	env.reconcile()
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	assert.Equal(t, 2*time.Minute, env.again, "no watch reports it")

	env.clock.Pass(2 * time.Minute)
	env.reconcile()
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
	assert.Equal(t, "True PlanFailed", env.summary()["Failed"])
	record := env.get().Status.Progress.History[0]
	assert.Equal(t, infrav1.OutcomeFailed, record.Outcome)
	assert.Contains(t, record.Message, "Terraform failed")

	env.clock.Pass(time.Second)
	env.State = &engine.StateCache{Clock: env.clock}
	assert.Empty(t, env.reconcile(), "a manager that is restarted does not revert it")
	env.terraformMade()
	env.reconcile()
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	assert.Equal(t, infrav1.OutcomeSucceeded, env.get().Status.Progress.History[0].Outcome)
}

func TestProgressOfAControlPlane(t *testing.T) {
	other := builder.CAPTControlPlane("other")
	other.Status.Progress = &infrav1.Progress{History: []infrav1.OperationRecord{{
		Name: infrav1.OperationCreation, StartTime: ptr.To(metav1.NewTime(builder.Created)),
		CompletionTime: ptr.To(metav1.NewTime(builder.Created.Add(20 * time.Minute))), Outcome: infrav1.OutcomeSucceeded,
	}}}
	env := newEnvironment(t, append(prepared(), other)...)
	progress := func() *infrav1.Progress { return env.get().Status.Progress }
	env.reconcile()
	assert.Equal(t, infrav1.OperationCreation, progress().CurrentOperation)
	assert.EqualValues(t, 25, *progress().PercentComplete)
	assert.EqualValues(t, 15*60, *progress().EstimatedSecondsRemaining)
	env.clock.Pass(time.Minute)
	assert.Empty(t, env.reconcile(), "time alone changes nothing")

	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Generation++ })
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.EqualValues(t, 14*60, *progress().EstimatedSecondsRemaining, "as of the last status write")
	env.terraformMade()
	env.reconcile()
	env.reconcile()
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	assert.Empty(t, progress().CurrentOperation)
	assert.EqualValues(t, 100, *progress().PercentComplete)
	assert.Equal(t, infrav1.OutcomeSucceeded, progress().History[0].Outcome)
	assert.Nil(t, progress().EstimatedCompletionTime)
	env.clock.Pass(time.Hour)
	assert.Empty(t, env.reconcile(), "nothing is written at rest")

	env.terraform(working)
	env.reconcile()
	assert.Equal(t, infrav1.OperationUpdate, progress().CurrentOperation)
	assert.Nil(t, progress().EstimatedCompletionTime, "no update is known")
}

// clusterctl move drops the status.
func TestProgressAfterAMove(t *testing.T) {
	env := built(t)
	moved := env.get()
	moved.Status = controlplanev1.CAPTControlPlaneStatus{}
	require.NoError(t, env.Client.Status().Update(t.Context(), moved))
	env.terraform(working)
	env.reconcile()
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	assert.Nil(t, env.get().Status.Progress, "it is not a creation")
	env.terraform(builder.UpToDate(outputs()))
	env.reconcile()
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	assert.Nil(t, env.get().Status.Progress)
}

func TestOperations(t *testing.T) {
	operation := func(o *observation) infrav1.Operation { return o.status().Progress.CurrentOperation }
	assert.Equal(t, infrav1.OperationCreation, operation(newObservation(t).apply(working)))
	assert.Equal(t, infrav1.OperationUpdate, operation(onceReady(t).apply(working)))
	o := onceReady(t).apply(working)
	o.Apply.Live.Status.Applied = ""
	assert.Equal(t, infrav1.OperationRecreation, operation(o))
	assert.Nil(t, onceReady(t).apply(failing).status().Progress, "a failure without an operation")
	assert.Nil(t, newObservation(t).with(func(f *Facts) { f.Cluster = nil }).status().Progress, "Pending")
	required := configured(t)
	required.EndpointProbe = controlplanev1.EndpointProbeRequired
	assert.Nil(t, required.status().Progress, "the status was lost")
}

func TestOperationsAndSteps(t *testing.T) {
	for _, row := range []struct {
		first     *engine.Condition
		state     infrav1.State
		operation infrav1.Operation
		step      progress.Step
	}{
		{nil, infrav1.StateDegraded, "", progress.Done},
		{ptr.To(engine.False(controlplanev1.DependenciesReadyCondition, controlplanev1.WaitingForInfrastructureReason, "")), infrav1.StateDegraded, "", progress.Infrastructure},
		{ptr.To(engine.False(controlplanev1.DependenciesReadyCondition, infrav1.VPCReadyTimeoutReason, "")), infrav1.StateDegraded, "", progress.Infrastructure},
		{ptr.To(engine.False(controlplanev1.DependenciesReadyCondition, infrav1.InvalidVersionReason, "")), infrav1.StateProvisioning, "", progress.Validation},
		{ptr.To(engine.False(controlplanev1.WorkspaceReadyCondition, infrav1.ProvisioningReason, "")), infrav1.StateConfiguring, infrav1.OperationUpdate, progress.Workspace},
		{ptr.To(engine.False(controlplanev1.WorkspaceReadyCondition, infrav1.ProvisioningReason, "")), infrav1.StateProvisioning, infrav1.OperationRecreation, progress.Workspace},
		{ptr.To(engine.False(controlplanev1.EndpointAvailableCondition, controlplanev1.EndpointMissingReason, "")), infrav1.StateProvisioning, "", progress.Endpoint},
		{ptr.To(engine.False(controlplanev1.KubeconfigReadyCondition, controlplanev1.KubeconfigMissingReason, "")), infrav1.StateConfiguring, "", progress.Kubeconfig},
		{ptr.To(engine.False(controlplanev1.FargateProfileReadyCondition, "x", "")), infrav1.StateConfiguring, infrav1.OperationFargateProfileUpdate, progress.FargateProfiles},
	} {
		assert.Equal(t, row.operation, operationOf(row.state, row.first), row)
		assert.Equal(t, row.step, stepOf(row.first), row)
	}
	for name, row := range map[string]struct {
		change    func(o *observation, c *conditionSet)
		operation infrav1.Operation
		step      progress.Step
		failed    bool
		message   string
	}{
		"it is created":            {func(*observation, *conditionSet) {}, infrav1.OperationCreation, progress.Workspace, false, "why"},
		"it waits for its Cluster": {func(o *observation, _ *conditionSet) { o.controlPlane.Status.State = infrav1.StatePending }, "", progress.Workspace, false, "why"},
		"it is Failed":             {func(o *observation, _ *conditionSet) { o.controlPlane.Status.State = infrav1.StateFailed }, infrav1.OperationCreation, progress.Workspace, true, "why"},
		"its status was lost":      {func(o *observation, _ *conditionSet) { builder.WithEndpoint(host, 443)(o.controlPlane) }, "", progress.Workspace, false, "why"},
		"its endpoint is known": {func(o *observation, _ *conditionSet) {
			builder.WithEndpoint(host, 443)(o.controlPlane)
			o.controlPlane.Status.Progress = &infrav1.Progress{}
		}, infrav1.OperationCreation, progress.Workspace, false, "why"},
		"its API server does not answer": {func(_ *observation, c *conditionSet) { c.workspace.Status = metav1.ConditionTrue }, infrav1.OperationCreation, progress.APIServer, false, ""},
		"it is updated": {func(o *observation, c *conditionSet) {
			o.controlPlane.Status.Initialization.ControlPlaneInitialized, c.working = ptr.To(true), true
		}, infrav1.OperationUpdate, progress.Workspace, false, "why"},
		"its update fails": {func(o *observation, _ *conditionSet) {
			o.controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		}, infrav1.OperationUpdate, progress.Workspace, true, "why"},
		"it serves": {func(o *observation, c *conditionSet) {
			o.controlPlane.Status.Initialization.ControlPlaneInitialized, c.workspace.Status, c.working = ptr.To(true), metav1.ConditionTrue, true
		}, "", progress.Done, false, ""},
	} {
		o := newObservation(t)
		ready := engine.True("x", "x", "")
		c := conditionSet{dependencies: ready, workspace: engine.False(controlplanev1.WorkspaceReadyCondition, infrav1.ProvisioningReason, "why"), endpoint: ready, kubeconfig: ready, fargate: ready}
		row.change(o, &c)
		got := observedProgress(o.controlPlane, o.Facts, c)
		assert.Equal(t, row.operation, got.Operation, name)
		assert.Equal(t, row.step, got.Step, name)
		assert.Equal(t, row.failed, got.Failed, name)
		assert.Equal(t, row.message, got.Message, name)
		assert.Equal(t, c.working, got.Working, name)
	}
}
