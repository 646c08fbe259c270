// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import "github.com/capt-provider/capt/controllers/workspace/failure"

// Dependencies of Fargate profiles, as messages name them.
const (
	onPodRole = "its pod execution role"
	onVPC     = "the VPC or its subnets"
	onCluster = "the EKS cluster"
	onSecret  = "a Secret that its template reads"
)

// symptom is how an error of Terraform shows that a dependency is wrong.
type symptom struct {
	what string
	// codes and phrases are those of failure.Matches.
	codes, phrases []string
	// and is a phrase that must occur, too.
	and string
}

// symptoms returns the errors of AWS, its Terraform provider and provider-terraform that are caused by a dependency, with their sources. Any
// other error counts as a failure of the profile itself. Ambiguous errors are left out, because the profile would wait for a dependency that
// may be correct.
func symptoms() []symptom {
	return []symptom{
		{what: onPodRole,
			codes: []string{
				"AWSServiceRoleForAmazonEKSForFargate", // EKS makes and needs it beside the role of the pods (aws-controllers-k8s/community issue 1821).
			},
			phrases: []string{
				"misconfigured podexecutionrole trust policy", // EKS (terraform-provider-aws, internal/service/eks/fargate_profile.go).
				"iam:passrole",                      // IAM, of who creates the profile (EKS user guide, "Troubleshooting IAM"; aws-cdk issue 8546).
				"cross-account pass role",           // IAM (moto, a mock of AWS, has it from the API).
				"could not be assumed because",      // EKS, of a role that is missing or trusts another principal (terraform-provider-aws, internal/service/eks/cluster.go).
				"error in role params", "rolearn, ", // EKS, of a role that does not exist or is not a role (the same place).
				"the role with name ", // IAM, which goes on with "cannot be found" (terraform-provider-aws, data source aws_iam_role).
			}},
		{what: onPodRole, phrases: []string{"reading iam role ("}, and: "couldn't find resource"}, // terraform-provider-aws, data source aws_iam_role.
		{what: onVPC,
			codes: []string{ // EC2 (its API reference, "Error codes"), also where EKS passes them on. Their ends say what is wrong.
				"InvalidSubnetID", "InvalidVpcID",
				"InsufficientFreeAddressesInSubnet",
			},
			phrases: []string{
				"provided in fargate profile is not a private subnet", // EKS (awslabs/eks-perf-tests issue 195).
				"invalidsubnet: ",                                           // EC2, of a subnet that was not found (terraform-provider-aws issue 2443), not a conflict of two.
				"no matching ec2 subnet found", "no matching ec2 vpc found", // terraform-provider-aws, data sources (aws-samples/eks-workshop-v2 issue 1543).
			}},
		{what: onCluster,
			phrases: []string{
				"no cluster found for name:",          // EKS (terraform-provider-aws, internal/service/eks/cluster.go).
				"' is not in active status",           // EKS (moto, a mock of AWS, has it from the API).
				"currently has an update in progress", // EKS, of the cluster (terraform-aws-eks issue 2194).
			}},
		{what: onCluster, phrases: []string{"reading eks cluster ("}, and: "couldn't find resource"}, // terraform-provider-aws, data source aws_eks_cluster (terraform-aws-eks issue 2045).
		{what: onSecret, phrases: []string{"cannot get tfvars"}},                                     // provider-terraform, of varFiles.
	}
}

// failedDependency returns the dependency that is wrong according to an error of Terraform; false when the error has another cause. Once the
// dependency is repaired, the profile can be created unchanged. Other errors require a change of the profile, the template or a quota, or a
// retry.
func failedDependency(message string) (what string, ok bool) {
	for _, c := range symptoms() {
		if failure.Matches(message, c.codes, c.phrases) && (c.and == "" || failure.Matches(message, nil, []string{c.and})) {
			return c.what, true
		}
	}
	return "", false
}
