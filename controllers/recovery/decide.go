// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package recovery decides how CAPT recovers a control plane from failures of Terraform: when to try which action, and when to stop. It is
// pure; docs/recovery.md describes it for users.
//
// Attempts of CAPT are separate from the retries of provider-terraform, which never end. Everything that a decision depends on is in the
// spec and in status.recovery, so a restart of the manager changes nothing.
package recovery

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Failure is what recovery is about: the error of the control plane's WorkspaceTemplateApply or, if that has none, of a Fargate profile's.
type Failure struct {
	// Class of the error; empty while Terraform does not fail.
	Class failure.Class
	// Workspace is the UID of the Workspace with the error.
	Workspace types.UID
	// Profile is the Fargate profile with the error; empty for the control plane.
	Profile string
	// Retained is true if the WorkspaceTemplateApply has deletionPolicy Retain: deleting it would not destroy its resources.
	Retained bool
	// Inputs is what the failed run used, as <revision of the Workspace>/<anything else>; empty if it is not known.
	Inputs string
	// CreateInterrupted is true if the provider ended during the first apply. CreateNotRecoverable is why it must not continue; empty if it may.
	CreateInterrupted    bool
	CreateNotRecoverable string
	// Check is a health check that fails since Since although Class is empty, and that spec.recovery.onUnhealthy names; empty if none does.
	Check string
	Since time.Time
}

// Input is what a decision depends on.
type Input struct {
	Strategy *infrav1.RecoveryStrategy
	Status   infrav1.RecoveryStatus
	Failure  Failure
	// Retry is true if the user has just requested a retry.
	Retry bool
	// Ready is true if the control plane is Ready; ReadySince is since when, as status reports it.
	Ready      bool
	ReadySince time.Time
	// History is needed for RecreateWorkspace only.
	History *History
	// Seed identifies the control plane.
	Seed string
	Now  time.Time
}

// Kind is the kind of a decision.
type Kind string

const (
	// Nothing to recover from, or recovery is off.
	Nothing Kind = ""
	// Wait until At, when the next attempt starts.
	Wait Kind = "Wait"
	// Run an action now.
	Run Kind = "Run"
	// Running: an action runs, until At at the latest.
	Running Kind = "Running"
	// Exhausted: all attempts have failed.
	Exhausted Kind = "Exhausted"
	// Blocked: no action can help. Message is what the user must do.
	Blocked Kind = "Blocked"
)

// Outcomes of actions.
const (
	OutcomeSucceeded = "Succeeded"
	OutcomeTimedOut  = "TimedOut"
)

// Decision is the result of Decide.
type Decision struct {
	Kind Kind
	// Action that runs, or is next.
	Action infrav1.RecoveryAction
	// Attempt is the number of Action, counted from 1, of Limit.
	Attempt, Limit int32
	// Profile is the Fargate profile that Action is for; empty for the control plane. Check is the health check that it is for; empty for an error.
	Profile, Check string
	// Request identifies this attempt. It is the same until the attempt is recorded in status.
	Request string
	// At is when the decision changes without an event; zero if it does not.
	At time.Time
	// Message is for users.
	Message string
	// Ended is the outcome of the action that this decision found to have ended; empty if none has.
	Ended string
	// Next is status.recovery once the decision is carried out.
	Next infrav1.RecoveryStatus
}

// Decide is pure. Each attempt takes two reconciles: the first one records when it starts, and the second one starts it. So a repeated decision
// has the same result, whichever write of the first one was lost.
func Decide(in Input) Decision {
	d := Decision{Next: *in.Status.DeepCopy(), Limit: maxRetries(in.Strategy), Profile: in.Failure.Profile, Check: in.Failure.Check}
	restarted := d.restart(in)
	switch {
	case d.Limit == 0:
		d.Next = infrav1.RecoveryStatus{Retry: in.Status.Retry, RetryTime: in.Status.RetryTime}
	case in.Failure.Class == "" && !d.mayHeal(in):
		d.settle(in)
	case d.isRunning(in):
	case in.Failure.Class == "":
		d.endAction(OutcomeTimedOut)
		d.Next.FailureClass, d.Action = "", infrav1.RecoveryAction{Type: infrav1.RecoveryReapply}
		d.schedule(in, false)
	default:
		d.endAction(OutcomeTimedOut)
		d.plan(in, restarted)
	}
	return d
}

// restart starts the attempts again if the user requested it, or changed what the failed run used. It reports whether the provider should run now:
// after a change of the Workspace it has done so, and failed again. Another class of errors has another wait, but the attempts count on: errors that
// alternate must not be retried without end.
func (d *Decision) restart(in Input) (now bool) {
	f, known := in.Failure, d.Next.Inputs
	changed := known != "" && f.Inputs != "" && known != f.Inputs
	if in.Retry || changed {
		d.Next.Attempts, d.Next.NextAttemptTime = nil, nil
		d.endAction("Restarted")
	}
	if f.Class != "" {
		if d.Next.FailureClass != string(f.Class) {
			d.Next.NextAttemptTime = nil
		}
		d.Next.FailureClass = string(f.Class)
		if f.Inputs != "" {
			d.Next.Inputs = f.Inputs
		}
	}
	return in.Retry || changed && revisionOf(known) == revisionOf(f.Inputs)
}

func revisionOf(inputs string) string {
	revision, _, _ := strings.Cut(inputs, "/")
	return revision
}

// mayHeal reports whether an action is left for a failing health check: one per failure, and not more than for errors.
func (d *Decision) mayHeal(in Input) bool {
	last := d.Next.LastActionTime
	return in.Failure.Check != "" && ptr.Deref(d.Next.Attempts, 0) < d.Limit && (last == nil || last.Time.Before(in.Failure.Since))
}

// settle handles a control plane without a failure.
func (d *Decision) settle(in Input) {
	d.Next.NextAttemptTime = nil
	switch {
	case in.Ready && in.Failure.Check == "":
		d.endAction(OutcomeSucceeded)
	case d.isRunning(in):
		return // The metric of its outcome has the class of the error.
	default:
		d.endAction(OutcomeTimedOut)
	}
	d.Next.FailureClass = ""
	if !in.Ready || in.ReadySince.IsZero() {
		return
	}
	since := in.ReadySince
	if last := d.Next.LastActionTime; last != nil && last.After(since) {
		since = last.Time // A health check can fail while the control plane is Ready.
	}
	// Until then, a failure with the same inputs continues the attempts.
	if reset := since.Add(readyPeriod); d.Next.Attempts != nil && in.Now.Before(reset) {
		d.At = reset
	} else {
		d.Next.Attempts, d.Next.Inputs = nil, ""
	}
}

func inProgress(s *infrav1.RecoveryStatus) bool {
	return s.LastAction != "" && s.LastOutcome == ""
}

// isRunning reports whether an action runs that has not timed out. The error of the Workspace stays until the provider has finished, so only
// time shows that an action did not help.
func (d *Decision) isRunning(in Input) bool {
	s := &d.Next
	runsAgain := s.LastAction == infrav1.RecoveryReapply || s.LastAction == infrav1.RecoveryRequeue
	if !inProgress(s) || s.LastActionTime == nil || runsAgain && in.Failure.CreateInterrupted { // The provider was killed in that run, and waits.
		return false
	}
	action := infrav1.RecoveryAction{Type: s.LastAction}
	if in.Strategy != nil {
		if i := slices.IndexFunc(in.Strategy.Actions, func(of infrav1.RecoveryAction) bool { return of.Type == s.LastAction }); i >= 0 {
			action = in.Strategy.Actions[i]
		}
	}
	end := s.LastActionTime.Add(timeoutOf(action))
	if !in.Now.Before(end) {
		return false
	}
	d.Kind, d.Action, d.At, d.Attempt = Running, action, end, ptr.Deref(s.Attempts, 0)
	d.Message = fmt.Sprintf("%s runs until %s at the latest", d.attempt(), clock(end))
	return true
}

func (d *Decision) endAction(outcome string) {
	if inProgress(&d.Next) {
		d.Ended, d.Next.LastOutcome = outcome, outcome
	}
}

// plan decides about the next attempt.
func (d *Decision) plan(in Input, restarted bool) {
	done, s := ptr.Deref(d.Next.Attempts, 0), &d.Next
	usable, refused := actionsFor(in)
	if len(usable) == 0 && !in.Failure.CreateInterrupted && (restarted || s.NextAttemptTime != nil && done == 0) {
		// What the failed run used has changed, or the user says so: the provider runs once.
		usable, restarted = []infrav1.RecoveryAction{{Type: infrav1.RecoveryReapply}}, true
	}
	switch {
	case len(usable) == 0:
		s.NextAttemptTime = nil
		d.Kind, d.Message = Blocked, refused
		return
	case done >= d.Limit:
		s.NextAttemptTime = nil
		d.Kind = Exhausted
		d.Message = fmt.Sprintf("all %d recovery attempts failed, the last one with %s. Correct the cause, or change the annotation %s to start again", done, s.LastAction, naming.RetryAnnotation)
		return
	}
	d.Action = usable[int(done)%len(usable)]
	d.schedule(in, restarted)
}

// schedule waits for the time of the next attempt with Action, and then starts it.
func (d *Decision) schedule(in Input, restarted bool) {
	s := &d.Next
	d.Attempt = ptr.Deref(s.Attempts, 0) + 1
	if s.NextAttemptTime == nil || s.NextAttemptTime.Sub(in.Now) > maxWait(in.Strategy, in.Seed) {
		s.NextAttemptTime = ptr.To(metav1.NewTime(in.Now.Add(d.wait(in, restarted)).Truncate(time.Second)))
		d.waitUntil(s.NextAttemptTime.Time, in.Now)
		return
	}
	if in.Now.Before(s.NextAttemptTime.Time) {
		d.waitUntil(s.NextAttemptTime.Time, in.Now)
		return
	}
	d.Request = runs.Request(string(d.Action.Type), in.Failure.Workspace, s.NextAttemptTime.Time)
	d.Kind, d.Message = Run, fmt.Sprintf("%s runs until %s at the latest", d.attempt(), clock(in.Now.Add(timeoutOf(d.Action))))
	d.At = in.Now.Add(timeoutOf(d.Action))
	s.Attempts, s.LastAction, s.LastActionTime, s.LastOutcome, s.NextAttemptTime = ptr.To(d.Attempt), d.Action.Type, ptr.To(metav1.NewTime(in.Now)), "", nil
}

// wait is how long the next attempt waits. The first one after a restart does not.
func (d *Decision) wait(in Input, restarted bool) time.Duration {
	switch wait := backoff(in.Strategy, in.Seed, d.Attempt-1); {
	case restarted:
		return 0
	case d.Attempt == 1 && policyOf(in.Failure.Class).providerFirst && (in.Strategy == nil || in.Strategy.Backoff.InitialSeconds == 0):
		return max(wait, providerRetries)
	default:
		return wait
	}
}

// waitUntil waits for the next attempt. The request for the next reconcile is at least one second after this one.
func (d *Decision) waitUntil(at, now time.Time) {
	d.Kind, d.At = Wait, at
	if earliest := now.Add(time.Second); at.Before(earliest) {
		d.At = earliest
	}
	d.Message = fmt.Sprintf("%s starts at %s", d.attempt(), clock(at))
	if d.Next.LastOutcome == OutcomeTimedOut && d.Attempt > 1 {
		d.Message += fmt.Sprintf("; %s did not help", d.Next.LastAction)
	}
}

// Summary is what follows the message of the problem in condition Ready; empty if the decision adds nothing to it.
func (d *Decision) Summary() string {
	switch d.Kind {
	case Wait, Run, Running, Exhausted:
		return " (" + d.Message + ")"
	case Nothing, Blocked:
	}
	return ""
}

// attempt describes the attempt, for messages.
func (d *Decision) attempt() string {
	text := fmt.Sprintf("recovery attempt %d of %d (%s", d.Attempt, d.Limit, d.Action.Type)
	switch {
	case d.Profile != "":
		text += " of Fargate profile " + d.Profile
	case d.Check != "":
		text += " because health check " + d.Check + " fails"
	}
	return text + ")"
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Defaults of spec.recovery.
const (
	defaultMaxRetries     = 5
	defaultInitialSeconds = 30
	defaultMaxSeconds     = 1800
	defaultFactor         = 2
)

// providerRetries is how long the first attempt waits at least after an error that the provider retries: until then it has retried about
// seven times, and its own backoff has reached one minute.
const providerRetries = 2 * time.Minute

// readyPeriod is how long a control plane must be Ready, without an action, before its attempts are reset.
const readyPeriod = time.Hour

// policy is what CAPT does by default about a class of errors.
type policy struct {
	// actions in their order. Without actions, only a change of the inputs or a manual retry makes CAPT ask the provider to run again.
	actions []infrav1.RecoveryActionType
	// providerFirst is true if the retries of the provider are likely to help.
	providerFirst bool
	// advice is what the user must do when there are no actions.
	advice string
}

func policyOf(class failure.Class) policy {
	reapply := []infrav1.RecoveryActionType{infrav1.RecoveryReapply}
	switch class {
	case failure.ClassAuth:
		return policy{advice: "Correct the credentials of the ProviderConfig, or their permissions"}
	case failure.ClassQuota:
		return policy{advice: "Request an increase of the AWS quota, or delete resources that are not needed"}
	case failure.ClassConfig:
		return policy{advice: "Correct what the error names: the WorkspaceTemplate, a variable, the ProviderConfig, or what exists in AWS"}
	case failure.ClassInterrupted:
		return policy{actions: []infrav1.RecoveryActionType{infrav1.RecoveryClearInterruptedCreate, infrav1.RecoveryReapply}}
	case failure.ClassThrottle, failure.ClassLock, failure.ClassTimeout, failure.ClassNetwork, failure.ClassProviderPod, failure.ClassUnknown:
	}
	return policy{actions: reapply, providerFirst: true}
}

func maxRetries(strategy *infrav1.RecoveryStrategy) int32 {
	if strategy == nil {
		return defaultMaxRetries
	}
	return ptr.Deref(strategy.MaxRetries, defaultMaxRetries)
}

// backoff is the wait before an attempt, which are counted from 0. The jitter is a function of the object and the attempt, so that equal
// control planes do not retry at the same time, and one decision has one result.
func backoff(strategy *infrav1.RecoveryStrategy, seed string, attempt int32) time.Duration {
	var b infrav1.Backoff
	if strategy != nil {
		b = strategy.Backoff
	}
	limit := float64(cmp.Or(b.MaxSeconds, defaultMaxSeconds))
	wait := float64(cmp.Or(b.InitialSeconds, defaultInitialSeconds)) * math.Pow(float64(cmp.Or(b.Factor, defaultFactor)), float64(attempt))
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%d/%s", attempt, seed) // It never fails.
	jitter := 0.9 + 0.2*float64(hash.Sum32())/math.MaxUint32
	return time.Duration(min(wait, limit) * jitter * float64(time.Second))
}

// maxWait is more than any wait between attempts: a later time in status was computed with another strategy or a wrong clock.
func maxWait(strategy *infrav1.RecoveryStrategy, seed string) time.Duration {
	return max(providerRetries, backoff(strategy, seed, math.MaxInt8)) * 5 / 4
}

// timeoutOf is how long an action may take.
func timeoutOf(action infrav1.RecoveryAction) time.Duration {
	if action.TimeoutSeconds > 0 {
		return time.Duration(action.TimeoutSeconds) * time.Second
	}
	switch action.Type {
	case infrav1.RecoveryRequeue:
		return time.Minute
	case infrav1.RecoveryReapply:
		return 5 * time.Minute
	case infrav1.RecoveryClearInterruptedCreate, infrav1.RecoveryRecreateFargateProfile, infrav1.RecoveryRecreateWorkspace:
	}
	return 30 * time.Minute
}

// actionsFor returns the actions that can help with a failure, and why others cannot, which is empty for those that have nothing to do with it.
func actionsFor(in Input) (usable []infrav1.RecoveryAction, refused string) {
	byDefault := policyOf(in.Failure.Class)
	if len(byDefault.actions) == 0 {
		return nil, byDefault.advice
	}
	var list []infrav1.RecoveryAction
	if in.Strategy != nil {
		list = in.Strategy.Actions
	}
	if len(list) == 0 {
		for _, of := range byDefault.actions {
			list = append(list, infrav1.RecoveryAction{Type: of})
		}
	}
	for _, action := range list {
		switch ok, why := applies(in, action); {
		case ok:
			usable = append(usable, action)
		case refused == "":
			refused = why
		}
	}
	return usable, cmp.Or(refused, "spec.recovery.actions has no action for this error. Correct its cause, or add an action")
}

// applies reports whether an action can help, and why not.
func applies(in Input, action infrav1.RecoveryAction) (ok bool, why string) {
	f := in.Failure
	switch action.Type {
	case infrav1.RecoveryRequeue, infrav1.RecoveryReapply:
		return !f.CreateInterrupted, "" // The provider would report the interrupted create again.
	case infrav1.RecoveryClearInterruptedCreate:
		if !f.CreateInterrupted {
			return false, ""
		}
		return f.CreateNotRecoverable == "", Refused(action.Type, f.CreateNotRecoverable)
	case infrav1.RecoveryRecreateFargateProfile:
		profile, limited := action.Parameters[infrav1.ProfileParameter]
		if f.Profile == "" || limited && profile != f.Profile {
			return false, ""
		}
		return !f.Retained, Refused(action.Type, "spec.deletionPolicy of the WorkspaceTemplateApply of Fargate profile "+f.Profile+" is Retain")
	case infrav1.RecoveryRecreateWorkspace:
		if f.Profile != "" {
			return false, ""
		}
		refused := RefuseRecreation(action, in.History)
		return refused == "", Refused(action.Type, refused)
	}
	return false, ""
}

// Refused is the message that an action is refused, and why.
func Refused(action infrav1.RecoveryActionType, why string) string {
	return fmt.Sprintf("%s is refused: %s. Condition Ready has the error, and what to do about it", action, why)
}

// History is what shows whether a control plane was ever initialized.
type History struct {
	ControlPlane *controlplanev1.CAPTControlPlane
	// Cluster and Apply are nil if they do not exist.
	Cluster *clusterv1.Cluster
	Apply   *infrav1.WorkspaceTemplateApply
	// Origin is engine.Gate.Origin.
	Origin func(*infrav1.WorkspaceTemplateApply) string
	// CAPTCluster is nil if the Cluster has another infrastructure, or its CAPTCluster does not exist.
	CAPTCluster *infrav1.CAPTCluster
	// Workspace is what shows that the Workspace does not fail any more, or is not the recorded one; empty if nothing does.
	Workspace string
	// Secret is the name of a Secret that exists only after Terraform created a cluster: a kubeconfig, or a connection Secret with values;
	// empty if there is none.
	Secret string
}

// RefuseRecreation returns why RecreateWorkspace must not run; empty if it may. It is the only place that decides this. RecreateWorkspace
// destroys the control plane, so it needs confirmation in the spec, and it is impossible for a control plane that was ever initialized.
// Status alone does not count, because it can be lost in a restore or a move: any other evidence refuses, and so does an unknown history.
func RefuseRecreation(action infrav1.RecoveryAction, h *History) string {
	switch {
	case action.Parameters[infrav1.AllowDestroyParameter] != "true":
		return `it would destroy the control plane, and its parameter allowDestroy is not "true"`
	case h == nil || h.ControlPlane == nil || h.Cluster == nil || h.Apply == nil:
		return "the history of the control plane is unknown"
	case h.Apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain:
		return "spec.deletionPolicy of WorkspaceTemplateApply " + h.Apply.Name + " is Retain"
	case h.protected() != "":
		return "spec.deletionProtection of " + h.protected() + " is Enabled. To allow the action, set it to Disabled"
	case h.Secret != "":
		return "the control plane may have been initialized: Secret " + h.Secret + " exists"
	}
	for _, evidence := range []string{controlPlaneEvidence(h.ControlPlane), clusterEvidence(h.Cluster), h.applyEvidence(), h.Workspace} {
		if evidence != "" {
			return "the control plane may have been initialized: " + evidence
		}
	}
	return ""
}

// protected is the object that protects the control plane from deletion; empty if there is none.
func (h *History) protected() string {
	switch {
	case h.ControlPlane.IsDeletionProtected():
		return "CAPTControlPlane " + h.ControlPlane.Name
	case h.CAPTCluster != nil && h.CAPTCluster.IsDeletionProtected():
		return "CAPTCluster " + h.CAPTCluster.Name
	}
	return ""
}

func controlPlaneEvidence(c *controlplanev1.CAPTControlPlane) string {
	s := &c.Status
	switch summary := s.WorkspaceTemplateApply; {
	case c.Spec.ControlPlaneEndpoint != clusterv1.APIEndpoint{}:
		return "spec.controlPlaneEndpoint is set"
	case ptr.Deref(s.Initialization.ControlPlaneInitialized, false):
		return "status.initialization.controlPlaneInitialized is true"
	case s.Version != "", len(s.Versions) > 0, s.Endpoint != "":
		return "status has a version or an endpoint"
	case summary != nil && (summary.LastAppliedRevision != "" || summary.LastAppliedTime != nil || len(summary.Outputs) > 0):
		return "status.workspaceTemplateApply shows that Terraform created it"
	case s.ObservedGeneration == 0:
		return "the CAPTControlPlane has no status, so its history is unknown"
	}
	return ""
}

func clusterEvidence(c *clusterv1.Cluster) string {
	switch {
	case c.Spec.ControlPlaneEndpoint != clusterv1.APIEndpoint{}:
		return "spec.controlPlaneEndpoint of the Cluster is set"
	case ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false):
		return "status.initialization.controlPlaneInitialized of the Cluster is true"
	case c.Status.ControlPlane != nil && len(c.Status.ControlPlane.Versions) > 0:
		return "status.controlPlane of the Cluster has a version"
	}
	return ""
}

// applyEvidence also refuses WorkspaceTemplateApplies that were moved or restored, have another origin, or are older than the control plane: their
// cloud resources may be older than what the objects record.
func (h *History) applyEvidence() string {
	a := h.Apply
	s, name, origin := &a.Status, "WorkspaceTemplateApply "+a.Name, h.Origin(a)
	switch {
	case a.Spec.TerraformState.Name != "":
		return name + " has a Terraform state that existed before it"
	case s.Applied == metav1.ConditionTrue, s.LastAppliedRevision != "", s.LastAppliedTime != nil:
		return name + " was applied"
	case len(s.Outputs) > 0:
		return name + " has outputs"
	case s.WorkspaceRef == nil:
		return name + " has no status, so its history is unknown"
	case a.Annotations[naming.ExternalNameUIDAnnotation] != string(a.UID):
		return name + " was moved, restored or adopted"
	case origin != "":
		return name + " was created by " + origin
	case a.CreationTimestamp.Before(&h.ControlPlane.CreationTimestamp):
		return name + " is older than the control plane"
	}
	return ""
}
