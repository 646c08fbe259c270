// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/recovery"
)

// Life is what the state of an owner is derived from; docs/status.md has the table.
type Life struct {
	// Unmet is the first of what is not as spec wants it; the zero value if all is.
	Unmet engine.Condition
	// Initialized is true once the object was ready for use.
	Initialized bool
	// Pending: the object has no Cluster yet, or was paused before anything was created. Blocked: something is missing or wrong that Terraform needs.
	// Applied: Terraform has applied the Workspace. Absent: its resources do not exist yet, or not any more.
	Pending, Blocked, Applied, Absent bool
	// Working: Terraform runs, or waits for what is expected to happen, and nothing is wrong. Failed: the user must act. Down: what Terraform has applied does not serve.
	Working, Failed, Down bool
	// Recovering: a recovery action runs.
	Recovering bool
}

// Life returns what the state of an owner is derived from that has nothing but its WorkspaceTemplateApply. unmet is what is not as spec wants it; the
// zero value if all is.
func (o *Observed) Life(p *Plan, unmet engine.Condition, initialized bool, timeout *Timeout) *Life {
	waits := p.Blocked != nil && !infrav1.RequiresUserAction(p.Blocked.Reason)
	failed := unmet.Reason != "" && (o.Fails(p, &unmet, initialized) || unmet.Reason == timeout.reason())
	return &Life{
		Unmet: unmet, Initialized: initialized, Pending: o.Cluster == nil || unmet.Reason == infrav1.WaitingForOwnerReason || o.Paused != "" && o.Apply.Live == nil,
		Blocked: p.Blocked != nil, Applied: p.Ready(), Absent: o.Apply.ResourcesAbsent(),
		Working: !failed && (waits || p.Blocked == nil && !p.Ready() && o.Apply.Working()), Failed: failed,
		Recovering: p.Recovery.Kind == recovery.Running || o.Recovered,
	}
}

// Ready returns the condition Ready of an owner that has nothing but its WorkspaceTemplateApply. unmet is as for Life.
func (o *Observed) Ready(p *Plan, unmet engine.Condition) engine.Condition {
	condition := engine.True(infrav1.ReadyCondition, infrav1.ReadyReason, "")
	if unmet.Reason != "" {
		condition = engine.False(infrav1.ReadyCondition, unmet.Reason, unmet.Message+p.Recovery.Summary())
	}
	return engine.WithPause(condition, o.Paused)
}

// State returns the state that follows another one.
func (l *Life) State(from infrav1.State) infrav1.State { return NextState(from, l.state()) }

// NextState returns the next state if it can follow the current one, and else the current one. Before an object is initialized, it can move between all
// states, because each depends on objects that can change in any order. From Ready and Degraded, it is Provisioning only if what Terraform created is
// destroyed and recreated, and any problem makes it Degraded, not Failed. docs/status.md has the table of all transitions.
func NextState(from, to infrav1.State) infrav1.State {
	before := []infrav1.State{infrav1.StatePending, infrav1.StateValidating, infrav1.StateFailed}
	if (from == infrav1.StateReady || from == infrav1.StateDegraded) && slices.Contains(before, to) {
		return from
	}
	return to
}

func (l *Life) state() infrav1.State {
	switch {
	case l.Unmet.Reason == "":
		return infrav1.StateReady
	case l.Recovering:
		return infrav1.StateRecovering
	case l.Initialized:
		return l.servingState()
	case l.Pending:
		return infrav1.StatePending
	case l.Failed:
		return infrav1.StateFailed
	case l.Blocked:
		return infrav1.StateValidating
	case !l.Applied:
		return infrav1.StateProvisioning
	}
	return infrav1.StateConfiguring
}

// servingState is the state of an object that is initialized and not Ready. It is Provisioning only if it is created again.
func (l *Life) servingState() infrav1.State {
	switch {
	case l.Down, !l.Working:
		return infrav1.StateDegraded
	case !l.Applied && l.Absent:
		return infrav1.StateProvisioning
	}
	return infrav1.StateConfiguring
}

// Conditions returns Failed and Degraded. Conversion to v1beta1 uses reason and message of Failed for failureReason and failureMessage. Degraded stays
// True while a recovery action runs for an object that was initialized.
func (l *Life) Conditions(state infrav1.State, now time.Time) (failed, degraded engine.Condition) {
	is := func(conditionType string, is bool, not string) engine.Condition {
		condition := engine.True(conditionType, l.Unmet.Reason, l.Unmet.Message).If(is, not)
		condition.Since = now
		return condition
	}
	failed = is(infrav1.FailedCondition, state == infrav1.StateFailed, infrav1.NotFailedReason)
	degraded = is(infrav1.DegradedCondition, state == infrav1.StateDegraded || state == infrav1.StateRecovering && l.Initialized, infrav1.NotDegradedReason)
	return failed, degraded
}

// ObserveEarlier reads how long operations of other owners took with the same template, unless the object is at rest. list is an empty list of its kind.
func (r *Reconciler) ObserveEarlier(ctx context.Context, o Owner, f *Observed, list client.ObjectList) (err error) {
	ready := meta.FindStatusCondition(o.GetConditions(), infrav1.ReadyCondition)
	atRest := o.GetLifecycle().State == infrav1.StateReady && ready != nil && ready.ObservedGeneration == o.GetGeneration() && f.Apply.UpToDate()
	if atRest || f.Paused != "" || o.deleting() {
		return nil
	}
	f.Earlier, err = progress.Earlier(ctx, r.Client, list, TemplateIndex, o)
	return err
}

// Progress returns what the progress of an object of a kind is computed from, without its operation. step is the first that is not complete.
func (o *Observed) Progress(kind string, step progress.Step) *progress.Observed {
	in := &progress.Observed{Steps: progress.Steps()[kind], Step: step, Paused: o.Paused != "", Now: o.Now, Earlier: o.Earlier, Started: o.Apply.StartedTime()}
	if o.Apply.Live != nil {
		in.Revision = o.Apply.Live.Generation
	}
	return in
}

// ReportLife writes state and progress, and the conditions Failed and Degraded, of an owner that has nothing but its WorkspaceTemplateApply, and what it
// creates with it: step is the first that is not complete.
func (o *Observed) ReportLife(p *Plan, l *Life, step progress.Step) {
	s := p.Owner.GetLifecycle()
	s.State = l.State(s.State)
	failed, degraded := l.Conditions(s.State, o.Now)
	engine.SetNegativePolarity(p.Owner.Object, failed, degraded)
	in := o.Progress(p.Owner.Kind.Kind, step)
	in.Message, in.Failed = l.Unmet.Message, s.State == infrav1.StateFailed || l.Initialized && !l.Working
	// Without progress, the status of a VPC or node group that exists was lost in a move or a restore.
	lost := s.Progress == nil && o.Apply.Live != nil && (o.Apply.Live.Status.Applied == metav1.ConditionTrue || o.Apply.Live.Status.LastAppliedRevision != "")
	in.Operation = l.operation(s.State, lost)
	s.Progress = progress.Next(s.Progress, in)
}

// operation returns the operation that an object in a state needs; empty if it is none of Terraform. lost is true if status does not have what happened before.
func (l *Life) operation(state infrav1.State, lost bool) infrav1.Operation {
	switch {
	case l.Initialized && (l.Blocked || l.Applied), !l.Initialized && (lost || state == infrav1.StatePending):
		return ""
	case !l.Initialized:
		return infrav1.OperationCreation
	case state == infrav1.StateProvisioning:
		return infrav1.OperationRecreation
	}
	return infrav1.OperationUpdate
}

// Running is the duration of what all owners measure; nil while it does not run.
type Running struct {
	// Terraform is the time since Terraform started to create or update what the owner controls, also while it fails.
	Terraform *time.Duration
	// Failing is the time since the current error of Terraform was first observed.
	Failing *time.Duration
}

// longestTimeout is the maximum of the fields of spec.timeouts.
const longestTimeout = 24 * time.Hour

// Elapsed measures an operation. It begins with the start of the operation and not with the creation of the object: time in a queue does not count. A
// retry that the user requested starts it again. It is nil if the operation has not started. reason is the one with which status reports that it has taken too long.
func (r *Reconciler) Elapsed(o Owner, now time.Time, operation, reason string, started *metav1.Time) *time.Duration {
	if started == nil {
		return nil
	}
	retried := ptr.Deref(o.GetLifecycle().Recovery.RetryTime, metav1.Time{})
	if NewRetry(o) != "" {
		retried = metav1.NewTime(now)
	}
	if retried.After(started.Time) {
		started = &retried
	}
	return ptr.To(r.State.Elapsed(client.ObjectKeyFromObject(o), operation, started.Time, o.reportedDuration(reason, started.Time)))
}

// reportedDuration returns a duration that is longer than any timeout if status already reports that this operation timed out, else zero.
// Otherwise a restarted manager, which measures again, would revert the report and repeat it minutes later. A report for another generation
// does not count: its timeout may have been shorter.
func (o Owner) reportedDuration(reason string, started time.Time) time.Duration {
	find := func(conditionType string) metav1.Condition {
		return ptr.Deref(meta.FindStatusCondition(o.GetConditions(), conditionType), metav1.Condition{})
	}
	if ready := find(infrav1.ReadyCondition); ready.Reason != reason || ready.ObservedGeneration != o.GetGeneration() {
		return 0
	}
	for _, conditionType := range []string{infrav1.FailedCondition, infrav1.DegradedCondition} {
		if found := find(conditionType); found.Status == metav1.ConditionTrue && found.LastTransitionTime.After(started) {
			return longestTimeout
		}
	}
	return 0
}

// ObserveRunning measures the run of Terraform, whose timeout has a reason.
func (r *Reconciler) ObserveRunning(o Owner, f *Observed, timeoutReason string) {
	if f.Apply.Live == nil {
		return
	}
	f.Running.Terraform = r.Elapsed(o, f.Now, "terraform", timeoutReason, f.Apply.Live.Status.StartedTime)
	// A repeated error does not change the condition.
	if synced := meta.FindStatusCondition(f.Apply.Live.Status.Conditions, infrav1.SyncedCondition); synced != nil && synced.Status == metav1.ConditionFalse {
		f.Running.Failing = r.Elapsed(o, f.Now, "failure", f.Apply.ReadyReason(), &synced.LastTransitionTime)
	}
}

// Timeout is a limit of an operation that runs, from a field of spec.
type Timeout struct {
	Field, Reason  string
	Limit, Running time.Duration
}

// NewTimeout returns the timeout of an operation; nil if it does not run.
func NewTimeout(field, reason string, seconds, defaultSeconds int32, running *time.Duration) *Timeout {
	if running == nil {
		return nil
	}
	if seconds == 0 {
		seconds = defaultSeconds
	}
	return &Timeout{field, reason, time.Duration(seconds) * time.Second, *running}
}

// Passed reports whether the operation has taken too long.
func (t *Timeout) Passed() bool { return t != nil && t.Running >= t.Limit }

func (t *Timeout) reason() string {
	if t == nil {
		return ""
	}
	return t.Reason
}

// Condition returns the condition that is waited for or, if the operation has taken too long, with the reason of the timeout, and its message.
func (t *Timeout) Condition(waiting engine.Condition) engine.Condition {
	if !t.Passed() || waiting.Status == metav1.ConditionTrue {
		return waiting
	}
	return engine.False(waiting.Type, t.Reason, fmt.Sprintf(
		"timed out after %s (%s): %s. CAPT keeps waiting. Fix the cause, raise the timeout, or change the annotation %s to restart the timer",
		duration.HumanDuration(t.Limit), t.Field, waiting.Message, naming.RetryAnnotation))
}

// FailureGracePeriods returns, by class, how long an error of Terraform must persist before an object that was never initialized is Failed. Retries
// do not help for these classes. An error of class Config may end when a user corrects or creates an object, so it is confirmed first. Other classes
// fail an object with its timeout only. docs/status.md has the same table.
func FailureGracePeriods() map[failure.Class]time.Duration {
	return map[failure.Class]time.Duration{
		failure.ClassAuth:   0,
		failure.ClassQuota:  0,
		failure.ClassConfig: 2 * time.Minute,
	}
}

// UntilFailed returns the duration until an object that was never initialized is Failed because of the error of Terraform that a condition reports;
// false if that error does not make it Failed.
func (o *Observed) UntilFailed(condition *engine.Condition, initialized bool) (time.Duration, bool) {
	if condition == nil || o.Apply.Live == nil || o.Paused != "" || o.Running.Failing == nil || initialized {
		return 0, false
	}
	switch condition.Reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason:
		after, ok := FailureGracePeriods()[failure.Class(o.Apply.Live.Status.LastFailureClass)]
		return after - *o.Running.Failing, ok
	}
	return 0, false
}

// Fails reports whether the user must act about a condition: recovery has ended, the reason is permanent, or the error has persisted for too long.
func (o *Observed) Fails(p *Plan, condition *engine.Condition, initialized bool) bool {
	left, fails := o.UntilFailed(condition, initialized)
	return p.Recovery.Kind == recovery.Exhausted || condition != nil && infrav1.IsPermanent(condition.Reason) || fails && left <= 0
}

// AwaitTimeout requests the reconcile for the timeout of a condition that is not True, or for when its error makes the object Failed.
func (o *Observed) AwaitTimeout(timeout *Timeout, condition *engine.Condition, initialized bool) {
	if left, fails := o.UntilFailed(condition, initialized); fails {
		o.RequeueWithin(left)
	}
	if timeout != nil && !timeout.Passed() {
		o.RequeueWithin(timeout.Limit - timeout.Running)
	}
}

// RequeueWithin requests a reconcile after a duration at the latest; zero or less requests none.
func (o *Observed) RequeueWithin(after time.Duration) {
	if after > 0 && (o.requeueAfter == 0 || after < o.requeueAfter) {
		o.requeueAfter = after
	}
}

// Await repeats the reconcile for what no watch reports: what RequeueWithin requested, and a template that blocks and is not watched.
func (o *Observed) Await(_ context.Context, p *Plan) error {
	if p.AwaitTemplate {
		o.RequeueWithin(TemplateInterval)
	}
	if o.requeueAfter == 0 {
		return nil
	}
	return engine.Wait("a timeout, a token or a template", o.requeueAfter)
}
