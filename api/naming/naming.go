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
