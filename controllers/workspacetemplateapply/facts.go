// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/managedfields"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

// Facts are what a reconcile observed, and the results of its writes.
type Facts struct {
	Now time.Time
	// apply is the object.
	apply *infrav1.WorkspaceTemplateApply
	// Paused is why the object is paused; empty when it is not.
	Paused string
	// PausedForMove is true when the object is paused like clusterctl move does: by its Cluster, or by itself without a Cluster.
	PausedForMove bool
	// MoveBlock is the value of the annotation that blocks clusterctl move: what the move waits for.
	MoveBlock string
	// MovePolicyMissing is true when the policy that protects moved Workspaces from the provider is not installed; observed only during a
	// move.
	MovePolicyMissing bool
	// Retained is true when the Workspace is kept after the deletion of the object.
	Retained bool
	// DeletionHeld is why the controller of the object forbids to destroy its cloud resources; observed only during deletion.
	DeletionHeld *desired.Blocked
	// RetainConflict is why the object must not be deleted although it is Retained; observed only during deletion.
	RetainConflict string
	// TemplateKey is the WorkspaceTemplate of spec.
	TemplateKey types.NamespacedName
	// Template is nil when it does not exist or does not allow the namespace; which of the two is not disclosed.
	Template *infrav1.WorkspaceTemplate
	// CachedTemplate is the template as it was read, whichever revision Template has.
	CachedTemplate *infrav1.WorkspaceTemplate
	// Revision is the revision of Template that the object should run, and CurrentRevision the one of the content that the template has now.
	// Template has the content of Revision. They differ in staged rollouts. Revision is empty before one is assigned.
	Revision, CurrentRevision string
	// Current is the template with the content that it has now, if its rollouts are staged.
	Current *infrav1.WorkspaceTemplate
	// Policy of the rollouts of the template.
	Policy infrav1.WorkspaceTemplateRollout
	// Change is the change of spec that the policy of the template, or a move to another one, holds.
	Change rollout.Change
	// Preview has the facts about the preview of a proof, of Change, of CurrentRevision, or else of the content that Terraform has applied.
	Preview previews.Facts
	// PlanCheckAfter is when to plan that content; zero if an event shows whether that is needed.
	PlanCheckAfter time.Duration
	// Requests are the PlanRequests about the object, and Request is the one that is planned for now; nil without one. Requested has the facts about its preview.
	Requests  []infrav1.PlanRequest
	Request   *infrav1.PlanRequest
	Requested previews.Facts
	// RevisionMissing is true when Revision is not stored. MovedAsWritten is also true when the object was created by clusterctl move or from a backup,
	// and its spec has not changed since: then the Workspace counts as written with Revision.
	RevisionMissing, MovedAsWritten bool
	// Name is the name of the Workspace: spec.workspaceName, or the derived name.
	Name string
	// Rendered is nil when the template is missing, or has RenderErrors.
	Rendered     *render.Rendered
	RenderErrors field.ErrorList
	// GateDecision is about the object, and Block why the object must not be written; nil if it may be.
	GateDecision engine.GateDecision
	Block        *desired.Blocked
	// LookupError is why a template or dependency could not be read. Nothing is written then, and the reconcile is retried.
	LookupError error
	// Missing lists the dependencies that are not ready.
	Missing []infrav1.MissingDependency
	// KindMissing is true when the CRD of KindScope is not installed, or, with KindNotServed, does not serve the version that CAPT uses.
	KindMissing, KindNotServed bool
	KindScope                  terraform.Scope
	// Live is nil when the Workspace does not exist.
	Live      *workspace.Live
	Ownership render.Ownership
	// Restored is true when the object came from a backup or a move, and has not been recorded as the owner of its Workspace since.
	Restored bool
	// OwnerMissing describes an owner that does not exist, or cannot be read, while nothing is recorded for the object: the garbage
	// collector may delete it.
	OwnerMissing string
	// TakesState is true while the object is to take the state of spec.terraformState over, and StateUser describes another object that has this state.
	TakesState bool
	StateUser  string
	// StateRecord is the value of naming.TerraformStateAnnotation; empty if the state has the name that CAPT derives, or spec has it.
	StateRecord string
	// ProvesNew is true while the object waits for a proof only because the manager lets each new Workspace wait for one.
	ProvesNew bool
	// ChangesScope is true while the state is to move to a Workspace of the scope of the template.
	ChangesScope bool
	// OlderClaim names another WorkspaceTemplateApply with an older claim to the same Workspace.
	OlderClaim string
	// Failure is the error of the Workspace.
	Failure failure.Report
	// LookRequest identifies the request for a run that writes the connection Secret again, or that reports a state that was taken over; empty if none is needed.
	LookRequest string
	// Inputs are what the failed run used; the zero value without a failure.
	Inputs workspace.RunInputs
	desired.Findings
	// Dependents is why the Workspace is not destroyed yet: others depend on it; observed only during deletion.
	Dependents *desired.Blocked
	// ConnectionSecret is the metadata of the connection Secret if the Workspace waits for its deletion.
	ConnectionSecret *metav1.PartialObjectMetadata
	// UnreconciledFor is for how long the provider has not reported on a new Workspace, a change or a deletion.
	UnreconciledFor time.Duration
	// Queued is the message while another member of the serialized group is active; empty when the object does not wait for it.
	Queued string
	// Rejected is why the API server rejected the rendered Workspace; empty when it did not. It is sent again at RetryAt.
	Rejected string
	RetryAt  time.Time
	// WriteError is why the Workspace could not be written in this reconcile.
	WriteError error
	// WrittenGeneration and LastUpdate are the fields of the same name in status.
	WrittenGeneration int64
	LastUpdate        *infrav1.WorkspaceUpdate

	compared comparison
}

// hasRevision reports whether there is a content to render.
func (f *Facts) hasRevision() bool {
	return f.Template != nil && f.Revision != "" && !f.RevisionMissing
}

// Differs reports whether the Workspace is not as rendered.
func (f *Facts) Differs() bool {
	if f.Live == nil || f.Rendered == nil {
		return false
	}
	if c := &f.compared; c.live != f.Live || c.rendered != f.Rendered {
		*c = comparison{f.Live, f.Rendered, f.Rendered.Differs(f.Live.Unstructured)}
	}
	return f.compared.differs
}

// comparison is the result of the last comparison of a Workspace with what is rendered, neither of which changes.
type comparison struct {
	live     *workspace.Live
	rendered *render.Rendered
	differs  bool
}

// outdated reports whether the Workspace is owned and must be updated.
func (f *Facts) outdated() bool { return f.owned() && !f.Live.Deleting() && f.Differs() }

// lostManagedFields reports whether the managedFields of the Workspace no longer record what CAPT applied.
func (f *Facts) lostManagedFields(apply *infrav1.WorkspaceTemplateApply) bool {
	return f.owned() && !f.Live.Deleting() && f.Live.ClaimedBy(apply) && managedfields.Lost(f.Live, naming.WorkspaceTemplateApplyFieldManager)
}

// owned reports whether the Workspace exists and belongs to the object.
func (f *Facts) owned() bool {
	return f.Live != nil && f.Ownership == render.Owned && f.OwnerMissing == ""
}

func (f *Facts) inProgress() bool {
	return f.owned() && workspace.InProgress(f.Live, f.LastUpdate, f.Failure.Class)
}

// recoveryRequested reports whether a recovery action must be carried out on the Workspace.
func (f *Facts) recoveryRequested(apply *infrav1.WorkspaceTemplateApply) bool {
	request := apply.Annotations[naming.RecoveryAnnotation]
	if !f.owned() || !f.Live.RecoveryRequested(request) {
		return false
	}
	if f.Live.Deleting() { // The next attempt to destroy it starts at once, not after the backoff of the provider.
		return runs.IsRequested(request) && f.Live.DestroyFailed()
	}
	return !workspace.ClearsInterruptedCreate(request) || f.createInterrupted() && f.createNotRecoverable() == ""
}

// reconnects reports whether the provider must be asked to look at the Workspace again.
func (f *Facts) reconnects() bool {
	return f.LookRequest != "" && f.Live.GetAnnotations()[naming.ResumedAnnotation] != f.LookRequest
}

// createInterrupted reports whether the provider ended during the first apply.
func (f *Facts) createInterrupted() bool {
	return f.owned() && f.Failure.Reason == infrav1.CreateInterruptedReason
}

// createNotRecoverable returns why an interrupted create must not be continued; empty if it may.
func (f *Facts) createNotRecoverable() string {
	if f.Inputs.Hash == "" {
		return "the ProviderConfig, or a Secret that it or the Workspace refers to, cannot be read: see the log of the manager. CAPT retries"
	}
	return cmp.Or(f.Inputs.NotRemote, f.Live.CreateNotContinuable())
}

// written reports whether the Workspace is as spec requires. Without a template, the recorded generation decides.
func (f *Facts) written() bool {
	if f.Rendered == nil {
		return f.owned() && (f.WrittenGeneration == f.apply.Generation || f.MovedAsWritten)
	}
	return f.owned() && !f.Differs()
}

// observeProof returns what is to be previewed as a proof: what CAPT would write without Block. A plan of the same content is wanted as well: state, modules and
// cloud resources may have changed since the provider's last one.
func (f *Facts) observeProof() (wanted *render.Rendered) {
	p, o := &f.Preview, f.observationAsWritten()
	p.Revision, p.Proof = cmp.Or(f.Revision, f.CurrentRevision), f.GateDecision.Proof
	p.Assumed, p.Message = f.unprovable(o)
	if p.Ready = f.Paused == "" && f.LookupError == nil && o.UpToDate; p.Ready {
		wanted = f.Rendered
	}
	return wanted
}

// unprovable returns a result that needs no preview, and why; empty when a preview is needed.
func (f *Facts) unprovable(o workspace.Observation) (infrav1.PreviewResult, string) {
	conflict := firstConflict(f)
	switch {
	case conflict != nil:
		return infrav1.PreviewFailed, conflict.Message
	case len(f.RenderErrors) > 0:
		return infrav1.PreviewFailed, rendered(f).Message
	case f.Template != nil && !f.hasRevision() && f.LookupError == nil: // A rollout assigns no revision to a blocked object.
		return infrav1.PreviewUnavailable, rendered(f).Message
	case o.Failed && !o.Class.IsTransient():
		return infrav1.PreviewFailed, o.Message
	case o.Reason == infrav1.WorkspacePausedReason, o.Reason == infrav1.StateNotSavedReason:
		return infrav1.PreviewUnavailable, o.Message
	case o.UpToDate && !f.Live.ReportsGeneration():
		return infrav1.PreviewUnavailable, "previews require provider-terraform v1 or later"
	}
	return "", ""
}

// request is what would be sent to the API server; nil when nothing is rendered.
func (f *Facts) request() *writeRequest {
	if f.Rendered == nil {
		return nil
	}
	request := &writeRequest{Revision: f.Rendered.Revision, ReconcileAt: f.apply.Annotations[naming.ReconcileAnnotation]}
	if f.Live != nil {
		request.Workspace, request.Generation = f.Live.GetUID(), f.Live.GetGeneration()
	}
	return request
}

// setKindMissing records that the kind of the Workspace is not installed or not served.
func (f *Facts) setKindMissing(err error) {
	f.KindMissing, f.KindNotServed, f.KindScope = true, errors.Is(err, workspace.ErrKindNotServed), terraform.ScopeNamespaced
	if f.Template != nil {
		f.KindScope = f.Template.Spec.WorkspaceScope.OrDefault()
	}
}

// changeOf returns the change of spec that is held. Otherwise, an update comes from the rollout of the template, or repairs what another client changed.
func (f *Facts) changeOf(apply *infrav1.WorkspaceTemplateApply) (c rollout.Change) {
	// A Workspace that no longer exists may have left its state, so that a new one would apply the change.
	recreated := f.Live == nil && f.Rendered != nil && !f.KindMissing && apply.Status.WorkspaceRef != nil
	if !apply.DeletionTimestamp.IsZero() || !f.outdated() && !recreated || f.mustNotBeWritten() { // A conflict is reported first.
		return c
	}
	return rollout.ChangeOf(apply, f.Policy, f.Rendered.Revision)
}

// Observation of the owned Workspace; the zero value when there is none.
func (f *Facts) Observation() workspace.Observation { return f.observation(!f.written()) }

// observationAsWritten is the observation of the Workspace as it was written, although a change is held.
func (f *Facts) observationAsWritten() workspace.Observation { return f.observation(false) }

// observationForPreview is the observation of the Workspace that a preview is compared with: as it is, if a change is held, or if nothing shows what it should
// be.
func (f *Facts) observationForPreview() workspace.Observation {
	if f.Change.IsPending() || f.Rendered == nil {
		return f.observationAsWritten()
	}
	return f.Observation()
}

func (f *Facts) observation(differs bool) workspace.Observation {
	if !f.owned() {
		return workspace.Observation{}
	}
	published := terraform.PublishedOutputs()
	if f.Template != nil {
		published = append(published, f.Template.Spec.PublishOutputs...)
	}
	return workspace.Observe(f.Live, workspace.ObserveInput{
		UnreconciledFor: f.UnreconciledFor, Differs: differs, LastUpdate: f.LastUpdate, Published: published, Failure: f.Failure,
		AllActions: f.Rendered != nil && !f.Rendered.LimitsActions(), ConnectionSecret: f.ConnectionSecret, LastReason: conditions.GetReason(f.apply, infrav1.ReadyCondition),
	})
}

// canBePreviewed reports whether the Workspace is up to date, and may be changed. The state of the rollout does not concern a change of spec.
func (f *Facts) canBePreviewed() bool {
	running := f.Paused == "" && (f.Change.IsPending() || f.Policy.State != infrav1.RolloutPaused)
	return running && f.observationForPreview().UpToDate && !f.mustNotBeWritten() && len(f.Missing) == 0 && f.LookupError == nil
}

// refusedRevision returns the result for a revision that the Workspace cannot be written with, and why; empty if it can.
func (f *Facts) refusedRevision(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate, rendered *render.Rendered, errs field.ErrorList) (infrav1.PreviewResult, string) {
	if len(errs) > 0 {
		return infrav1.PreviewFailed, fmt.Sprintf("WorkspaceTemplate %s: %s", f.TemplateKey, errs.ToAggregate())
	}
	if scope := template.Spec.WorkspaceScope.OrDefault(); scope != f.Live.Scope() {
		return infrav1.PreviewFailed, fmt.Sprintf("Workspace %s has scope %s, and the revision has scope %s", f.Name, f.Live.Scope(), scope)
	}
	if want := rendered.ProviderConfig(); want != f.Live.ProviderConfig() && want != apply.Annotations[naming.AllowProviderConfigAnnotation] {
		return infrav1.PreviewFailed, fmt.Sprintf("Workspace %s uses ProviderConfig %s, and the revision has %s", f.Name, f.Live.ProviderConfig(), want)
	}
	return "", ""
}

// assumedPlan returns a result that needs no preview, and why; empty when a preview is needed.
func (f *Facts) assumedPlan() (infrav1.PreviewResult, string) {
	switch o := f.observationForPreview(); {
	case f.Live == nil:
		return infrav1.PreviewUnavailable, "Workspace " + f.Name + " does not exist"
	case o.Failed && !f.inProgress():
		return infrav1.PreviewChanges, "Terraform fails with the current content of the Workspace, so the plan is not known"
	case o.UpToDate && !f.Live.ReportsGeneration():
		return infrav1.PreviewUnavailable, "previews require provider-terraform v1 or later"
	}
	return "", ""
}

// firstConflict returns why the Workspace is not written although it can be rendered; nil when it may be.
func firstConflict(f *Facts) *desired.Blocked {
	return f.desired().Conflict()
}

// mustNotBeWritten reports whether the gate or a rule forbids to write the Workspace.
func (f *Facts) mustNotBeWritten() bool { return f.Block != nil || firstConflict(f) != nil }

func conflict(f *Facts) engine.Condition {
	if f.Block != nil {
		return engine.True(infrav1.WorkspaceConflictCondition, f.Block.Reason, f.Block.Message)
	}
	if found := firstConflict(f); found != nil {
		return engine.True(infrav1.WorkspaceConflictCondition, found.Reason, found.Message)
	}
	return engine.False(infrav1.WorkspaceConflictCondition, infrav1.WorkspaceOwnedReason, "")
}

// desired returns the Workspace as package desired describes it.
func (f *Facts) desired() *desired.Workspace {
	w := &desired.Workspace{
		Apply: f.apply, Name: f.Name, Template: f.Template, Revision: f.Revision, RevisionMissing: f.RevisionMissing, Rendered: f.Rendered, RenderErrors: f.RenderErrors,
		Ownership: f.Ownership, OlderClaim: f.OlderClaim, StateUser: f.StateUser, OwnerMissing: f.OwnerMissing, Findings: f.Findings,
	}
	if f.Live != nil {
		w.Live = f.Live.Unstructured
	}
	return w
}

// scope of the Workspace as the template has it.
func (f *Facts) scope() terraform.Scope {
	if f.Template == nil {
		return terraform.ScopeNamespaced
	}
	return f.Template.Spec.WorkspaceScope.OrDefault()
}

// previewedLive is the Workspace that a preview is compared with; nil if the preview has another scope.
func (f *Facts) previewedLive() *workspace.Live {
	if f.ChangesScope {
		return nil
	}
	return f.Live
}

func (f *Facts) previewedObject() *unstructured.Unstructured {
	if f.ChangesScope {
		return nil
	}
	return f.liveObject()
}

// scopeOfPreview is the scope of a preview of an object that has no Workspace; empty if there is none.
func (f *Facts) scopeOfPreview() terraform.Scope {
	if f.apply.Spec.TerraformState.Name == "" && !f.ProvesNew && !f.ChangesScope && f.apply.Status.Preview.Result == "" {
		return ""
	}
	return f.scope()
}

// liveObject is the Workspace that a preview is compared with; nil without one.
func (f *Facts) liveObject() *unstructured.Unstructured {
	if f.Live == nil {
		return nil
	}
	return f.Live.Unstructured
}

// lastSeen is what the controller last observed of a WorkspaceTemplateApply, see engine.StateOf. It is lost when the manager restarts; at worst, an
// event or a request is repeated.
type lastSeen struct {
	unreconciled firstSeen
	rejected     *rejection
	failure      explained
	applied      applied
}

// applied is a Workspace for which the last run of the provider was an apply.
type applied struct {
	// workspace has its UID and generation.
	workspace string
	since     time.Time
	// planned is true when the content was planned since, and would change nothing, or could not be planned.
	planned bool
}

// AppliedFor returns for how long the last run of the provider for a Workspace has been an apply, and whether its content was planned since; nil means that the
// last run was a plan.
func (s *lastSeen) AppliedFor(live *workspace.Live, now time.Time) (since time.Duration, planned bool) {
	key := ""
	if live != nil {
		key = fmt.Sprintf("%s/%d", live.GetUID(), live.GetGeneration())
	}
	if s.applied.workspace != key {
		s.applied = applied{workspace: key, since: now}
	}
	return now.Sub(s.applied.since), s.applied.planned
}

type firstSeen struct {
	unreported string
	at         time.Time
}

type explained struct {
	errorHash string
	failure.Report
}

// writeRequest identifies a write to the API server: a revision, for a generation of a Workspace. A user repeats it with captctl reconcile, which
// changes the annotation reconcile-at.
type writeRequest struct {
	Revision    string
	Workspace   types.UID
	Generation  int64
	ReconcileAt string
}

type rejection struct {
	request writeRequest
	why     string
	at      time.Time
}

// Failure returns the report of the error with a hash; an empty hash means no error. While the hash is unchanged, the cached report is returned:
// Secrets that the error quotes may have changed since, and their old values would not be redacted. explain returns a report, and whether to
// cache it.
func (s *lastSeen) Failure(errorHash string, explain func() (failure.Report, bool)) failure.Report {
	if errorHash == "" {
		s.failure = explained{}
		return failure.Report{}
	}
	if s.failure.errorHash == errorHash {
		return s.failure.Report
	}
	report, complete := explain()
	if complete {
		s.failure = explained{errorHash, report}
	}
	return report
}

// UnreconciledFor returns for how long this process has seen what the provider has not reported on (workspace.Live.Unreported); empty means that it has. reported
// is for how long status says so; it counts after a restart only.
func (s *lastSeen) UnreconciledFor(unreported string, now time.Time, reported time.Duration) time.Duration {
	switch {
	case unreported == "":
		s.unreconciled = firstSeen{at: now}
		return 0
	case s.unreconciled.unreported != unreported:
		if !s.unreconciled.at.IsZero() {
			reported = 0
		}
		s.unreconciled = firstSeen{unreported, now.Add(-reported)}
	}
	return now.Sub(s.unreconciled.at)
}

// Reject records that the API server rejected a request, and reports whether the same was not rejected before.
func (s *lastSeen) Reject(request writeRequest, why string, now time.Time) (first bool) {
	first = s.rejected == nil || s.rejected.request != request || s.rejected.why != why
	s.rejected = &rejection{request, why, now}
	return first
}

// Rejected returns why the API server rejected the same request, and when to send it again; empty when it did not, or when that time has
// come. A nil request means that there is none.
func (s *lastSeen) Rejected(request *writeRequest, now time.Time) (why string, next time.Time) {
	if s.rejected == nil {
		return "", time.Time{}
	}
	if request == nil || s.rejected.request != *request {
		s.rejected = nil
		return "", time.Time{}
	}
	if next = s.rejected.at.Add(previews.RejectedInterval); !now.Before(next) {
		return "", time.Time{} // The rejection stays recorded, so that a repetition is not logged again.
	}
	return s.rejected.why, next
}

// failedInputs has the objects that failed runs of Terraform used, so that a change of one causes a reconcile.
type failedInputs struct {
	lock sync.Mutex
	// of has the inputs of a WorkspaceTemplateApply, as from workspace.InputKey.
	of map[types.NamespacedName][]string
}

// Set replaces the inputs of a WorkspaceTemplateApply; none removes it.
func (i *failedInputs) Set(apply types.NamespacedName, inputs []string) {
	i.lock.Lock()
	defer i.lock.Unlock()
	if len(inputs) == 0 {
		delete(i.of, apply)
		return
	}
	if i.of == nil {
		i.of = map[types.NamespacedName][]string{}
	}
	i.of[apply] = inputs
}

// Users lists the WorkspaceTemplateApplies whose failed runs used an object.
func (i *failedInputs) Users(input string) (users []types.NamespacedName) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for apply, inputs := range i.of {
		if slices.Contains(inputs, input) {
			users = append(users, apply)
		}
	}
	return users
}
