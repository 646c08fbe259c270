// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Conditions of CAPTControlPlane.
const (
	// AvailableCondition is mirrored by Cluster API as ControlPlaneAvailable: the API server of the cluster can be used,
	// whatever else goes on.
	AvailableCondition = "Available"
	// ReadyCondition is the summary: the control plane is what its spec asks for.
	ReadyCondition = "Ready"
	// InitializedCondition is True once the API server could be used for the first time.
	InitializedCondition = "Initialized"
	// CreatingCondition is True while the phase is Creating.
	CreatingCondition = "Creating"
	// FailedCondition is True while the phase is Failed; its reason and message say why.
	FailedCondition = "Failed"
	// WorkspaceReadyCondition is True when the Workspace of the control plane is up to date.
	WorkspaceReadyCondition = "WorkspaceReady"
	// DependenciesReadyCondition is True when the Cluster, the VPC and the WorkspaceTemplate are there.
	DependenciesReadyCondition = "DependenciesReady"
	// EndpointAvailableCondition is True when the endpoint of the API server is known.
	EndpointAvailableCondition = "EndpointAvailable"
	// KubeconfigReadyCondition is True when the kubeconfig Secret of the contract is there.
	KubeconfigReadyCondition = "KubeconfigReady"
	// FargateProfileReadyCondition is True when every Fargate profile is ready.
	FargateProfileReadyCondition = "FargateProfileReady"
	// FargateProfileCreatingCondition is True while a Fargate profile is being made.
	FargateProfileCreatingCondition = "FargateProfileCreating"
	// FargateProfileFailedCondition is True when a Fargate profile failed.
	FargateProfileFailedCondition = "FargateProfileFailed"
	// DegradedCondition is True when the control plane was Ready and a part of it no longer is.
	DegradedCondition = "Degraded"
	// RecoveringCondition is True while a recovery action runs. Not reported yet.
	RecoveringCondition = "Recovering"
	// AdoptionRequiredCondition is True when a person must say which WorkspaceTemplateApply belongs to the control plane.
	AdoptionRequiredCondition = "AdoptionRequired"
	// DeletingCondition says, while the control plane is being deleted, what is waited for.
	DeletingCondition = "Deleting"
)

// Reasons. Each says in one word what the message says in full.
const (
	// AvailableReason: the API server of the cluster can be used.
	AvailableReason = "Available"
	// NotAvailableReason: it can not be used yet, or no longer.
	NotAvailableReason = "NotAvailable"
	// ReadyReason: the control plane is what its spec asks for.
	ReadyReason = "Ready"
	// InitializedReason: the API server could be used at least once.
	InitializedReason = "Initialized"
	// NotInitializedReason: it could not be used yet.
	NotInitializedReason = "NotInitialized"
	// CreatingReason: the control plane is being made or changed.
	CreatingReason = "Creating"
	// NotCreatingReason: it is not.
	NotCreatingReason = "NotCreating"
	// NotFailedReason: nothing a person must repair.
	NotFailedReason = "NotFailed"
	// WaitingForOwnerReason: Cluster API has not made the Cluster the owner of the control plane yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// WaitingForInfrastructureReason: the VPC is not ready yet.
	WaitingForInfrastructureReason = "WaitingForInfrastructure"
	// VPCReadyTimeoutReason: the VPC is not ready in spec.timeouts.vpcReadySeconds after Terraform began with it.
	VPCReadyTimeoutReason = "VPCReadyTimeout"
	// ControlPlaneTimeoutReason: Terraform has not made, or changed, the control plane in spec.timeouts.controlPlaneSeconds after
	// it began.
	ControlPlaneTimeoutReason = "ControlPlaneTimeout"
	// SecretTimeoutReason: a Secret that is waited for, or what the connection Secret should hold, is not there in
	// spec.timeouts.secretSeconds.
	SecretTimeoutReason = "SecretTimeout"
	// RegionConflictReason: the control plane and its CAPTCluster name different regions, or neither names one.
	RegionConflictReason = "RegionConflict"
	// InvalidVersionReason: spec.version is not a Kubernetes version.
	InvalidVersionReason = "InvalidVersion"
	// DependenciesReadyReason: everything the control plane needs is there.
	DependenciesReadyReason = "DependenciesReady"
	// WorkspaceReadyReason: the Workspace is up to date.
	WorkspaceReadyReason = "WorkspaceReady"
	// EndpointKnownReason: the endpoint is known.
	EndpointKnownReason = "EndpointKnown"
	// EndpointMissingReason: Terraform applied the template, but there is no output cluster_endpoint.
	EndpointMissingReason = "EndpointMissing"
	// EndpointInvalidReason: the output cluster_endpoint is not a URL and not host[:port].
	EndpointInvalidReason = "EndpointInvalid"
	// EndpointChangedReason: the output no longer equals spec.controlPlaneEndpoint.
	EndpointChangedReason = "EndpointChanged"
	// WaitingForWorkspaceReason: it is not known before the Workspace is ready.
	WaitingForWorkspaceReason = "WaitingForWorkspace"
	// KubeconfigReadyReason: the kubeconfig Secret is there.
	KubeconfigReadyReason = "KubeconfigReady"
	// KubeconfigMissingReason: something is missing that the kubeconfig is made of: an output, or a token.
	KubeconfigMissingReason = "KubeconfigMissing"
	// KubeconfigInvalidReason: an output that the kubeconfig is made of can not be used.
	KubeconfigInvalidReason = "KubeconfigInvalid"
	// KubeconfigConflictReason: the kubeconfig Secret, or the cluster that a token would be for, belongs to somebody else.
	KubeconfigConflictReason = "KubeconfigConflict"
	// FargateProfileReadyReason: every Fargate profile is what spec asks for.
	FargateProfileReadyReason = "FargateProfileReady"
	// FargateProfileCreatingReason: Terraform makes or changes a Fargate profile, or is about to.
	FargateProfileCreatingReason = "FargateProfileCreating"
	// FargateProfileNotCreatingReason: none is made or changed.
	FargateProfileNotCreatingReason = "FargateProfileNotCreating"
	// FargateProfileDeletingReason: a Fargate profile that spec no longer has is being deleted.
	FargateProfileDeletingReason = "FargateProfileDeleting"
	// FargateProfileFailedReason: a Fargate profile could not be made, changed or deleted, and a person must mend it.
	FargateProfileFailedReason = "FargateProfileFailed"
	// FargateProfileNotFailedReason: none has failed.
	FargateProfileNotFailedReason = "FargateProfileNotFailed"
	// FargateProfileDependencyReason: what a Fargate profile stands on is missing or can not be used: a Secret or a key of it,
	// the description of the VPC, or the role that its pods need. The profile goes on when that is mended.
	FargateProfileDependencyReason = "FargateProfileDependencyNotReady"
	// AdoptionRequiredReason: a person must say which WorkspaceTemplateApply belongs to the control plane.
	AdoptionRequiredReason = "AdoptionRequired"
	// AdoptionNotRequiredReason: the reference is known.
	AdoptionNotRequiredReason = "AdoptionNotRequired"
	// DegradedReason: the control plane was Ready and a part of it no longer is.
	DegradedReason = "Degraded"
	// NotDegradedReason: it is not degraded.
	NotDegradedReason = "NotDegraded"
	// WaitingForWorkspaceTemplateApplyDeletionReason: Terraform is destroying, or about to.
	WaitingForWorkspaceTemplateApplyDeletionReason = "WaitingForWorkspaceTemplateApplyDeletion"
	// DeletingReason: nothing is waited for any more.
	DeletingReason = "Deleting"
	// NotDeletingReason: the control plane is not being deleted.
	NotDeletingReason = "NotDeleting"
)
