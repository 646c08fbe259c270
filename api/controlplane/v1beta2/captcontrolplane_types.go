// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

const (
	// CAPTControlPlaneFinalizer keeps a CAPTControlPlane until its EKS cluster is destroyed. CAPT v0.3 used the same finalizer.
	CAPTControlPlaneFinalizer = "controlplane.cluster.x-k8s.io/captcontrolplane"
	// FargateProfileFinalizer keeps a CAPTControlPlane, and its EKS cluster, until its Fargate profiles are deleted.
	FargateProfileFinalizer = "fargateprofile.controlplane.cluster.x-k8s.io"
)

// CAPTControlPlaneSpec describes an EKS control plane.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.eksClusterName) || !has(self.eksClusterName) || self.eksClusterName == oldSelf.eksClusterName",message="eksClusterName is immutable: with another name, Terraform would replace the EKS cluster. Restore the name, or create a new Cluster",fieldPath=".eksClusterName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.workspaceTemplateApplyRef) || !has(self.workspaceTemplateApplyRef) || self.workspaceTemplateApplyRef == oldSelf.workspaceTemplateApplyRef",message="workspaceTemplateApplyRef is immutable: another WorkspaceTemplateApply is another EKS cluster. Restore the reference",fieldPath=".workspaceTemplateApplyRef",reason=FieldValueForbidden
type CAPTControlPlaneSpec struct {
	CAPTControlPlaneTemplateResourceSpec `json:",inline"`

	// version is the Kubernetes version: 1.31, v1.31, 1.31.0 and v1.31.0 are accepted and mean the EKS version 1.31.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^v?[1-9][0-9]*\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?([-+].*)?$`
	Version string `json:"version"`

	// controlPlaneEndpoint is the address of the API server. It is set by CAPT, and Cluster API copies it to the Cluster.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// workspaceTemplateApplyRef refers to the WorkspaceTemplateApply of the control plane. It is set once: by CAPT for a new
	// control plane, or by captctl on adoption.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	WorkspaceTemplateApplyRef infrav1.WorkspaceTemplateApplyReference `json:"workspaceTemplateApplyRef,omitempty,omitzero"`
}

// CAPTControlPlaneTemplateResourceSpec is the part of a CAPTControlPlane that templates have as well.
type CAPTControlPlaneTemplateResourceSpec struct {
	// region is the AWS region. It defaults to the region of the CAPTCluster of the same Cluster, and must be the same.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`
	Region string `json:"region,omitempty"`

	// eksClusterName is the name of the EKS cluster, which is unique in an AWS account and region. It defaults to the name of the Cluster, is
	// needed if EKS does not accept that name, and cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_-]*$`
	EKSClusterName string `json:"eksClusterName,omitempty"`

	// workspaceTemplateRef refers to the WorkspaceTemplate of the control plane.
	// +required
	WorkspaceTemplateRef infrav1.WorkspaceTemplateReference `json:"workspaceTemplateRef"`

	// variables for the template. Variables that CAPT sets take precedence.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=256
	Variables infrav1.Variables `json:"variables,omitempty"`

	// endpointAccess specifies from where the API server can be reached. A restriction is rejected if the WorkspaceTemplate has no
	// placeholder for it.
	// +optional
	EndpointAccess *EndpointAccess `json:"endpointAccess,omitempty"`

	// addons are the EKS add-ons. The WorkspaceTemplate must have the placeholder addons.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Addons []Addon `json:"addons,omitempty"`

	// additionalTags are tags for the AWS resources. The WorkspaceTemplate must have the placeholder tags, or one placeholder per tag.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) >= 1 && size(k) <= 128)",message="a tag key must have 1 to 128 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 256)",message="a tag value must have at most 256 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('aws:'))",message="tag keys with the prefix aws: are reserved by AWS. Rename the tag"
	AdditionalTags map[string]TagValue `json:"additionalTags,omitempty"`

	// timeouts of the phases of the control plane.
	// +optional
	Timeouts Timeouts `json:"timeouts,omitempty,omitzero"`

	// fargateProfiles are the Fargate profiles of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	FargateProfiles []FargateProfile `json:"fargateProfiles,omitempty"`

	// kubeconfig is the source of the kubeconfig Secret that Cluster API uses.
	// +optional
	Kubeconfig Kubeconfig `json:"kubeconfig,omitempty,omitzero"`

	// endpointProbe specifies whether CAPT probes the API server, and whether it must answer before the control plane is Ready; the default is
	// BestEffort.
	// +optional
	EndpointProbe EndpointProbe `json:"endpointProbe,omitempty"`

	// recovery specifies the automatic recovery from failures of Terraform; absent means the defaults.
	// +optional
	Recovery *infrav1.RecoveryStrategy `json:"recovery,omitempty"`

	// deletionProtection is Enabled or Disabled (the default). Enabled rejects the deletion of the CAPTControlPlane and of its Cluster, and
	// keeps the EKS cluster. To delete them, first set it to Disabled.
	// +optional
	// +kubebuilder:validation:Enum=Enabled;Disabled
	DeletionProtection infrav1.DeletionProtection `json:"deletionProtection,omitempty"`
}

// TagValue is the value of an AWS tag.
// +kubebuilder:validation:MaxLength=256
type TagValue string

// EndpointAccess specifies from where the API server can be reached.
// +kubebuilder:validation:XValidation:rule="self.?public.orValue('Enabled') == 'Enabled' || self.?private.orValue('Disabled') == 'Enabled'",message="the API server cannot be reached with both endpoints Disabled. Set public or private to Enabled"
// +kubebuilder:validation:XValidation:rule="!has(self.publicCIDRs) || self.?public.orValue('Enabled') == 'Enabled'",message="publicCIDRs has no effect while public is Disabled. Remove publicCIDRs, or set public to Enabled",fieldPath=".publicCIDRs"
type EndpointAccess struct {
	// public is the endpoint that can be reached over the internet: Enabled (the default) or Disabled.
	// +optional
	Public EndpointState `json:"public,omitempty"`

	// private is the endpoint within the VPC: Enabled or Disabled (the default).
	// +optional
	Private EndpointState `json:"private,omitempty"`

	// publicCIDRs are the networks from which the public endpoint can be reached; absent means all networks.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=40
	PublicCIDRs []CIDR `json:"publicCIDRs,omitempty"`
}

// HasPublic reports whether the API server has a public endpoint.
func (a EndpointAccess) HasPublic() bool { return a.Public != EndpointDisabled }

// HasPrivate reports whether the API server has a private endpoint.
func (a EndpointAccess) HasPrivate() bool { return a.Private == EndpointEnabled }

// EndpointState specifies whether the API server has an endpoint.
// +kubebuilder:validation:Enum=Enabled;Disabled
type EndpointState string

const (
	// EndpointEnabled: the API server has the endpoint.
	EndpointEnabled EndpointState = "Enabled"
	// EndpointDisabled: the API server does not have the endpoint.
	EndpointDisabled EndpointState = "Disabled"
)

// CIDR is a network, for example 203.0.113.0/24.
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a network in CIDR notation, for example 203.0.113.0/24"
type CIDR string

// Addon is an EKS add-on.
type Addon struct {
	// name of the add-on, for example coredns.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`

	// version of the add-on; absent means the default version of EKS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Version string `json:"version,omitempty"`

	// configurationValues is a JSON or YAML document with the settings of the add-on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	ConfigurationValues string `json:"configurationValues,omitempty"`
}

// Timeouts of the phases of a control plane, counted from when the work starts.
// +kubebuilder:validation:MinProperties=1
type Timeouts struct {
	infrav1.WaitTimeouts `json:",inline"`

	// controlPlaneSeconds is the timeout of the control plane; the default is 1800.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	ControlPlaneSeconds int32 `json:"controlPlaneSeconds,omitempty"`

	// vpcReadySeconds is the timeout of the VPC; the default is 900.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	VPCReadySeconds int32 `json:"vpcReadySeconds,omitempty"`

	// secretSeconds is the timeout of the connection Secret; the default is 300.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	SecretSeconds int32 `json:"secretSeconds,omitempty"`

	// fargateProfileSeconds is the timeout of Terraform for each Fargate profile; the default is 1800.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	FargateProfileSeconds int32 `json:"fargateProfileSeconds,omitempty"`
}

// FargateProfile is a Fargate profile of the cluster.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.workspaceTemplateApplyRef) || (has(self.workspaceTemplateApplyRef) && self.workspaceTemplateApplyRef == oldSelf.workspaceTemplateApplyRef)",message="workspaceTemplateApplyRef is immutable: another WorkspaceTemplateApply is another Fargate profile. Restore the reference",fieldPath=".workspaceTemplateApplyRef",reason=FieldValueForbidden
type FargateProfile struct {
	// name of the profile: letters, digits, "-" and "_", beginning with a letter or digit, with at most 100 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_-]*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('eks-')",message="names with the prefix eks- are reserved by EKS. Choose another name"
	Name string `json:"name"`

	// selectors select the pods of the profile; EKS allows 1 to 5.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	Selectors []FargateSelector `json:"selectors"`

	// workspaceTemplateRef refers to the WorkspaceTemplate of the profile.
	// +required
	WorkspaceTemplateRef infrav1.WorkspaceTemplateReference `json:"workspaceTemplateRef"`

	// workspaceTemplateApplyRef refers to the WorkspaceTemplateApply of the profile; the default is
	// <cluster>-<profile>-fargate-apply.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	WorkspaceTemplateApplyRef infrav1.WorkspaceTemplateApplyReference `json:"workspaceTemplateApplyRef,omitempty,omitzero"`
}

// FargateSelector selects pods by namespace and labels.
type FargateSelector struct {
	// namespace of the pods.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// labels of the pods; EKS allows 5.
	// +optional
	// +kubebuilder:validation:MaxProperties=5
	Labels map[string]string `json:"labels,omitempty"`
}

// KubeconfigSource is the source of the kubeconfig Secret that Cluster API uses.
// +kubebuilder:validation:Enum=Auto;Output;Exec;Token
type KubeconfigSource string

const (
	// KubeconfigAuto uses the Terraform output if it exists, otherwise Token or Exec.
	KubeconfigAuto KubeconfigSource = "Auto"
	// KubeconfigOutput uses the Terraform output kubeconfig.
	KubeconfigOutput KubeconfigSource = "Output"
	// KubeconfigExec creates a kubeconfig that runs "aws eks get-token".
	KubeconfigExec KubeconfigSource = "Exec"
	// KubeconfigToken creates a kubeconfig with a short-lived EKS token, renewed by the manager.
	KubeconfigToken KubeconfigSource = "Token"
)

// Kubeconfig specifies the kubeconfig Secret that Cluster API uses.
// +kubebuilder:validation:MinProperties=1
type Kubeconfig struct {
	// source of the kubeconfig; the default is Auto.
	// +optional
	Source KubeconfigSource `json:"source,omitempty"`
}

// EndpointProbe specifies whether CAPT probes the API server, and whether it must answer before the control plane is Ready.
// +kubebuilder:validation:Enum=BestEffort;Required;Disabled
type EndpointProbe string

const (
	// EndpointProbeBestEffort probes. An API server that never answered is ignored, because the network may not reach it.
	EndpointProbeBestEffort EndpointProbe = "BestEffort"
	// EndpointProbeRequired probes, and the control plane is not Ready before the API server has answered.
	EndpointProbeRequired EndpointProbe = "Required"
	// EndpointProbeDisabled does not probe, and machine pools do not read the nodes.
	EndpointProbeDisabled EndpointProbe = "Disabled"
)

// CAPTControlPlane is an EKS control plane created with Terraform: the ControlPlane of Cluster API.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captcontrolplanes,scope=Namespaced,shortName=captcp,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,priority=1
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`,priority=1
// +kubebuilder:printcolumn:name="Progress",type=integer,JSONPath=`.status.progress.percentComplete`,priority=1
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.status.workspaceTemplateApply.workspaceName`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=1
type CAPTControlPlane struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the control plane.
	// +required
	Spec CAPTControlPlaneSpec `json:"spec"`

	// status is the observed state of the control plane.
	// +optional
	Status CAPTControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (c *CAPTControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (c *CAPTControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// GetLifecycle returns the part of status that all owners have, to read and write it.
func (c *CAPTControlPlane) GetLifecycle() *infrav1.Lifecycle { return &c.Status.Lifecycle }

// GetWorkspaceTemplateRef returns the reference to the WorkspaceTemplate of the control plane.
func (c *CAPTControlPlane) GetWorkspaceTemplateRef() infrav1.WorkspaceTemplateReference {
	return c.Spec.WorkspaceTemplateRef
}

// IsDeletionProtected reports whether the object is protected from deletion.
func (c *CAPTControlPlane) IsDeletionProtected() bool {
	return c.Spec.DeletionProtection == infrav1.DeletionProtectionEnabled
}

// CAPTControlPlaneList is a list of CAPTControlPlanes.
//
// +kubebuilder:object:root=true
type CAPTControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTControlPlane `json:"items"`
}

// Phase is the coarse form of State.
// +kubebuilder:validation:Enum=Creating;Ready;Failed
type Phase string

const (
	// PhaseCreating: the control plane is being created or updated.
	PhaseCreating Phase = "Creating"
	// PhaseReady: the control plane can be used.
	PhaseReady Phase = "Ready"
	// PhaseFailed: the user must act.
	PhaseFailed Phase = "Failed"
)

// CAPTControlPlaneStatus is the observed state of a control plane.
// +kubebuilder:validation:MinProperties=1
type CAPTControlPlaneStatus struct {
	// conditions are Available (mirrored by Cluster API as ControlPlaneAvailable), Ready, and the conditions that these summarize.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is part of the Cluster API contract.
	// +optional
	Initialization CAPTControlPlaneInitializationStatus `json:"initialization,omitempty,omitzero"`

	// externalManagedControlPlane is always true: EKS runs the control plane, which has no Nodes. It is part of the
	// Cluster API contract.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`

	// versions are the Kubernetes versions of the control plane; part of the Cluster API contract.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// version is the Kubernetes version that was last applied; part of the Cluster API contract.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	infrav1.Lifecycle `json:",inline"`

	// phase is the coarse form of state.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// endpoint is host:port of the API server, for the output of kubectl get.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Endpoint string `json:"endpoint,omitempty"`

	// workspaceTemplateApply is the WorkspaceTemplateApply in use.
	// +optional
	WorkspaceTemplateApply *WorkspaceTemplateApplyStatus `json:"workspaceTemplateApply,omitempty"`

	// fargateProfiles are the Fargate profiles, in the order of spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	FargateProfiles []FargateProfileStatus `json:"fargateProfiles,omitempty"`

	// health of the control plane.
	// +optional
	Health *Health `json:"health,omitempty"`

	// dependencies are the objects that this one depends on, or that depend on it, directly or not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Dependencies []Dependency `json:"dependencies,omitempty"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conversionData is the part of status that only v1beta1 has, for the conversion between the versions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	ConversionData string `json:"conversionData,omitempty"`
}

// CAPTControlPlaneInitializationStatus is part of the Cluster API contract.
// +kubebuilder:validation:MinProperties=1
type CAPTControlPlaneInitializationStatus struct {
	// controlPlaneInitialized is true once the API server was available, and stays true.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// WorkspaceTemplateApplyStatus is the state of the WorkspaceTemplateApply of a control plane.
type WorkspaceTemplateApplyStatus struct {
	infrav1.WorkspaceTemplateApplySummary `json:",inline"`

	// state is the reason of the Ready condition of the WorkspaceTemplateApply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	State string `json:"state,omitempty"`

	// outputs are the published Terraform outputs.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
}

// FargateProfileStatus is the observed state of a Fargate profile.
type FargateProfileStatus struct {
	// name of the profile.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`

	// ready is True when the profile matches its spec, False when it does not.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Ready metav1.ConditionStatus `json:"ready,omitempty"`

	// state of the profile.
	// +optional
	State FargateProfileState `json:"state,omitempty"`

	// lastTransitionTime is when state changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// workspaceTemplateApplyName is the WorkspaceTemplateApply of the profile.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkspaceTemplateApplyName string `json:"workspaceTemplateApplyName,omitempty"`

	// failureReason is the reason of the failure in CamelCase.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage describes the failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	FailureMessage string `json:"failureMessage,omitempty"`
}

// FargateProfileState is a state of a Fargate profile.
// +kubebuilder:validation:Enum=Waiting;Creating;Ready;DependencyMissing;Failed;Deleting
type FargateProfileState string

const (
	// FargateProfileStateWaiting: the control plane is not ready, or the object is paused.
	FargateProfileStateWaiting FargateProfileState = "Waiting"
	// FargateProfileStateCreating: Terraform creates or updates the profile, or is about to.
	FargateProfileStateCreating FargateProfileState = "Creating"
	// FargateProfileStateReady: the profile matches its spec.
	FargateProfileStateReady FargateProfileState = "Ready"
	// FargateProfileStateDependencyMissing: a dependency is missing or unusable. CAPT continues when it is repaired.
	FargateProfileStateDependencyMissing FargateProfileState = "DependencyMissing"
	// FargateProfileStateFailed: the profile could not be created, updated or deleted, and the user must act.
	FargateProfileStateFailed FargateProfileState = "Failed"
	// FargateProfileStateDeleting: Terraform destroys the profile, or is about to.
	FargateProfileStateDeleting FargateProfileState = "Deleting"
)

// Health of a control plane.
type Health struct {
	// overall is the worst of the checks; what is not known without credentials does not count while the API server answers.
	// +optional
	Overall HealthState `json:"overall,omitempty"`

	// checks are the results of the individual checks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks,omitempty"`
}

// HealthState is the result of a check.
// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
type HealthState string

const (
	// HealthHealthy: the check passed.
	HealthHealthy HealthState = "Healthy"
	// HealthUnhealthy: the check failed.
	HealthUnhealthy HealthState = "Unhealthy"
	// HealthUnknown: the check could not run.
	HealthUnknown HealthState = "Unknown"
)

// HealthCheck is the result of one check. Latency and time of the check are metrics, so that a healthy cluster causes no
// writes.
type HealthCheck struct {
	// name of the check.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// status of the check.
	// +required
	Status HealthState `json:"status,omitempty"`

	// message about the status.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// lastTransitionTime is when status changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// DependencyDirection is the direction of a dependency.
// +kubebuilder:validation:Enum=Upstream;Downstream
type DependencyDirection string

const (
	// DependencyUpstream: the control plane depends on the object.
	DependencyUpstream DependencyDirection = "Upstream"
	// DependencyDownstream: the object depends on the control plane.
	DependencyDownstream DependencyDirection = "Downstream"
)

// Dependency is an object that the control plane depends on, or an object that depends on the control plane.
type Dependency struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// namespace of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the object; "(another namespace)" for all objects of the kind in other namespaces.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// direction of the dependency.
	// +required
	Direction DependencyDirection `json:"direction,omitempty"`

	// ready is True when the object is ready to be depended on; absent when another namespace does not disclose it.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Ready metav1.ConditionStatus `json:"ready,omitempty"`

	// reason why the object is not ready.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}
