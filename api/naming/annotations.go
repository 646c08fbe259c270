// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

import "k8s.io/apimachinery/pkg/types"

// Field managers of server-side apply: one per writer, so that managedFields show the owner of each field.
const (
	// CAPTClusterFieldManager writes the WorkspaceTemplateApply of a VPC.
	CAPTClusterFieldManager = "capt-captcluster"
	// CAPTControlPlaneFieldManager writes the WorkspaceTemplateApply and the kubeconfig Secret of a control plane.
	CAPTControlPlaneFieldManager = "capt-captcontrolplane"
	// WorkspaceTemplateApplyFieldManager writes Workspaces.
	WorkspaceTemplateApplyFieldManager = "capt-workspacetemplateapply"
	// MigrationFieldManager is captctl migrate. It alone may remove a reference or the name of a Workspace that is written
	// once, to undo an adoption (config/policy).
	MigrationFieldManager = "captctl"
)

// MigrationPause is the value of the annotation cluster.x-k8s.io/paused on objects that captctl migrate is writing.
const MigrationPause = "captctl-migrate"

// ClaimAnnotation is put on a Workspace when it is created, and never changed. Its value is the namespace and name of the
// WorkspaceTemplateApply that owns it, so that a lost status never loses the Workspace.
const ClaimAnnotation = "capt.cluster.x-k8s.io/workspace-template-apply"

// ExternalNameAnnotation is put on a WorkspaceTemplateApply when its Workspace is created or found, and records the external
// name of the Workspace. clusterctl move and backups take annotations along, but no status.
const ExternalNameAnnotation = "capt.cluster.x-k8s.io/external-name"

// AllowDeleteAnnotation with the value "true" allows a deletion that the policies of the API server (config/policy) refuse: of a
// WorkspaceTemplateApply that has an owner, of a Workspace with a claim, of a definition of CAPT, or of a namespace that holds
// objects of CAPT. CAPT's own deletions do not need it.
const AllowDeleteAnnotation = "capt.cluster.x-k8s.io/allow-delete"

// PolicyLabel says which rule a ValidatingAdmissionPolicyBinding is for, whatever an installation names it.
const PolicyLabel = "capt.cluster.x-k8s.io/policy"

// GuardGroup, GuardResource and the verbs are not an API; they name a permission by which policies and webhooks recognize the manager. Its
// ClusterRole grants GuardVerb, and nothing grants GuardWildcardVerb, so that cluster administrators are not treated as the manager.
const (
	GuardGroup        = "capt.cluster.x-k8s.io"
	GuardResource     = "guards"
	GuardVerb         = "bypass"
	GuardWildcardVerb = "bypass-by-wildcard"
)

// AllowReleaseFromAnnotation on a WorkspaceTemplateApply with deletionPolicy Retain has the names of those, separated by commas,
// whose deletion may destroy what its cloud resources stand on. Without it, the deletion is held.
const AllowReleaseFromAnnotation = "capt.cluster.x-k8s.io/allow-release-from"

// AdoptWorkspaceAnnotation on a WorkspaceTemplateApply is the UID of the Workspace that a user decided it takes over: one that an
// earlier object of its name left behind, or that CAPT v0.3 created. It adds to the evidence and replaces none, since a user who can
// write one namespace could name the Workspace of another.
const AdoptWorkspaceAnnotation = "capt.cluster.x-k8s.io/adopt-workspace"

// AllowProviderConfigAnnotation on a WorkspaceTemplateApply is the ProviderConfig that its Workspace may be changed to, as the
// condition prints it. Another one is another account or backend, and what Terraform created is unknown there.
const AllowProviderConfigAnnotation = "capt.cluster.x-k8s.io/allow-provider-config"

// NotedByAnnotation on a WorkspaceTemplateApply is the UID of the one that noted ExternalNameAnnotation. After a move or a
// restore it is another one than the object has.
const NotedByAnnotation = "capt.cluster.x-k8s.io/external-name-noted-by"

// PinnedLabel with the value "true" is on a WorkspaceTemplate that captctl migrate created to reproduce one Workspace, and
// PinnedForAnnotation says for which object: kind, namespace and name.
const (
	PinnedLabel         = "capt.cluster.x-k8s.io/pinned"
	PinnedForAnnotation = "capt.cluster.x-k8s.io/pinned-for"
)

// RetryAnnotation on a CAPTControlPlane asks for another try: with each new value, timeouts are restarted, and a state Failed
// that came from one ends.
const RetryAnnotation = "capt.cluster.x-k8s.io/retry"

// TurnsLabel on WorkspaceTemplateApplies serializes those of one Cluster that have the same value: Terraform creates, changes
// or destroys one of them at a time.
const TurnsLabel = "capt.cluster.x-k8s.io/takes-turns"

// FargateTurns is the value of TurnsLabel on what belongs to Fargate profiles. EKS creates or deletes one profile of a cluster
// at a time, and refuses others meanwhile ("Fargate profile quotas and limits" in its user guide).
const FargateTurns = "fargate-profiles"

// Claim is the value of ClaimAnnotation for a WorkspaceTemplateApply.
func Claim(apply types.NamespacedName) string { return apply.String() }

// Variables that are the identity of cloud resources. Once a WorkspaceTemplateApply has a value for one of them, CAPT
// keeps it: another value would be another EKS cluster or VPC, in place of the one that runs.
const (
	ClusterVariable = "cluster_name"
	VPCVariable     = "vpc_name"
	VPCIDVariable   = "vpc_id"
	RegionVariable  = "region"
	// ProfileVariable names a Fargate profile.
	ProfileVariable = "profile_name"
)

// Variables of the template of a Fargate profile that name the Secrets it may read, for varFiles.
const (
	// VPCConnectionVariable is the name of the Secret that has vpc_config.
	VPCConnectionVariable = "vpc_connection_secret"
	// EKSConnectionVariable is the name of the connection Secret of the control plane.
	EKSConnectionVariable = "eks_connection_secret"
)

// VersionVariable is the Kubernetes version in EKS' form, for example 1.31.
const VersionVariable = "kubernetes_version"

// IdentityVariables lists the variables that are the identity of cloud resources.
func IdentityVariables() []string {
	return []string{ClusterVariable, VPCVariable, VPCIDVariable, RegionVariable, ProfileVariable}
}
