// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Conditions of more than one kind.
const (
	// ReadyCondition is the summary: the object matches its spec.
	ReadyCondition = "Ready"
	// AdoptionRequiredCondition is True when CAPT v0.3 created the Workspace or WorkspaceTemplateApply of the object, and it has not been
	// adopted; or when a WorkspaceTemplateApply exists that may belong to the object, but the object does not refer to it. Meanwhile CAPT
	// creates nothing, because it could create a second cluster or VPC.
	AdoptionRequiredCondition = "AdoptionRequired"
	// DeletingCondition reports what the deletion of the object waits for.
	DeletingCondition = "Deleting"
	// ClusterConflictCondition is True while more than one Cluster refers to a CAPTCluster or a CAPTControlPlane. It is absent otherwise, until
	// that happens for the first time.
	ClusterConflictCondition = "ClusterConflict"
	// FieldsConsumedCondition is False while fields of an owner have no effect, because its WorkspaceTemplate does not use them. It
	// is absent otherwise.
	FieldsConsumedCondition = "FieldsConsumed"
	// VPCReplacedCondition is True while Terraform reports another VPC than the one that the cluster was created in. CAPTCluster and
	// CAPTControlPlane have it; it is absent until that happens for the first time.
	VPCReplacedCondition = "VPCReplaced"
)

// Conditions of the owners of a WorkspaceTemplateApply: CAPTCluster, CAPTControlPlane and CAPTMachinePool.
const (
	// DegradedCondition is True while the object was Ready before and a part of it no longer is.
	DegradedCondition = "Degraded"
	// FailedCondition is True while the state is Failed; its reason and message give the cause.
	FailedCondition = "Failed"
	// DeletionTimedOutCondition is True while the deletion takes longer than spec.timeouts.deletionSeconds. It is absent until then, and the deletion continues.
	DeletionTimedOutCondition = "DeletionTimedOut"
	// RecoveringCondition is True while a recovery action runs. While Terraform fails and none runs, its reason is why.
	RecoveringCondition = "Recovering"
)

// Conditions of CAPTCluster.
const (
	// VPCReadyCondition is True when the VPC exists and its ID is known.
	VPCReadyCondition = "VPCReady"
)

// Conditions of CAPTMachinePool.
const (
	// NodeGroupReadyCondition is True when Terraform has applied the node group as spec wants it.
	NodeGroupReadyCondition = "NodeGroupReady"
	// NodesKnownCondition is True when CAPT reads the nodes from the cluster.
	NodesKnownCondition = "NodesKnown"
	// NodesReadyCondition is True when as many nodes are ready as the pool is meant to have.
	NodesReadyCondition = "NodesReady"
	// ReplicasOutOfBoundsCondition is True while spec.replicas of the MachinePool is not between the limits of the node group.
	ReplicasOutOfBoundsCondition = "ReplicasOutOfBounds"
	// KubeletVersionsDifferCondition is True while Cluster API waits for kubelets of another patch version or suffix than the managed topology has.
	KubeletVersionsDifferCondition = "KubeletVersionsDiffer"
)

// Conditions of PlanRequest.
const (
	// CompleteCondition is True when each WorkspaceTemplateApply has a result, or the time for it is over.
	CompleteCondition = "Complete"
)

// Conditions of WorkspaceTemplateApply.
const (
	// SyncedCondition mirrors the Workspace: the last plan or apply succeeded.
	SyncedCondition = "Synced"
	// DependenciesReadyCondition is True when every Secret and Workspace in waitForSecrets and waitForWorkspaces is ready.
	DependenciesReadyCondition = "DependenciesReady"
	// RenderedCondition is True when the Workspace could be rendered from the WorkspaceTemplate.
	RenderedCondition = "Rendered"
	// CreateRecoverableCondition is True while the first apply was interrupted and may be continued, because Terraform's state is remote. It is
	// absent if the first apply was never interrupted.
	CreateRecoverableCondition = "CreateRecoverable"
	// WorkspaceConflictCondition is True when the Workspace of spec.workspaceName belongs to another object.
	WorkspaceConflictCondition = "WorkspaceConflict"
	// PlanNeverEmptyCondition is True when Terraform would change something although it has just applied the same content. Absent until that is so for the
	// first time.
	PlanNeverEmptyCondition = "PlanNeverEmpty"
)

// Conditions of WorkspaceTemplate.
const (
	// ValidCondition is True when the template can be used.
	ValidCondition = "Valid"
	// InUseCondition is True while a WorkspaceTemplateApply uses the template.
	InUseCondition = "InUse"
	// RollingOutCondition is True while users of the template have another revision of it. Absent until that happens for the first time.
	RollingOutCondition = "RollingOut"
)

// Reasons of conditions. The table in api/reasons has what they mean, and what to do. Comments here say what it does not.
const (
	ReadyReason                  = "Ready"
	WaitingForOwnerReason        = "WaitingForOwner"
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	InvalidEKSClusterNameReason  = "InvalidEKSClusterName"
	EKSClusterNameConflictReason = "EKSClusterNameConflict"
	NodeGroupReadyReason         = "NodeGroupReady"
	NodeGroupTimeoutReason       = "NodeGroupTimeout"
	InvalidNodeGroupNameReason   = "InvalidNodeGroupName"
	WaitingForVersionReason      = "WaitingForVersion"
	InvalidVersionReason         = "InvalidVersion"
	InvalidScalingReason         = "InvalidScaling"
	ReplicasOutOfBoundsReason    = "ReplicasOutOfBounds"
	KubeletVersionsDifferReason  = "KubeletVersionsDiffer"
	// KubeletVersionsMatchReason: Cluster API does not wait for kubelets of another version, or the nodes may just be replaced.
	KubeletVersionsMatchReason = "KubeletVersionsMatch"
	ReplicasWithinBoundsReason = "ReplicasWithinBounds"
	NodesKnownReason           = "NodesKnown"
	WaitingForNodesReason      = "WaitingForNodes"
	NodesUnreachableReason     = "NodesUnreachable"
	HealthProbesDisabledReason = "HealthProbesDisabled"
	NodesReadyReason           = "NodesReady"
	NodesNotReadyReason        = "NodesNotReady"
	UsedByMachinePoolReason    = "UsedByMachinePool"
	PlanningReason             = "Planning"
	NothingChangesReason       = "NothingChanges"
	ChangesFoundReason         = "ChangesFound"
	PlansMissingReason         = "PlansMissing"
	ProvisioningReason         = "Provisioning"
	VPCReadyTimeoutReason      = "VPCReadyTimeout"
	// TemplateNotFoundReason: the WorkspaceTemplate does not exist or may not be used from this namespace. The two are
	// reported alike, so that a reference does not reveal what other namespaces contain.
	TemplateNotFoundReason = "TemplateNotFound"
	TemplateInvalidReason  = "TemplateInvalid"
	VariableMissingReason  = "VariableMissing"
	VariableInvalidReason  = "VariableInvalid"
	TemplateDeletingReason = "TemplateDeleting"
	FieldNotConsumedReason = "FieldNotConsumed"
	// FieldsWithoutEffectReason: fields of spec that do not restrict access have no effect. Many clusters of CAPT v0.3 have such fields, so
	// there is no warning event.
	FieldsWithoutEffectReason    = "FieldsWithoutEffect"
	RenderedReason               = "Rendered"
	DependenciesReadyReason      = "DependenciesReady"
	WaitingForDependenciesReason = "WaitingForDependencies"
	// QueuedReason: Terraform works on one WorkspaceTemplateApply of the group at a time, and another one comes first.
	QueuedReason                 = "Queued"
	WorkspaceNotFoundReason      = "WorkspaceNotFound"
	NotReportedReason            = "NotReported"
	WorkspaceNotReconciledReason = "WorkspaceNotReconciled"
	WorkspaceKindMissingReason   = "WorkspaceKindMissing"
	WorkspacePausedReason        = "WorkspacePaused"
	StateNotSavedReason          = "StateNotSaved"
	// NothingCreatedReason: Terraform has applied the module, which has created no resource and returned no output, so that the provider never reports it as existing.
	NothingCreatedReason    = "NothingCreated"
	WorkspaceConflictReason = "WorkspaceConflict"
	WorkspaceReplacedReason = "WorkspaceReplaced"
	// WorkspaceOwnedReason: this object created or adopted the Workspace.
	WorkspaceOwnedReason    = "WorkspaceOwned"
	WorkspaceRejectedReason = "WorkspaceRejected"
	PlanHasChangesReason    = "PlanHasChanges"
	// PlanEmptyReason: Terraform would change nothing, or has applied another content since.
	PlanEmptyReason           = "PlanEmpty"
	LookupFailedReason        = "LookupFailed"
	WorkspaceNotWrittenReason = "WorkspaceNotWritten"
	// ApplyFailedReason: terraform apply failed.
	ApplyFailedReason = "ApplyFailed"
	// PlanFailedReason: terraform init or plan failed.
	PlanFailedReason    = "PlanFailed"
	DestroyFailedReason = "DestroyFailed"
	// ProviderConfigFailedReason: the provider could not use the ProviderConfig.
	ProviderConfigFailedReason = "ProviderConfigFailed"
	CreateInterruptedReason    = "CreateInterrupted"
	// RemoteStateReason: Terraform's state is remote, so that it survived the end of the provider.
	RemoteStateReason          = "RemoteState"
	CreateNotRecoverableReason = "CreateNotRecoverable"
	CreateNotInterruptedReason = "CreateNotInterrupted"
	NamespaceTerminatingReason = "NamespaceTerminating"
	UpToDateReason             = "UpToDate"
	ValidReason                = "Valid"
	UsedReason                 = "Used"
	NotUsedReason              = "NotUsed"
	RollingOutReason           = "RollingOut"
	// RolloutFailingReason: the same, and the apply failed for some of them.
	RolloutFailingReason    = "RolloutFailing"
	RolloutWaitingReason    = "RolloutWaiting"
	RolloutStoppedReason    = "RolloutStopped"
	WaitingForRolloutReason = "WaitingForRollout"
	// RevisionHeldReason: the Workspace was rendered from another revision of the WorkspaceTemplate than the current one, which the rollout
	// has not assigned to the object yet.
	RevisionHeldReason       = "RevisionHeld"
	PreviewingChangeReason   = "PreviewingChange"
	WaitingForApprovalReason = "WaitingForApproval"
	RevisionMissingReason    = "RevisionMissing"
	RolledOutReason          = "RolledOut"
	NotFailedReason          = "NotFailed"
	RecoveringReason         = "Recovering"
	WaitingForRetryReason    = "WaitingForRetry"
	RecoveryExhaustedReason  = "RecoveryExhausted"
	RecoveryBlockedReason    = "RecoveryBlocked"
	RecoveredReason          = "Recovered"
	NotRecoveringReason      = "NotRecovering"
	NotDegradedReason        = "NotDegraded"
	VPCReadyReason           = "VPCReady"
	// ExistingVPCReason: spec names an existing VPC, which CAPT does not manage.
	ExistingVPCReason = "ExistingVPC"
	// VPCIDMissingReason: Terraform applied the VPC template, but the output vpc_id is missing.
	VPCIDMissingReason   = "VPCIDMissing"
	VPCReplacedReason    = "VPCReplaced"
	VPCNotReplacedReason = "VPCNotReplaced"
	// AdoptionRequiredReason: the user must specify the WorkspaceTemplateApply that belongs to the object.
	AdoptionRequiredReason = "AdoptionRequired"
	WaitingForProofReason  = "WaitingForProof"
	// ProvenReason: Terraform would change nothing. captctl migrate apply completes the adoption when that is so for all of the Cluster.
	ProvenReason    = "Proven"
	NotProvenReason = "NotProven"
	// AdoptionNotRequiredReason: the reference is known.
	AdoptionNotRequiredReason = "AdoptionNotRequired"
	// NotManagedReason: CAPT v0.3 recorded no Workspace for a helper, and its deletionPolicy is Retain. CAPT does not modify it.
	NotManagedReason        = "NotManaged"
	ReferenceConflictReason = "ReferenceConflict"
	ApplyRefusedReason      = "WorkspaceTemplateApplyRefused"
	// DefinitionDeletingReason: the object is deleted only because its CustomResourceDefinition is, so no cloud resource is destroyed.
	DefinitionDeletingReason                       = "DefinitionDeleting"
	DeletionProtectedReason                        = "DeletionProtected"
	UsedByClusterReason                            = "UsedByCluster"
	ClusterConflictReason                          = "ClusterConflict"
	NoClusterConflictReason                        = "NoClusterConflict"
	WriteRefusedReason                             = "WriteRefused"
	WorkspaceScopeConflictReason                   = "WorkspaceScopeConflict"
	ProviderConfigConflictReason                   = "ProviderConfigConflict"
	WorkspaceDeletingReason                        = "WorkspaceDeleting"
	DeletionPolicyConflictReason                   = "DeletionPolicyConflict"
	WaitingForDependentsReason                     = "WaitingForDependents"
	WaitingForControlPlaneDeletionReason           = "WaitingForControlPlaneDeletion"
	WaitingForWorkspaceTemplateApplyDeletionReason = "WaitingForWorkspaceTemplateApplyDeletion"
	WaitingForWorkspaceDeletionReason              = "WaitingForWorkspaceDeletion"
	WaitingForUsersReason                          = "WaitingForUsers"
	WaitingForFinalizersReason                     = "WaitingForFinalizers"
	// DeletingReason: the deletion is in progress, and no other reason applies.
	DeletingReason        = "Deleting"
	NotDeletingReason     = "NotDeleting"
	DeletionTimeoutReason = "DeletionTimeout"
	// DeletionInTimeReason: the deletion has not taken that long yet, or the timeout was raised.
	DeletionInTimeReason = "DeletionInTime"
	// WaitTimeoutReason: before Terraform starts, the object has waited for something else for longer than spec.timeouts.waitSeconds.
	WaitTimeoutReason = "WaitTimeout"
)

// IsHeld reports whether a reason means that a change of a WorkspaceTemplateApply is held by the rollout policy of its template.
func IsHeld(reason string) bool {
	return reason == PreviewingChangeReason || reason == WaitingForApprovalReason
}
