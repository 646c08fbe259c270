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

// Reasons of conditions.
const (
	// ReadyReason: the object matches its spec.
	ReadyReason = "Ready"
	// WaitingForOwnerReason: Cluster API has not set the Cluster as the owner of the object yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// WaitingForControlPlaneReason: the CAPTControlPlane of the Cluster, which may set the name of the EKS cluster, does not exist yet.
	WaitingForControlPlaneReason = "WaitingForControlPlane"
	// InvalidEKSClusterNameReason: EKS would refuse the name of the cluster.
	InvalidEKSClusterNameReason = "InvalidEKSClusterName"
	// EKSClusterNameConflictReason: another CAPTControlPlane has the EKS cluster of this name, account and region.
	EKSClusterNameConflictReason = "EKSClusterNameConflict"
	// NodeGroupReadyReason: Terraform has applied the node group.
	NodeGroupReadyReason = "NodeGroupReady"
	// NodeGroupTimeoutReason: Terraform did not create or update the node group within spec.timeouts.nodeGroupSeconds.
	NodeGroupTimeoutReason = "NodeGroupTimeout"
	// InvalidNodeGroupNameReason: EKS would refuse the name of the node group.
	InvalidNodeGroupNameReason = "InvalidNodeGroupName"
	// WaitingForVersionReason: the control plane does not run the version of the pool yet.
	WaitingForVersionReason = "WaitingForVersion"
	// InvalidVersionReason: the control plane does not support the version of the pool.
	InvalidVersionReason = "InvalidVersion"
	// InvalidScalingReason: the limits of the node group are missing or contradict each other.
	InvalidScalingReason = "InvalidScaling"
	// ReplicasOutOfBoundsReason: spec.replicas of the MachinePool is not between the limits of the node group.
	ReplicasOutOfBoundsReason = "ReplicasOutOfBounds"
	// KubeletVersionsDifferReason: Cluster API waits for kubelets of another patch version or suffix than the managed topology has.
	KubeletVersionsDifferReason = "KubeletVersionsDiffer"
	// KubeletVersionsMatchReason: Cluster API does not wait for kubelets of another version, or the nodes may just be replaced.
	KubeletVersionsMatchReason = "KubeletVersionsMatch"
	// ReplicasWithinBoundsReason: spec.replicas of the MachinePool is between the limits of the node group.
	ReplicasWithinBoundsReason = "ReplicasWithinBounds"
	// NodesKnownReason: CAPT reads the nodes from the cluster.
	NodesKnownReason = "NodesKnown"
	// WaitingForNodesReason: CAPT has not read the nodes yet.
	WaitingForNodesReason = "WaitingForNodes"
	// NodesUnreachableReason: CAPT cannot read the nodes from the cluster.
	NodesUnreachableReason = "NodesUnreachable"
	// HealthProbesDisabledReason: this manager does not connect to clusters, or spec.endpointProbe of the control plane is Disabled.
	HealthProbesDisabledReason = "HealthProbesDisabled"
	// NodesReadyReason: as many nodes are ready as the pool is meant to have.
	NodesReadyReason = "NodesReady"
	// NodesNotReadyReason: fewer nodes are ready than the pool is meant to have.
	NodesNotReadyReason = "NodesNotReady"
	// UsedByMachinePoolReason: a MachinePool that is not being deleted refers to the object, so nothing is deleted or destroyed.
	UsedByMachinePoolReason = "UsedByMachinePool"
	// PlanningReason: WorkspaceTemplateApplies have no result yet.
	PlanningReason = "Planning"
	// NothingChangesReason: Terraform would change nothing.
	NothingChangesReason = "NothingChanges"
	// ChangesFoundReason: Terraform would change something.
	ChangesFoundReason = "ChangesFound"
	// PlansMissingReason: WorkspaceTemplateApplies have no plan: it fails, or is not possible.
	PlansMissingReason = "PlansMissing"
	// ProvisioningReason: Terraform is running or about to run.
	ProvisioningReason = "Provisioning"
	// VPCReadyTimeoutReason: Terraform did not create or update the VPC within spec.vpc.template.timeoutSeconds.
	VPCReadyTimeoutReason = "VPCReadyTimeout"
	// TemplateNotFoundReason: the WorkspaceTemplate does not exist or may not be used from this namespace. The two are
	// reported alike, so that a reference does not reveal what other namespaces contain.
	TemplateNotFoundReason = "TemplateNotFound"
	// TemplateInvalidReason: the Workspace cannot be rendered from the WorkspaceTemplate.
	TemplateInvalidReason = "TemplateInvalid"
	// VariableMissingReason: a placeholder of the WorkspaceTemplate has no value, so the Workspace cannot be rendered.
	VariableMissingReason = "VariableMissing"
	// VariableInvalidReason: the module or spec.inputs of the WorkspaceTemplate does not allow the value of a variable.
	VariableInvalidReason = "VariableInvalid"
	// TemplateDeletingReason: the WorkspaceTemplate is being deleted and cannot be used by new objects.
	TemplateDeletingReason = "TemplateDeleting"
	// FieldNotConsumedReason: fields of spec that restrict access have no effect, because the WorkspaceTemplate does not use them.
	FieldNotConsumedReason = "FieldNotConsumed"
	// FieldsWithoutEffectReason: fields of spec that do not restrict access have no effect. Many clusters of CAPT v0.3 have such fields, so
	// there is no warning event.
	FieldsWithoutEffectReason = "FieldsWithoutEffect"
	// RenderedReason: the Workspace was rendered from the WorkspaceTemplate.
	RenderedReason = "Rendered"
	// DependenciesReadyReason: all dependencies are ready.
	DependenciesReadyReason = "DependenciesReady"
	// WaitingForDependenciesReason: a Secret, a key of it, or a Workspace is missing.
	WaitingForDependenciesReason = "WaitingForDependencies"
	// QueuedReason: Terraform works on one WorkspaceTemplateApply of the group at a time, and another one comes first.
	QueuedReason = "Queued"
	// WorkspaceNotFoundReason: the Workspace does not exist yet.
	WorkspaceNotFoundReason = "WorkspaceNotFound"
	// NotReportedReason: provider-terraform has not reported on a change or the deletion of the Workspace for some time. Terraform may run.
	NotReportedReason = "NotReported"
	// WorkspaceNotReconciledReason: provider-terraform has not started to reconcile the Workspace some time after its creation.
	WorkspaceNotReconciledReason = "WorkspaceNotReconciled"
	// WorkspaceKindMissingReason: the Workspace CRD of provider-terraform is not installed.
	WorkspaceKindMissingReason = "WorkspaceKindMissing"
	// WorkspacePausedReason: the Workspace is paused, so Terraform does not run.
	WorkspacePausedReason = "WorkspacePaused"
	// StateNotSavedReason: Terraform has created resources and could not save its state, so CAPT has paused the Workspace.
	StateNotSavedReason = "StateNotSaved"
	// NothingCreatedReason: Terraform has applied the module, which has created no resource and returned no output, so that the provider never reports it as existing.
	NothingCreatedReason = "NothingCreated"
	// WorkspaceConflictReason: the Workspace belongs to another object.
	WorkspaceConflictReason = "WorkspaceConflict"
	// WorkspaceReplacedReason: the Workspace was recreated by another client.
	WorkspaceReplacedReason = "WorkspaceReplaced"
	// WorkspaceOwnedReason: this object created or adopted the Workspace.
	WorkspaceOwnedReason = "WorkspaceOwned"
	// WorkspaceRejectedReason: the API server rejected the rendered Workspace.
	WorkspaceRejectedReason = "WorkspaceRejected"
	// PlanHasChangesReason: Terraform would change something although it has just applied the same content.
	PlanHasChangesReason = "PlanHasChanges"
	// PlanEmptyReason: Terraform would change nothing, or has applied another content since.
	PlanEmptyReason = "PlanEmpty"
	// LookupFailedReason: a required object could not be read. CAPT retries.
	LookupFailedReason = "LookupFailed"
	// WorkspaceNotWrittenReason: the Workspace could not be written. CAPT retries.
	WorkspaceNotWrittenReason = "WorkspaceNotWritten"
	// ApplyFailedReason: terraform apply failed.
	ApplyFailedReason = "ApplyFailed"
	// PlanFailedReason: terraform init or plan failed.
	PlanFailedReason = "PlanFailed"
	// DestroyFailedReason: terraform destroy failed.
	DestroyFailedReason = "DestroyFailed"
	// ProviderConfigFailedReason: the provider could not use the ProviderConfig.
	ProviderConfigFailedReason = "ProviderConfigFailed"
	// CreateInterruptedReason: the provider stopped during the first apply and does not retry.
	CreateInterruptedReason = "CreateInterrupted"
	// RemoteStateReason: Terraform's state is remote, so that it survived the end of the provider.
	RemoteStateReason = "RemoteState"
	// CreateNotRecoverableReason: CAPT must not continue the interrupted first apply.
	CreateNotRecoverableReason = "CreateNotRecoverable"
	// CreateNotInterruptedReason: the first apply is not interrupted.
	CreateNotInterruptedReason = "CreateNotInterrupted"
	// NamespaceTerminatingReason: the namespace is being deleted, and the provider cannot run Terraform in it.
	NamespaceTerminatingReason = "NamespaceTerminating"
	// UpToDateReason: Terraform has applied the Workspace as rendered.
	UpToDateReason = "UpToDate"
	// ValidReason: the template can be used.
	ValidReason = "Valid"
	// UsedReason: WorkspaceTemplateApplies use the template.
	UsedReason = "Used"
	// NotUsedReason: no WorkspaceTemplateApply uses the template.
	NotUsedReason = "NotUsed"
	// RollingOutReason: Terraform has not applied the current revision for all users of the template.
	RollingOutReason = "RollingOut"
	// RolloutFailingReason: the same, and the apply failed for some of them.
	RolloutFailingReason = "RolloutFailing"
	// RolloutWaitingReason: a staged rollout waits for the user: for an approval, for the end of a pause, or for canaries that exist.
	RolloutWaitingReason = "RolloutWaiting"
	// RolloutStoppedReason: a staged rollout stopped because it fails for a user of the template.
	RolloutStoppedReason = "RolloutStopped"
	// WaitingForRolloutReason: no revision of the WorkspaceTemplate is assigned to the object yet.
	WaitingForRolloutReason = "WaitingForRollout"
	// RevisionHeldReason: the Workspace was rendered from another revision of the WorkspaceTemplate than the current one, which the rollout
	// has not assigned to the object yet.
	RevisionHeldReason = "RevisionHeld"
	// PreviewingChangeReason: a change of the object is held until Terraform has planned it.
	PreviewingChangeReason = "PreviewingChange"
	// WaitingForApprovalReason: a change of the object is held until a user approves it.
	WaitingForApprovalReason = "WaitingForApproval"
	// RevisionMissingReason: the revision of the WorkspaceTemplate that is assigned to the object does not exist.
	RevisionMissingReason = "RevisionMissing"
	// RolledOutReason: all users of the template have its current revision.
	RolledOutReason = "RolledOut"
	// NotFailedReason: the object has not failed.
	NotFailedReason = "NotFailed"
	// RecoveringReason: a recovery action runs.
	RecoveringReason = "Recovering"
	// WaitingForRetryReason: the next recovery action starts at the time in the message.
	WaitingForRetryReason = "WaitingForRetry"
	// RecoveryExhaustedReason: all attempts to recover have failed.
	RecoveryExhaustedReason = "RecoveryExhausted"
	// RecoveryBlockedReason: no recovery action can help, so the user must act.
	RecoveryBlockedReason = "RecoveryBlocked"
	// RecoveredReason: the last recovery action succeeded.
	RecoveredReason = "Recovered"
	// NotRecoveringReason: there is nothing to recover from.
	NotRecoveringReason = "NotRecovering"
	// NotDegradedReason: the object is not degraded.
	NotDegradedReason = "NotDegraded"
	// VPCReadyReason: the VPC exists.
	VPCReadyReason = "VPCReady"
	// ExistingVPCReason: spec names an existing VPC, which CAPT does not manage.
	ExistingVPCReason = "ExistingVPC"
	// VPCIDMissingReason: Terraform applied the VPC template, but the output vpc_id is missing.
	VPCIDMissingReason = "VPCIDMissing"
	// VPCReplacedReason: Terraform reports another VPC than the one that the cluster was created in.
	VPCReplacedReason = "VPCReplaced"
	// VPCNotReplacedReason: Terraform reports the VPC that the cluster was created in.
	VPCNotReplacedReason = "VPCNotReplaced"
	// AdoptionRequiredReason: the user must specify the WorkspaceTemplateApply that belongs to the object.
	AdoptionRequiredReason = "AdoptionRequired"
	// WaitingForProofReason: a Terraform state, or what captctl migrate apply --prove adopts, is adopted when the plan of Terraform is known to be empty.
	WaitingForProofReason = "WaitingForProof"
	// ProvenReason: Terraform would change nothing. captctl migrate apply completes the adoption when that is so for all of the Cluster.
	ProvenReason = "Proven"
	// NotProvenReason: Terraform would change something, its plan fails, or no plan is possible, so the object is not adopted.
	NotProvenReason = "NotProven"
	// AdoptionNotRequiredReason: the reference is known.
	AdoptionNotRequiredReason = "AdoptionNotRequired"
	// NotManagedReason: CAPT v0.3 recorded no Workspace for a helper, and its deletionPolicy is Retain. CAPT does not modify it.
	NotManagedReason = "NotManaged"
	// ReferenceConflictReason: spec.workspaceTemplateApplyRef refers to a WorkspaceTemplateApply of another owner, or to one that would be changed.
	ReferenceConflictReason = "ReferenceConflict"
	// ApplyRefusedReason: the API server rejected the WorkspaceTemplateApply.
	ApplyRefusedReason = "WorkspaceTemplateApplyRefused"
	// DefinitionDeletingReason: the object is deleted only because its CustomResourceDefinition is, so no cloud resource is destroyed.
	DefinitionDeletingReason = "DefinitionDeleting"
	// DeletionProtectedReason: spec.deletionProtection is Enabled, so nothing is deleted or destroyed.
	DeletionProtectedReason = "DeletionProtected"
	// UsedByClusterReason: a Cluster that is not being deleted refers to the object, so nothing is deleted or destroyed.
	UsedByClusterReason = "UsedByCluster"
	// ClusterConflictReason: more than one Cluster refers to the object.
	ClusterConflictReason = "ClusterConflict"
	// NoClusterConflictReason: at most one Cluster refers to the object.
	NoClusterConflictReason = "NoClusterConflict"
	// WriteRefusedReason: the API server rejected a write of CAPT.
	WriteRefusedReason = "WriteRefused"
	// WorkspaceScopeConflictReason: the template has another scope than the existing Workspace.
	WorkspaceScopeConflictReason = "WorkspaceScopeConflict"
	// ProviderConfigConflictReason: the Workspace would get another ProviderConfig, which may be another AWS account or backend.
	ProviderConfigConflictReason = "ProviderConfigConflict"
	// WorkspaceDeletingReason: another client deleted the Workspace, and Terraform destroys its resources.
	WorkspaceDeletingReason = "WorkspaceDeleting"
	// DeletionPolicyConflictReason: a retained resource depends on one that would be destroyed.
	DeletionPolicyConflictReason = "DeletionPolicyConflict"
	// WaitingForDependentsReason: a Workspace that depends on this one still exists.
	WaitingForDependentsReason = "WaitingForDependents"
	// WaitingForControlPlaneDeletionReason: the VPC is kept until the control plane is deleted.
	WaitingForControlPlaneDeletionReason = "WaitingForControlPlaneDeletion"
	// WaitingForWorkspaceTemplateApplyDeletionReason: the WorkspaceTemplateApply is being deleted.
	WaitingForWorkspaceTemplateApplyDeletionReason = "WaitingForWorkspaceTemplateApplyDeletion"
	// WaitingForWorkspaceDeletionReason: Terraform destroys the resources of the Workspace, or is about to.
	WaitingForWorkspaceDeletionReason = "WaitingForWorkspaceDeletion"
	// WaitingForUsersReason: the template is kept until its last user is deleted.
	WaitingForUsersReason = "WaitingForUsers"
	// WaitingForFinalizersReason: finalizers of other controllers keep the object from being deleted, or its Workspace from being destroyed.
	WaitingForFinalizersReason = "WaitingForFinalizers"
	// DeletingReason: the deletion is in progress, and no other reason applies.
	DeletingReason = "Deleting"
	// NotDeletingReason: the object is not being deleted.
	NotDeletingReason = "NotDeleting"
	// DeletionTimeoutReason: the deletion takes longer than spec.timeouts.deletionSeconds. It continues.
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
