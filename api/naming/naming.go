// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package naming derives the names of objects from the names of their owners (the naming scheme). Controllers, webhooks and captctl call
// the same functions, so that they always agree on the owner of a name.
package naming

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
)

const (
	// maxLabel is the length of a DNS label (RFC 1123), the limit of names that become labels or names of Terraform workspaces.
	maxLabel = 63
	// maxName is the length of a DNS subdomain (RFC 1123), the limit of most object names.
	maxName = 253
	// hashLength is the length of the hash that makes a name unique.
	hashLength = 5
	// longHashLength is the length of the hash that replaces the truncated part of a name. It is longer, because truncated names may
	// differ in nothing else.
	longHashLength = 10
	// secretHashLength is the length of a hash that must not be guessed.
	secretHashLength = 16

	applySuffix             = "-apply"
	controlPlaneApplySuffix = "-eks-controlplane" + applySuffix
	fargateApplySuffix      = "-fargate" + applySuffix
	nodeGroupApplySuffix    = "-nodegroup" + applySuffix
	vpcSuffix               = "-vpc"
	vpcConnectionSuffix     = vpcSuffix + "-connection"
)

// Maximum lengths of names for which no derived name is truncated. They follow from the longest suffix.
const (
	// MaxCAPTClusterNameLength is the maximum length of the name of a CAPTCluster.
	MaxCAPTClusterNameLength = maxName - len(vpcConnectionSuffix)
	// MaxCAPTControlPlaneNameLength is the maximum length of the name of a CAPTControlPlane.
	MaxCAPTControlPlaneNameLength = maxName - len(controlPlaneApplySuffix)
	// MaxCAPTMachinePoolNameLength is the maximum length of the name of a CAPTMachinePool.
	MaxCAPTMachinePoolNameLength = maxName - len("-nodegroup-connection")
)

// MaxEKSClusterNameLength is the maximum length of the name of an EKS cluster (CreateCluster in the API reference of Amazon EKS).
const MaxEKSClusterNameLength = 100

// IsEKSClusterName reports whether EKS accepts a name for a cluster: it begins with a letter or digit, and has letters, digits, "-" and "_".
func IsEKSClusterName(name string) bool {
	isAlphanumeric := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	for i, r := range name {
		if !isAlphanumeric(r) && (i == 0 || r != '-' && r != '_') {
			return false
		}
	}
	return name != "" && len(name) <= MaxEKSClusterNameLength
}

// MaxNodeGroupNameLength is the maximum length of the name of a managed node group (CreateNodegroup in the API reference of Amazon EKS).
const MaxNodeGroupNameLength = 63

// IsNodeGroupName reports whether EKS accepts a name for a node group: it has the characters of a name of a cluster.
func IsNodeGroupName(name string) bool {
	return IsEKSClusterName(name) && len(name) <= MaxNodeGroupNameLength
}

// MaxStatePrefixLength is the maximum length of --state-prefix. A longer prefix would leave too few characters for the rest of a state name.
const MaxStatePrefixLength = 20

// VPCWorkspaceTemplateApply returns the name of the WorkspaceTemplateApply of a CAPTCluster's VPC.
func VPCWorkspaceTemplateApply(captCluster string) string {
	return join(maxName, captCluster, vpcSuffix)
}

// LegacyFixedApply is the name that an early version of CAPT gave to the WorkspaceTemplateApply of any control plane.
const LegacyFixedApply = "demo-eks-controlplane-apply"

// VPC returns the default name of a CAPTCluster's VPC.
func VPC(captCluster string) string {
	return join(maxName, captCluster, vpcSuffix)
}

// ControlPlaneWorkspaceTemplateApply returns the name of the WorkspaceTemplateApply of a CAPTControlPlane.
func ControlPlaneWorkspaceTemplateApply(captControlPlane string) string {
	return join(maxName, captControlPlane, controlPlaneApplySuffix)
}

// MachinePoolWorkspaceTemplateApply returns the name of the WorkspaceTemplateApply of a CAPTMachinePool.
func MachinePoolWorkspaceTemplateApply(captMachinePool string) string {
	return join(maxName, captMachinePool, nodeGroupApplySuffix)
}

// MachinePoolConnectionSecret returns the name of the connection Secret of a CAPTMachinePool.
func MachinePoolConnectionSecret(captMachinePool string) string {
	return join(maxName, captMachinePool, "-nodegroup-connection")
}

// VPCConnectionSecret returns the name of the connection Secret of a CAPTCluster's VPC.
func VPCConnectionSecret(captCluster string) string {
	return join(maxName, captCluster, vpcConnectionSuffix)
}

// ControlPlaneConnectionSecret returns the name of the connection Secret of a CAPTControlPlane.
func ControlPlaneConnectionSecret(captControlPlane string) string {
	return join(maxName, captControlPlane, "-eks-connection")
}

// FargateWorkspaceTemplateApply returns the name of the WorkspaceTemplateApply of a Fargate profile of a Cluster.
func FargateWorkspaceTemplateApply(cluster, profile string) string {
	return join(maxName, fargatePrefix(cluster, profile), fargateApplySuffix)
}

// FargateConnectionSecret returns the name of the connection Secret of a Fargate profile of a Cluster.
func FargateConnectionSecret(cluster, profile string) string {
	return join(maxName, fargatePrefix(cluster, profile), "-fargate-connection")
}

// fargatePrefix returns the prefix of the names of a Fargate profile: <cluster>-<profile> if the profile has only lower-case letters and
// digits. Any other prefix ends with two dashes and a hash of both names, for two reasons: names of EKS profiles are case-sensitive and
// object names are not, and profile b-c of Cluster a must not collide with profile c of Cluster a-b. The first form never has two dashes
// before the profile, so the two forms do not collide.
func fargatePrefix(cluster, profile string) string {
	plain := profile != ""
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			plain = false
			return r - 'A' + 'a'
		}
		plain = false
		return '-'
	}, profile)
	if plain {
		return cluster + "-" + profile
	}
	// The name of a Cluster has no slash, so different pairs never have the same hash input.
	return strings.TrimRight(cluster+"-"+safe, "-") + "--" + hash(hashLength, cluster+"/"+profile)
}

// KubeconfigSecret returns the name of the kubeconfig Secret of a Cluster, which Cluster API's contract prescribes.
func KubeconfigSecret(cluster string) string {
	return cluster + "-kubeconfig" // The same as secret.Name of Cluster API, which cannot be imported: its package imports controller-runtime.
}

// UserKubeconfigSecret returns the name of the Secret with the kubeconfig for users, who authenticate with their AWS credentials.
func UserKubeconfigSecret(cluster string) string {
	return join(maxName, cluster, "-user-kubeconfig")
}

// LegacyWorkspace returns the name that CAPT v0.3 gave to the cluster-scoped Workspace of a WorkspaceTemplateApply.
func LegacyWorkspace(apply string) string {
	if base := strings.TrimSuffix(apply, applySuffix); base != "" {
		return base
	}
	return apply
}

// PinnedTemplate returns the name of the WorkspaceTemplate that reproduces the Workspace of a WorkspaceTemplateApply. The name has a hash
// of the content, so that it never collides with a template from an earlier migration.
func PinnedTemplate(apply, content string) string {
	return join(maxName, apply, "-pinned-"+hash(longHashLength, content))
}

// TemplateRevision returns the name of the ControllerRevision of a revision of a WorkspaceTemplate.
func TemplateRevision(template, revision string) string {
	return join(maxName, template, "-"+revision)
}

// Workspace returns the name of a new Workspace. Adopted Workspaces keep their names.
func Workspace(scope terraform.Scope, apply types.NamespacedName) string {
	base := LegacyWorkspace(apply.Name)
	if scope != terraform.ScopeCluster {
		return join(maxName, base, "")
	}
	return join(maxName, apply.Namespace+"-"+base, "-"+hash(hashLength, apply.String()))
}

// PreviewWorkspace returns the name of the Workspace that previews changes of the Workspace of a WorkspaceTemplateApply, in a scope. The log of
// provider-terraform has only the name: the hash makes it unique over all namespaces and both scopes. It is of the UID, which users of other
// namespaces cannot read, so that their modules cannot print text that looks like an entry of this preview.
func PreviewWorkspace(scope terraform.Scope, apply metav1.Object) string {
	return join(maxName, LegacyWorkspace(apply.GetName()), "-preview-"+hash(secretHashLength, string(scope.OrDefault())+"/"+string(apply.GetUID())))
}

// ExternalName returns the name of the Terraform workspace (the state) of a new Workspace of either scope. It is unique across
// namespaces, and across installations with different prefixes, because Workspaces with the same backend and the same name share their
// state. Backends derive names of Secrets and files from it, hence the limit of 63 characters.
func ExternalName(prefix string, apply types.NamespacedName) string {
	stem, unique := apply.Namespace+"-"+strings.TrimSuffix(apply.Name, applySuffix), apply.String()
	if prefix != "" {
		stem, unique = prefix+"-"+stem, prefix+"/"+unique
	}
	return join(maxLabel, strings.ReplaceAll(stem, ".", "-"), "-"+hash(hashLength, unique))
}

// join appends a suffix to a stem. If the result is longer than limit, the stem is truncated and a hash of the whole stem appended, so
// that different stems give different names.
func join(limit int, stem, suffix string) string {
	if len(stem)+len(suffix) <= limit {
		return stem + suffix
	}
	tail := "-" + hash(longHashLength, stem) + suffix
	return strings.TrimRight(stem[:limit-len(tail)], "-.") + tail
}

// hash returns the first n characters of a base32 hash of s: lower-case letters and digits, valid anywhere in a DNS label.
func hash(n int, s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:n]
}

// CAPTClusterOf returns the name of the CAPTCluster whose VPC gets a WorkspaceTemplateApply of this name by the naming scheme; false if the
// naming scheme does not give this name. A truncated name does not identify its owner.
func CAPTClusterOf(apply string) (string, bool) {
	return ownerOf(apply, vpcSuffix, VPCWorkspaceTemplateApply)
}

// CAPTControlPlaneOf returns the name of the CAPTControlPlane that gets a WorkspaceTemplateApply of this name by the naming scheme; false
// if the naming scheme does not give this name. A truncated name does not identify its owner.
func CAPTControlPlaneOf(apply string) (string, bool) {
	return ownerOf(apply, controlPlaneApplySuffix, ControlPlaneWorkspaceTemplateApply)
}

// CAPTMachinePoolOf returns the name of the CAPTMachinePool that gets a WorkspaceTemplateApply of this name by the naming scheme; false if the naming
// scheme does not give this name. A truncated name does not identify its owner.
func CAPTMachinePoolOf(apply string) (string, bool) {
	return ownerOf(apply, nodeGroupApplySuffix, MachinePoolWorkspaceTemplateApply)
}

// FargateClustersOf returns the names of the Clusters whose Fargate profiles may get a WorkspaceTemplateApply of this name by the naming
// scheme. There may be several: both names may have dashes, and a hash may replace the name of the profile. The caller compares the
// profiles of these Clusters.
func FargateClustersOf(apply string) []string {
	begin, found := strings.CutSuffix(apply, fargateApplySuffix)
	if !found {
		return nil
	}
	var clusters []string
	for i, r := range begin {
		if r == '-' && i > 0 {
			clusters = append(clusters, begin[:i])
		}
	}
	return clusters
}

// ownerOf returns a name without the suffix, and whether the naming scheme derives the name from the result. scheme derives it.
func ownerOf(name, suffix string, scheme func(string) string) (string, bool) {
	owner, found := strings.CutSuffix(name, suffix)
	return owner, found && owner != "" && scheme(owner) == name
}

// ApplyWithSameWorkspace returns the name of the other WorkspaceTemplateApply whose Workspace gets the same name by the naming scheme:
// x-apply for x, and x for x-apply.
func ApplyWithSameWorkspace(apply string) string {
	if base, found := strings.CutSuffix(apply, applySuffix); found && base != "" {
		return base
	}
	return apply + applySuffix
}

// leaderElectionLease is the Lease of a manager that watches all namespaces and objects.
const leaderElectionLease = "capt-manager-leader-election"

// LeaderElectionLease returns the name of the Lease for leader election. Managers that watch another namespace or another value of the
// watch label need different Leases: with one Lease, only one of them would reconcile. The label value may not be a valid name, so it is
// hashed.
func LeaderElectionLease(namespace, watchFilter string) string {
	if namespace == "" && watchFilter == "" {
		return leaderElectionLease
	}
	return leaderElectionLease + "-" + hash(12, namespace+"/"+watchFilter) // A namespace has no slash.
}

// KeyOf returns the namespace and name of an object.
func KeyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// List lists the first of some names.
func List(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

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
