// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/failures"
)

// Which profile a WorkspaceTemplateApply is for, it says itself; status may be lost.
func TestAnObsoleteProfileIsDeleted(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("keep"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)),
		owned("demo-keep-fargate-apply", "keep"), owned("demo-old-fargate-apply", "old"),
		owned("by-hand", ""), builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", builder.OwnedBy(builder.CAPTControlPlane("demo"))),
		builder.WorkspaceTemplateApply("of-others", builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup), builder.WithVariables(map[string]string{"profile_name": "old"})),
		vpcSecret())
	f := env.plan(cluster())
	require.Len(t, f.Obsolete, 1)
	assert.Equal(t, "old", f.Obsolete[0].Name)
	env.act(f)
	var names []string
	for _, apply := range env.applies() {
		names = append(names, apply.Name)
	}
	assert.ElementsMatch(t, []string{"demo-keep-fargate-apply", "by-hand", "demo-eks-controlplane-apply", "of-others"}, names)
	assert.True(t, env.held())
}

// A manager that has just taken over may know of a profile that its predecessor made, and not yet of the spec that asks for it.
func TestAStaleSpecDeletesNothing(t *testing.T) {
	held := builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a"), held, builder.WithGeneration(2)), owned("demo-a-fargate-apply", "a", builder.UpToDate(nil)))
	env.controlPlane = builder.CAPTControlPlane("demo", held, builder.WithGeneration(1))
	f, err := env.ObserveExisting(ctx, env.controlPlane)
	if err == nil {
		env.act(env.planOf(&f, PlanInput{}))
	}
	assert.Len(t, env.applies(), 1)
	assert.True(t, apierrors.IsConflict(err), "the event of the change causes the next reconcile")
}

// A Cluster that cannot be read for a moment must not cause deletions.
func TestProfilesAreKeptWhileTheClusterIsUnknown(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a", "b"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)),
		owned("demo-a-fargate-apply", "a", builder.UpToDate(nil)))
	f, err := env.ObserveExisting(ctx, env.controlPlane)
	require.NoError(t, err)
	env.act(env.planOf(&f, PlanInput{}))
	assert.Len(t, env.applies(), 1)
	assert.True(t, env.held())
	assert.Equal(t, []string{"a"}, statuses(*env.planOf(&f, PlanInput{})))

	env.Client = newClient(env.controlPlane)
	f, err = env.ObserveExisting(ctx, env.controlPlane)
	require.NoError(t, err)
	env.act(env.planOf(&f, PlanInput{}))
	assert.True(t, env.held(), "a cache that has seen none of them says nothing about a spec that has some")
}

func TestTheFinalizerIsRemovedWithTheLastProfile(t *testing.T) {
	held := builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer)
	env := newEnvironment(t, builder.CAPTControlPlane("demo", held), owned("demo-a-fargate-apply", "a", builder.WithFinalizers("terraform"), builder.Deleting()))
	env.act(env.plan(cluster()))
	assert.True(t, env.held())

	env = newEnvironment(t, builder.CAPTControlPlane("demo", held))
	env.act(env.plan(cluster()))
	assert.Equal(t, []string{controlplanev1.CAPTControlPlaneFinalizer}, env.controlPlane.Finalizers)
}

// The cache may not have seen yet what was made a moment ago.
func TestTheFinalizerIsKeptForProfilesThatAreNotInTheCache(t *testing.T) {
	for name, deleted := range map[string]builder.Option{"taken out of spec": builder.With(func(*controlplanev1.CAPTControlPlane) {}), "deleted": builder.Deleting()} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.CAPTControlPlane("demo", builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), deleted), owned("demo-a-fargate-apply", "a"))
			env.Client = newClient(env.controlPlane)
			assert.Len(t, env.plan(cluster()).Obsolete, 1)
		})
	}
}

// The profiles of a thousand clusters of a namespace would be sent with each step of the deletion of each.
func TestADeletedControlPlaneListsItsOwnProfilesOnly(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a", "b"), builder.WithLabel(clusterv1.ClusterNameLabel, "demo"),
		builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), builder.Deleting()),
		owned("demo-a-fargate-apply", "a", builder.WithLabel(clusterv1.ClusterNameLabel, "demo")), owned("demo-b-fargate-apply", "b"))
	for i := range 100 {
		name := fmt.Sprintf("prod-%d-fargate-apply", i)
		require.NoError(t, env.Client.Create(ctx, owned(name, "a", builder.WithUID(types.UID(name)), builder.WithLabel(clusterv1.ClusterNameLabel, "prod"),
			alone, builder.OwnedBy(builder.CAPTControlPlane("prod")))))
	}
	sent := 0
	env.Uncached = interceptor.NewClient(env.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			sent += meta.LenList(list)
			return err
		},
	})
	f, err := env.ObserveExisting(ctx, env.controlPlane)
	require.NoError(t, err)
	assert.Equal(t, 1, sent)
	assert.Len(t, f.Obsolete, 2, "the cache knows of the one that lost its label")
}

// EKS does not delete a cluster that has profiles, and no other controller deletes those that the control plane does not control.
// What it neither refers to nor has written is kept.
func TestADeletedControlPlaneDeletesOrphans(t *testing.T) {
	unlabeled := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Labels = nil })
	referring := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "by-hand"}
	})
	scheme := naming.FargateWorkspaceTemplateApply("demo", "a")
	for what, row := range map[string]struct {
		there  *infrav1.WorkspaceTemplateApply
		refers bool
		goes   bool
	}{
		"its own":                         {owned(scheme, "a"), false, true},
		"its owner reference is gone":     {owned(scheme, "a", alone), false, true},
		"its label is gone":               {owned(scheme, "a", unlabeled), false, true},
		"referred to, never written":      {owned("by-hand", "a", alone, unlabeled), true, true},
		"never written, nor referred to":  {owned(scheme, "a", alone, unlabeled), false, false},
		"of another control plane":        {owned(scheme, "a", alone, builder.OwnedBy(builder.CAPTControlPlane("other"))), false, false},
		"referred to, of another profile": {owned("by-hand", "b", alone), true, false},
	} {
		t.Run(what, func(t *testing.T) {
			options := []builder.Option{withProfiles("a"), builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), builder.Deleting()}
			if row.refers {
				options = append(options, referring)
			}
			env := newEnvironment(t, builder.CAPTControlPlane("demo", options...), row.there)
			f := env.plan(cluster())
			assert.Equal(t, row.goes, len(f.Obsolete) == 1, "the EKS cluster is deleted after it")
			env.act(f)
			assert.Equal(t, row.goes, len(env.applies()) == 0)
		})
	}
}

// shown is the message of a WorkspaceTemplateApply for an output of Terraform.
func shownAs(stage, stderr string) string {
	return failure.Explain(stage+": "+executor.Failure(stderr).Error(), failure.Secrets{}, "").Message
}

// said is how Terraform prints an error of a resource.
func said(summary string) string {
	return "\nError: " + summary + "\n\n  with aws_eks_fargate_profile.this,\n  on main.tf line 14, in resource \"aws_eks_fargate_profile\" \"this\":\n  14: resource \"aws_eks_fargate_profile\" \"this\" {\n"
}

const (
	applying = "create failed: cannot apply Terraform configuration"
	// whileCreating is what the AWS provider puts before an error of EKS.
	whileCreating = "creating EKS Fargate Profile (demo:apps): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, RequestID: d2c0004e-4394-4eba-8b7c-5842ba1f10da, "
	// createdV1 is what it put there with the older SDK, which repeated the same again below.
	createdV1 = "error creating EKS Fargate Profile (demo:apps): "
)

func TestFailedDependency(t *testing.T) {
	for text, want := range map[string]string{
		// The role.
		whileCreating + "InvalidParameterException: Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal":                                                                         podRole,
		createdV1 + "InvalidParameterException: Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal\n{\n  RespMetadata: {\n    StatusCode: 400,":                                 podRole,
		whileCreating + "api error AccessDeniedException: User: arn:aws:sts::111122223333:assumed-role/terraform/capt is not authorized to perform: iam:PassRole on resource: arn:aws:iam::111122223333:role/demo-fargate":                podRole,
		createdV1 + "AccessDeniedException: User: arn:aws:iam::111122223333:user/terraform is not authorized to perform: iam:PassRole on resource: arn:aws:iam::111122223333:role/demo-fargate\n\tstatus code: 403, request id: d2c0004e": podRole,
		whileCreating + "api error AccessDeniedException: Cross-account pass role is not allowed.":                                                                                                                                        podRole,
		whileCreating + "InvalidParameterException: Role with arn: arn:aws:iam::111122223333:role/demo-fargate, could not be assumed because it does not exist or the trusted entity is not correct":                                      podRole,
		whileCreating + "InvalidParameterException: Role could not be assumed because the trusted entity is not correct":                                                                                                                  podRole,
		whileCreating + "InvalidParameterException: roleArn, arn:aws:iam::111122223333:role/demo-fargate, does not exist":                                                                                                                 podRole,
		whileCreating + "InvalidParameterException: Error in role params":                                                                                                                                                                 podRole,
		whileCreating + "InvalidRequestException: Failed to validate if SLR: AWSServiceRoleForAmazonEKSForFargate already exists due to missing permissions for 'iam:GetRole'":                                                            podRole,
		whileCreating + "InvalidRequestException: Failed to create service linked role: AWSServiceRoleForAmazonEKSForFargate due to missing permissions for 'iam:CreateServiceLinkedRole'":                                                podRole,
		"reading IAM Role (demo-fargate): couldn't find resource": podRole,
		"reading IAM Role (demo-fargate): operation error IAM: GetRole, https response error StatusCode: 404, RequestID: cb1bf5d9-6351-445e-b5db-0bcb99843547, NoSuchEntity: The role with name demo-fargate cannot be found.":    podRole,
		"error reading IAM Role (demo-fargate): NoSuchEntity: The role with name demo-fargate cannot be found.\n\tstatus code: 404, request id: cb1bf5d9":                                                                         podRole,
		"attaching IAM Policy (arn:aws:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy) to IAM Role (demo-fargate): operation error IAM: AttachRolePolicy, NoSuchEntity: The role with name demo-fargate cannot be found.": podRole,

		// The VPC.
		whileCreating + "InvalidParameterException: Subnet subnet-0388a5e2e3dc49212 provided in Fargate Profile is not a private subnet":                                                                                                                 vpcOrSubnets,
		createdV1 + "InvalidParameterException: Subnet subnet-0388a5e2e3dc49212 provided in Fargate Profile is not a private subnet\n{":                                                                                                                  vpcOrSubnets,
		whileCreating + "InvalidParameterException: The subnet ID 'subnet-0388a5e2e3dc49212' does not exist (Service: AmazonEC2; Status Code: 400; Error Code: InvalidSubnetID.NotFound; Request ID: 0e85e4a4-3365-4712-959a-443550d5abaf; Proxy: null)": vpcOrSubnets,
		"reading EC2 Subnets: operation error EC2: DescribeSubnets, https response error StatusCode: 400, RequestID: cb1bf5d9-6351-445e-b5db-0bcb99843547, api error InvalidSubnetID.NotFound: The subnet ID 'subnet-0388a5e2e3dc49212' does not exist":  vpcOrSubnets,
		"reading EC2 VPCs: operation error EC2: DescribeVpcs, https response error StatusCode: 400, RequestID: cb1bf5d9-6351-445e-b5db-0bcb99843547, api error InvalidVpcID.NotFound: The vpc ID 'vpc-051a385fb9fa65e72' does not exist":                 vpcOrSubnets,
		"Error creating NAT Gateway: InvalidSubnet: Subnet subnet-0388a5e2e3dc49212 was not found\n\tstatus code: 400, request id: 81320425":                                                                                                             vpcOrSubnets,
		"no matching EC2 Subnet found": vpcOrSubnets,
		"no matching EC2 VPC found":    vpcOrSubnets,
		"creating EC2 VPC Endpoint (com.amazonaws.eu-west-1.ecr.api): operation error EC2: CreateVpcEndpoint, https response error StatusCode: 400, api error InsufficientFreeAddressesInSubnet: insufficient free addresses in subnet": vpcOrSubnets,

		// The cluster.
		whileCreating + "ResourceNotFoundException: No cluster found for name: demo.":                                                                                         eksCluster,
		createdV1 + "ResourceNotFoundException: No cluster found for name: demo.\n{\n  RespMetadata: {\n    StatusCode: 404,":                                                 eksCluster,
		whileCreating + "InvalidRequestException: Cluster 'demo' is not in ACTIVE status":                                                                                     eksCluster,
		whileCreating + "ResourceInUseException: Cannot create Fargate Profile apps because cluster demo currently has an update in progress":                                 eksCluster,
		"error deleting EKS Fargate Profile (demo:apps): ResourceInUseException: Cannot Delete Fargate Profile apps because cluster demo currently has an update in progress": eksCluster,
		"reading EKS Cluster (demo): couldn't find resource":                                                                                                                  eksCluster,

		// The creation: limits, and others at work.
		whileCreating + "ResourceLimitExceededException: Fargate Profile limit exceeded for cluster.":                                                                                                                                                                         "",
		whileCreating + "ResourceInUseException: Cannot create Fargate Profile apps because cluster demo currently has Fargate profile default in status CREATING":                                                                                                            "",
		"deleting EKS Fargate Profile (demo:apps): operation error EKS: DeleteFargateProfile, https response error StatusCode: 409, ResourceInUseException: Cannot delete Fargate profile apps because cluster demo currently has Fargate profile default in status DELETING": "",
		"creating IAM Role (demo-fargate): operation error IAM: CreateRole, https response error StatusCode: 409, LimitExceeded: Cannot exceed quota for RolesPerAccount: 1000":                                                                                               "",
		whileCreating + "api error ThrottlingException: Rate exceeded": "",

		// The creation: what the profile is.
		whileCreating + "ResourceInUseException: A Fargate Profile already exists with this name in this cluster.":                            "",
		whileCreating + "InvalidParameterException: The fargate profile name starts with the reserved prefix: 'eks-'.":                        "",
		whileCreating + "InvalidParameterException: The Fargate profile name parameter contains invalid characters":                           "",
		whileCreating + "InvalidParameterException: Fargate Profile must have at least one selector with at least one namespace value.":       "",
		whileCreating + "InvalidParameterException: Fargate Profile requires at least one selector.":                                          "",
		whileCreating + "InvalidParameterException: Request contains more than 5 Selectors":                                                   "",
		whileCreating + "InvalidParameterException: Request contains Selector with more than 5 Label pairs":                                   "",
		whileCreating + "InvalidParameterException: The namespace provided is invalid.":                                                       "",
		whileCreating + "InvalidParameterException: Selector label provided is invalid.":                                                      "",
		"creating IAM Role (demo-fargate): operation error IAM: CreateRole, EntityAlreadyExists: Role with name demo-fargate already exists.": "",
		"Reference to undeclared input variable": "",

		"Failed to create Fargate profile: subnet not found": "", // The example of the design of Fargate profiles has no code of AWS.

		// The creation: AWS.
		"creating IAM Role (demo-fargate): operation error IAM: CreateRole, https response error StatusCode: 403, api error AccessDenied: User: arn:aws:sts::111122223333:assumed-role/terraform/capt is not authorized to perform: iam:CreateRole on resource: arn:aws:iam::111122223333:role/demo-fargate": "",
		whileCreating + "api error AccessDeniedException: User: arn:aws:iam::111122223333:user/terraform is not authorized to perform: eks:CreateFargateProfile on resource: arn:aws:eks:eu-west-1:111122223333:cluster/demo":                                                                                "",
		whileCreating + "InvalidRequestException: Missing permissions for \"ec2:DescribeSubnets\"":                                                                                      "",
		whileCreating + "ServerException: Internal error":                                                                                                                               "",
		"configuring Terraform AWS Provider: IAM Role (arn:aws:iam::111122223333:role/terraform) cannot be assumed.":                                                                    "",
		"waiting for EKS Fargate Profile (demo:apps) create: timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING', timeout: 10m0s)":                               "",
		"waiting for EKS Fargate Profile (demo:apps) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: %!s(<nil>)":                                          "",
		"reading EKS Fargate Profile (demo:apps): couldn't find resource":                                                                                                               "",
		"creating EC2 Subnet: operation error EC2: CreateSubnet, api error InvalidSubnet.Conflict: The CIDR '10.0.0.0/20' conflicts with another subnet":                                "",
		"creating EKS Fargate Profile (demo:subnets-of-the-vpc): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, InvalidParameterException: no reason": "",
	} {
		t.Run(text, func(t *testing.T) {
			message := shownAs(applying, said(text))
			what, ok := failedDependency(message)
			assert.Equal(t, want, what, message)
			assert.Equal(t, want != "", ok)
		})
	}
}

// provider-terraform reads the Secrets of varFiles before it runs Terraform. The values of one that is missing are not known.
func TestAMissingSecretOfTheTemplateIsADependency(t *testing.T) {
	message := failure.Explain(`observe failed: cannot determine Terraform options: cannot get tfvars: Secret "demo-vpc-connection" not found`, failure.Secrets{Missing: errors.New("forbidden")}, "").Message
	what, ok := failedDependency(message)
	assert.True(t, ok)
	assert.Equal(t, templateSecret, what)
}

// CAPT's own prefix must not match, and other errors are not dependencies.
func TestOtherErrorsAreNotDependencies(t *testing.T) {
	dependencies := map[string]bool{
		"eks-fargate-trust-policy": true, "eks-fargate-pass-role": true, "eks-fargate-service-linked-role": true,
		"eks-fargate-cluster-not-active": true, "eks-fargate-cluster-updates": true,
	}
	for _, sample := range failures.Samples() {
		for _, stage := range []string{applying, "connect failed: cannot initialize Terraform configuration", "observe failed: cannot diff (i.e. plan) Terraform configuration", "delete failed: cannot destroy Terraform configuration"} {
			message := shownAs(stage, sample.Stderr)
			what, ok := failedDependency(message)
			assert.Equal(t, dependencies[sample.Name], ok, "%s: %s", what, message)
		}
	}
}
