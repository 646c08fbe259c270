// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import "github.com/capt-provider/capt/api/terraform/failure"

// Dependencies of Fargate profiles, as messages name them.
const (
	podRole        = "its pod execution role"
	vpcOrSubnets   = "the VPC or its subnets"
	eksCluster     = "the EKS cluster"
	templateSecret = "a Secret that its template reads"
)

// symptom is how an error of Terraform shows that a dependency is wrong.
type symptom struct {
	dependency string
	// codes and phrases are those of failure.Matches.
	codes, phrases []string
	// alsoContains is a phrase that must occur, too.
	alsoContains string
}

// symptoms returns the errors of AWS, its Terraform provider and provider-terraform that are caused by a dependency, with their sources. Any
// other error counts as a failure of the profile itself. Ambiguous errors are left out, because the profile would wait for a dependency that
// may be correct.
func symptoms() []symptom {
	return []symptom{
		{dependency: podRole,
			codes: []string{
				"AWSServiceRoleForAmazonEKSForFargate", // A service-linked role that EKS creates, and needs in addition to the pod execution role (aws-controllers-k8s/community issue 1821).
			},
			phrases: []string{
				"misconfigured podexecutionrole trust policy", // EKS (terraform-provider-aws, internal/service/eks/fargate_profile.go).
				"iam:passrole",                      // IAM: the identity that creates the profile may not pass the role (EKS user guide, "Troubleshooting IAM"; aws-cdk issue 8546).
				"cross-account pass role",           // IAM (from moto, a mock of AWS).
				"could not be assumed because",      // EKS: the role does not exist, or trusts another principal (terraform-provider-aws, internal/service/eks/cluster.go).
				"error in role params", "rolearn, ", // EKS: the role does not exist, or the ARN is not that of a role (same file).
				"the role with name ", // IAM: "… cannot be found" (terraform-provider-aws, data source aws_iam_role).
			}},
		{dependency: podRole, phrases: []string{"reading iam role ("}, alsoContains: "couldn't find resource"}, // terraform-provider-aws, data source aws_iam_role.
		{dependency: vpcOrSubnets,
			codes: []string{ // EC2 (API reference, "Error codes"); EKS quotes them, too. Suffixes like .NotFound follow.
				"InvalidSubnetID", "InvalidVpcID",
				"InsufficientFreeAddressesInSubnet",
			},
			phrases: []string{
				"provided in fargate profile is not a private subnet", // EKS (awslabs/eks-perf-tests issue 195).
				"invalidsubnet: ",                                           // EC2: the subnet was not found (terraform-provider-aws issue 2443).
				"no matching ec2 subnet found", "no matching ec2 vpc found", // terraform-provider-aws, data sources (aws-samples/eks-workshop-v2 issue 1543).
			}},
		{dependency: eksCluster,
			phrases: []string{
				"no cluster found for name:",          // EKS (terraform-provider-aws, internal/service/eks/cluster.go).
				"' is not in active status",           // EKS (from moto, a mock of AWS).
				"currently has an update in progress", // EKS: another update of the cluster (terraform-aws-eks issue 2194).
			}},
		{dependency: eksCluster, phrases: []string{"reading eks cluster ("}, alsoContains: "couldn't find resource"}, // terraform-provider-aws, data source aws_eks_cluster (terraform-aws-eks issue 2045).
		{dependency: templateSecret, phrases: []string{"cannot get tfvars"}},                                         // provider-terraform: a Secret in varFiles.
	}
}

// failedDependency returns the dependency that is wrong according to an error of Terraform; false when the error has another cause. Once the
// dependency is repaired, the profile can be created unchanged. Other errors require a change of the profile, the template or a quota, or a
// retry.
func failedDependency(message string) (what string, ok bool) {
	for _, c := range symptoms() {
		if failure.Matches(message, c.codes, c.phrases) && (c.alsoContains == "" || failure.Matches(message, nil, []string{c.alsoContains})) {
			return c.dependency, true
		}
	}
	return "", false
}
