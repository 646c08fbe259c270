// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package naming makes every name that CAPT derives from another one. Controllers, webhooks and captctl call the same
// functions, so that they cannot disagree about what belongs to whom.
package naming

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
)

const (
	// maxLabel is the length of a DNS label (RFC 1123). Names that end up as labels, or as Terraform workspaces, are kept
	// within it.
	maxLabel = 63
	// maxName is the length of a DNS subdomain (RFC 1123), the limit of most object names.
	maxName = 253
	// hashLength is the length of the hash that makes a name unique.
	hashLength = 5
	// longHashLength is the length of the hash that replaces what was cut off. It is longer, since names that were cut
	// differ in nothing else.
	longHashLength = 10

	applySuffix             = "-apply"
	controlPlaneApplySuffix = "-eks-controlplane" + applySuffix
	fargateApplySuffix      = "-fargate" + applySuffix
	vpcSuffix               = "-vpc"
	vpcConnectionSuffix     = vpcSuffix + "-connection"
)

// The lengths of the longest names that are not cut when others are derived from them. The longest suffix decides.
const (
	// MaxCAPTCluster is the maximum length of the name of a CAPTCluster.
	MaxCAPTCluster = maxName - len(vpcConnectionSuffix)
	// MaxCAPTControlPlane is the maximum length of the name of a CAPTControlPlane.
	MaxCAPTControlPlane = maxName - len(controlPlaneApplySuffix)
)

// MaxStatePrefix is the length of the longest state prefix of an installation: the rest of a state name must stay readable.
const MaxStatePrefix = 20

// VPCWorkspaceTemplateApply is the name of the WorkspaceTemplateApply of a CAPTCluster's VPC.
func VPCWorkspaceTemplateApply(captCluster string) string {
	return join(maxName, captCluster, vpcSuffix)
}

// LegacyFixedApply is the name that an early version of CAPT gave to the WorkspaceTemplateApply of any control plane.
const LegacyFixedApply = "demo-eks-controlplane-apply"

// VPC is the default name of a CAPTCluster's VPC.
func VPC(captCluster string) string {
	return join(maxName, captCluster, vpcSuffix)
}

// ControlPlaneWorkspaceTemplateApply is the name of the WorkspaceTemplateApply of a CAPTControlPlane.
func ControlPlaneWorkspaceTemplateApply(captControlPlane string) string {
	return join(maxName, captControlPlane, controlPlaneApplySuffix)
}

// VPCConnectionSecret is the name of the connection Secret of a CAPTCluster's VPC.
func VPCConnectionSecret(captCluster string) string {
	return join(maxName, captCluster, vpcConnectionSuffix)
}

// ControlPlaneConnectionSecret is the name of the connection Secret of a CAPTControlPlane.
func ControlPlaneConnectionSecret(captControlPlane string) string {
	return join(maxName, captControlPlane, "-eks-connection")
}

// FargateWorkspaceTemplateApply is the name of the WorkspaceTemplateApply of a Fargate profile of a Cluster.
func FargateWorkspaceTemplateApply(cluster, profile string) string {
	return join(maxName, fargate(cluster, profile), fargateApplySuffix)
}

// FargateConnectionSecret is the name of the connection Secret of a Fargate profile of a Cluster.
func FargateConnectionSecret(cluster, profile string) string {
	return join(maxName, fargate(cluster, profile), "-fargate-connection")
}

// fargate is what the names of a Fargate profile begin with: <cluster>-<profile> for a profile of lower-case letters and
// digits. Any other profile has a hash of the pair after two dashes. EKS names are case-sensitive, object names are not; and
// profile b-c of Cluster a is not profile c of Cluster a-b. The two dashes keep the two forms apart.
func fargate(cluster, profile string) string {
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
	// A slash is not part of a Cluster's name, so that two pairs never give one text.
	return strings.TrimRight(cluster+"-"+safe, "-") + "--" + hash(hashLength, cluster+"/"+profile)
}

// KubeconfigSecret is the name of the kubeconfig Secret of a Cluster, which Cluster API's contract prescribes.
func KubeconfigSecret(cluster string) string {
	return cluster + "-kubeconfig" // secret.Name of Cluster API, whose package would bring controller-runtime along.
}

// LegacyWorkspace is the name that CAPT v0.3 gave to the Workspace of a WorkspaceTemplateApply, in the cluster scope.
func LegacyWorkspace(apply string) string {
	if base := strings.TrimSuffix(apply, applySuffix); base != "" {
		return base
	}
	return apply
}

// PinnedTemplate is the name of the WorkspaceTemplate that reproduces the Workspace of a WorkspaceTemplateApply: other content has
// another name, so that one that is left over is never in the way.
func PinnedTemplate(apply, content string) string {
	return join(maxName, apply, "-pinned-"+hash(longHashLength, content))
}

// Workspace is the name of a new Workspace. Adopted Workspaces keep the names they have.
func Workspace(scope terraform.Scope, apply types.NamespacedName) string {
	base := LegacyWorkspace(apply.Name)
	if scope != terraform.ScopeCluster {
		return join(maxName, base, "")
	}
	return join(maxName, apply.Namespace+"-"+base, "-"+hash(hashLength, apply.String()))
}

// ExternalName is the name of the Terraform workspace of a new Workspace, of either scope, in an installation without a state
// prefix.
func ExternalName(apply types.NamespacedName) string { return PrefixedExternalName("", apply) }

// PrefixedExternalName is the name of the Terraform workspace of a new Workspace, of either scope. It is unique over all
// namespaces, and over installations with different prefixes, since Workspaces that share a backend and this name share their
// state. Terraform workspaces are kept in Secrets and files whose names must stay short, hence 63 characters.
func PrefixedExternalName(prefix string, apply types.NamespacedName) string {
	stem, unique := apply.Namespace+"-"+strings.TrimSuffix(apply.Name, applySuffix), apply.String()
	if prefix != "" {
		stem, unique = prefix+"-"+stem, prefix+"/"+unique
	}
	return join(maxLabel, strings.ReplaceAll(stem, ".", "-"), "-"+hash(hashLength, unique))
}

// join appends a suffix to a stem. What does not fit is cut off the stem, and a hash of the whole stem takes its place,
// so that different stems give different names.
func join(limit int, stem, suffix string) string {
	if len(stem)+len(suffix) <= limit {
		return stem + suffix
	}
	tail := "-" + hash(longHashLength, stem) + suffix
	return strings.TrimRight(stem[:limit-len(tail)], "-.") + tail
}

// hash returns the first n characters of a hash of s: lower-case letters and digits, legal anywhere in a DNS label.
func hash(n int, s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:n]
}

// UserKubeconfigSecret is the name of the Secret with the kubeconfig for users, which asks AWS for credentials.
func UserKubeconfigSecret(cluster string) string {
	return join(maxName, cluster, "-user-kubeconfig")
}
