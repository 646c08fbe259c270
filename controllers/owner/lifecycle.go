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
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/recovery"
)

// Life is what the state of an owner is derived from; docs/status.md has the table.
type Life struct {
	// Unmet is the first of what is not as spec wants it; the zero value if all is.
	Unmet engine.Condition
	// Initialized is true once the object was ready for use, or may be because its cloud resources exist.
	Initialized bool
	// Pending: the object has no Cluster yet, or was paused before anything was created. Blocked: something is missing or wrong that Terraform needs.
	// Applied: Terraform has applied the Workspace. Absent: its resources do not exist yet, or not any more.
	Pending, Blocked, Applied, Absent bool
	// Working: Terraform runs, or waits for what is expected to happen, and nothing is wrong. Failed: the user must act. Down: what Terraform has applied does not serve.
	Working, Failed, Down bool
	// Recovering: a recovery action runs.
	Recovering bool
	// Cause is why an object is Failed that only waits for another one; the zero value if Unmet says it.
	Cause engine.Condition
}

// Life returns what the state of an owner is derived from that has nothing but its WorkspaceTemplateApply. unmet is what is not as spec wants it; the
// zero value if all is.
func (o *Observed) Life(p *Plan, unmet engine.Condition, initialized bool) *Life {
	waiting := p.Blocked != nil && !reasons.IsProblem(p.Blocked.Reason)
	failed := unmet.Reason != "" && o.Fails(p, &unmet, initialized)
	pending := o.pending(unmet.Reason)
	return &Life{
		Unmet: unmet, Initialized: initialized || o.Apply.ProvisionedField != "" && !pending, Pending: pending,
		Blocked: p.Blocked != nil, Applied: p.Ready(), Absent: o.Apply.ResourcesAbsent(),
		Working: !failed && (waiting || p.Blocked == nil && !p.Ready() && o.Apply.Working()), Failed: failed,
		Recovering: p.Recovery.Kind == recovery.Running || o.Recovered,
	}
}

// pending reports whether nothing was created yet, because there is no Cluster or a pause.
func (o *Observed) pending(reason string) bool {
	return o.Cluster == nil || reason == infrav1.WaitingForOwnerReason || o.Paused != "" && o.Apply.Live == nil
}

// Ready returns the condition Ready of an owner that has nothing but its WorkspaceTemplateApply. unmet is as for Life.
func (o *Observed) Ready(p *Plan, unmet engine.Condition) engine.Condition {
	condition := engine.True(infrav1.ReadyCondition, infrav1.ReadyReason, "")
	if unmet.Reason != "" {
		condition = engine.False(infrav1.ReadyCondition, unmet.Reason, unmet.Message+p.Recovery.Summary())
	}
	return engine.WithPause(condition, o.Paused)
}

// Failure is why an owner is Failed, for one that waits for it; the zero value if it is not.
func (o Owner) Failure() engine.Condition {
	failed := meta.FindStatusCondition(o.GetConditions(), infrav1.FailedCondition)
	if failed == nil || failed.Status != metav1.ConditionTrue {
		return engine.Condition{}
	}
	return engine.Condition{Reason: failed.Reason, Message: fmt.Sprintf("%s %s has failed: %s", o.Kind.Kind, o.GetName(), failed.Message)}
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
	case l.Pending && l.Unmet.Reason != infrav1.WaitTimeoutReason:
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
		cause := l.Unmet
		if l.Cause.Reason != "" && !l.Initialized {
			cause = l.Cause
		}
		condition := engine.True(conditionType, cause.Reason, cause.Message).If(is, not)
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
	in.Message, in.Failed, in.Working = l.Unmet.Message, s.State == infrav1.StateFailed || l.Initialized && !l.Working, l.Working
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
	// Deletion is the time since the deletion was requested.
	Deletion *time.Duration
	// Reason is that with which the object was not Ready in the last reconcile, and Persists the time since it is.
	Reason   string
	Persists time.Duration
}

// longestTimeout is the maximum of the fields of spec.timeouts.
const longestTimeout = 24 * time.Hour

// Elapsed measures an operation. It begins with the start of the operation and not with the creation of the object: time in a queue does not count. A
// retry that the user requested starts it again. It is nil if the operation has not started. reason is the one with which status reports that it has taken too long.
func (r *Reconciler) Elapsed(o Owner, now time.Time, operation, reason string, started *metav1.Time) *time.Duration {
	if started == nil {
		return nil
	}
	if retried := o.retried(now); retried.After(started.Time) {
		started = ptr.To(metav1.NewTime(retried))
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
	ready := find(infrav1.ReadyCondition)
	if ready.ObservedGeneration != o.GetGeneration() {
		return 0
	}
	for _, conditionType := range []string{infrav1.FailedCondition, infrav1.DegradedCondition} {
		found := find(conditionType) // Ready has the reason WriteRefused instead if a write is refused.
		if (ready.Reason == reason || ready.Reason == infrav1.WriteRefusedReason && found.Reason == reason) && found.Status == metav1.ConditionTrue && found.LastTransitionTime.After(started) {
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
	// doing is what Terraform does meanwhile; empty if the timeout is not that of a run, or the run has reported an error.
	doing string
}

// Of adds what Terraform does for what the owner controls.
func (t *Timeout) Of(f *Facts) *Timeout {
	if running := f.ReadyReason() == infrav1.ProvisioningReason || f.ReadyReason() == infrav1.NotReportedReason; t == nil || f.Live == nil || f.Live.Status.StartedTime == nil || !running {
		return t
	}
	t.doing = fmt.Sprintf("%s (since %s)", conditions.Get(f.Live, infrav1.ReadyCondition).Message, f.Live.Status.StartedTime.UTC().Format(time.RFC3339))
	return t
}

// NewTimeout returns the timeout of an operation; nil if it does not run.
func NewTimeout(field, reason string, seconds, defaultSeconds int32, running *time.Duration) *Timeout {
	if running == nil {
		return nil
	}
	if seconds == 0 {
		seconds = defaultSeconds
	}
	return &Timeout{Field: field, Reason: reason, Limit: time.Duration(seconds) * time.Second, Running: *running}
}

// Passed reports whether the operation has taken too long.
func (t *Timeout) Passed() bool { return t != nil && t.Running >= t.Limit }

// Condition returns the condition that is waited for or, if the operation has taken too long, with the reason of the timeout, and its message.
func (t *Timeout) Condition(waiting engine.Condition) engine.Condition {
	if !t.Passed() || waiting.Status == metav1.ConditionTrue {
		return waiting
	}
	message, action := waiting.Message, "Fix the cause, raise the timeout, or change"
	switch {
	case waiting.Reason == infrav1.WaitingForRolloutReason:
		action = "Approve the rollout; change" // More time does not help.
	case t.doing != "":
		message, action = message+": "+t.doing, "Raise the timeout if it only takes longer, end the run (captctl describe shows how), or change"
	}
	return engine.False(waiting.Type, t.Reason, fmt.Sprintf("timed out after %s (%s): %s. CAPT keeps waiting. %s the annotation %s to restart the timer",
		duration.HumanDuration(t.Limit), t.Field, message, action, naming.RetryAnnotation))
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

// UntilFailed returns the duration until an object that was never initialized is Failed because of a condition; zero or less if it is, or if that
// condition does not make it Failed, which is false then. A reason that fails at once fails an object that is paused, too.
func (o *Observed) UntilFailed(condition *engine.Condition, initialized bool) (time.Duration, bool) {
	if condition == nil {
		return 0, false
	}
	switch effect := reasons.Of(condition.Reason).Effect; {
	case effect == reasons.FailsAtOnce:
		return 0, true
	case o.Paused != "" || initialized || o.Apply.ProvisionedField != "":
		return 0, false
	case effect == reasons.FailsAfterGrace:
		return reasons.Grace - o.persists(condition.Reason), true
	case effect == reasons.FailsByClass && o.Apply.Live != nil && o.Running.Failing != nil:
		after, ok := FailureGracePeriods()[failure.Class(o.Apply.Live.Status.LastFailureClass)]
		return after - *o.Running.Failing, ok
	}
	return 0, false
}

// persists is for how long a reason has been why the object is not Ready. After a restart, only the timeout of what was waited for is known.
func (o *Observed) persists(reason string) time.Duration {
	if o.Running.Reason == reason || o.Running.Reason == infrav1.WaitTimeoutReason && waits(reason) {
		return o.Running.Persists
	}
	return 0
}

// Fails reports whether the user must act about a condition: recovery has ended, or the reason fails a new object, and has persisted for long enough.
func (o *Observed) Fails(p *Plan, condition *engine.Condition, initialized bool) bool {
	left, fails := o.UntilFailed(condition, initialized)
	return p.Recovery.Kind == recovery.Exhausted || fails && left <= 0
}

// Defaults of spec.timeouts.waitSeconds and deletionSeconds.
const (
	defaultWaitSeconds     = 900
	defaultDeletionSeconds = 3600
)

// waits reports whether a reason is a wait for another object before Terraform starts.
func waits(reason string) bool {
	switch reason {
	case infrav1.WaitingForOwnerReason, infrav1.WaitingForControlPlaneReason, controlplanev1.WaitingForInfrastructureReason, infrav1.WaitingForDependenciesReason, infrav1.WaitingForRolloutReason,
		infrav1.WorkspaceNotReconciledReason:
		return true
	}
	return false
}

// WaitTimeout is the timeout of a wait for another object; nil if the condition is not such a wait. follows is true if that is an object of CAPT, which
// has timeouts of its own.
func (o *Observed) WaitTimeout(p *Plan, condition *engine.Condition, follows bool) *Timeout {
	if condition == nil || follows || o.Paused != "" || !waits(condition.Reason) {
		return nil
	}
	return NewTimeout("spec.timeouts.waitSeconds", infrav1.WaitTimeoutReason, p.Owner.Timeouts.WaitSeconds, defaultWaitSeconds, ptr.To(o.persists(condition.Reason)))
}

// observeClocks measures the deletion, and for how long the last reconcile reported its reason.
func (r *Reconciler) observeClocks(owner Owner, o *Observed) {
	o.Running.Deletion = r.Elapsed(owner, o.Now, "deletion", infrav1.DeletionTimeoutReason, owner.GetDeletionTimestamp())
	late := meta.FindStatusCondition(owner.GetConditions(), infrav1.DeletionTimedOutCondition)
	if late != nil && late.Status == metav1.ConditionTrue && late.ObservedGeneration == owner.GetGeneration() && late.LastTransitionTime.After(owner.retried(o.Now)) {
		o.Running.Deletion = ptr.To(longestTimeout) // The manager may have been restarted.
	}
	reason, persists, known := r.State.Persists(client.ObjectKeyFromObject(owner), owner.retried(o.Now))
	o.Running.Reason, o.Running.Persists = reason, persists
	if known {
		return
	}
	ready := meta.FindStatusCondition(owner.GetConditions(), infrav1.ReadyCondition)
	if ready != nil && owner.reportedDuration(ready.Reason, owner.retried(o.Now)) > 0 {
		o.Running.Reason, o.Running.Persists = ready.Reason, longestTimeout // The manager was restarted.
	}
}

// retried is when the user last requested a retry, which starts again what is measured; zero without one.
func (o Owner) retried(now time.Time) time.Time {
	if NewRetry(o) != "" {
		return now
	}
	return ptr.Deref(o.GetLifecycle().Recovery.RetryTime, metav1.Time{}).Time
}

// AwaitTimeout requests the reconcile for the timeout of a condition that is not True, or for when it makes the object Failed, and measures for how long it
// has its reason. condition is nil if all are True.
func (r *Reconciler) AwaitTimeout(p *Plan, o *Observed, timeout *Timeout, condition *engine.Condition, initialized bool) {
	reason := ""
	if condition != nil {
		reason = condition.Reason
	}
	if reason != infrav1.WaitTimeoutReason { // The wait goes on.
		r.State.Measure(client.ObjectKeyFromObject(p.Owner), p.Owner.retried(o.Now), reason, o.persists(reason))
	}
	left, _ := o.UntilFailed(condition, initialized)
	o.RequeueWithin(left)
	o.AwaitEnd(timeout)
}

// AwaitEnd requests the reconcile for the end of a timeout; nil if there is none.
func (o *Observed) AwaitEnd(timeout *Timeout) {
	if timeout != nil && o.Paused == "" {
		o.RequeueWithin(timeout.Limit - timeout.Running)
	}
}

func (o *Observed) deletionTimeout(p *Plan) *Timeout {
	return NewTimeout("spec.timeouts.deletionSeconds", infrav1.DeletionTimeoutReason, p.Owner.Timeouts.DeletionSeconds, defaultDeletionSeconds, o.Running.Deletion)
}

// DeletionTimedOut is the condition of that name. deleting is what the deletion waits for.
func (o *Observed) DeletionTimedOut(p *Plan, deleting engine.Condition) engine.Condition {
	t := o.deletionTimeout(p)
	if !t.Passed() || o.Paused != "" {
		return engine.False(infrav1.DeletionTimedOutCondition, infrav1.DeletionInTimeReason, "")
	}
	return engine.True(infrav1.DeletionTimedOutCondition, t.Reason, fmt.Sprintf("the deletion takes longer than %s (%s), and continues: %s", duration.HumanDuration(t.Limit), t.Field, deleting.Message))
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
	o.AwaitEnd(o.deletionTimeout(p))
	if o.Paused == "" && !p.Owner.deleting() {
		o.RequeueWithin(progress.UntilNext(p.Owner.GetLifecycle().Progress, o.Now))
	}
	if o.requeueAfter == 0 {
		return nil
	}
	return engine.Wait("a timeout, a token or a template", o.requeueAfter)
}
