// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

// Defaults of spec.timeouts.
const (
	defaultVPCReadySeconds     = 900
	defaultControlPlaneSeconds = 1800
	defaultSecretSeconds       = 300
)

// longestTimeout is the longest that spec can say.
const longestTimeout = 24 * time.Hour

// Steps of making a control plane that have a timeout, as the stopwatch knows them.
const (
	vpcStep          = "vpc"
	controlPlaneStep = "control plane"
	secretStep       = "secret"
)

// notRunning is the time of a step that does not go on.
const notRunning time.Duration = -1

// Running is for how long the steps go on that have a timeout; notRunning for those that do not.
type Running struct {
	VPC, ControlPlane, Secret time.Duration
}

// observeTimeouts measures the steps that go on. Each is counted from when its work really began, not from the creation of an
// object: what waits in a queue is not late.
func (r *Reconciler) observeTimeouts(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	key := client.ObjectKeyFromObject(controlPlane)
	retried := f.retryTime(controlPlane)
	elapsed := func(step, reason string, began *metav1.Time) time.Duration {
		if began == nil {
			return notRunning
		}
		if retried.After(began.Time) {
			began = &retried
		}
		return r.Elapsed(key, step, began.Time, toldOf(controlPlane, reason, began.Time))
	}
	f.Running = Running{
		VPC:          elapsed(vpcStep, controlplanev1.VPCReadyTimeoutReason, f.vpcBegan()),
		ControlPlane: elapsed(controlPlaneStep, controlplanev1.ControlPlaneTimeoutReason, f.controlPlaneBegan()),
		Secret:       elapsed(secretStep, controlplanev1.SecretTimeoutReason, f.secretBegan(controlPlane)),
	}
}

// toldOf is longer than any timeout when status tells that this one has passed since the work began, and zero when it does not. A
// manager that was restarted would take that back, and tell it again minutes later. Another generation may give more time.
func toldOf(controlPlane *controlplanev1.CAPTControlPlane, reason string, began time.Time) time.Duration {
	is := func(conditionType string) metav1.Condition {
		return ptr.Deref(meta.FindStatusCondition(controlPlane.Status.Conditions, conditionType), metav1.Condition{})
	}
	if ready := is(controlplanev1.ReadyCondition); ready.Reason != reason || ready.ObservedGeneration != controlPlane.Generation {
		return 0
	}
	for _, conditionType := range []string{controlplanev1.FailedCondition, controlplanev1.DegradedCondition} {
		if told := is(conditionType); told.Status == metav1.ConditionTrue && told.LastTransitionTime.After(began) {
			return longestTimeout
		}
	}
	return 0
}

// awaitTimeouts asks for a look at the time when what is waited for now would be late.
func (f *Facts) awaitTimeouts(controlPlane *controlplanev1.CAPTControlPlane) {
	if f.Paused != "" || !controlPlane.DeletionTimestamp.IsZero() {
		return
	}
	c := conditions(controlPlane, f)
	if timeout := f.timeoutOf(controlPlane, c.first()); timeout != nil && timeout.running < timeout.limit {
		f.lookAgain(timeout.limit - timeout.running)
	}
}

// retryTime is when a person last asked for another try: now, if the annotation has a value that is new.
func (f *Facts) retryTime(controlPlane *controlplanev1.CAPTControlPlane) metav1.Time {
	if newRetry(controlPlane) != "" {
		return metav1.NewTime(f.Now)
	}
	return ptr.Deref(controlPlane.Status.Recovery.RetryTime, metav1.Time{})
}

// newRetry is the value of the annotation when status has not noted it yet; else it is empty.
func newRetry(controlPlane *controlplanev1.CAPTControlPlane) string {
	if value := controlPlane.Annotations[naming.RetryAnnotation]; value != controlPlane.Status.Recovery.Retry {
		return value
	}
	return ""
}

func (f *Facts) vpcBegan() *metav1.Time {
	if f.Cluster == nil || f.infrastructureReady() || f.Infrastructure == nil || f.Infrastructure.Status.WorkspaceTemplateApply == nil {
		return nil
	}
	return f.Infrastructure.Status.WorkspaceTemplateApply.StartedTime
}

func (f *Facts) controlPlaneBegan() *metav1.Time {
	if f.Apply.Apply == nil {
		return nil
	}
	return f.Apply.Apply.Status.StartedTime
}

// secretBegan is since when a Secret is missing that the control plane waits for, or since when Terraform has made everything,
// so that the connection Secret should be there and endpoint and kubeconfig with it. What is missing in a cluster that was used
// already is told at once.
func (f *Facts) secretBegan(controlPlane *controlplanev1.CAPTControlPlane) (began *metav1.Time) {
	if f.Apply.Apply == nil || ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return nil
	}
	if f.Apply.Ready(manager) {
		ready := &meta.FindStatusCondition(f.Apply.Apply.Status.Conditions, infrav1.ReadyCondition).LastTransitionTime
		if created := &controlPlane.CreationTimestamp; ready.Before(created) {
			return created // It was adopted, or is older than this object for another reason.
		}
		return ready
	}
	for i := range f.Apply.Apply.Status.MissingDependencies {
		if missing := &f.Apply.Apply.Status.MissingDependencies[i]; missing.Kind == "Secret" && (began == nil || missing.Since.Before(began)) {
			began = missing.Since
		}
	}
	return began
}

// timeout is one of spec.timeouts, of a step that goes on.
type timeout struct {
	field, reason  string
	limit, running time.Duration
}

// timeoutOf is what says how long a condition that is not met may wait; nil when nothing does.
func (f *Facts) timeoutOf(controlPlane *controlplanev1.CAPTControlPlane, condition *engine.Condition) *timeout {
	of := func(field, reason string, seconds, otherwise int32, running time.Duration) *timeout {
		if running == notRunning {
			return nil
		}
		return &timeout{field, reason, time.Duration(cmp.Or(seconds, otherwise)) * time.Second, running}
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

// expire puts a timeout that has passed in the place of the reason of the condition that waits, and keeps what the condition
// said. Nobody is told of a timeout while nothing may be done about it.
func (c *parts) expire(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	first := c.first()
	if timeout := f.timeoutOf(controlPlane, first); timeout != nil && timeout.running >= timeout.limit && f.Paused == "" {
		c.late(first, timeout)
	}
}

func (c *parts) late(condition *engine.Condition, t *timeout) {
	c.failed = true
	*condition = engine.False(condition.Type, t.reason, fmt.Sprintf(
		"not there after %s (spec.timeouts.%s): %s. It is still waited for; correct the cause, raise the timeout, or give the annotation %s a new value to count anew",
		t.limit, t.field, condition.Message, naming.RetryAnnotation))
}
