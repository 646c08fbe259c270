// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Field managers of server-side apply: one per writer, so that managedFields show the owner of each field.
const (
	// FieldManagerPrefix begins the field managers of controllers.
	FieldManagerPrefix = "capt-"
	// CAPTClusterFieldManager writes the WorkspaceTemplateApply of a VPC.
	CAPTClusterFieldManager = "capt-captcluster"
	// CAPTControlPlaneFieldManager writes the WorkspaceTemplateApply and the kubeconfig Secret of a control plane.
	CAPTControlPlaneFieldManager = "capt-captcontrolplane"
	// CAPTMachinePoolFieldManager applies the WorkspaceTemplateApplies of node groups.
	CAPTMachinePoolFieldManager = "capt-captmachinepool"
	// WorkspaceTemplateApplyFieldManager writes Workspaces.
	WorkspaceTemplateApplyFieldManager = "capt-workspacetemplateapply"
	// RolloutFieldManager writes spec.templateRevision of WorkspaceTemplateApplies.
	RolloutFieldManager = "capt-rollout"
	// RecoveryFieldManager writes RecoveryAnnotation. It differs from the managers of server-side apply, so that they do not remove it.
	RecoveryFieldManager = "capt-recovery"
	// MigrationFieldManager is captctl migrate. It grants nothing, because every client can use it: it says which requests of a user with
	// GuardMigrateVerb may remove a field that is part of the identity of an object, to roll back an adoption.
	MigrationFieldManager = "captctl"
)

// MigrationPause is the value of the annotation cluster.x-k8s.io/paused on objects that captctl migrate is writing.
const MigrationPause = "captctl-migrate"

// ClaimAnnotation is set on a Workspace when it is created, and never changed. Its value is the namespace and name of the
// WorkspaceTemplateApply that owns the Workspace, so that the owner is known even if its status is lost.
const ClaimAnnotation = "capt.cluster.x-k8s.io/workspace-template-apply"

// ExternalNameAnnotation is set on a WorkspaceTemplateApply when its Workspace is created or found, and records the external
// name of the Workspace. clusterctl move and backups keep annotations, but not status.
const ExternalNameAnnotation = "capt.cluster.x-k8s.io/external-name"

// AllowDeleteAnnotation with the value "true" allows a deletion that the ValidatingAdmissionPolicies in config/policy refuse: of a
// WorkspaceTemplateApply that has an owner, of a Workspace with ClaimAnnotation, of a CustomResourceDefinition of CAPT, or of a
// namespace with objects of CAPT. Deletions by the manager do not need it.
const AllowDeleteAnnotation = "capt.cluster.x-k8s.io/allow-delete"

// PolicyLabel identifies a ValidatingAdmissionPolicyBinding of CAPT. Installations can rename the binding.
const PolicyLabel = "capt.cluster.x-k8s.io/policy"

// GuardGroup, GuardResource and the verbs form RBAC permissions that policies and webhooks check. The resource does not exist. By GuardVerb, which
// the ClusterRole of the manager grants, they recognize the manager. No role grants GuardWildcardVerb by name: a client that has it has a wildcard
// permission, so that cluster administrators are not treated as the manager. GuardMigrateVerb is the right to move the identity of objects: to roll
// back an adoption, to delete objects that clusterctl has moved, and to create objects with what CAPT had assigned to them.
const (
	GuardGroup        = "capt.cluster.x-k8s.io"
	GuardResource     = "guards"
	GuardVerb         = "bypass"
	GuardWildcardVerb = "bypass-by-wildcard"
	GuardMigrateVerb  = "migrate"
)

// AllowReleaseFromAnnotation on a WorkspaceTemplateApply with deletionPolicy Retain allows its deletion although other
// WorkspaceTemplateApplies may destroy cloud resources that the retained ones depend on. Its value is the names of these others,
// separated by commas. Without the annotation, the deletion is blocked.
const AllowReleaseFromAnnotation = "capt.cluster.x-k8s.io/allow-release-from"

// AdoptWorkspaceAnnotation on a WorkspaceTemplateApply is the UID of the Workspace that the user decided to adopt: one that a deleted
// object of the same name left behind, or that CAPT v0.3 created. The other evidence is still required, because a user of one namespace
// could set the UID of a Workspace of another namespace.
const AdoptWorkspaceAnnotation = "capt.cluster.x-k8s.io/adopt-workspace"

// AllowProviderConfigAnnotation on a WorkspaceTemplateApply is the ProviderConfig that its Workspace may be changed to, in the form of
// render.ProviderConfigOf. Another ProviderConfig may be another AWS account or backend, in which Terraform would create all resources
// again.
const AllowProviderConfigAnnotation = "capt.cluster.x-k8s.io/allow-provider-config"

// ExternalNameUIDAnnotation on a WorkspaceTemplateApply is the UID that the object had when ExternalNameAnnotation was set. After a move or
// a restore, the object has another UID.
const ExternalNameUIDAnnotation = "capt.cluster.x-k8s.io/external-name-noted-by"

// TerraformStateAnnotation is set on a WorkspaceTemplateApply whose Terraform state has another name than CAPT would give to a new one: the ProviderConfig, in
// the form of render.ProviderConfigOf, and the name, separated by a space. Only CAPT and users with GuardMigrateVerb can set it, so that an object which such a
// user restores without status takes this state over.
const TerraformStateAnnotation = "capt.cluster.x-k8s.io/terraform-state"

// PinnedLabel with the value "true" marks a WorkspaceTemplate that captctl migrate created to reproduce one Workspace. The value of
// PinnedForAnnotation is the kind, namespace and name of the object that it was created for.
const (
	PinnedLabel         = "capt.cluster.x-k8s.io/pinned"
	PinnedForAnnotation = "capt.cluster.x-k8s.io/pinned-for"
)

// RetryAnnotation on a CAPTCluster, a CAPTControlPlane or a CAPTMachinePool requests a retry: each new value restarts the timeouts and the recovery
// attempts, and ends a state Failed that a timeout caused.
const RetryAnnotation = "capt.cluster.x-k8s.io/retry"

// ReconcileAnnotation on a CAPTCluster, a CAPTControlPlane or a WorkspaceTemplateApply causes a reconcile, because each of its changes is an event.
// Its value has no meaning.
const ReconcileAnnotation = "capt.cluster.x-k8s.io/reconcile-at"

// ResumedAnnotation of a Workspace is in commands that CAPT shows, with a time as its value: an edit of any annotation makes provider-terraform run. CAPT sets it
// when the connection Secret was deleted.
const ResumedAnnotation = "capt.cluster.x-k8s.io/resumed"

// StateNotSavedAnnotation on a Workspace is "true" if CAPT paused it because Terraform could not save its state. It is for messages only.
const StateNotSavedAnnotation = "capt.cluster.x-k8s.io/state-not-saved"

// RecoveryAnnotation on a WorkspaceTemplateApply requests a recovery action for its Workspace, or one run (package runs). The same value on the Workspace records that
// the action was carried out, and makes provider-terraform reconcile the Workspace.
const RecoveryAnnotation = "capt.cluster.x-k8s.io/recovery"

// SerializeLabel serializes the WorkspaceTemplateApplies of one Cluster with the same label value: Terraform creates, changes or destroys
// one of them at a time.
const SerializeLabel = "capt.cluster.x-k8s.io/serialize"

// FargateProfilesGroup is the value of SerializeLabel for Fargate profiles. EKS creates or deletes one profile of a cluster at a time, and
// rejects other requests meanwhile ("Fargate profile quotas and limits" in the user guide of Amazon EKS).
const FargateProfilesGroup = "fargate-profiles"

// Annotations of a WorkspaceTemplate with a staged rollout. Their values are hashes of revisions, so that each one is about one content. Those of an
// approval are also those of a WorkspaceTemplateApply: the hash is then the one of its rendered Workspace.
const (
	// ApproveAnnotation is the revision that a user approved. ApprovedByAnnotation is that user, and ApprovedAtAnnotation the time: the webhooks
	// set them when ApproveAnnotation changes, and overwrite any other value. The ControllerRevision of an approved revision has them, too.
	ApproveAnnotation    = "capt.cluster.x-k8s.io/approve"
	ApprovedByAnnotation = "capt.cluster.x-k8s.io/approved-by"
	ApprovedAtAnnotation = "capt.cluster.x-k8s.io/approved-at"
	// ApproveDestroyAnnotation is the revision for which a user also approved that Terraform replaces or deletes resources. It has no effect without
	// ApproveAnnotation of the same revision.
	ApproveDestroyAnnotation = "capt.cluster.x-k8s.io/approve-destroy"
	// ResumeAnnotation is the revision whose rollout continues although it fails for users.
	ResumeAnnotation = "capt.cluster.x-k8s.io/resume"
)

// TemplateRevisionLabel is set on the ControllerRevision of a revision of a WorkspaceTemplate. Its value is the hash of the revision.
const TemplateRevisionLabel = "capt.cluster.x-k8s.io/template-revision"

// RolledOutAnnotation with the value "true" marks the ControllerRevision of a revision whose rollout was completed once.
const RolledOutAnnotation = "capt.cluster.x-k8s.io/rolled-out"

// A Workspace with PreviewLabel is a preview: it shows the plan of Terraform for another content, and applies nothing. PreviewOfAnnotation is
// the WorkspaceTemplateApply, in the form of ClaimAnnotation, which a preview must not have: it is not the Workspace of that object.
// PreviewRevisionAnnotation is the hash of its content.
// PreviewLookAnnotation is when CAPT last requested a plan, and the checksum that the preview had then, after a slash.
const (
	PreviewLabel              = "capt.cluster.x-k8s.io/preview"
	PreviewOfAnnotation       = "capt.cluster.x-k8s.io/preview-of"
	PreviewRevisionAnnotation = "capt.cluster.x-k8s.io/preview-revision"
	PreviewLookAnnotation     = "capt.cluster.x-k8s.io/preview-look"
)

// IsPreview reports whether a Workspace is a preview, which is the Workspace of no object. Another client may have removed one of the two marks.
func IsPreview(workspace metav1.Object) bool {
	_, labeled := workspace.GetLabels()[PreviewLabel]
	return labeled || workspace.GetAnnotations()[PreviewOfAnnotation] != ""
}

// ProveAnnotation on a WorkspaceTemplateApply that is being adopted requests a proof: a plan of Terraform for what CAPT would write. While it is set, the
// object counts as not adopted. The value identifies the request. captctl migrate apply --prove sets it, and removes it when all plans are empty.
const ProveAnnotation = "capt.cluster.x-k8s.io/prove-adoption"

// RestoredAnnotation is on objects that captctl restore has created. Its value is the checksum of the backup. It grants nothing: it says what --rollback may remove.
const RestoredAnnotation = "capt.cluster.x-k8s.io/restored-from"

// EvacuateAnnotation on a WorkspaceTemplateApply requests the move of its state to a Workspace of the scope of its template. Its value identifies the request.
const EvacuateAnnotation = "capt.cluster.x-k8s.io/evacuate"

// EvacuatedFromAnnotation on a WorkspaceTemplate that captctl evacuate has created is the name of the cluster-wide template that it was copied from.
const EvacuatedFromAnnotation = "capt.cluster.x-k8s.io/evacuated-from"

// Claim returns the value of ClaimAnnotation for a WorkspaceTemplateApply.
func Claim(apply types.NamespacedName) string { return apply.String() }

// Identity variables: they identify cloud resources. Once a WorkspaceTemplateApply has a value for one of them, CAPT does not change it:
// with another value, Terraform would replace the running EKS cluster or VPC.
const (
	ClusterVariable = "cluster_name"
	VPCVariable     = "vpc_name"
	VPCIDVariable   = "vpc_id"
	RegionVariable  = "region"
	// ProfileVariable names a Fargate profile.
	ProfileVariable = "profile_name"
	// NodeGroupVariable names an EKS node group.
	NodeGroupVariable = "nodegroup_name"
)

// IdentityVariables returns the names of the identity variables.
func IdentityVariables() []string {
	return []string{ClusterVariable, VPCVariable, VPCIDVariable, RegionVariable, ProfileVariable}
}

// Variables for templates of Fargate profiles: names of the Secrets that varFiles may refer to.
const (
	// VPCConnectionVariable is the name of the Secret with the key vpc_config.
	VPCConnectionVariable = "vpc_connection_secret"
	// EKSConnectionVariable is the name of the connection Secret of the control plane.
	EKSConnectionVariable = "eks_connection_secret"
)

// VersionVariable is the Kubernetes version in EKS' form, for example 1.31.
const VersionVariable = "kubernetes_version"

// Variables for templates of node groups: numbers. DesiredSizeVariable is absent if another client manages the size.
const (
	DesiredSizeVariable = "desired_size"
	MinSizeVariable     = "min_size"
	MaxSizeVariable     = "max_size"
)

// Variables for templates of control planes, and of Fargate profiles. The values of lists and maps are JSON.
const (
	PublicAccessVariable      = "endpoint_public_access"
	PrivateAccessVariable     = "endpoint_private_access"
	PublicAccessCIDRsVariable = "endpoint_public_access_cidrs"
	AddonsVariable            = "addons"
	TagsVariable              = "tags"
	SelectorsVariable         = "selectors"
)

// Variables of a new control plane from the network of the Cluster. They are not set later: EKS cannot change the network of a cluster, and Terraform
// would replace it.
const (
	ServiceCIDRVariable = "service_cidr"
	PodCIDRVariable     = "pod_cidr"
	IPFamilyVariable    = "ip_family"
)

// NetworkVariables returns the names of the variables of the network.
func NetworkVariables() []string {
	return []string{ServiceCIDRVariable, PodCIDRVariable, IPFamilyVariable}
}

// DocumentVariables returns the names of the variables of CAPT that are lists and maps, as JSON.
func DocumentVariables() []string {
	return []string{PublicAccessCIDRsVariable, AddonsVariable, TagsVariable, SelectorsVariable}
}

// TagPrefix is the prefix of the variables that CAPT creates from tags, one for each tag. The rest of the name is the key of the tag, which
// may have characters that a placeholder cannot have.
const TagPrefix = "tags_"
