// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// infraClusterContract is the contract of CAPTCluster.
func infraClusterContract() book {
	return book{file: "infra-cluster.md", rules: []rule{
		{title: "All resources: scope", mandatory: true, test: each(isNamespaced, captClusterKind, captClusterTemplateKind)},
		{title: "All resources: `TypeMeta` and `ObjectMeta`field", mandatory: true, test: func(t *testing.T) {
			each(hasTypeMetaAndObjectMeta, captClusterKind, captClusterTemplateKind)(t)
			aside(t, "every version", inEveryVersion(demo, captClusterKind))
		}},
		{title: "All resources: `APIVersion` field value", mandatory: true, test: each(followsTheContract, captClusterKind, captClusterTemplateKind)},
		{title: "InfraCluster, InfraClusterList resource definition", mandatory: true, test: func(t *testing.T) {
			isDefined(t, captClusterKind)
			hasStatus(t, captClusterKind)
		}},
		{title: "InfraCluster: control plane endpoint", test: endpointIsNotOfTheInfrastructure,
			reason: "EKS makes the endpoint, so the control plane has it. A VPC needs none, and EKS needs the VPC to have one: so CAPTCluster does not wait for the endpoint of the Cluster, as the rule asks of those that do not make it."},
		{title: "InfraCluster: failure domains", test: failureDomainsSurface},
		{title: "InfraCluster: initialization completed", mandatory: true, test: infrastructureIsInitializedOnce},
		{title: "InfraCluster: conditions", test: infrastructureConditionsAreMirrored},
		{title: "InfraCluster: terminal failures", test: infrastructureFailuresAreNotTerminal},
		{title: "InfraClusterTemplate, InfraClusterTemplateList resource definition", test: func(t *testing.T) {
			isTemplateOf(t, captClusterTemplateKind, captClusterKind, "workspaceTemplateApplyRef", "controlPlaneEndpoint")
			aside(t, "ClusterClass", clusterClassMakesInfrastructure)
		}},
		{title: "Externally managed infrastructure", test: func(t *testing.T) {
			aside(t, "CAPTCluster", infrastructureOfOthersIsLeftAlone)
			aside(t, "CAPTControlPlane", controlPlaneOfOthersIsLeftAlone)
			aside(t, "CAPTControlPlane on infrastructure of others", controlPlaneStandsOnInfrastructureOfOthers)
		}},
		{title: "Multi tenancy", test: func(t *testing.T) {
			aside(t, "credentials", tenantsHaveTheirOwnCredentials)
			aside(t, "instances", instancesShareInfrastructure)
		}},
		{title: "Clusterctl support", test: each(isLabeledForClusterctl("infrastructure-capt"), captClusterKind, captClusterTemplateKind)},
		{title: "InfraCluster: pausing", test: func(t *testing.T) {
			pauses(t, "paused-vpc", &infrav1.CAPTCluster{}, func(object engine.Object, note string) {
				object.(*infrav1.CAPTCluster).Spec.VPC.Template.Variables = infrav1.TextVariables(map[string]string{"note": note})
			}, vpcTemplate(), newVPC("paused"), infrastructureOnly("paused"))
		}},
	}}
}

func endpointIsNotOfTheInfrastructure(t *testing.T) {
	requireNoFields(t, captClusterKind, "spec.controlPlaneEndpoint")
	env := newEnvironment(t)
	env.apply(existingVPC("here"), infrastructureOnly("here"))
	captCluster := &infrav1.CAPTCluster{}
	env.awaitTrue(captCluster, "here", infrav1.ReadyCondition)
	owner := env.awaitCluster("here", "the infrastructure is not provisioned", infrastructureProvisioned)
	require.True(t, owner.Spec.ControlPlaneEndpoint.IsZero(), "none is set")
	require.Empty(t, captCluster.Status.Endpoint)

	// The user sets it. Cluster API accepts it, and CAPTCluster reports it.
	env.change(owner, "here", func() { owner.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "api.example.com", Port: 443} })
	env.awaitCluster("here", "it is not Provisioned", func(owner *clusterv1.Cluster) bool {
		return owner.Status.Phase == string(clusterv1.ClusterPhaseProvisioned)
	})
	env.await(captCluster, "here", func() string {
		return fixture.Unless(captCluster.Status.Endpoint == "api.example.com:443", "status.endpoint is %s", captCluster.Status.Endpoint)
	})
}

func failureDomainsSurface(t *testing.T) {
	requireFields(t, captClusterKind, map[string]string{
		"status.failureDomains": "array", "status.failureDomains.name": "string",
		"status.failureDomains.controlPlane": "boolean", "status.failureDomains.attributes": "object",
	})
	env := demoEnvironment(t)
	captCluster, owner := &infrav1.CAPTCluster{}, &clusterv1.Cluster{}
	env.read(captCluster, demo)
	want := []clusterv1.FailureDomain{
		{Name: "eu-central-1a", ControlPlane: ptr.To(true)}, {Name: "eu-central-1b", ControlPlane: ptr.To(true)},
	}
	require.Equal(t, want, captCluster.Status.FailureDomains)
	env.read(owner, demo)
	require.Equal(t, want, owner.Status.FailureDomains)

	zones, ok := field(env.in(older(captClusterKind), demo), "status.failureDomains").(map[string]any)
	require.True(t, ok, "it is a map in the contract v1beta1")
	require.Len(t, zones, 2)
	require.Equal(t, map[string]any{"controlPlane": true}, zones["eu-central-1a"])
}

func infrastructureIsInitializedOnce(t *testing.T) {
	requireFields(t, captClusterKind, map[string]string{"status.initialization": "object", "status.initialization.provisioned": "boolean"})
	env := newEnvironment(t)
	env.SetScript("new-vpc", applyHangs)
	env.apply(vpcTemplate(), newVPC("new"), infrastructureOnly("new"))
	env.AwaitOperation("new-vpc", scripted.Apply)
	captCluster := &infrav1.CAPTCluster{}
	env.awaitCondition(captCluster, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ProvisioningReason)
	require.Nil(t, captCluster.Status.Initialization.Provisioned, "there is no VPC yet")
	require.NotEqual(t, true, field(env.in(older(captClusterKind), "new"), "status.ready"))
	owner := &clusterv1.Cluster{}
	env.read(owner, "new")
	require.False(t, ptr.Deref(owner.Status.Initialization.InfrastructureProvisioned, false))
	require.Empty(t, owner.Status.FailureDomains)

	env.SetScript("new-vpc", goesWell)
	env.awaitCluster("new", "it is not provisioned", infrastructureProvisioned)
	env.awaitTrue(captCluster, "new", infrav1.ReadyCondition)
	require.True(t, *captCluster.Status.Initialization.Provisioned)
	require.Equal(t, true, field(env.in(older(captClusterKind), "new"), "status.ready"), "what the contract v1beta1 reads")

	// What is initialized stays initialized, whatever becomes of the VPC.
	env.SetScript("new-vpc", applyFails)
	env.apply(changedVPCTemplate())
	env.awaitCondition(captCluster, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)
	require.True(t, *captCluster.Status.Initialization.Provisioned)
}

// requireWellFormed requires what Cluster API reads of a condition.
func requireWellFormed(t *testing.T, conditions []metav1.Condition) {
	t.Helper()
	require.NotEmpty(t, conditions)
	seen := map[string]bool{}
	for _, condition := range conditions {
		require.False(t, seen[condition.Type], "two conditions %s", condition.Type)
		seen[condition.Type] = true
		require.Contains(t, []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}, condition.Status)
		require.NotEmpty(t, condition.Reason, condition.Type)
		require.False(t, condition.LastTransitionTime.IsZero(), condition.Type)
		require.NotZero(t, condition.ObservedGeneration, condition.Type)
	}
}

func infrastructureConditionsAreMirrored(t *testing.T) {
	requireFields(t, captClusterKind, conditionFields)
	env := newEnvironment(t)
	captCluster := &infrav1.CAPTCluster{}
	mirrored := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		env.awaitCondition(captCluster, "new", infrav1.ReadyCondition, status, reason)
		requireWellFormed(t, captCluster.Status.Conditions)
		env.awaitMirrored(captCluster, "new", infrav1.ReadyCondition, clusterv1.ClusterInfrastructureReadyCondition)
	}
	env.SetScript("new-vpc", applyHangs)
	env.apply(vpcTemplate(), newVPC("new"), infrastructureOnly("new"))
	env.AwaitOperation("new-vpc", scripted.Apply)
	mirrored(metav1.ConditionFalse, infrav1.ProvisioningReason)
	env.SetScript("new-vpc", destroyHangs)
	mirrored(metav1.ConditionTrue, infrav1.ReadyReason)
	env.Remove(&clusterv1.Cluster{}, "new")
	env.AwaitOperation("new-vpc", scripted.Destroy)
	mirrored(metav1.ConditionFalse, infrav1.DeletingReason)
	env.SetScript("new-vpc", goesWell)
	env.AwaitGone(&clusterv1.Cluster{}, "new")
}

func infrastructureFailuresAreNotTerminal(t *testing.T) {
	require.Nil(t, definedField(t, captClusterKind, "status.failureReason"))
	require.Nil(t, definedField(t, captClusterKind, "status.failureMessage"))
	env := newEnvironment(t)
	env.SetScript("new-vpc", applyFails)
	env.apply(vpcTemplate(), newVPC("new"), infrastructureOnly("new"))
	captCluster := &infrav1.CAPTCluster{}
	condition := env.awaitCondition(captCluster, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)
	require.Contains(t, condition.Message, "VpcLimitExceeded", "the user sees what happened")
	env.awaitMirrored(captCluster, "new", infrav1.ReadyCondition, clusterv1.ClusterInfrastructureReadyCondition)
	requireNotFailed(env, "new")

	env.SetScript("new-vpc", goesWell)
	env.awaitTrue(captCluster, "new", infrav1.ReadyCondition)
	env.awaitMirrored(captCluster, "new", infrav1.ReadyCondition, clusterv1.ClusterInfrastructureReadyCondition)
}

// requireNotFailed requires that Cluster API takes nothing for a failure of the deprecated kind, which had no way back.
func requireNotFailed(env *environment, name string) {
	env.Helper()
	owner := env.in(clusterv1.GroupVersion.WithKind("Cluster"), name)
	require.Equal(env, string(clusterv1.ClusterPhaseProvisioning), field(owner, "status.phase"))
	require.Nil(env, field(owner, "status.deprecated.v1beta1.failureReason"))
	require.Nil(env, field(owner, "status.deprecated.v1beta1.failureMessage"))
}

// classyEnvironment has a ClusterClass and a Cluster of it, whose objects Cluster API has made.
func classyEnvironment(t *testing.T, class, version string) (*environment, *clusterv1.Cluster) {
	t.Helper()
	env := newEnvironment(t)
	env.apply(controlPlaneTemplate(), captClusterTemplate, captControlPlaneTemplate, class)
	env.awaitTrue(&clusterv1.ClusterClass{}, "eks", clusterv1.ClusterClassVariablesReadyCondition)
	env.apply(classyCluster("classy", version))
	owner := &clusterv1.Cluster{}
	env.awaitTrue(owner, "classy", clusterv1.ClusterTopologyReconciledCondition)
	return env, owner
}

func clusterClassMakesInfrastructure(t *testing.T) {
	env, owner := classyEnvironment(t, clusterClass, "v1.34.0-eks-1")
	require.Equal(t, "CAPTCluster", owner.Spec.InfrastructureRef.Kind)
	captCluster := &infrav1.CAPTCluster{}
	env.awaitTrue(captCluster, owner.Spec.InfrastructureRef.Name, infrav1.ReadyCondition)
	require.Equal(t, "network", captCluster.Labels["team"], "the metadata of the template")
	require.Equal(t, "7", captCluster.Annotations["example.com/cost-center"])
	require.Equal(t, "eu-central-1", captCluster.Spec.Region)
	require.Equal(t, "vpc-0123456789abcdef0", captCluster.Spec.VPC.ExistingID)
	require.Equal(t, ptr.To(true), captCluster.Status.Initialization.Provisioned)

	env.Remove(&clusterv1.Cluster{}, "classy")
	env.AwaitGone(&clusterv1.Cluster{}, "classy")
	env.AwaitGone(captCluster, captCluster.Name)
	require.Empty(t, env.workspaces())
}

func clusterClassMakesControlPlanes(t *testing.T) {
	env, owner := classyEnvironment(t, clusterClass, "v1.34.0-eks-1")
	require.Equal(t, "CAPTControlPlane", owner.Spec.ControlPlaneRef.Kind)
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, owner.Spec.ControlPlaneRef.Name
	env.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	require.Equal(t, "platform", controlPlane.Labels["team"], "the metadata of the template")
	require.Equal(t, "7", controlPlane.Annotations["example.com/cost-center"])
	require.EqualValues(t, "platform", controlPlane.Spec.AdditionalTags["team"])
	require.Equal(t, "v1.34.0-eks-1", controlPlane.Spec.Version, "Cluster API adds it")

	// What CAPT wrote into the spec is not taken away when the topology changes.
	before := controlPlane.DeepCopy()
	env.apply(classyCluster("classy", "v1.35.0-eks-2"))
	env.await(controlPlane, name, func() string {
		return fixture.Unless(controlPlane.Status.Version == "v1.35.0-eks-2", "status.version is %s", controlPlane.Status.Version)
	})
	require.Equal(t, before.Spec.WorkspaceTemplateApplyRef, controlPlane.Spec.WorkspaceTemplateApplyRef)
	require.Equal(t, before.Spec.ControlPlaneEndpoint, controlPlane.Spec.ControlPlaneEndpoint)
	env.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	env.await(owner, "classy", func() string {
		c := meta.FindStatusCondition(owner.Status.Conditions, clusterv1.ClusterTopologyReconciledCondition)
		return fixture.Unless(c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == owner.Generation, "Cluster API waits for the upgrade")
	})
	require.Len(t, env.workspaces(), 1)
	env.awaitAvailable("classy")
}

// A ClusterClass that lists its versions lets a Cluster go through several of them. EKS takes one minor version at a time, so
// each must be over before the next begins.
func clusterClassGoesThroughVersions(t *testing.T) {
	env, owner := classyEnvironment(t, clusterClass+"  kubernetesVersions: [v1.33.0, v1.34.0, v1.35.0]\n", "v1.33.0")
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, owner.Spec.ControlPlaneRef.Name
	env.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)

	env.apply(classyCluster("classy", "v1.35.0"))
	env.await(controlPlane, name, func() string {
		return fixture.Unless(controlPlane.Status.Version == "v1.35.0", "status.version is %s", controlPlane.Status.Version)
	})
	require.Len(t, env.Operations(name+"-eks-controlplane-apply", scripted.Apply), 3, "the first version, and a step to each of the others")
}
