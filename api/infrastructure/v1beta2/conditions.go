// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Conditions of more than one kind.
const (
	// ReadyCondition is the summary: the object is what its spec asks for.
	ReadyCondition = "Ready"
	// AdoptionRequiredCondition is True when CAPT v0.3 created what belongs to the object, and it has not been adopted; or when a
	// WorkspaceTemplateApply that may belong to the object exists, but the object does not refer to it. Nothing is created then:
	// a second one would be a second cluster or VPC.
	AdoptionRequiredCondition = "AdoptionRequired"
	// DeletingCondition says, while the object is being deleted, what is waited for.
	DeletingCondition = "Deleting"
	// FieldsConsumedCondition is False while fields of an owner have no effect, since its WorkspaceTemplate does not use them. It
	// is absent otherwise.
	FieldsConsumedCondition = "FieldsConsumed"
)

// Conditions of CAPTCluster.
const (
	// VPCReadyCondition is True when the VPC exists and its id is known.
	VPCReadyCondition = "VPCReady"
)

// Conditions of WorkspaceTemplateApply.
const (
	// SyncedCondition mirrors the Workspace: the last plan or apply went well.
	SyncedCondition = "Synced"
	// DependenciesReadyCondition is True when every Secret and Workspace in waitForSecrets and waitForWorkspaces is there.
	DependenciesReadyCondition = "DependenciesReady"
	// RenderedCondition is True when the WorkspaceTemplate could be turned into a Workspace.
	RenderedCondition = "Rendered"
	// WorkspaceConflictCondition is True when the Workspace of spec.workspaceName belongs to somebody else.
	WorkspaceConflictCondition = "WorkspaceConflict"
)

// Conditions of WorkspaceTemplate.
const (
	// ValidCondition is True when the template can be used.
	ValidCondition = "Valid"
	// InUseCondition is True while a WorkspaceTemplateApply uses the template.
	InUseCondition = "InUse"
)

// Reasons. Each says in one word what the message says in full.
const (
	// ReadyReason: the object is what its spec asks for.
	ReadyReason = "Ready"
	// WaitingForOwnerReason: Cluster API has not made the Cluster the owner of the object yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// ProvisioningReason: Terraform is at work, or about to be.
	ProvisioningReason = "Provisioning"
	// TemplateNotFoundReason: the WorkspaceTemplate does not exist or may not be used from this namespace. The two are not
	// told apart, so that a reference can not be used to find out what other namespaces hold.
	TemplateNotFoundReason = "TemplateNotFound"
	// TemplateInvalidReason: the WorkspaceTemplate can not be turned into a Workspace.
	TemplateInvalidReason = "TemplateInvalid"
	// TemplateDeletingReason: the WorkspaceTemplate is being deleted and is not taken into use any more.
	TemplateDeletingReason = "TemplateDeleting"
	// FieldNotConsumedReason: fields of spec that restrict access have no effect, since the WorkspaceTemplate does not use them.
	FieldNotConsumedReason = "FieldNotConsumed"
	// FieldsWithoutEffectReason: other fields of spec have no effect. Clusters of CAPT v0.3 have such fields, so it is not a warning.
	FieldsWithoutEffectReason = "FieldsWithoutEffect"
	// RenderedReason: the WorkspaceTemplate was turned into a Workspace.
	RenderedReason = "Rendered"
	// DependenciesReadyReason: everything waited for is there.
	DependenciesReadyReason = "DependenciesReady"
	// WaitingForDependenciesReason: a Secret, a key of it, or a Workspace is missing.
	WaitingForDependenciesReason = "WaitingForDependencies"
	// WaitingForTurnReason: another WorkspaceTemplateApply, of those that Terraform works on one at a time, comes first.
	WaitingForTurnReason = "WaitingForTurn"
	// WorkspaceNotFoundReason: the Workspace does not exist yet.
	WorkspaceNotFoundReason = "WorkspaceNotFound"
	// WorkspaceUnclaimedReason: the Workspace was made some time ago, and provider-terraform has not begun to work on it.
	WorkspaceUnclaimedReason = "WorkspaceUnclaimed"
	// WorkspaceKindMissingReason: the Workspace CRD of provider-terraform is not installed.
	WorkspaceKindMissingReason = "WorkspaceKindMissing"
	// WorkspacePausedReason: the Workspace is paused, so Terraform does not run.
	WorkspacePausedReason = "WorkspacePaused"
	// WorkspaceConflictReason: the Workspace belongs to somebody else.
	WorkspaceConflictReason = "WorkspaceConflict"
	// WorkspaceReplacedReason: the Workspace was deleted and created again by somebody else.
	WorkspaceReplacedReason = "WorkspaceReplaced"
	// WorkspaceOwnedReason: the Workspace is the one this object created or adopted.
	WorkspaceOwnedReason = "WorkspaceOwned"
	// WorkspaceRejectedReason: the API server refused the rendered Workspace.
	WorkspaceRejectedReason = "WorkspaceRejected"
	// LookupFailedReason: something that decides could not be read; it is tried again.
	LookupFailedReason = "LookupFailed"
	// WorkspaceNotWrittenReason: the Workspace could not be written; it is tried again.
	WorkspaceNotWrittenReason = "WorkspaceNotWritten"
	// ApplyFailedReason: terraform apply failed.
	ApplyFailedReason = "ApplyFailed"
	// PlanFailedReason: terraform init or plan failed.
	PlanFailedReason = "PlanFailed"
	// DestroyFailedReason: terraform destroy failed.
	DestroyFailedReason = "DestroyFailed"
	// ProviderConfigFailedReason: the provider could not use the ProviderConfig.
	ProviderConfigFailedReason = "ProviderConfigFailed"
	// CreateInterruptedReason: the provider died during the first apply and does not retry by itself.
	CreateInterruptedReason = "CreateInterrupted"
	// NamespaceTerminatingReason: the namespace is being deleted, and the provider can not work in it.
	NamespaceTerminatingReason = "NamespaceTerminating"
	// UpToDateReason: Terraform has applied the Workspace as rendered.
	UpToDateReason = "UpToDate"
	// ValidReason: the template can be used.
	ValidReason = "Valid"
	// UsedReason: the template has users.
	UsedReason = "Used"
	// NotUsedReason: the template has none.
	NotUsedReason = "NotUsed"
	// VPCReadyReason: the VPC exists.
	VPCReadyReason = "VPCReady"
	// ExistingVPCReason: the VPC was given by id; CAPT does not manage it.
	ExistingVPCReason = "ExistingVPC"
	// VPCIDMissingReason: Terraform applied the VPC template, but there is no output vpc_id.
	VPCIDMissingReason = "VPCIDMissing"
	// AdoptionRequiredReason: a person must say which WorkspaceTemplateApply belongs to the object.
	AdoptionRequiredReason = "AdoptionRequired"
	// AdoptionNotRequiredReason: the reference is known.
	AdoptionNotRequiredReason = "AdoptionNotRequired"
	// LeftAloneReason: CAPT v0.3 recorded no Workspace for a helper, and its deletionPolicy is Retain. It stays as it is.
	LeftAloneReason = "LeftAlone"
	// ReferenceConflictReason: spec.workspaceTemplateApplyRef names a WorkspaceTemplateApply of another owner.
	ReferenceConflictReason = "ReferenceConflict"
	// ApplyRefusedReason: the API server refused the WorkspaceTemplateApply.
	ApplyRefusedReason = "WorkspaceTemplateApplyRefused"
	// DefinitionDeletingReason: the object is deleted because its CustomResourceDefinition is, and nothing is destroyed.
	DefinitionDeletingReason = "DefinitionDeleting"
	// WriteRefusedReason: the API server refused a write of CAPT.
	WriteRefusedReason = "WriteRefused"
	// WorkspaceScopeConflictReason: the template makes Workspaces of another scope than the one that is there.
	WorkspaceScopeConflictReason = "WorkspaceScopeConflict"
	// ProviderConfigConflictReason: the Workspace would get another ProviderConfig, and with it another account or backend.
	ProviderConfigConflictReason = "ProviderConfigConflict"
	// WorkspaceDeletingReason: somebody deleted the Workspace, and Terraform destroys what it made.
	WorkspaceDeletingReason = "WorkspaceDeleting"
	// DeletionPolicyConflictReason: what is to be retained stands on what would be destroyed.
	DeletionPolicyConflictReason = "DeletionPolicyConflict"
	// WaitingForDependentsReason: a Workspace that was made on top of this one is still there.
	WaitingForDependentsReason = "WaitingForDependents"
	// WaitingForControlPlaneDeletionReason: the VPC stays until the control plane is gone.
	WaitingForControlPlaneDeletionReason = "WaitingForControlPlaneDeletion"
	// WaitingForWorkspaceTemplateApplyDeletionReason: Terraform is destroying, or about to.
	WaitingForWorkspaceTemplateApplyDeletionReason = "WaitingForWorkspaceTemplateApplyDeletion"
	// WaitingForWorkspaceDeletionReason: Terraform is destroying, or about to.
	WaitingForWorkspaceDeletionReason = "WaitingForWorkspaceDeletion"
	// WaitingForUsersReason: the template stays until its last user is gone.
	WaitingForUsersReason = "WaitingForUsers"
	// DeletingReason: nothing is waited for any more.
	DeletingReason = "Deleting"
	// NotDeletingReason: the object is not being deleted.
	NotDeletingReason = "NotDeleting"
)

// NeedsPerson tells whether a reason of this group says that nothing goes on before a person has done something, or has at
// least looked. Owners show such reasons as their own.
func NeedsPerson(reason string) bool {
	switch reason {
	case LookupFailedReason, WorkspaceUnclaimedReason, WorkspacePausedReason, WorkspaceNotWrittenReason, TemplateNotFoundReason, TemplateInvalidReason, TemplateDeletingReason, FieldNotConsumedReason,
		WorkspaceRejectedReason, WorkspaceConflictReason, WorkspaceReplacedReason,
		WorkspaceScopeConflictReason, ProviderConfigConflictReason, WorkspaceDeletingReason, WorkspaceKindMissingReason, ApplyFailedReason, PlanFailedReason,
		DestroyFailedReason, ProviderConfigFailedReason, CreateInterruptedReason, NamespaceTerminatingReason,
		AdoptionRequiredReason, ReferenceConflictReason, ApplyRefusedReason, WriteRefusedReason, VPCIDMissingReason,
		DefinitionDeletingReason, DeletionPolicyConflictReason:
		return true
	}
	return false
}

// Stands tells whether a reason of this group says that nothing will change by itself: neither the provider nor CAPT tries
// again before a person has done something to the Workspace or to the object that names it.
func Stands(reason string) bool {
	switch reason {
	case CreateInterruptedReason, WorkspaceConflictReason, WorkspaceReplacedReason, WorkspaceScopeConflictReason, ProviderConfigConflictReason, ReferenceConflictReason:
		return true
	}
	return false
}
