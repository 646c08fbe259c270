// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

// status computes the status from facts and plan. Fields that depend on neither are kept.
func status(apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan) {
	s := &apply.Status
	s.ObservedGeneration = apply.Generation
	observation := f.Observation()
	engine.SetNegativePolarity(apply, engine.PausedCondition(p.Paused))
	if !apply.DeletionTimestamp.IsZero() {
		deleting := deleting(f, observation)
		engine.Set(apply, deleting, engine.False(infrav1.ReadyCondition, infrav1.DeletingReason, deleting.Message))
		return
	}
	named := apply.Spec.WorkspaceName != "" // Else, the gate would block the object.
	if named && f.owned() {
		s.WorkspaceName, s.WorkspaceRef = f.Name, render.ReferenceTo(f.Live.Unstructured)
		s.Outputs = observation.Outputs
	}
	if named && observation.Applied {
		s.Applied = metav1.ConditionTrue
	}
	s.MissingDependencies = f.Missing
	setAssignment(apply, f)
	setWritten(apply, f)
	if s.LastUpdate = f.LastUpdate; f.owned() {
		s.LastUpdate = f.Live.RefreshRecord(f.LastUpdate)
	}
	s.StartedTime = startedTime(s, f, observation)
	before := s.LastAppliedRevision
	setRevisions(s, f, p, observation)
	setPlanNeverEmpty(apply, f, p, before)
	setPreviews(s, f, p)
	recordRequested(apply, f, p)

	engine.Set(apply, rendered(f), dependenciesReady(f), synced(f, observation), ready(apply, f, p, observation))
	reportInputs(apply, f)
	engine.SetNegativePolarity(apply, conflict(f))
	engine.SetNegativePolarity(apply, engine.Decision(f.Block))
	engine.SetNegativePolarity(apply, engine.False(infrav1.DeletingCondition, infrav1.NotDeletingReason, ""))
}

// reportInputs reports what recovery depends on. A hash that could not be determined is kept.
func reportInputs(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	if f.Failure.Class == "" {
		apply.Status.FailureInputs = ""
	} else if f.Inputs.Hash != "" {
		apply.Status.FailureInputs = f.Inputs.Hash
	}
	switch {
	case !f.createInterrupted():
		engine.SetNegativePolarity(apply, engine.False(infrav1.CreateRecoverableCondition, infrav1.CreateNotInterruptedReason, ""))
	case f.createNotRecoverable() != "":
		engine.Set(apply, engine.False(infrav1.CreateRecoverableCondition, infrav1.CreateNotRecoverableReason, f.createNotRecoverable()))
	default:
		engine.Set(apply, engine.True(infrav1.CreateRecoverableCondition, infrav1.RemoteStateReason, ""))
	}
}

// situation is pure.
func situation(_ *infrav1.WorkspaceTemplateApply, f *Facts, p Plan) engine.Situation {
	s := engine.Situation{Paused: p.Paused, Held: f.Block != nil, Decision: engine.Decision(f.Block)}
	if f.Preview.Proof == "" {
		return s
	}
	s.Preview = ptr.Deref(p.Preview.Recorded(&f.Preview), infrav1.RevisionPreview{})
	if s.Preview.Result == "" {
		s.WaitsFor = f.proofWaitsFor()
	}
	return s
}

func (f *Facts) proofWaitsFor() string {
	o := f.observationAsWritten()
	switch {
	case f.Paused != "":
		return "the end of the pause: " + f.Paused
	case f.Rendered == nil || f.LookupError != nil:
		return "the content to write: " + rendered(f).Message
	case f.Live == nil:
		return "the Workspace, which does not exist"
	case !o.UpToDate:
		return "the Workspace to be up to date: " + o.Message
	case f.Preview.Queued:
		return "other previews"
	}
	return "the plan of provider-terraform in preview " + f.Preview.Wanted.Object.GetName()
}

// startedTime returns when the current operation of Terraform started; nil if the Workspace is not written yet. The repair of drift starts when
// it is first observed.
func startedTime(s *infrav1.WorkspaceTemplateApplyStatus, f *Facts, o workspace.Observation) *metav1.Time {
	known := ptr.Deref(s.StartedTime, metav1.Time{})
	switch {
	case !f.owned(), o.UpToDate, !f.written():
		return nil
	case known.IsZero() && s.LastAppliedRevision != "" && (f.Rendered == nil || terraform.IsRecordedAs(f.Rendered.Revision, s.LastAppliedRevision)):
		return ptr.To(metav1.NewTime(f.Now))
	}
	if at := f.Live.Started(known.Time); !at.IsZero() {
		return ptr.To(metav1.NewTime(at))
	}
	return nil
}

// setWritten records what the Workspace was written with. Without a policy that holds changes, the hash of the spec is not needed.
func setWritten(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	s, written := &apply.Status, f.written()
	if written && (f.Rendered != nil || f.RevisionMissing) {
		s.WrittenGeneration, s.WrittenTemplateRevision = apply.Generation, f.Revision
	}
	switch {
	case f.Template == nil:
	case !f.Policy.HoldsChanges():
		s.WrittenSpec = ""
	case written:
		s.WrittenSpec = rollout.SpecHash(apply)
	}
}

func setPreviews(s *infrav1.WorkspaceTemplateApplyStatus, f *Facts, p Plan) {
	result := ptr.Deref(p.Preview.Recorded(&f.Preview), infrav1.RevisionPreview{})
	s.Change = infrav1.HeldChange{}
	if f.Preview.IsCheck {
		return
	}
	if !f.Change.IsPending() {
		s.Preview = result
		return
	}
	if !f.written() {
		s.Change = infrav1.HeldChange{Revision: f.Change.Revision, Preview: p.ChangePreview}
		if f.Preview.Rejected != "" {
			s.Change.Preview = result
		}
	}
	if f.Revision != f.CurrentRevision { // It is about the content without the change.
		s.Preview = infrav1.RevisionPreview{}
	}
}

// namedResources is how many resources a message names.
const namedResources = 10

// setPlanNeverEmpty reports a content that Terraform changes at each run. before is the content that was applied last before this reconcile.
func setPlanNeverEmpty(apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan, before string) {
	result := p.Preview.Recorded(&f.Preview)
	switch {
	case f.Preview.IsCheck && result != nil && result.Result == infrav1.PreviewChanges:
		what := overview.ChangesText(result.Changes, namedResources)
		if what == "" {
			what = "change something (" + strings.Join((&overview.Plan{Preview: *result}).Lines(1), "") + ")"
		}
		engine.Set(apply, engine.True(infrav1.PlanNeverEmptyCondition, infrav1.PlanHasChangesReason, fmt.Sprintf(
			"Terraform would %s, although it has just applied this content: it does so at each poll of provider-terraform. Correct the module of WorkspaceTemplate %s so that its plan is empty after an apply, for example with lifecycle.ignore_changes",
			what, f.TemplateKey)))
	case apply.Status.LastAppliedRevision != before, f.observationAsWritten().UpToDate && f.Live.PlannedLast():
		engine.SetNegativePolarity(apply, engine.False(infrav1.PlanNeverEmptyCondition, infrav1.PlanEmptyReason, ""))
	}
}

func setRevisions(s *infrav1.WorkspaceTemplateApplyStatus, f *Facts, p Plan, o workspace.Observation) {
	switch {
	case p.HeldBy != "", f.RevisionMissing && f.written():
		setRevisionsAsWritten(s, f.observationAsWritten())
	case f.Rendered == nil:
	case f.Rejected != "":
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = f.Rendered.Revision, f.Rejected, string(failure.ClassConfig)
		s.FailedTemplateRevision = f.Revision
	case o.UpToDate:
		s.TemplateRevision, s.AppliedTemplate, s.FailedTemplateRevision = f.Revision, f.TemplateKey.String(), ""
		if !terraform.IsRecordedAs(f.Rendered.Revision, s.LastAppliedRevision) {
			s.LastAppliedTime = ptr.To(metav1.NewTime(f.Now))
		}
		s.LastAppliedRevision = f.Rendered.Revision
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = "", "", ""
	case o.Failed && f.written():
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = f.Rendered.Revision, o.Message, string(o.Class)
		s.FailedTemplateRevision = f.Revision
	}
}

// setRevisionsAsWritten records the result of Terraform for the content that the Workspace was written with, while a change is held.
func setRevisionsAsWritten(s *infrav1.WorkspaceTemplateApplyStatus, o workspace.Observation) {
	switch {
	case o.UpToDate:
		s.TemplateRevision, s.FailedTemplateRevision = s.WrittenTemplateRevision, ""
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = "", "", ""
	case o.Failed:
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = cmp.Or(s.LastFailedRevision, s.LastAppliedRevision), o.Message, string(o.Class)
		s.FailedTemplateRevision = s.WrittenTemplateRevision
	}
}

func rendered(f *Facts) engine.Condition {
	switch blocked := f.desired().NotRendered(); {
	case f.Template == nil && f.LookupError != nil:
		return engine.Unknown(infrav1.RenderedCondition, infrav1.LookupFailedReason,
			fmt.Sprintf("WorkspaceTemplate %s cannot be read: %s. CAPT retries", f.TemplateKey, failure.OneLine(f.LookupError.Error())))
	case f.Template != nil && !f.hasRevision() && f.LookupError != nil && blocked.Reason != infrav1.TemplateDeletingReason:
		return engine.Unknown(infrav1.RenderedCondition, infrav1.LookupFailedReason,
			fmt.Sprintf("revision %s of WorkspaceTemplate %s cannot be read: %s. CAPT retries", terraform.ShortRevision(f.Revision), f.TemplateKey, failure.OneLine(f.LookupError.Error())))
	case blocked != nil:
		return *engine.Blocking(infrav1.RenderedCondition, blocked)
	case f.Rejected != "":
		return engine.False(infrav1.RenderedCondition, infrav1.WorkspaceRejectedReason, fmt.Sprintf(
			"%s. Correct the WorkspaceTemplate, or what rejects or changes the Workspace. CAPT retries every %s, or at once after captctl reconcile", // A time would be a write each time.
			strings.TrimRight(f.Rejected, "."), duration.HumanDuration(previews.RejectedInterval)))
	}
	if f.Revision != f.CurrentRevision {
		return engine.True(infrav1.RenderedCondition, infrav1.RevisionHeldReason, fmt.Sprintf(
			"rendered from revision %s of WorkspaceTemplate %s: the rollout has not assigned its current revision %s to this object",
			terraform.ShortRevision(f.Revision), f.TemplateKey, terraform.ShortRevision(f.CurrentRevision)))
	}
	return engine.True(infrav1.RenderedCondition, infrav1.RenderedReason, "")
}

func dependenciesReady(f *Facts) engine.Condition {
	if f.LookupError != nil && f.Template != nil {
		return engine.Unknown(infrav1.DependenciesReadyCondition, infrav1.LookupFailedReason,
			"dependencies cannot be read: "+failure.OneLine(f.LookupError.Error())+". CAPT retries")
	}
	if len(f.Missing) > 0 {
		return engine.False(infrav1.DependenciesReadyCondition, infrav1.WaitingForDependenciesReason, missingMessage(f.Missing))
	}
	return engine.True(infrav1.DependenciesReadyCondition, infrav1.DependenciesReadyReason, "")
}

func synced(f *Facts, o workspace.Observation) engine.Condition {
	switch {
	case f.WriteError != nil:
		return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceNotWrittenReason,
			"the Workspace cannot be written: "+failure.OneLine(f.WriteError.Error())+". CAPT retries")
	case o.Failed:
		return engine.False(infrav1.SyncedCondition, o.Reason, o.Message)
	case o.UpToDate:
		return engine.True(infrav1.SyncedCondition, infrav1.UpToDateReason, "")
	case f.KindMissing:
		return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceKindMissingReason, f.kindMissingMessage())
	case o.Reason != "":
		return engine.Unknown(infrav1.SyncedCondition, o.Reason, o.Message)
	}
	if f.NotRecreated {
		return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceNotFoundReason, f.desired().NotRecreatedMessage())
	}
	return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceNotFoundReason, "Workspace "+f.Name+" does not exist")
}

// preconditions returns the conditions that must be True before the Workspace is written. The later deletion of a Secret or of the template
// does not affect a Workspace that is already written.
func preconditions(f *Facts) []engine.Condition {
	written := f.written()
	switch {
	case written && len(f.RenderErrors) == 0 && f.Rejected == "":
		return nil
	case written:
		return []engine.Condition{rendered(f)}
	}
	return []engine.Condition{rendered(f), dependenciesReady(f)}
}

// kindMissingMessage names the missing definition. provider-terraform before v1 has only the cluster-wide one.
func (f *Facts) kindMissingMessage() string {
	definition := workspace.DefinitionOf(f.KindScope)
	switch {
	case f.KindNotServed:
		return fmt.Sprintf("CustomResourceDefinition %s is installed, but the API server does not serve its version v1beta1. Check spec.versions and the conditions of the definition", definition)
	case f.KindScope == terraform.ScopeCluster:
		return fmt.Sprintf("CustomResourceDefinition %s is not installed. Install provider-terraform", definition)
	}
	return fmt.Sprintf("CustomResourceDefinition %s is not installed. Install provider-terraform v1 or later, or use cluster-wide "+
		"Workspaces (spec.workspaceScope Cluster in the WorkspaceTemplate)", definition)
}

// ready summarizes the other conditions. A paused object also reports why it is paused.
func ready(apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan, o workspace.Observation) engine.Condition {
	return engine.WithPause(firstProblem(apply, f, p, o), p.Paused)
}

// firstProblem is the first condition that keeps the object from being ready: the cause of the others comes first.
func firstProblem(apply *infrav1.WorkspaceTemplateApply, f *Facts, p Plan, o workspace.Observation) engine.Condition {
	if f.Block != nil {
		return engine.False(infrav1.ReadyCondition, f.Block.Reason, f.Block.Message)
	}
	if f.TakesState && claim.AwaitsOwner(apply) {
		return engine.False(infrav1.ReadyCondition, infrav1.WaitingForOwnerReason, fmt.Sprintf("waiting until an owner in Cluster %s refers to this object and writes its variables: then Terraform state %s is planned. If none does, remove the label %s",
			apply.Labels[clusterv1.ClusterNameLabel], apply.Spec.TerraformState.Name, clusterv1.ClusterNameLabel))
	}
	for _, condition := range preconditions(f) {
		if condition.Status != metav1.ConditionTrue {
			return engine.False(infrav1.ReadyCondition, condition.Reason, condition.Message)
		}
	}
	if c := conflict(f); c.Status == metav1.ConditionTrue {
		return engine.False(infrav1.ReadyCondition, c.Reason, c.Message)
	}
	if p.HeldBy != "" {
		return engine.False(infrav1.ReadyCondition, p.HeldBy, f.heldMessage(apply, p))
	}
	if f.Queued != "" {
		return engine.False(infrav1.ReadyCondition, infrav1.QueuedReason, f.Queued)
	}
	if c := synced(f, o); c.Status != metav1.ConditionTrue {
		return engine.False(infrav1.ReadyCondition, c.Reason, c.Message)
	}
	return engine.True(infrav1.ReadyCondition, infrav1.UpToDateReason, "")
}

// heldMessage is why the Workspace is not written, and what to do.
func (f *Facts) heldMessage(apply *infrav1.WorkspaceTemplateApply, p Plan) string {
	if f.TakesState {
		return f.stateMessage(apply, p)
	}
	message := f.Change.Message("WorkspaceTemplate "+f.TemplateKey.String(),
		p.ChangePreview, desired.AnnotateCommand(apply, naming.ApproveAnnotation, f.Change.Revision), apply.Namespace+"/"+apply.Name)
	if conditions.IsTrue(apply, infrav1.PlanNeverEmptyCondition) {
		message += ". Condition " + infrav1.PlanNeverEmptyCondition + " names what Terraform changes at each run, whatever the content"
	}
	return message
}

// deleting reports what the deletion waits for. The other conditions stay.
func deleting(f *Facts, o workspace.Observation) engine.Condition {
	switch {
	case f.Paused != "":
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, engine.PausedMessage("deleted", f.Paused))
	case f.DeletionHeld != nil:
		return engine.True(infrav1.DeletingCondition, f.DeletionHeld.Reason, f.DeletionHeld.Message)
	case f.RetainConflict != "":
		return engine.True(infrav1.DeletingCondition, infrav1.DeletionPolicyConflictReason, f.RetainConflict)
	case f.abandons():
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason,
			fmt.Sprintf("Workspace %s is deleted without Terraform: its cloud resources and Terraform state %s are kept", f.Name, f.Live.ExternalName()))
	case f.Retained:
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason,
			fmt.Sprintf("Workspace %s and its cloud resources are kept", f.Name))
	case f.Block != nil:
		return engine.True(infrav1.DeletingCondition, f.Block.Reason,
			f.Block.Message+", or set spec.deletionPolicy to Retain to keep the cloud resources")
	case f.KindMissing:
		return engine.True(infrav1.DeletingCondition, infrav1.WorkspaceKindMissingReason,
			f.kindMissingMessage()+", or set spec.deletionPolicy to Retain to keep the cloud resources")
	}
	if other := f.desired().OtherState(); other != nil && !f.Live.Deleting() {
		return engine.True(infrav1.DeletingCondition, other.Reason, other.Message)
	}
	return destroying(f, o)
}

// destroying reports what the destruction of the Workspace waits for.
func destroying(f *Facts, o workspace.Observation) engine.Condition {
	switch {
	case f.Restored, f.Live != nil && !f.owned():
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, fmt.Sprintf(
			"Workspace %s is kept: it is not recorded for this object", f.Name))
	case f.Dependents != nil && f.owned() && !f.Live.Deleting():
		return engine.True(infrav1.DeletingCondition, f.Dependents.Reason, f.Dependents.Message)
	case f.Queued != "":
		return engine.True(infrav1.DeletingCondition, infrav1.QueuedReason, f.Queued)
	case o.Failed, o.Reason == infrav1.WorkspacePausedReason, o.Reason == infrav1.StateNotSavedReason:
		return engine.True(infrav1.DeletingCondition, o.Reason, o.Message)
	case f.Live != nil && f.Live.WaitingForFinalizers(f.ConnectionSecret) != "":
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForFinalizersReason, o.Message)
	case o.Unreported:
		return engine.True(infrav1.DeletingCondition, infrav1.NotReportedReason, o.Message)
	case f.Live != nil:
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForWorkspaceDeletionReason,
			fmt.Sprintf("waiting for Terraform to destroy the resources of Workspace %s%s. If this takes long, check provider-terraform and the conditions of the Workspace", f.Name, f.deletedSince()))
	}
	return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "")
}

// deletedSince is the part of a message with the time of the deletion of the Workspace.
func (f *Facts) deletedSince() string {
	if at := f.Live.DeletedAt(); !at.IsZero() {
		return " since " + at.UTC().Format(time.RFC3339)
	}
	return ""
}
