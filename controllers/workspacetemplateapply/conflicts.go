// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
)

// rule is a reason not to write the Workspace: it may belong to another object, or would lose its state.
type rule struct {
	reason  string
	applies func(f *Facts) bool
	message func(apply *infrav1.WorkspaceTemplateApply, f *Facts) string
}

// rules returns the rules in the order in which they are reported.
func rules() []rule {
	return []rule{
		{infrav1.WorkspaceConflictReason, func(f *Facts) bool { return f.LostState != "" }, lostStateMessage},
		{infrav1.WorkspaceConflictReason, func(f *Facts) bool { return f.OlderClaim != "" }, olderClaimMessage},
		{infrav1.WorkspaceConflictReason, func(f *Facts) bool { return f.OwnerMissing != "" }, ownerMissingMessage},
		{infrav1.WorkspaceConflictReason, func(f *Facts) bool { return f.StateUnknown }, stateUnknownMessage},
		{infrav1.WorkspaceScopeConflictReason, func(f *Facts) bool { return f.ScopeChanged && f.owned() }, scopeMessage},
		{infrav1.ProviderConfigConflictReason, func(f *Facts) bool { return f.ProviderConfig != "" }, providerConfigMessage},
		{infrav1.WorkspaceReplacedReason, hasOwnership(workspace.Replaced), replacedMessage},
		{infrav1.WorkspaceConflictReason, hasOwnership(workspace.Undecided), undecidedMessage},
		{infrav1.WorkspaceConflictReason, hasOwnership(workspace.Foreign), foreignMessage},
	}
}

func hasOwnership(ownership workspace.Ownership) func(f *Facts) bool {
	return func(f *Facts) bool { return f.Live != nil && f.Ownership == ownership }
}

// firstConflict returns the first rule that applies; nil when none does.
func firstConflict(f *Facts) *rule {
	list := rules()
	if i := slices.IndexFunc(list, func(r rule) bool { return r.applies(f) }); i >= 0 {
		return &list[i]
	}
	return nil
}

// mustNotBeWritten reports whether the gate or a rule forbids to write the Workspace.
func (f *Facts) mustNotBeWritten() bool { return f.Block != nil || firstConflict(f) != nil }

func conflict(apply *infrav1.WorkspaceTemplateApply, f *Facts) engine.Condition {
	if f.Block != nil {
		return engine.True(infrav1.WorkspaceConflictCondition, f.Block.Reason, f.Block.Message)
	}
	if rule := firstConflict(f); rule != nil {
		return engine.True(infrav1.WorkspaceConflictCondition, rule.reason, rule.message(apply, f))
	}
	return engine.False(infrav1.WorkspaceConflictCondition, infrav1.WorkspaceOwnedReason, "")
}

func lostStateMessage(_ *infrav1.WorkspaceTemplateApply, f *Facts) string {
	return fmt.Sprintf("Workspace %s does not exist, and this object had one with Terraform state %s: a new Workspace would have another state and create all resources a second time. "+
		"Restore the Workspace, or remove the annotation %s if none of its resources are left", f.Name, f.LostState, naming.ExternalNameAnnotation)
}

func olderClaimMessage(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	return fmt.Sprintf("Workspace %s belongs to %s, which is older. CAPT continues when that no longer exists. Otherwise %s", f.Name, f.OlderClaim, anotherName(apply))
}

func ownerMissingMessage(_ *infrav1.WorkspaceTemplateApply, f *Facts) string {
	return f.OwnerMissing + ": the garbage collector may delete this object, so no Workspace is created or recorded for it. Remove the owner reference. After that, this object can also be deleted, and recreated when its owner exists"
}

func stateUnknownMessage(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	recreate := "recreate this object without spec.workspaceName"
	if owner := ownerOf(apply); owner != nil {
		recreate = fmt.Sprintf("delete this object, with its annotation %s set to \"true\", and %s %s creates it without spec.workspaceName,", naming.AllowDeleteAnnotation, owner.Kind, owner.Name)
	}
	return fmt.Sprintf("Workspace %s of spec.workspaceName does not exist, and nothing records its Terraform state: a new Workspace would have another state and create all resources a second time. "+
		"Restore the Workspace first, or %s if none of its resources are left", f.Name, recreate)
}

func scopeMessage(_ *infrav1.WorkspaceTemplateApply, f *Facts) string {
	return fmt.Sprintf("Workspace %s has scope %s, and WorkspaceTemplate %s has scope %s. Use a template with scope %s",
		f.Name, f.Live.Scope(), f.TemplateKey, f.Template.Spec.WorkspaceScope.OrDefault(), f.Live.Scope())
}

func providerConfigMessage(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	harmless := "If both have the same account and backend"
	if apply.Status.LastAppliedRevision == "" {
		harmless += ", or if Terraform has not created anything yet"
	}
	return fmt.Sprintf("Workspace %s uses ProviderConfig %s, and providerConfigRef of WorkspaceTemplate %s is now %s: with another account or backend, Terraform would create all resources a second time. "+
		"Nothing is updated. Revert the template. %s, run: %s",
		f.Name, f.Live.ProviderConfig(), f.TemplateKey, f.ProviderConfig, harmless, annotateCommand(apply, naming.AllowProviderConfigAnnotation, f.ProviderConfig))
}

func replacedMessage(_ *infrav1.WorkspaceTemplateApply, f *Facts) string {
	return fmt.Sprintf("Workspace %s was recreated by another client; CAPT does not modify it. Restore the original Workspace with its annotations, or delete this one if it has another Terraform state: "+
		"CAPT then creates the original one again, with the state of before", f.Name)
}

func undecidedMessage(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	return fmt.Sprintf("Workspace %s (UID %s) exists and is not recorded for this object: an earlier object of this name may have retained it. CAPT does not modify it. "+
		"To take it over with its cloud resources, run: %s. Otherwise %s",
		f.Name, f.Live.UID(), annotateCommand(apply, naming.AdoptWorkspaceAnnotation, string(f.Live.UID())), anotherName(apply))
}

func foreignMessage(apply *infrav1.WorkspaceTemplateApply, f *Facts) string {
	message := fmt.Sprintf("Workspace %s exists and belongs to another object; CAPT does not modify it. CAPT continues when it no longer exists", f.Name)
	if apply.Status.WorkspaceRef != nil || apply.Annotations[naming.ExternalNameAnnotation] != "" { // Its resources exist.
		return message + ", with the Terraform state of before"
	}
	return message + ". Otherwise " + anotherName(apply)
}

// anotherName is how an object that has no resources gets a Workspace of another name. One with an owner cannot be deleted alone: a policy rejects that,
// and its owner would create it under the same name.
func anotherName(apply *infrav1.WorkspaceTemplateApply) string {
	owner, profile := ownerOf(apply), apply.Spec.Variables[naming.ProfileVariable]
	switch {
	case owner == nil:
		return "delete this object, or recreate it under another name"
	case profile != "":
		return fmt.Sprintf("rename Fargate profile %s in spec.fargateProfiles of %s %s", profile, owner.Kind, owner.Name)
	}
	return fmt.Sprintf("delete Cluster %s, and create it with a %s of another name", apply.Labels[clusterv1.ClusterNameLabel], owner.Kind)
}

// ownerOf is the CAPTCluster or CAPTControlPlane that controls an object; nil if there is none.
func ownerOf(apply *infrav1.WorkspaceTemplateApply) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(apply)
	if owner == nil || owner.Kind != "CAPTCluster" && owner.Kind != "CAPTControlPlane" {
		return nil
	}
	return owner
}

func annotateCommand(apply *infrav1.WorkspaceTemplateApply, annotation, value string) string {
	return fmt.Sprintf("kubectl -n %s annotate --overwrite workspacetemplateapply %s %s=%s", apply.Namespace, apply.Name, annotation, value)
}
