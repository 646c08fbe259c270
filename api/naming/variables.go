// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

// Identity variables: they identify cloud resources. Once a WorkspaceTemplateApply has a value for one of them, CAPT does not change it:
// with another value, Terraform would replace the running EKS cluster or VPC.
const (
	ClusterVariable = "cluster_name"
	VPCVariable     = "vpc_name"
	VPCIDVariable   = "vpc_id"
	RegionVariable  = "region"
	// ProfileVariable names a Fargate profile.
	ProfileVariable = "profile_name"
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

// Variables for templates of control planes, and of Fargate profiles. The values of lists and maps are JSON.
const (
	PublicAccessVariable      = "endpoint_public_access"
	PrivateAccessVariable     = "endpoint_private_access"
	PublicAccessCIDRsVariable = "endpoint_public_access_cidrs"
	AddonsVariable            = "addons"
	TagsVariable              = "tags"
	SelectorsVariable         = "selectors"
)

// TagPrefix is the prefix of the variables that CAPT creates from tags, one for each tag. The rest of the name is the key of the tag, which
// may have characters that a placeholder cannot have.
const TagPrefix = "tags_"
