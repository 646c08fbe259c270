// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// Summary of the WorkspaceTemplateApply for the status of its owner.
func (f *Facts) Summary(manager string) *infrav1.WorkspaceTemplateApplySummary {
	if f.Apply == nil {
		return nil
	}
	s := f.Apply.Status
	if fresh := s.StartedTime == nil && s.Applied != metav1.ConditionTrue && s.LastAppliedRevision == "" && s.LastFailedRevision == ""; fresh {
		s.WorkspaceName = "" // It comes with the first news of Terraform, and is no status write of its own.
	}
	return &infrav1.WorkspaceTemplateApplySummary{
		Name: f.Apply.Name, WorkspaceName: s.WorkspaceName, Ready: infrav1.ConditionStatus(f.Ready(manager)), StartedTime: s.StartedTime,
		LastAppliedRevision: s.LastAppliedRevision, LastFailedRevision: s.LastFailedRevision,
		LastFailureMessage: s.LastFailureMessage, LastAppliedTime: s.LastAppliedTime,
	}
}

// Condition tells in the words of the owner how far the WorkspaceTemplateApply is. While Terraform is at work it says just
// that, so that each of Terraform's steps is not a status write of every owner.
func (f *Facts) Condition(conditionType, readyReason, manager string) engine.Condition {
	if f.Ready(manager) {
		return engine.True(conditionType, readyReason, "")
	}
	switch {
	case f.Claimed != "":
		return engine.False(conditionType, infrav1.ReferenceConflictReason, f.Claimed)
	case f.Refused != nil:
		return engine.False(conditionType, infrav1.ApplyRefusedReason, "the API server refused the WorkspaceTemplateApply: "+f.Refused.Error())
	case f.Apply == nil:
		return engine.False(conditionType, infrav1.ProvisioningReason, "the WorkspaceTemplateApply is about to be created")
	case !f.Apply.DeletionTimestamp.IsZero():
		return engine.False(conditionType, infrav1.DeletingReason, fmt.Sprintf("WorkspaceTemplateApply %s is being deleted", f.Apply.Name))
	}
	cause := conditions.Get(f.Apply, infrav1.ReadyCondition)
	if cause == nil || f.Working() || conditions.IsTrue(f.Apply, infrav1.ReadyCondition) {
		return engine.False(conditionType, infrav1.ProvisioningReason,
			fmt.Sprintf("Terraform is at work; see WorkspaceTemplateApply %s", f.Apply.Name))
	}
	return engine.False(conditionType, cause.Reason, fmt.Sprintf("WorkspaceTemplateApply %s: %s", f.Apply.Name, cause.Message))
}

// Working tells whether Terraform is at work, or about to be, and nothing is wrong.
func (f *Facts) Working() bool {
	if f.Claimed != "" || f.Refused != nil {
		return false
	}
	if f.Apply == nil {
		return true
	}
	if !f.Apply.DeletionTimestamp.IsZero() {
		return false
	}
	switch conditions.GetReason(f.Apply, infrav1.ReadyCondition) {
	case "", infrav1.ProvisioningReason, infrav1.WorkspaceNotFoundReason, infrav1.WaitingForTurnReason, infrav1.UpToDateReason:
		return true
	}
	return false
}

// Destroyed tells whether what Terraform made is certainly not there, or soon will not be: somebody deleted it, or it is being
// made for the first time. That nobody knows is no reason to say so.
func (f *Facts) Destroyed() bool {
	if f.Apply == nil {
		return false
	}
	switch s := f.Apply.Status; conditions.GetReason(f.Apply, infrav1.ReadyCondition) {
	case infrav1.WorkspaceDeletingReason, infrav1.WorkspaceNotFoundReason:
		return true
	case infrav1.ProvisioningReason, infrav1.ApplyFailedReason:
		if s.Applied != metav1.ConditionTrue && s.LastAppliedRevision == "" {
			return true
		}
	}
	return !f.Apply.DeletionTimestamp.IsZero() && f.Apply.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain
}

// AdoptionCondition says whether a person must decide which WorkspaceTemplateApply belongs to the owner.
func (f *Facts) AdoptionCondition(conditionType string) engine.Condition {
	if f.Lost != "" {
		return engine.True(conditionType, infrav1.AdoptionRequiredReason, fmt.Sprintf(
			"%s says that it was built, but spec.workspaceTemplateApplyRef is empty, and no WorkspaceTemplateApply is known that could be its own. Set the reference to the one that has built it, or to a new name to have it built anew; nothing is created before that", f.Lost))
	}
	if message := f.unadoptedMessage(); message != "" {
		return engine.True(conditionType, infrav1.AdoptionRequiredReason, message)
	}
	if len(f.Candidates) == 0 {
		return engine.False(conditionType, infrav1.AdoptionNotRequiredReason, "")
	}
	told := make([]string, len(f.Candidates))
	for i, candidate := range f.Candidates {
		told[i] = candidate.String()
	}
	return engine.True(conditionType, infrav1.AdoptionRequiredReason, fmt.Sprintf(
		"spec.workspaceTemplateApplyRef is empty, but WorkspaceTemplateApply %s may belong to this object. Set the reference to the right one; nothing is created before that",
		strings.Join(told, ", ")))
}

// unadoptedMessage says what of CAPT v0.3 has not been adopted, when that is known; empty otherwise.
func (f *Facts) unadoptedMessage() string {
	switch {
	case f.Unadopted != "":
		return f.unadopted()
	case f.AwaitsAdoption && f.Claimed != "":
		return "this object was created by CAPT v0.3 and has not been adopted: " + f.Claimed
	case f.Missing != "":
		return fmt.Sprintf("WorkspaceTemplateApply %s of spec.workspaceTemplateApplyRef (in v1beta1: workspaceTemplateApplyName), which CAPT v0.3 recorded, does not exist: a new one would be built a second time. "+
			"Restore it and adopt it with captctl migrate apply; or, if nothing is left of what it created, delete and recreate this object", f.Missing)
	case f.Partner != "":
		return fmt.Sprintf("%s of the same Cluster was created by CAPT v0.3 and has not been adopted: nothing is written before that. Adopt the cluster with captctl migrate apply", f.Partner)
	}
	return ""
}

func (f *Facts) unadopted() string {
	return fmt.Sprintf("WorkspaceTemplateApply %s has Workspace %s, which was created by CAPT v0.3 and has not been adopted: nothing is written or deleted. Adopt it with captctl migrate apply",
		f.Candidates[0].Name, f.Unadopted)
}

// DeletingCondition says what of the WorkspaceTemplateApply is waited for.
func (f *Facts) DeletingCondition(conditionType, paused string) engine.Condition {
	switch {
	case paused != "":
		return engine.True(conditionType, infrav1.DeletingReason, "nothing is deleted while the object is paused: "+paused)
	case f.RetainConflict != "":
		return engine.True(conditionType, infrav1.DeletionPolicyConflictReason, f.RetainConflict)
	case f.Unadopted != "":
		return engine.True(conditionType, infrav1.AdoptionRequiredReason, f.unadopted())
	case len(f.Owned) > 0:
		return engine.True(conditionType, infrav1.AdoptionRequiredReason, fmt.Sprintf(
			"%s would be deleted with this object, which does not refer to it. Set spec.workspaceTemplateApplyRef to have it deleted in order, or remove its owner reference to keep it",
			strings.Join(f.Owned, ", ")))
	}
	if waiting := f.waitingFor(); waiting != "" {
		return engine.True(conditionType, infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, waiting)
	}
	return engine.True(conditionType, infrav1.DeletingReason, "")
}

// State is the reason of the WorkspaceTemplateApply's Ready condition.
func (f *Facts) State() string { return conditions.GetReason(f.Apply, infrav1.ReadyCondition) }
