// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
)

// Defaults of spec.timeouts, for objects that were stored without them.
const (
	defaultVPCReadySeconds     = 900
	defaultControlPlaneSeconds = 1800
	defaultSecretSeconds       = 300
)

// longestTimeout is the maximum of the fields of spec.timeouts.
const longestTimeout = 24 * time.Hour

// Names of the operations with a timeout, in the state cache.
const (
	vpcOperation          = "vpc"
	controlPlaneOperation = "control plane"
	secretOperation       = "secret"
	failureOperation      = "failure"
)

// notRunning is the duration of an operation that does not run.
const notRunning time.Duration = -1

// Running is the duration of the operations that have a timeout.
type Running struct {
	VPC, ControlPlane, Secret time.Duration
	// Failing is the time since the current error of Terraform was first observed.
	Failing time.Duration
}

// observeTimeouts measures the running operations. A duration begins with the start of the operation and not with the creation of the object:
// time in a queue does not count.
func (r *Reconciler) observeTimeouts(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	key := client.ObjectKeyFromObject(controlPlane)
	retried := f.retryTime(controlPlane)
	elapsed := func(operation, reason string, started *metav1.Time) time.Duration {
		if started == nil {
			return notRunning
		}
		if retried.After(started.Time) {
			started = &retried
		}
		return r.State.Elapsed(key, operation, started.Time, reportedDuration(controlPlane, reason, started.Time))
	}
	f.Running = Running{
		VPC:          elapsed(vpcOperation, controlplanev1.VPCReadyTimeoutReason, f.vpcStarted(controlPlane)),
		ControlPlane: elapsed(controlPlaneOperation, controlplanev1.ControlPlaneTimeoutReason, f.controlPlaneStarted()),
		Secret:       elapsed(secretOperation, controlplanev1.SecretTimeoutReason, f.secretMissingSince(controlPlane)),
		Failing:      elapsed(failureOperation, f.failureReason(), f.failingSince()),
	}
}

// reportedDuration returns a duration that is longer than any timeout if status already reports that this operation timed out, else zero.
// Otherwise a restarted manager, which measures again, would revert the report and repeat it minutes later. A report for another generation
// does not count: its timeout may have been shorter.
func reportedDuration(controlPlane *controlplanev1.CAPTControlPlane, reason string, started time.Time) time.Duration {
	find := func(conditionType string) metav1.Condition {
		return ptr.Deref(meta.FindStatusCondition(controlPlane.Status.Conditions, conditionType), metav1.Condition{})
	}
	if ready := find(controlplanev1.ReadyCondition); ready.Reason != reason || ready.ObservedGeneration != controlPlane.Generation {
		return 0
	}
	for _, conditionType := range []string{controlplanev1.FailedCondition, controlplanev1.DegradedCondition} {
		if found := find(conditionType); found.Status == metav1.ConditionTrue && found.LastTransitionTime.After(started) {
			return longestTimeout
		}
	}
	return 0
}

// nextTimeout returns the duration until the timeout of the condition that the control plane waits for; zero when there is none.
func (f *Facts) nextTimeout(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) time.Duration {
	if f.Paused != "" || !controlPlane.DeletionTimestamp.IsZero() {
		return 0
	}
	c := conditionsOf(controlPlane, f, p)
	next, _ := f.timeUntilFailed(controlPlane, c.firstUnmet())
	timeout := f.timeoutOf(controlPlane, c.firstUnmet())
	if timeout == nil || timeout.running >= timeout.limit {
		return max(0, next)
	}
	if left := timeout.limit - timeout.running; next <= 0 || left < next {
		return left
	}
	return next
}

// retryTime is when the user last requested a retry: now, if the annotation has a new value.
func (f *Facts) retryTime(controlPlane *controlplanev1.CAPTControlPlane) metav1.Time {
	if newRetry(controlPlane) != "" {
		return metav1.NewTime(f.Now)
	}
	return ptr.Deref(controlPlane.Status.Recovery.RetryTime, metav1.Time{})
}

// newRetry is the value of the annotation if status does not have it yet; else it is empty.
func newRetry(controlPlane *controlplanev1.CAPTControlPlane) string {
	if value := controlPlane.Annotations[naming.RetryAnnotation]; value != controlPlane.Status.Recovery.Retry {
		return value
	}
	return ""
}

// vpcStarted returns when the creation of the VPC that the control plane waits for began; nil if it does not wait for a VPC that CAPT creates.
func (f *Facts) vpcStarted(controlPlane *controlplanev1.CAPTControlPlane) *metav1.Time {
	if f.Cluster == nil || f.desired(controlPlane).InfrastructureReady() || f.Infrastructure == nil || f.Infrastructure.Status.WorkspaceTemplateApply == nil {
		return nil
	}
	return f.Infrastructure.Status.WorkspaceTemplateApply.StartedTime
}

// failingSince returns since when Terraform fails; nil while it does not. A repeated error does not change the condition.
func (f *Facts) failingSince() *metav1.Time {
	if f.Apply.Apply == nil {
		return nil
	}
	synced := meta.FindStatusCondition(f.Apply.Apply.Status.Conditions, infrav1.SyncedCondition)
	if synced == nil || synced.Status != metav1.ConditionFalse {
		return nil
	}
	return &synced.LastTransitionTime
}

// failureReason is the reason that Ready reports for an error of Terraform.
func (f *Facts) failureReason() string {
	if f.Apply.Apply == nil {
		return ""
	}
	return f.Apply.ReadyReason()
}

// controlPlaneStarted returns when the WorkspaceTemplateApply of the control plane was started; nil before.
func (f *Facts) controlPlaneStarted() *metav1.Time {
	if f.Apply.Apply == nil {
		return nil
	}
	return f.Apply.Apply.Status.StartedTime
}

// secretMissingSince returns the time from which the timeout for Secrets counts: since when a Secret is missing, or since when Terraform is done and
// the connection Secret, the endpoint and the kubeconfig should exist. It is nil for an initialized cluster, where missing ones are reported
// immediately.
func (f *Facts) secretMissingSince(controlPlane *controlplanev1.CAPTControlPlane) (since *metav1.Time) {
	if f.Apply.Apply == nil || ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return nil
	}
	if f.Apply.UpToDate() {
		ready := &meta.FindStatusCondition(f.Apply.Apply.Status.Conditions, infrav1.ReadyCondition).LastTransitionTime
		if created := &controlPlane.CreationTimestamp; ready.Before(created) {
			return created // The WorkspaceTemplateApply is older.
		}
		return ready
	}
	for i := range f.Apply.Apply.Status.MissingDependencies {
		if missing := &f.Apply.Apply.Status.MissingDependencies[i]; missing.Kind == "Secret" && (since == nil || missing.Since.Before(since)) {
			since = missing.Since
		}
	}
	return since
}

// timeout is a field of spec.timeouts, for an operation that runs.
type timeout struct {
	field, reason  string
	limit, running time.Duration
}

// timeoutOf is the timeout of a condition that is not True; nil when it has none.
func (f *Facts) timeoutOf(controlPlane *controlplanev1.CAPTControlPlane, condition *engine.Condition) *timeout {
	of := func(field, reason string, seconds, defaultSeconds int32, running time.Duration) *timeout {
		if running == notRunning {
			return nil
		}
		return &timeout{field, reason, time.Duration(cmp.Or(seconds, defaultSeconds)) * time.Second, running}
	}
	spec := controlPlane.Spec.Timeouts
	switch {
	case condition == nil, condition.Type == controlplanev1.FargateProfileReadyCondition:
		return nil
	case condition.Type == controlplanev1.DependenciesReadyCondition:
		if condition.Reason != controlplanev1.WaitingForInfrastructureReason {
			return nil
		}
		return of("vpcReadySeconds", controlplanev1.VPCReadyTimeoutReason, spec.VPCReadySeconds, defaultVPCReadySeconds, f.Running.VPC)
	case condition.Type == controlplanev1.WorkspaceReadyCondition && condition.Reason != infrav1.WaitingForDependenciesReason:
		return of("controlPlaneSeconds", controlplanev1.ControlPlaneTimeoutReason, spec.ControlPlaneSeconds, defaultControlPlaneSeconds, f.Running.ControlPlane)
	}
	return of("secretSeconds", controlplanev1.SecretTimeoutReason, spec.SecretSeconds, defaultSecretSeconds, f.Running.Secret)
}

// applyTimeout replaces the reason of the condition that is waited for when its timeout has passed, and keeps its message. Timeouts are not
// reported while paused.
func (c *conditionSet) applyTimeout(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	first := c.firstUnmet()
	timeout := f.timeoutOf(controlPlane, first)
	if timeout == nil || timeout.running < timeout.limit || f.Paused != "" {
		return
	}
	c.failed = true
	*first = engine.False(first.Type, timeout.reason, fmt.Sprintf(
		"timed out after %s (spec.timeouts.%s): %s. CAPT keeps waiting. Fix the cause, raise the timeout, or change the annotation %s to restart the timer",
		duration.HumanDuration(timeout.limit), timeout.field, first.Message, naming.RetryAnnotation))
}

// failureGracePeriods returns, by class, how long an error of Terraform must persist before a control plane that was never initialized is
// Failed. Retries do not help for these classes. An error of class Config may end when a user corrects or creates an object, so it is
// confirmed first. Other classes fail a control plane with spec.timeouts only. docs/status.md has the same table.
func failureGracePeriods() map[failure.Class]time.Duration {
	return map[failure.Class]time.Duration{
		failure.ClassAuth:   0,
		failure.ClassQuota:  0,
		failure.ClassConfig: 2 * time.Minute,
	}
}

// timeUntilFailed returns the duration until a control plane that was never initialized is Failed because of the error that a condition
// reports; false if that error does not make it Failed.
func (f *Facts) timeUntilFailed(controlPlane *controlplanev1.CAPTControlPlane, condition *engine.Condition) (time.Duration, bool) {
	if condition == nil || condition.Type != controlplanev1.WorkspaceReadyCondition || f.Apply.Apply == nil || f.Paused != "" ||
		f.Running.Failing == notRunning || ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return 0, false
	}
	switch condition.Reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason:
		after, ok := failureGracePeriods()[failure.Class(f.Apply.Apply.Status.LastFailureClass)]
		return after - f.Running.Failing, ok
	}
	return 0, false
}
