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
)

// Reasons of conditions. The table in api/reasons has what they mean, and what to do. Comments here say what it does not.
const (
	AvailableReason                = "Available"
	NotAvailableReason             = "NotAvailable"
	ReadyReason                    = "Ready"
	InitializedReason              = "Initialized"
	NotInitializedReason           = "NotInitialized"
	CreatingReason                 = "Creating"
	NotCreatingReason              = "NotCreating"
	WaitingForInfrastructureReason = "WaitingForInfrastructure"
	ControlPlaneTimeoutReason      = "ControlPlaneTimeout"
	// SecretTimeoutReason: a required Secret, or a key of the connection Secret, did not exist within
	// spec.timeouts.secretSeconds.
	SecretTimeoutReason     = "SecretTimeout"
	RegionConflictReason    = "RegionConflict"
	DependencyCycleReason   = "DependencyCycle"
	NoDependencyCycleReason = "NoDependencyCycle"
	WorkspaceReadyReason    = "WorkspaceReady"
	EndpointKnownReason     = "EndpointKnown"
	// EndpointMissingReason: Terraform applied the template, but the output cluster_endpoint is missing.
	EndpointMissingReason = "EndpointMissing"
	// EndpointInvalidReason: the output cluster_endpoint is neither a URL nor host[:port].
	EndpointInvalidReason = "EndpointInvalid"
	EndpointChangedReason = "EndpointChanged"
	// WaitingForWorkspaceReason: the Workspace is not ready yet, which provides the endpoint and the values of the kubeconfig.
	WaitingForWorkspaceReason       = "WaitingForWorkspace"
	KubeconfigReadyReason           = "KubeconfigReady"
	KubeconfigMissingReason         = "KubeconfigMissing"
	KubeconfigInvalidReason         = "KubeconfigInvalid"
	KubeconfigConflictReason        = "KubeconfigConflict"
	FargateProfileReadyReason       = "FargateProfileReady"
	FargateProfileCreatingReason    = "FargateProfileCreating"
	FargateProfileNotCreatingReason = "FargateProfileNotCreating"
	FargateProfileDeletingReason    = "FargateProfileDeleting"
	FargateProfileFailedReason      = "FargateProfileFailed"
	FargateProfileNotFailedReason   = "FargateProfileNotFailed"
	// FargateProfileDependencyReason: a dependency of a Fargate profile is missing or invalid, for example a Secret or a key of it, the
	// description of the VPC, or the IAM role of its pods. The profile is created when the dependency is corrected.
	FargateProfileDependencyReason = "FargateProfileDependencyNotReady"
	// WaitingForAPIServerReason: spec.endpointProbe is Required, and the API server has not answered yet.
	WaitingForAPIServerReason   = "WaitingForAPIServer"
	APIServerNotAnsweringReason = "APIServerNotAnswering"
	// HealthCheckFailedReason: the API server answers, but has another version than spec, or rejects the credentials of the kubeconfig.
	HealthCheckFailedReason = "HealthCheckFailed"
)
