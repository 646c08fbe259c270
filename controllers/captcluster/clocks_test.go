// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/test/builder"
)

// controlPlaneMissing is an environment with a VPC that waits for a control plane that does not exist.
func controlPlaneMissing(t *testing.T) *recovering {
	env := newRecovering(t)
	require.NoError(t, env.Delete(t.Context(), env.apply("demo-vpc")))
	require.NoError(t, env.Delete(t.Context(), builder.CAPTControlPlane("demo")))
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) {
		c.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
	})
	env.reconcile()
	require.Equal(t, "False WaitingForControlPlane", env.conditionSummary()["Ready"])
	return env
}

// A reason about which a user must act fails a new VPC after two minutes, and no longer when it has ended.
func TestANewVPCThatCannotWorkIsFailed(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.NotUpToDate(infrav1.TemplateInvalidReason, "line 3"))
	for range 2 {
		assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
		assert.Equal(t, reasons.Grace, env.again, "no watch reports it")
		env.clock.Pass(reasons.Grace)
		env.reconcile()
		assert.Equal(t, "True TemplateInvalid", env.conditionSummary()["Failed"])
		assert.Contains(t, conditions.GetMessage(env.get(), "Failed"), "WorkspaceTemplateApply demo-vpc: line")
		assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
		assert.Empty(t, env.reconcile(), "it is reported once")

		env.State = &engine.StateCache{Clock: env.clock}
		assert.Empty(t, env.reconcile(), "a manager that is restarted does not revert it")
		assert.Empty(t, env.reconcile())

		env.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "running"))
		assert.Equal(t, "False NotFailed", env.conditionSummary()["Failed"])
		env.terraform(builder.NotUpToDate(infrav1.TemplateInvalidReason, "line 4"))
	}
	env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
	env.terraform(builder.NotUpToDate(infrav1.TemplateInvalidReason, "line 5"))
	assert.Equal(t, infrav1.StateDegraded, env.get().Status.State, "one that was Ready is Degraded at once")
}

// What the API server refuses fails a new VPC, too, although the reconcile ends with an error: the clock does not stop.
func TestANewVPCWhoseWritesAreRefusedIsFailed(t *testing.T) {
	for refused, reason := range map[string]string{"apply demo-vpc": infrav1.ApplyRefusedReason, "patch": infrav1.WriteRefusedReason} {
		t.Run(refused, func(t *testing.T) {
			clock := builder.NewClock()
			env := &recovering{clock: clock, environment: newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))}
			env.State.Clock = clock
			env.FailOn(refused, apierrors.NewForbidden(schema.GroupResource{Resource: "any"}, "demo", errors.New("a policy")))
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(env.get())}
			_, err := env.Reconcile(t.Context(), request)
			require.ErrorContains(t, err, "a policy")
			assert.Equal(t, "False "+reason, env.conditionSummary()["Ready"])
			for range 20 { // Each refusal is retried later than the one before, but not later than the object is Failed.
				env.reconcile()
				if env.get().Status.State == infrav1.StateFailed {
					break
				}
				require.Positive(t, env.again)
				clock.Pass(env.again)
			}
			assert.Equal(t, "True "+reason, env.conditionSummary()["Failed"])
			assert.Contains(t, conditions.GetMessage(env.get(), "Failed"), "a policy")

			env.Refuse = nil
			env.reconcile()
			assert.Equal(t, "False NotFailed", env.conditionSummary()["Failed"])
		})
	}
}

// A retry is an attempt. An edit that does not end the reason is none.
func TestARetryStartsTheGracePeriodAgain(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.NotUpToDate(infrav1.TemplateInvalidReason, "line 3"))
	env.clock.Pass(reasons.Grace)
	env.reconcile()
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Generation++ })
	env.reconcile()
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Annotations = map[string]string{naming.RetryAnnotation: "1"} })
	env.reconcile()
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	env.reconcile()
	assert.Equal(t, reasons.Grace, env.again)
	env.clock.Pass(reasons.Grace)
	env.reconcile()
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
}

// What a VPC waits for may never exist.
func TestAVPCDoesNotWaitForEver(t *testing.T) {
	env := controlPlaneMissing(t)
	assert.Equal(t, 15*time.Minute, env.again)
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Spec.Timeouts.WaitSeconds = 60 })
	env.reconcile()
	assert.Equal(t, time.Minute, env.again)
	env.clock.Pass(time.Minute)
	env.reconcile()
	assert.Equal(t, "True WaitTimeout", env.conditionSummary()["Failed"])
	for _, part := range []string{"timed out after 60s (spec.timeouts.waitSeconds): waiting for CAPTControlPlane demo", naming.RetryAnnotation} {
		assert.Contains(t, conditions.GetMessage(env.get(), "Failed"), part)
	}
	assert.Empty(t, env.reconcile(), "it is reported once")
	env.State = &engine.StateCache{Clock: env.clock}
	assert.Empty(t, env.reconcile(), "a manager that is restarted does not revert it")

	require.NoError(t, env.Create(t.Context(), builder.CAPTControlPlane("demo")))
	env.reconcile()
	assert.Equal(t, "False NotFailed", env.conditionSummary()["Failed"])
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
}

// More time does not help a VPC that waits for an approval.
func TestAVPCThatWaitsForARolloutIsFailedWithTheAdviceToApprove(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.NotUpToDate(infrav1.WaitingForRolloutReason, "no revision is assigned yet"))
	assert.Equal(t, 15*time.Minute, env.again)
	env.clock.Pass(env.again)
	env.reconcile()
	assert.Equal(t, "True WaitTimeout", env.conditionSummary()["Failed"])
	message := conditions.GetMessage(env.get(), "Failed")
	assert.Contains(t, message, "no revision is assigned yet. CAPT keeps waiting. Approve the rollout")
	assert.NotContains(t, message, "raise the timeout")
}

// Neither a wait nor what is to be corrected takes too long because of a pause in between.
func TestTimeInAPauseDoesNotCount(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) *recovering{
		"a wait": controlPlaneMissing,
		"a reason": func(t *testing.T) *recovering {
			env := newRecovering(t)
			env.terraform(builder.NotUpToDate(infrav1.TemplateInvalidReason, "line 3"), builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.StartedTime = nil }))
			return env
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := begin(t)
			left := env.again
			update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { builder.Paused()(c) })
			env.reconcile()
			env.clock.Pass(time.Hour)
			update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Annotations = nil })
			env.reconcile()
			assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State)
			env.reconcile()
			assert.Equal(t, left, env.again)
		})
	}
}

// A VPC that was ready for use is Degraded by a wait that takes too long, also after a restart of the manager.
func TestARestartDoesNotRevertAWaitThatTookTooLong(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
	env.terraform(builder.NotUpToDate(infrav1.WorkspaceNotReconciledReason, "it may be busy"), builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.StartedTime = nil }))
	env.clock.Pass(15 * time.Minute)
	env.reconcile()
	require.Equal(t, "True WaitTimeout", env.conditionSummary()["Degraded"])
	was := env.get().Status
	env.State = &engine.StateCache{Clock: env.clock}
	env.reconcile()
	assert.Equal(t, was, env.get().Status)
}

// A deletion is reported, and continues.
func TestADeletionThatTakesTooLong(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
	require.NoError(t, env.Delete(t.Context(), env.get()))
	env.reconcile()
	assert.NotContains(t, env.conditionSummary(), "DeletionTimedOut")
	left := env.again
	assert.Greater(t, left, 50*time.Minute, "the default is an hour")
	env.clock.Pass(left)
	env.reconcile()
	assert.Equal(t, "True DeletionTimeout", env.conditionSummary()["DeletionTimedOut"])
	assert.Contains(t, conditions.GetMessage(env.get(), "DeletionTimedOut"), "longer than 60m (spec.timeouts.deletionSeconds), and continues: Cluster demo refers to this object")
	assert.Equal(t, "True UsedByCluster", env.conditionSummary()["Deleting"])
	assert.NotEqual(t, infrav1.StateFailed, env.get().Status.State)
	assert.Empty(t, env.reconcile())
	env.State = &engine.StateCache{Clock: env.clock}
	assert.Empty(t, env.reconcile(), "a manager that is restarted does not revert it")

	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Spec.Timeouts.DeletionSeconds, c.Generation = 7200, c.Generation+1 })
	env.reconcile()
	assert.Equal(t, "False DeletionInTime", env.conditionSummary()["DeletionTimedOut"])
}

// The remaining time is that of the last status write: time alone changes nothing.
func TestTheRemainingTimeOfAVPC(t *testing.T) {
	other := builder.CAPTCluster("other")
	other.Status.Progress = &infrav1.Progress{History: []infrav1.OperationRecord{{
		Name: infrav1.OperationCreation, StartTime: ptr.To(metav1.NewTime(builder.Created)),
		CompletionTime: ptr.To(metav1.NewTime(builder.Created.Add(20 * time.Minute))), Outcome: infrav1.OutcomeSucceeded,
	}}}
	env := &recovering{clock: builder.NewClock(), environment: newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned), other)}
	env.State.Clock = env.clock
	env.reconcile()
	left := *env.get().Status.Progress.EstimatedSecondsRemaining
	env.clock.Pass(time.Minute)
	assert.Empty(t, env.reconcile())
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Generation++ })
	env.reconcile()
	assert.Equal(t, left-60, *env.get().Status.Progress.EstimatedSecondsRemaining)

	before, after := env.get(), env.get()
	after.Status.Progress.EstimatedSecondsRemaining = ptr.To[int32](1)
	details(before, after, nil)
	assert.Equal(t, before, after, "it alone does not cause a write")
}

func TestTheStepsOfAVPC(t *testing.T) {
	waiting := engine.False(infrav1.VPCReadyCondition, "any", "")
	assert.Equal(t, progress.Done, step(engine.True(infrav1.VPCReadyCondition, "Ready", ""), &owner.Plan{Blocked: &waiting}))
	assert.Equal(t, progress.Validation, step(waiting, &owner.Plan{Blocked: &waiting}))
	assert.Equal(t, progress.Workspace, step(waiting, &owner.Plan{}))
}

// The record is evidence that the VPC was created.
func TestTheRecordOfAVPCIsKept(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { builder.Paused()(c) })
	require.NoError(t, env.Delete(t.Context(), env.apply("demo-vpc")))
	env.reconcile()
	assert.Equal(t, "demo-vpc", env.get().Status.WorkspaceTemplateApply.Name)
}
