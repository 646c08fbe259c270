// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Conditions of CAPTControlPlane.
const (
	// AvailableCondition is mirrored by Cluster API as ControlPlaneAvailable: the API server of the cluster is available,
	// even during an update.
	AvailableCondition = "Available"
	// ReadyCondition is the summary: the control plane matches its spec.
	ReadyCondition = "Ready"
	// InitializedCondition is True once the API server was available for the first time.
	InitializedCondition = "Initialized"
	// CreatingCondition is True while the phase is Creating.
	CreatingCondition = "Creating"
	// WorkspaceReadyCondition is True when the Workspace of the control plane is up to date.
	WorkspaceReadyCondition = "WorkspaceReady"
	// DependenciesReadyCondition is True when the Cluster, the VPC and the WorkspaceTemplate are ready.
	DependenciesReadyCondition = "DependenciesReady"
	// EndpointAvailableCondition is True when the endpoint of the API server is known.
	EndpointAvailableCondition = "EndpointAvailable"
	// KubeconfigReadyCondition is True when the kubeconfig Secret that Cluster API uses exists.
	KubeconfigReadyCondition = "KubeconfigReady"
	// FargateProfileReadyCondition is True when every Fargate profile is ready.
	FargateProfileReadyCondition = "FargateProfileReady"
	// FargateProfileCreatingCondition is True while a Fargate profile is being created or updated.
	FargateProfileCreatingCondition = "FargateProfileCreating"
	// FargateProfileFailedCondition is True when a Fargate profile failed.
	FargateProfileFailedCondition = "FargateProfileFailed"
	// DependencyCycleCondition is True while objects that the control plane depends on, or that depend on it, wait for each other. The
	// message has the path, and which field to remove.
	DependencyCycleCondition = "DependencyCycle"
	// AdoptionRequiredCondition is True when the user must specify the WorkspaceTemplateApply that belongs to the control plane.
	AdoptionRequiredCondition = "AdoptionRequired"
	// DeletingCondition reports what the deletion of the control plane waits for.
	DeletingCondition = "Deleting"
)

// Reasons of conditions.
const (
	// AvailableReason: the API server is available.
	AvailableReason = "Available"
	// NotAvailableReason: the API server is not available.
	NotAvailableReason = "NotAvailable"
	// ReadyReason: the control plane matches its spec.
	ReadyReason = "Ready"
	// InitializedReason: the API server was available at least once.
	InitializedReason = "Initialized"
	// NotInitializedReason: the API server was not available yet.
	NotInitializedReason = "NotInitialized"
	// CreatingReason: the control plane is being created or updated.
	CreatingReason = "Creating"
	// NotCreatingReason: the control plane is neither being created nor updated.
	NotCreatingReason = "NotCreating"
	// WaitingForOwnerReason: Cluster API has not set the Cluster as the owner of the control plane yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// WaitingForInfrastructureReason: the VPC is not ready yet.
	WaitingForInfrastructureReason = "WaitingForInfrastructure"
	// VPCReadyTimeoutReason: the VPC was not ready within spec.timeouts.vpcReadySeconds.
	VPCReadyTimeoutReason = "VPCReadyTimeout"
	// ControlPlaneTimeoutReason: Terraform did not create or update the control plane within spec.timeouts.controlPlaneSeconds.
	ControlPlaneTimeoutReason = "ControlPlaneTimeout"
	// SecretTimeoutReason: a required Secret, or a key of the connection Secret, did not exist within
	// spec.timeouts.secretSeconds.
	SecretTimeoutReason = "SecretTimeout"
	// RegionConflictReason: the control plane and its CAPTCluster have different regions, or neither has one.
	RegionConflictReason = "RegionConflict"
	// InvalidVersionReason: spec.version is not a Kubernetes version.
	InvalidVersionReason = "InvalidVersion"
	// DependenciesReadyReason: all dependencies of the control plane are ready.
	DependenciesReadyReason = "DependenciesReady"
	// DependencyCycleReason: objects wait for each other, so that none of them is created or updated.
	DependencyCycleReason = "DependencyCycle"
	// NoDependencyCycleReason: there is no cycle any more.
	NoDependencyCycleReason = "NoDependencyCycle"
	// WorkspaceReadyReason: the Workspace is up to date.
	WorkspaceReadyReason = "WorkspaceReady"
	// EndpointKnownReason: the endpoint is known.
	EndpointKnownReason = "EndpointKnown"
	// EndpointMissingReason: Terraform applied the template, but the output cluster_endpoint is missing.
	EndpointMissingReason = "EndpointMissing"
	// EndpointInvalidReason: the output cluster_endpoint is neither a URL nor host[:port].
	EndpointInvalidReason = "EndpointInvalid"
	// EndpointChangedReason: the output no longer equals spec.controlPlaneEndpoint.
	EndpointChangedReason = "EndpointChanged"
	// WaitingForWorkspaceReason: the Workspace is not ready yet, which provides the endpoint and the values of the kubeconfig.
	WaitingForWorkspaceReason = "WaitingForWorkspace"
	// KubeconfigReadyReason: the kubeconfig Secret exists.
	KubeconfigReadyReason = "KubeconfigReady"
	// KubeconfigMissingReason: an output or token for the kubeconfig is missing.
	KubeconfigMissingReason = "KubeconfigMissing"
	// KubeconfigInvalidReason: an output for the kubeconfig is invalid.
	KubeconfigInvalidReason = "KubeconfigInvalid"
	// KubeconfigConflictReason: the kubeconfig Secret, or the cluster of the token, belongs to another owner.
	KubeconfigConflictReason = "KubeconfigConflict"
	// FargateProfileReadyReason: every Fargate profile matches its spec.
	FargateProfileReadyReason = "FargateProfileReady"
	// FargateProfileCreatingReason: Terraform creates or updates a Fargate profile, or is about to.
	FargateProfileCreatingReason = "FargateProfileCreating"
	// FargateProfileNotCreatingReason: no Fargate profile is being created or updated.
	FargateProfileNotCreatingReason = "FargateProfileNotCreating"
	// FargateProfileDeletingReason: a Fargate profile that was removed from spec is being deleted.
	FargateProfileDeletingReason = "FargateProfileDeleting"
	// FargateProfileFailedReason: a Fargate profile could not be created, updated or deleted, and the user must act.
	FargateProfileFailedReason = "FargateProfileFailed"
	// FargateProfileNotFailedReason: no Fargate profile has failed.
	FargateProfileNotFailedReason = "FargateProfileNotFailed"
	// FargateProfileDependencyReason: a dependency of a Fargate profile is missing or invalid, for example a Secret or a key of it, the
	// description of the VPC, or the IAM role of its pods. The profile is created when the dependency is corrected.
	FargateProfileDependencyReason = "FargateProfileDependencyNotReady"
	// AdoptionRequiredReason: the user must specify the WorkspaceTemplateApply that belongs to the control plane.
	AdoptionRequiredReason = "AdoptionRequired"
	// AdoptionNotRequiredReason: the reference is known.
	AdoptionNotRequiredReason = "AdoptionNotRequired"
	// WaitingForAPIServerReason: spec.endpointProbe is Required, and the API server has not answered yet.
	WaitingForAPIServerReason = "WaitingForAPIServer"
	// APIServerNotAnsweringReason: the API server does not answer, or is not ready.
	APIServerNotAnsweringReason = "APIServerNotAnswering"
	// HealthCheckFailedReason: the API server answers, but has another version than spec, or rejects the credentials of the kubeconfig.
	HealthCheckFailedReason = "HealthCheckFailed"
	// WaitingForWorkspaceTemplateApplyDeletionReason: the WorkspaceTemplateApply is being deleted.
	WaitingForWorkspaceTemplateApplyDeletionReason = "WaitingForWorkspaceTemplateApplyDeletion"
	// DeletingReason: the deletion is in progress, and no other reason applies.
	DeletingReason = "Deleting"
	// NotDeletingReason: the control plane is not being deleted.
	NotDeletingReason = "NotDeleting"
)
