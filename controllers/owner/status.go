// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// Summary of the WorkspaceTemplateApply for the status of its owner.
func (p *Plan) Summary() *infrav1.WorkspaceTemplateApplySummary {
	if p.Live == nil {
		return nil
	}
	s := p.Live.Status
	if !p.started() {
		s.WorkspaceName = "" // It is known before the first run of Terraform: reporting it at once would cause an extra status write of the owner.
	}
	return &infrav1.WorkspaceTemplateApplySummary{
		Name: p.Live.Name, WorkspaceName: s.WorkspaceName, Ready: infrav1.ConditionStatus(p.Ready()), StartedTime: s.StartedTime,
		LastAppliedRevision: s.LastAppliedRevision, LastFailedRevision: s.LastFailedRevision,
		LastFailureMessage: s.LastFailureMessage, LastFailureClass: s.LastFailureClass, LastAppliedTime: s.LastAppliedTime,
	}
}

// StartDelay is for how long an owner may delay a status write that only reports that Terraform has started: the result usually follows.
const StartDelay = 10 * time.Second

// KeepStart restores in a summary that Terraform has started; either may be nil.
func KeepStart(was, is *infrav1.WorkspaceTemplateApplySummary) {
	if was != nil && is != nil {
		is.WorkspaceName, is.StartedTime = was.WorkspaceName, was.StartedTime
	}
}

// KeepEstimate restores the remaining time of an operation.
func KeepEstimate(before, after Object) {
	if was, is := before.GetLifecycle().Progress, after.GetLifecycle().Progress; was != nil && is != nil {
		is.EstimatedSecondsRemaining = was.EstimatedSecondsRemaining
	}
}

// started reports whether Terraform has begun its first run.
func (f *Facts) started() bool {
	s := f.Live.Status
	return s.StartedTime != nil || s.Applied == metav1.ConditionTrue || s.LastAppliedRevision != "" || s.LastFailedRevision != ""
}

// StartedTime is when Terraform started to create or update what the owner controls; zero before.
func (f *Facts) StartedTime() time.Time {
	if f.Live == nil {
		return time.Time{}
	}
	return ptr.Deref(f.Live.Status.StartedTime, metav1.Time{}).Time
}

// Report is Condition, or why nothing is written. paused is why the owner is paused.
func (p *Plan) Report(conditionType, readyReason, paused string) engine.Condition {
	switch {
	case p.Blocked != nil:
		return *p.Blocked
	case paused != "" && p.Live == nil:
		return engine.False(conditionType, clusterv1.PausedReason, engine.PausedMessage("created", paused))
	}
	return p.Condition(conditionType, readyReason)
}

// Condition reports the WorkspaceTemplateApply in a condition of the owner. While Terraform runs, the message does not follow its
// steps: each would cause a status write of every owner.
func (p *Plan) Condition(conditionType, readyReason string) engine.Condition {
	no := func(reason, format string, args ...any) engine.Condition {
		return engine.False(conditionType, reason, fmt.Sprintf(format, args...))
	}
	switch {
	case p.Ready():
		return engine.True(conditionType, readyReason, "")
	case p.Conflict != "":
		return no(infrav1.ReferenceConflictReason, "%s", p.Conflict)
	case p.refused():
		return p.refusal(conditionType)
	case p.Live == nil:
		return no(infrav1.ProvisioningReason, "waiting for the WorkspaceTemplateApply of %s to be created", p.Owner.Creates)
	case !p.Live.DeletionTimestamp.IsZero():
		return no(infrav1.DeletingReason, "WorkspaceTemplateApply %s is being deleted%s", p.Live.Name, desired.DeletionCause(p.Live))
	}
	ready := conditions.Get(p.Live, infrav1.ReadyCondition)
	switch {
	case ready != nil && ready.Reason == infrav1.QueuedReason:
		return no(infrav1.ProvisioningReason, "WorkspaceTemplateApply %s: %s", p.Live.Name, ready.Message)
	case ready == nil || ready.Status == metav1.ConditionTrue || p.Working() && !explains(ready.Reason):
		return no(infrav1.ProvisioningReason, "waiting for Terraform to %s %s; see WorkspaceTemplateApply %s", p.createOrUpdate(), p.Owner.Creates, p.Live.Name)
	}
	return no(ready.Reason, "WorkspaceTemplateApply %s: %s", p.Live.Name, ready.Message)
}

// explains reports whether the message of a WorkspaceTemplateApply for which Terraform may run is more than a step.
func explains(reason string) bool {
	return infrav1.IsHeld(reason) || reason == infrav1.NotReportedReason
}

func (f *Facts) refused() bool { return f.Refused != nil || f.OwnRefused != nil }

// refusal reports what the API server refused.
func (f *Facts) refusal(conditionType string) engine.Condition {
	if f.OwnRefused != nil {
		return engine.False(conditionType, infrav1.WriteRefusedReason, engine.RefusalMessage(f.OwnRefused))
	}
	return engine.False(conditionType, infrav1.ApplyRefusedReason, fmt.Sprintf(
		"the API server rejected the WorkspaceTemplateApply: %s. Correct what the error names; CAPT retries", strings.TrimSuffix(f.Refused.Error(), ".")))
}

// createOrUpdate is what Terraform does next.
func (f *Facts) createOrUpdate() string {
	if f.Live.Status.LastAppliedRevision != "" || f.Live.Status.Applied == metav1.ConditionTrue {
		return "update"
	}
	return "create"
}

// Working reports whether Terraform runs or is about to run, and no error is known.
func (f *Facts) Working() bool {
	switch {
	case f.Conflict != "", f.refused():
		return false
	case f.Live == nil:
		return true
	case !f.Live.DeletionTimestamp.IsZero():
		return false
	}
	reason := conditions.GetReason(f.Live, infrav1.ReadyCondition)
	switch reason {
	case "", infrav1.ProvisioningReason, infrav1.WorkspaceNotFoundReason, infrav1.QueuedReason, infrav1.UpToDateReason, infrav1.NotReportedReason:
		return true
	}
	return infrav1.IsHeld(reason) // The cluster is as it was before the change.
}

// ResourcesAbsent reports whether the cloud resources certainly cannot be used: they are being created for the first time, are being destroyed,
// or are about to be destroyed. It returns false if their state is unknown.
func (f *Facts) ResourcesAbsent() bool {
	if f.Live == nil {
		return false
	}
	switch s := f.Live.Status; conditions.GetReason(f.Live, infrav1.ReadyCondition) {
	case infrav1.WorkspaceDeletingReason, infrav1.WorkspaceNotFoundReason:
		return true
	case infrav1.ProvisioningReason, infrav1.NotReportedReason, infrav1.ApplyFailedReason:
		if s.Applied != metav1.ConditionTrue && s.LastAppliedRevision == "" {
			return true
		}
	}
	return !f.Live.DeletionTimestamp.IsZero() && f.Live.Spec.DeletionPolicy != infrav1.DeletionPolicyRetain
}

// Decision reports whether the user must decide which WorkspaceTemplateApply belongs to the owner.
func (f *Facts) Decision() engine.Condition {
	if message := f.DecisionMessage(); message != "" {
		return engine.Decision(&desired.Blocked{Reason: engine.DecisionReason, Message: message})
	}
	return engine.Decision(nil)
}

// DecisionMessage returns why the user must decide which WorkspaceTemplateApply belongs to the owner; empty if no decision is needed.
func (f *Facts) DecisionMessage() string {
	switch {
	case f.Block != nil:
		return f.Block.Message
	case len(f.Candidates) == 0 && f.ProvisionedField != "":
		return desired.ProvisionedMessage(f.ProvisionedField)
	}
	return desired.CandidatesMessage(f.Candidates)
}

// DeletingCondition reports what the deletion of the owner waits for.
func (f *Facts) DeletingCondition(conditionType, paused string) engine.Condition {
	switch {
	case paused != "":
		return engine.True(conditionType, infrav1.DeletingReason, engine.PausedMessage("deleted", paused))
	case f.IsHeld():
		return engine.True(conditionType, f.HeldBy.Reason, f.HeldBy.Message)
	case f.RetainConflict != "":
		return engine.True(conditionType, infrav1.DeletionPolicyConflictReason, f.RetainConflict)
	case f.Block != nil:
		return engine.True(conditionType, f.Block.Reason, f.Block.Message)
	case len(f.OwnedCandidates) > 0:
		return engine.True(conditionType, engine.DecisionReason, fmt.Sprintf(
			"the deletion is blocked: WorkspaceTemplateApply %s has an owner reference to this object, but spec.workspaceTemplateApplyRef does not name it. To delete it too, set the reference; to keep it and its cloud resources, remove its owner reference",
			strings.Join(f.OwnedCandidates, ", ")))
	}
	if waiting := f.waitingFor(); waiting != nil {
		return engine.True(conditionType, waiting.Reason, waiting.Message)
	}
	return engine.True(conditionType, infrav1.DeletingReason, "")
}

// ReadyReason is the reason of the WorkspaceTemplateApply's Ready condition; empty without one.
func (f *Facts) ReadyReason() string {
	if f.Live == nil {
		return ""
	}
	return conditions.GetReason(f.Live, infrav1.ReadyCondition)
}

// Situation of the owner, for the gate.
func (p *Plan) Situation(paused string) engine.Situation {
	return engine.Situation{Paused: paused, Held: p.Held, Settling: p.settling(paused), Decision: p.Decision()}
}

// settling reports whether the WorkspaceTemplateApply was not observed in its current generation, or not written because the owner is paused. A
// deletion and a refused request are reported at once.
func (p *Plan) settling(paused string) bool {
	if p.Live == nil || !p.Live.DeletionTimestamp.IsZero() || p.refused() {
		return false
	}
	unobserved := p.Live.Status.ObservedGeneration != p.Live.Generation
	return unobserved || paused != "" && p.Differs // A paused owner does not write.
}

// VPCReplaced returns the condition that is True while Terraform reports another VPC than the one that the cluster was created in.
func VPCReplaced(captCluster *infrav1.CAPTCluster) engine.Condition {
	vpc := captCluster.Status.VPC
	if vpc.ReplacedBy == "" {
		return engine.False(infrav1.VPCReplacedCondition, infrav1.VPCNotReplacedReason, "")
	}
	return engine.True(infrav1.VPCReplacedCondition, infrav1.VPCReplacedReason, fmt.Sprintf(
		"Terraform reports VPC %[1]s for CAPTCluster %[2]s, but the control plane was created in %[3]s and cannot move. "+
			"Check first whether %[3]s still exists: aws ec2 describe-vpcs --vpc-ids %[3]s. "+
			"If it exists, import it into the Terraform state before you revert the change that replaced it. "+
			"If it does not exist, revert nothing, because Terraform would create a third VPC: recreate the control plane in %[1]s (docs/troubleshooting-reference.md#a-replaced-vpc)",
		vpc.ReplacedBy, captCluster.Name, vpc.ID))
}
