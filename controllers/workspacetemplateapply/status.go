// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// status computes the status from the facts. What the facts do not tell, because there is nothing to see at the moment,
// stays as it was.
func status(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	s := &apply.Status
	// An object that CAPT v0.3 did not write, such as one from Git beside a Workspace of CAPT v0.3, has no status to keep.
	if apply.DeletionTimestamp.IsZero() && (adoption.Unadopted(apply) != "" || engine.IsMigrating(apply)) {
		engine.KeepStatus(apply, f.whyPaused(apply), f.adoptionRequired())
		return
	}
	s.ObservedGeneration = apply.Generation
	observation := f.Observation()
	if !apply.DeletionTimestamp.IsZero() {
		deleting := deleting(f, observation)
		engine.Set(apply, engine.PausedCondition(f.whyPaused(apply)), deleting,
			engine.False(infrav1.ReadyCondition, infrav1.DeletingReason, deleting.Message))
		return
	}
	if f.owned() {
		s.WorkspaceName, s.WorkspaceRef = f.Name, f.Live.Reference()
		s.Outputs = observation.Outputs
	}
	if observation.Applied {
		s.Applied = metav1.ConditionTrue
	}
	s.MissingDependencies = f.Missing
	if f.Rendered != nil && f.written() {
		s.WrittenGeneration = apply.Generation
	}
	if s.LastUpdate = f.LastUpdate; f.owned() {
		s.LastUpdate = f.Live.Seen(f.LastUpdate)
	}
	s.StartedTime = started(s, f, observation)
	revisions(s, f, observation)

	engine.Set(apply,
		engine.PausedCondition(f.whyPaused(apply)),
		rendered(f),
		dependencies(f),
		conflict(apply, f),
		synced(f, observation),
		ready(apply, f, observation),
		engine.False(infrav1.DeletingCondition, infrav1.NotDeletingReason, ""),
	)
	engine.SetOnce(apply, f.adoptionRequired())
}

func (f *Facts) adoptionRequired() engine.Condition {
	if f.Unadopted == "" {
		return engine.False(infrav1.AdoptionRequiredCondition, infrav1.AdoptionNotRequiredReason, "")
	}
	return engine.True(infrav1.AdoptionRequiredCondition, infrav1.AdoptionRequiredReason, unadoptedMessage(nil, f))
}

// started is when the work began that Terraform has not ended yet. What is not written has not begun, whatever it waits for. When
// what was applied once must be applied again, because somebody changed it in AWS, that is when it is seen first.
func started(s *infrav1.WorkspaceTemplateApplyStatus, f *Facts, o workspace.Observation) *metav1.Time {
	known := ptr.Deref(s.StartedTime, metav1.Time{})
	switch {
	case !f.owned(), o.UpToDate, !f.written():
		return nil
	case known.IsZero() && s.LastAppliedRevision != "" && (f.Rendered == nil || s.LastAppliedRevision == f.Rendered.Revision):
		return ptr.To(metav1.NewTime(f.Now))
	}
	if at := f.Live.Started(known.Time); !at.IsZero() {
		return ptr.To(metav1.NewTime(at))
	}
	return nil
}

func revisions(s *infrav1.WorkspaceTemplateApplyStatus, f *Facts, o workspace.Observation) {
	if f.Rendered == nil {
		return
	}
	switch {
	case f.Rejected != "":
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = f.Rendered.Revision, f.Rejected, string(failure.ClassConfig)
	case o.UpToDate:
		if s.LastAppliedRevision != f.Rendered.Revision {
			s.LastAppliedRevision = f.Rendered.Revision
			s.LastAppliedTime = ptr.To(metav1.NewTime(f.Now))
		}
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = "", "", ""
	case o.Failed && f.written(): // What was not written has not failed.
		s.LastFailedRevision, s.LastFailureMessage, s.LastFailureClass = f.Rendered.Revision, o.Message, string(o.Class)
	}
}

func rendered(f *Facts) engine.Condition {
	switch {
	case f.Template == nil && f.Unreadable != nil:
		return engine.Unknown(infrav1.RenderedCondition, infrav1.LookupFailedReason,
			fmt.Sprintf("WorkspaceTemplate %s can not be read: %s", f.TemplateKey, failure.OneLine(f.Unreadable.Error())))
	case f.Template == nil:
		return engine.False(infrav1.RenderedCondition, infrav1.TemplateNotFoundReason,
			fmt.Sprintf("WorkspaceTemplate %s does not exist, or does not allow this namespace; create it, or add the namespace to its spec.allowedNamespaces", f.TemplateKey))
	case f.TemplateLeaves:
		return engine.False(infrav1.RenderedCondition, infrav1.TemplateDeletingReason, validation.TemplateLeaves(f.TemplateKey))
	case len(f.RenderErrors) > 0:
		return engine.False(infrav1.RenderedCondition, infrav1.TemplateInvalidReason,
			fmt.Sprintf("WorkspaceTemplate %s/%s: %s", f.Template.Namespace, f.Template.Name, f.RenderErrors.ToAggregate()))
	case f.Rejected != "":
		return engine.False(infrav1.RenderedCondition, infrav1.WorkspaceRejectedReason, f.Rejected)
	}
	return engine.True(infrav1.RenderedCondition, infrav1.RenderedReason, "")
}

func rejection(err error) string {
	return "the API server refused the Workspace; correct the WorkspaceTemplate: " + failure.OneLine(err.Error())
}

func dependencies(f *Facts) engine.Condition {
	if f.Unreadable != nil && f.Template != nil {
		return engine.Unknown(infrav1.DependenciesReadyCondition, infrav1.LookupFailedReason,
			"what spec waits for can not be read: "+failure.OneLine(f.Unreadable.Error()))
	}
	if len(f.Missing) > 0 {
		return engine.False(infrav1.DependenciesReadyCondition, infrav1.WaitingForDependenciesReason, waitingFor(f.Missing))
	}
	return engine.True(infrav1.DependenciesReadyCondition, infrav1.DependenciesReadyReason, "")
}

func synced(f *Facts, o workspace.Observation) engine.Condition {
	switch {
	case f.NotWritten != nil:
		return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceNotWrittenReason,
			"the Workspace can not be written; it is tried again: "+failure.OneLine(f.NotWritten.Error()))
	case o.Failed:
		return engine.False(infrav1.SyncedCondition, o.Reason, o.Message)
	case o.UpToDate:
		return engine.True(infrav1.SyncedCondition, infrav1.UpToDateReason, "")
	case f.KindMissing:
		return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceKindMissingReason, f.kindMissingMessage())
	case o.Reason != "":
		return engine.Unknown(infrav1.SyncedCondition, o.Reason, o.Message)
	}
	if f.GoneForGood {
		return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceNotFoundReason,
			"the Workspace is gone and, with spec.deletionPolicy Retain, not made again; set the policy to Delete to have it made again")
	}
	return engine.Unknown(infrav1.SyncedCondition, infrav1.WorkspaceNotFoundReason, "the Workspace does not exist")
}

// gates are what must be met before the Workspace can be written. A Workspace that is written already stays what it is
// when a Secret it waited for, or its template, goes away.
func gates(f *Facts) []engine.Condition {
	written := f.written()
	switch {
	case written && len(f.RenderErrors) == 0 && f.Rejected == "":
		return nil
	case written:
		return []engine.Condition{rendered(f)}
	}
	return []engine.Condition{rendered(f), dependencies(f)}
}

// kindMissingMessage says which definition is missing. Whoever has provider-terraform of before v1 has only the other one.
func (f *Facts) kindMissingMessage() string {
	definition := workspace.DefinitionOf(f.KindScope)
	switch {
	case f.KindNotServed:
		return fmt.Sprintf("CustomResourceDefinition %s is installed, but the API server does not serve its version v1beta1", definition)
	case f.KindScope == terraform.ScopeCluster:
		return fmt.Sprintf("CustomResourceDefinition %s is not installed; install provider-terraform", definition)
	}
	return fmt.Sprintf("CustomResourceDefinition %s is not installed; install provider-terraform v1 or later (before v1 there are only "+
		"cluster-wide Workspaces: spec.workspaceScope Cluster in the WorkspaceTemplate)", definition)
}

// ready sums the others up, the deepest cause first: what a person must mend before anything else can go on.
func ready(apply *infrav1.WorkspaceTemplateApply, f *Facts, o workspace.Observation) engine.Condition {
	if f.Unadopted != "" {
		return engine.False(infrav1.ReadyCondition, infrav1.AdoptionRequiredReason, unadoptedMessage(nil, f))
	}
	for _, condition := range gates(f) {
		if condition.Status != metav1.ConditionTrue {
			return engine.False(infrav1.ReadyCondition, condition.Reason, condition.Message)
		}
	}
	if c := conflict(apply, f); c.Status == metav1.ConditionTrue {
		return engine.False(infrav1.ReadyCondition, c.Reason, c.Message)
	}
	if f.AwaitsTurn != "" {
		return engine.False(infrav1.ReadyCondition, infrav1.WaitingForTurnReason, f.AwaitsTurn)
	}
	if c := synced(f, o); c.Status != metav1.ConditionTrue {
		return engine.False(infrav1.ReadyCondition, c.Reason, c.Message)
	}
	return engine.True(infrav1.ReadyCondition, infrav1.UpToDateReason, "")
}

// deleting says what is waited for. The other conditions stay as they were: they tell what is being deleted.
func deleting(f *Facts, o workspace.Observation) engine.Condition {
	switch {
	case f.Paused != "":
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "nothing is deleted while the object is paused: "+f.Paused)
	case f.RetainConflict != "":
		return engine.True(infrav1.DeletingCondition, infrav1.DeletionPolicyConflictReason, f.RetainConflict)
	case f.Retained:
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason,
			fmt.Sprintf("Workspace %s and what it made are left as they are; what else holds this object are its other finalizers", f.Name))
	case f.Unadopted != "":
		return engine.True(infrav1.DeletingCondition, infrav1.AdoptionRequiredReason,
			unadoptedMessage(nil, f)+", or set spec.deletionPolicy to Retain to leave what the Workspace made")
	case f.KindMissing:
		return engine.True(infrav1.DeletingCondition, infrav1.WorkspaceKindMissingReason,
			f.kindMissingMessage()+", or set spec.deletionPolicy to Retain to leave what the Workspace made")
	}
	return destroying(f, o)
}

// destroying says what the destruction of the Workspace waits for.
func destroying(f *Facts, o workspace.Observation) engine.Condition {
	switch {
	case f.Restored, f.Live != nil && !f.owned():
		return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, fmt.Sprintf(
			"Workspace %s is kept: it is not recorded for this object, which only its other finalizers hold", f.Name))
	case len(f.Dependents) > 0 && f.owned() && !f.Live.Deleting():
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForDependentsReason, fmt.Sprintf(
			"Workspace %s stays until what was made on top of it is gone: WorkspaceTemplateApply %s", f.Name, strings.Join(f.Dependents, ", ")))
	case f.AwaitsTurn != "":
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForTurnReason, f.AwaitsTurn)
	case o.Failed, o.Reason == infrav1.WorkspacePausedReason:
		return engine.True(infrav1.DeletingCondition, o.Reason, o.Message)
	case f.Live != nil:
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForWorkspaceDeletionReason,
			fmt.Sprintf("Terraform destroys what Workspace %s made%s. If that takes long, look whether provider-terraform runs, and what the Workspace says", f.Name, f.deletedSince()))
	}
	return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "")
}

// deletedSince says since when the Workspace is being deleted, in words.
func (f *Facts) deletedSince() string {
	if at := f.Live.DeletedAt(); !at.IsZero() {
		return ", since " + at.UTC().Format(time.RFC3339)
	}
	return ""
}

// warning tells which transitions need a person.
func warning(condition metav1.Condition) bool { return infrav1.NeedsPerson(condition.Reason) }
