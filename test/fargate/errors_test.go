// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// What EKS, IAM and EC2 say, as Terraform shows it.
const (
	quota = "\nError: creating EKS Fargate Profile (demo:b): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, " +
		"ResourceLimitExceededException: Fargate Profile limit exceeded for cluster\n"
	unavailable = "\nError: creating EKS Fargate Profile (demo:b): operation error EKS: CreateFargateProfile, https response error StatusCode: 500, " +
		"ServerException: Internal error occurred\n"
	badSelector = "\nError: creating EKS Fargate Profile (demo:b): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, " +
		"InvalidParameterException: Fargate Profile selector is not valid\n"
	ofTheNote = "\nError: Failed to create Fargate profile: subnet not found\n"
	noRole    = "\nError: creating EKS Fargate Profile (demo:b): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, " +
		"InvalidParameterException: Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal\n"
	publicSubnet = "\nError: creating EKS Fargate Profile (demo:b): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, " +
		"InvalidParameterException: Subnet subnet-1 provided in Fargate Profile is not a private subnet\n"
)

// Whatever is wrong with one profile, the others are made, the control plane is Degraded and can be used, Terraform's own words
// are shown, and the profile goes on when the cause is corrected.
func TestResourcesThatTerraformCannotCreate(t *testing.T) {
	t.Parallel()
	for _, row := range fixture.Sample(3, 1, []struct{ name, stderr, reason, says string }{
		{"limit", quota, controlplanev1.FargateProfileFailedReason, "ResourceLimitExceededException"},
		{"AWS API", unavailable, controlplanev1.FargateProfileFailedReason, "ServerException"},
		{"configuration", badSelector, controlplanev1.FargateProfileFailedReason, "selector is not valid"},
		{"example of the design", ofTheNote, controlplanev1.FargateProfileFailedReason, "Failed to create Fargate profile: subnet not found"},
		{"IAM role", noRole, controlplanev1.FargateProfileDependencyReason, "Misconfigured PodExecutionRole Trust Policy"},
		{"VPC", publicSubnet, controlplanev1.FargateProfileDependencyReason, "is not a private subnet"},
	}) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t, "Namespaced")
			env.SetScript(apply("b"), scripted.Script{Apply: scripted.Step{Stderr: row.stderr}})
			env.start("a", "b")
			env.awaitProfiles("a is ready", "b is not ready: "+row.reason)
			controlPlane := env.AwaitState(infrav1.StateDegraded, row.reason)
			status := controlPlane.Status.FargateProfiles[1]
			assert.Equal(env, apply("b"), status.WorkspaceTemplateApplyName)
			assert.Contains(env, status.FailureMessage, row.says)
			env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.AvailableCondition, metav1.ConditionTrue, "")
			env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DegradedCondition, metav1.ConditionTrue, "", "b (", row.says)
			assert.False(env, meta.IsStatusConditionTrue(controlPlane.Status.Conditions, infrav1.FailedCondition))
			env.Await(&clusterv1.Cluster{}, fixture.Demo, clusterv1.ClusterControlPlaneAvailableCondition, metav1.ConditionTrue, "")
			assert.Contains(env, env.eventLines(), "Warning "+row.reason+": Fargate profile b: "+status.FailureMessage)

			env.SetScript(apply("b"), scripted.Script{})
			env.AwaitState(infrav1.StateReady, "")
			assert.Equal(env, []string{"a is ready", "b is ready"}, env.profiles())
		})
	}
}

// Correcting the spec repairs a profile, too.
func TestAChangeOfSpecRepairsAProfile(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	env.SetScript(apply("b"), scripted.Script{Apply: scripted.Step{Stderr: badSelector}})
	env.start("a", "b")
	env.AwaitState(infrav1.StateDegraded, controlplanev1.FargateProfileFailedReason)
	env.User(controlPlane("a"))
	env.AwaitState(infrav1.StateReady, "")
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply("b"))
	assert.Equal(env, []string{"a is ready"}, env.profiles())
}

// ownVPC is a VPC that another tool created, described in a Secret.
var ownVPC = fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-1, connectionSecretRef: {name: network}}")

// network is a Secret with one key.
func network(key, value string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: network}, data: {%s: %s}}", key, base64.StdEncoding.EncodeToString([]byte(value)))
}

// A Secret that is missing, or lacks what it should have, is waited for; when it comes, the profile is made.
func TestWhatAProfileWaitsFor(t *testing.T) {
	t.Parallel()
	const dependency = "a is not ready: " + controlplanev1.FargateProfileDependencyReason
	good := network("vpc_config", `private_subnets = ["subnet-1"]`)

	t.Run("a key of the connection Secret", func(t *testing.T) {
		t.Parallel()
		env := newEnvironment(t, "Namespaced")
		env.User(append(env.FargateTemplates(), env.ControlPlaneTemplate(fixture.ControlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), controlPlane("a"))...)
		env.awaitProfiles(dependency)
		controlPlane := env.AwaitState(infrav1.StateDegraded, controlplanev1.FargateProfileDependencyReason)
		assert.Contains(env, controlPlane.Status.FargateProfiles[0].FailureMessage, "Secret demo-eks-connection has no value for key cluster_name")
		assert.Empty(env, controlPlane.Status.FargateProfiles[0].WorkspaceTemplateApplyName)
		assert.False(env, env.Exists(&infrav1.WorkspaceTemplateApply{}, apply("a")))
		env.User(env.ControlPlaneTemplate(fixture.FargateControlPlaneModule))
		env.AwaitState(infrav1.StateReady, "")
	})

	t.Run("the Secret of the VPC", func(t *testing.T) {
		t.Parallel()
		env := newEnvironment(t, "Namespaced")
		env.User(append(env.FargateTemplates(), fixture.Cluster(), ownVPC, good, controlPlane())...)
		env.AwaitState(infrav1.StateReady, "")
		for what, row := range map[string]struct{ secret, says string }{
			"no key":         {network("other", "x"), "Secret network has no value for key vpc_config"},
			"no description": {network("vpc_config", "private_subnets = []"), "key vpc_config of Secret network does not describe a VPC"},
		} {
			env.User(row.secret, controlPlane("a"))
			env.Eventually(func() string {
				return env.MissingCondition(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.FargateProfileReadyCondition, metav1.ConditionFalse,
					controlplanev1.FargateProfileDependencyReason, row.says)
			})
			assert.False(env, env.Exists(&infrav1.WorkspaceTemplateApply{}, apply("a")), what)
		}
		secret := &corev1.Secret{}
		env.Remove(secret, "network")
		env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.FargateProfileReadyCondition, metav1.ConditionFalse,
			controlplanev1.FargateProfileDependencyReason, "Secret network does not exist")
		env.User(good)
		env.AwaitState(infrav1.StateReady, "")
		assert.Equal(env, []string{"a is ready"}, env.profiles())
	})

	t.Run("a VPC without a description", func(t *testing.T) {
		t.Parallel()
		env := newEnvironment(t, "Namespaced")
		env.User(append(env.FargateTemplates(), fixture.Cluster(), fixture.CAPTClusterWith(fixture.Demo, "{existingID: vpc-1}"), controlPlane("a"))...)
		env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.FargateProfileReadyCondition, metav1.ConditionFalse,
			controlplanev1.FargateProfileDependencyReason, "Set spec.vpc.connectionSecretRef of the CAPTCluster")
		env.User(good, ownVPC)
		env.AwaitState(infrav1.StateReady, "")
	})

	t.Run("its template", func(t *testing.T) {
		t.Parallel()
		env := newEnvironment(t, "Namespaced")
		env.User(append(env.FargateTemplates()[:2], fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), controlPlane("a"))...)
		env.awaitProfiles(dependency)
		env.User(env.FargateProfileTemplate(fixture.FargateProfileModule))
		env.AwaitState(infrav1.StateReady, "")
	})
}

// A profile that cannot be destroyed says so, holds up the cluster it stands on, and nothing else.
func TestAProfileThatCannotBeDestroyed(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	denied := "\nError: deleting EKS Fargate Profile (demo:a): AccessDeniedException: not authorized to perform: eks:DeleteFargateProfile\n"
	env.start("a", "b")
	env.AwaitState(infrav1.StateReady, "")
	env.SetScript(apply("a"), scripted.Script{Destroy: scripted.Step{Stderr: denied}})
	env.User(controlPlane("b"))
	env.awaitProfiles("b is ready", "a is not ready: FargateProfileFailed")
	env.AwaitState(infrav1.StateDegraded, controlplanev1.FargateProfileFailedReason)

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply("b"))
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue, controlplanev1.FargateProfileFailedReason, "AccessDenied")
	require.Empty(env, env.Operations(fixture.ControlPlane, scripted.Destroy))
	env.SetScript(apply("a"), scripted.Script{})
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireNothingLeft()
}
