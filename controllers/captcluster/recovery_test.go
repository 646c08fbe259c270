// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// recovering is an environment with a clock, whose VPC has a WorkspaceTemplateApply.
type recovering struct {
	*environment
	clock    *builder.Clock
	registry *prometheus.Registry
	again    time.Duration
}

func newRecovering(t *testing.T, options ...builder.Option) *recovering {
	env := &recovering{clock: builder.NewClock(), registry: prometheus.NewRegistry(), environment: newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", append(options, owned)...))}
	env.State.Clock, env.Recovery = env.clock, metrics.NewRecovery(env.registry)
	env.reconcile()
	return env
}

func (env *recovering) reconcile() []string {
	env.Helper()
	env.Writes = nil
	got, err := env.Reconcile(env.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}})
	require.NoError(env, err)
	env.again = got.RequeueAfter
	return env.Writes
}

// terraform changes the WorkspaceTemplateApply as its controller does.
func (env *recovering) terraform(options ...builder.Option) {
	env.Helper()
	apply := env.apply("demo-vpc")
	apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = apply.Name, &infrav1.WorkspaceReference{UID: "workspace"}
	apply.Status.StartedTime = ptr.To(metav1.NewTime(env.clock.Now()))
	for _, option := range options {
		option(apply)
	}
	require.NoError(env, env.Update(env.T.Context(), apply))
	env.reconcile()
	if env.again > 0 && env.again <= owner.StartDelay { // That Terraform has started may be written later.
		env.clock.Pass(env.again)
		env.reconcile()
	}
}

func failing(reason, class string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		builder.NotUpToDate(reason, "AWS says no")(apply)
		apply.Status.LastFailureClass, apply.Status.FailureInputs = class, "1"
	})
}

func (env *recovering) requested() string {
	action, _, _ := strings.Cut(env.apply("demo-vpc").Annotations[naming.RecoveryAnnotation], "/")
	return action
}

// A VPC is recovered as a control plane is: controllers/captcontrolplane and controllers/recovery test each rule.
func TestAVPCIsRecovered(t *testing.T) {
	for _, class := range []string{"Throttle", "Lock", "Timeout", "Network", "ProviderPod", "Unknown", "Interrupted"} {
		t.Run(class, func(t *testing.T) {
			env := newRecovering(t)
			env.terraform(failing(infrav1.ApplyFailedReason, class))
			assert.Equal(t, "False WaitingForRetry", env.conditionSummary()["Recovering"])
			assert.Contains(t, env.message("Ready"), "AWS says no (recovery attempt 1 of 5 (")
			assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
			assert.Empty(t, env.reconcile(), "nothing is written while it waits")

			env.clock.Pass(env.again)
			env.reconcile()
			assert.Equal(t, "Reapply", env.requested())
			assert.Equal(t, infrav1.StateRecovering, env.get().Status.State)
			assert.Empty(t, env.reconcile(), "nothing is written while it runs")

			env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
			s := env.get().Status
			assert.Equal(t, infrav1.StateReady, s.State)
			assert.Equal(t, "False Recovered", env.conditionSummary()["Recovering"])
			assert.Equal(t, "Succeeded", s.Recovery.LastOutcome)
			assert.Equal(t, infrav1.OutcomeSucceeded, s.Progress.History[0].Outcome)
			assert.Empty(t, env.reconcile(), "at rest nothing is written")
			count, err := testutil.GatherAndCount(env.registry, "capt_recovery_attempts_total")
			require.NoError(t, err)
			assert.Equal(t, 1, count)
		})
	}
}

func TestAnInterruptedCreationOfAVPCIsContinued(t *testing.T) {
	env := newRecovering(t)
	env.terraform(failing(infrav1.CreateInterruptedReason, "Interrupted"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{Type: infrav1.CreateRecoverableCondition, Status: metav1.ConditionTrue, Reason: infrav1.RemoteStateReason})
	}))
	env.clock.Pass(env.again)
	env.reconcile()
	assert.Equal(t, "ClearInterruptedCreate", env.requested())
}

// What a user must correct is not tried again: a new VPC is Failed, and one that was ready Degraded.
func TestAVPCThatAUserMustCorrect(t *testing.T) {
	for _, class := range []string{"Auth", "Quota", "Config"} {
		env := newRecovering(t)
		env.terraform(failing(infrav1.ApplyFailedReason, class), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{Type: infrav1.SyncedCondition, Status: metav1.ConditionFalse, Reason: "x", LastTransitionTime: metav1.NewTime(env.clock.Now())})
		}))
		if class == "Config" { // A user may be about to create what is missing.
			assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
			env.clock.Pass(env.again)
			env.reconcile()
		}
		assert.Equal(t, infrav1.StateFailed, env.get().Status.State, class)
		assert.Equal(t, "True ApplyFailed", env.conditionSummary()["Failed"], class)
		assert.Equal(t, "False RecoveryBlocked", env.conditionSummary()["Recovering"], class)
		assert.Empty(t, env.requested(), class)
		assert.Equal(t, infrav1.OutcomeFailed, env.get().Status.Progress.History[0].Outcome, class)

		env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
		assert.Equal(t, infrav1.StateReady, env.get().Status.State, class)
		assert.Equal(t, "False NotFailed", env.conditionSummary()["Failed"], class)
		env.terraform(failing(infrav1.ApplyFailedReason, class))
		assert.Equal(t, infrav1.StateDegraded, env.get().Status.State, class)
		assert.Equal(t, "True ApplyFailed", env.conditionSummary()["Degraded"], class)
	}
}

func TestTheStrategyOfAVPC(t *testing.T) {
	env := newRecovering(t, builder.With(func(c *infrav1.CAPTCluster) {
		c.Spec.Recovery = &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](1), Actions: []infrav1.RecoveryAction{{Type: infrav1.RecoveryRequeue, TimeoutSeconds: 5}}}
	}))
	env.terraform(failing(infrav1.ApplyFailedReason, "Network"))
	for range 2 {
		env.clock.Pass(env.again)
		env.reconcile()
	}
	assert.Equal(t, "False RecoveryExhausted", env.conditionSummary()["Recovering"])
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
	assert.Empty(t, env.requested(), "Requeue changes nothing")
	require.NoError(t, testutil.GatherAndCompare(env.registry, strings.NewReader(`
# HELP capt_recovery_exhausted 1 while all recovery attempts of an object have failed.
# TYPE capt_recovery_exhausted gauge
capt_recovery_exhausted{kind="CAPTCluster",name="demo",namespace="default"} 1
`), "capt_recovery_exhausted"))

	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Annotations = map[string]string{naming.RetryAnnotation: "1"} })
	env.reconcile()
	assert.Equal(t, "False WaitingForRetry", env.conditionSummary()["Recovering"], "a retry starts the attempts again")
	assert.Equal(t, "1", env.get().Status.Recovery.Retry)
}

// Terraform that runs for too long without an error is started again, and a retry restarts the timer.
func TestAVPCThatTakesTooLong(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "running"))
	assert.Equal(t, 15*time.Minute-owner.StartDelay, env.again)
	env.clock.Pass(env.again)
	env.reconcile()
	assert.Equal(t, "True VPCReadyTimeout", env.conditionSummary()["Failed"])
	assert.Equal(t, "Timeout", env.get().Status.Recovery.FailureClass)
	env.State = &engine.StateCache{Clock: env.clock}
	env.reconcile()
	assert.Equal(t, "True VPCReadyTimeout", env.conditionSummary()["Failed"], "a restart of the manager does not revert it")

	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) { c.Annotations = map[string]string{naming.RetryAnnotation: "1"} })
	env.reconcile()
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
}
