// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const (
	noMachines        = "EKS runs the control plane. Its instances are not visible: they have no Machines and no Nodes."
	controlPlaneApply = "new-eks-controlplane-apply"
)

// controlPlaneContract is the contract of CAPTControlPlane.
func controlPlaneContract() book {
	return book{file: "control-plane.md", rules: []rule{
		{title: "All resources: scope", mandatory: true, test: each(isNamespaced, controlPlaneKind, controlPlaneTemplateKind)},
		{title: "All resources: `TypeMeta` and `ObjectMeta`field", mandatory: true, test: func(t *testing.T) {
			each(hasTypeMetaAndObjectMeta, controlPlaneKind, controlPlaneTemplateKind)(t)
			aside(t, "every version", inEveryVersion(demo, controlPlaneKind))
		}},
		{title: "All resources: `APIVersion` field value", mandatory: true, test: each(followsTheContract, controlPlaneKind, controlPlaneTemplateKind)},
		{title: "ControlPlane, ControlPlaneList resource definition", mandatory: true, test: func(t *testing.T) {
			isDefined(t, controlPlaneKind)
			hasStatus(t, controlPlaneKind)
		}},
		{title: "ControlPlane: endpoint", test: endpointSurfaces},
		{title: "ControlPlane: replicas", test: hasNoReplicas,
			reason: noMachines + " Their number is EKS' business, and cannot be asked for."},
		{title: "ControlPlane: version", test: func(t *testing.T) {
			aside(t, "status", versionIsThatOfWhatRuns)
			aside(t, "the v is added", versionGetsItsPrefix)
		}},
		{title: "ControlPlane: machines", test: hasNoMachines,
			reason: noMachines + " What the rule asks of managed control planes is there: status.externalManagedControlPlane."},
		{title: "ControlPlane: rolloutAfter", test: hasNoRollout,
			reason: noMachines + " There is nothing to roll out but changes, and Terraform applies those at once."},
		{title: "ControlPlane: initialization completed", mandatory: true, test: controlPlaneIsInitializedOnce},
		{title: "ControlPlane: in-place updates",
			reason: noMachines + " The rule is about updates of Machines."},
		{title: "ControlPlane: conditions", test: controlPlaneConditionsAreMirrored},
		{title: "ControlPlane: terminal failures", test: controlPlaneFailuresAreNotTerminal},
		{title: "ControlPlaneTemplate, ControlPlaneTemplateList resource definition", test: func(t *testing.T) {
			isTemplateOf(t, controlPlaneTemplateKind, controlPlaneKind, "version", "controlPlaneEndpoint", "workspaceTemplateApplyRef")
			aside(t, "ClusterClass", clusterClassMakesControlPlanes)
			aside(t, "chained upgrade", clusterClassGoesThroughVersions)
		}},
		{title: "Cluster kubeconfig management", mandatory: true, test: func(t *testing.T) {
			aside(t, "created", kubeconfigIsThatOfTheContract)
			aside(t, "maintained", kubeconfigIsMaintained)
		}},
		{title: "Cluster certificate management", test: hasNoCertificates,
			reason: "AWS makes and keeps the certificates of an EKS cluster, and gives away none but that of the authority, which is in the kubeconfig."},
		{title: "Machine placement", reason: noMachines + " EKS spreads them over the zones of the VPC by itself."},
		{title: "Metadata propagation", reason: noMachines + " There is nothing below the control plane to which metadata could be propagated."},
		{title: "MinReadySeconds and UpToDate propagation", reason: noMachines},
		{title: "Support for running multiple instances", test: instancesShareControlPlanes},
		{title: "Clusterctl support", test: each(isLabeledForClusterctl("control-plane-capt"), controlPlaneKind, controlPlaneTemplateKind)},
		{title: "ControlPlane: pausing", test: func(t *testing.T) {
			pauses(t, "paused-eks-controlplane-apply", &controlplanev1.CAPTControlPlane{}, func(object engine.Object, note string) {
				object.(*controlplanev1.CAPTControlPlane).Spec.Variables = infrav1.TextVariables(map[string]string{"note": note})
			}, inExistingVPC(paused, "v1.34.0")...)
		}},
	}}
}

func endpointSurfaces(t *testing.T) {
	requireFields(t, controlPlaneKind, map[string]string{
		"spec.controlPlaneEndpoint": "object", "spec.controlPlaneEndpoint.host": "string", "spec.controlPlaneEndpoint.port": "integer",
	})
	env := demoEnvironment(t)
	owner := env.awaitCluster(demo, "it has no endpoint", func(c *clusterv1.Cluster) bool { return c.Spec.ControlPlaneEndpoint.IsValid() })
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.read(controlPlane, demo)
	require.Equal(t, shared.Config().Host, "https://"+controlPlane.Spec.ControlPlaneEndpoint.String())
	require.Equal(t, controlPlane.Spec.ControlPlaneEndpoint, owner.Spec.ControlPlaneEndpoint)

	old := env.in(older(controlPlaneKind), demo)
	require.Equal(t, controlPlane.Spec.ControlPlaneEndpoint.Host, field(old, "spec.controlPlaneEndpoint.host"))
	require.EqualValues(t, controlPlane.Spec.ControlPlaneEndpoint.Port, field(old, "spec.controlPlaneEndpoint.port"))
}

func hasNoReplicas(t *testing.T) {
	requireNoFields(t, controlPlaneKind, "spec.replicas", "status.replicas", "status.selector", "status.readyReplicas",
		"status.availableReplicas", "status.upToDateReplicas", "status.updatedReplicas", "status.unavailableReplicas")
	for _, version := range definition(t, controlPlaneKind).Spec.Versions {
		require.Nil(t, version.Subresources.Scale, version.Name)
	}
	env := demoEnvironment(t)
	counted := &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.34.0"}}}
	owner := env.awaitCluster(demo, "Cluster API counts nothing, and knows the version", func(c *clusterv1.Cluster) bool {
		return equality.Semantic.DeepEqual(counted, c.Status.ControlPlane)
	})
	for _, condition := range owner.Status.Conditions {
		require.NotEqual(t, metav1.ConditionUnknown, condition.Status, "%s waits for replicas: %s", condition.Type, condition.Message)
	}
}

func hasNoMachines(t *testing.T) {
	requireNoFields(t, controlPlaneKind, "spec.machineTemplate")
	requireFields(t, controlPlaneKind, map[string]string{"status.externalManagedControlPlane": "boolean"})
	env := demoEnvironment(t)
	machines := &clusterv1.MachineList{}
	require.NoError(t, env.List(t.Context(), machines, client.InNamespace(demo)))
	require.Empty(t, machines.Items)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.read(controlPlane, demo)
	require.Equal(t, ptr.To(true), controlPlane.Status.ExternalManagedControlPlane)
}

func hasNoRollout(t *testing.T) {
	requireNoFields(t, controlPlaneKind, "spec.rollout", "spec.rolloutAfter")
}

func hasNoCertificates(t *testing.T) {
	env := demoEnvironment(t)
	for _, purpose := range []string{"ca", "etcd", "proxy", "sa"} {
		err := env.Get(t.Context(), client.ObjectKey{Namespace: demo, Name: demo + "-" + purpose}, &corev1.Secret{})
		require.True(t, engine.Absent(err), "%s: %v", purpose, err)
	}
	data, err := kubeconfig.FromSecret(t.Context(), env, client.ObjectKey{Namespace: demo, Name: demo})
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	require.NotEmpty(t, config.CAData)
	require.False(t, config.Insecure)
}

func versionIsThatOfWhatRuns(t *testing.T) {
	requireFields(t, controlPlaneKind, map[string]string{
		"spec.version": "string", "status.version": "string", "status.versions": "array", "status.versions.version": "string",
	})
	env := newEnvironment(t)
	env.SetScript(controlPlaneApply, applyHangs)
	env.apply(inExistingVPC("new", "v1.34.1")...)
	env.AwaitOperation(controlPlaneApply, scripted.Apply)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.awaitCondition(controlPlane, "new", controlplanev1.ReadyCondition, metav1.ConditionFalse, "")
	require.Empty(t, controlPlane.Status.Version, "nothing runs yet")
	require.Empty(t, controlPlane.Status.Versions)

	runs := func(version string) {
		t.Helper()
		env.awaitTrue(controlPlane, "new", controlplanev1.ReadyCondition)
		require.Equal(t, version, controlPlane.Spec.Version)
		require.Equal(t, version, controlPlane.Status.Version)
		require.Equal(t, []clusterv1.StatusVersion{{Version: version}}, controlPlane.Status.Versions)
	}
	env.SetScript(controlPlaneApply, goesWell)
	runs("v1.34.1")

	// While Terraform upgrades it, Cluster API must be able to see that it is not done.
	env.SetScript(controlPlaneApply, applyHangs)
	env.apply(eks("new", "v1.35.0"))
	condition := env.awaitCondition(controlPlane, "new", controlplanev1.ReadyCondition, metav1.ConditionFalse, "")
	require.Equal(t, controlPlane.Generation, condition.ObservedGeneration)
	require.Equal(t, "v1.34.1", controlPlane.Status.Version)
	require.Equal(t, []clusterv1.StatusVersion{{Version: "v1.34.1"}}, controlPlane.Status.Versions)
	env.SetScript(controlPlaneApply, goesWell)
	runs("v1.35.0")
}

// The contract: "if the value provided by the user does not start with the v prefix, it must be added".
func versionGetsItsPrefix(t *testing.T) {
	for _, given := range []string{"v1.34.0", "1.34.0", "v1.34", "1.34"} {
		t.Run(given, func(t *testing.T) {
			env := newEnvironment(t)
			env.apply(eks("new", "'"+given+"'"))
			controlPlane := &controlplanev1.CAPTControlPlane{}
			env.read(controlPlane, "new")
			require.Equal(t, "v1.34.0", controlPlane.Spec.Version)
		})
	}
}

func controlPlaneIsInitializedOnce(t *testing.T) {
	requireFields(t, controlPlaneKind, map[string]string{
		"status.initialization": "object", "status.initialization.controlPlaneInitialized": "boolean",
	})
	env := newEnvironment(t)
	env.SetScript(controlPlaneApply, applyHangs)
	env.apply(inExistingVPC("new", "v1.34.0")...)
	env.AwaitOperation(controlPlaneApply, scripted.Apply)
	controlPlane, owner := &controlplanev1.CAPTControlPlane{}, &clusterv1.Cluster{}
	env.awaitCondition(controlPlane, "new", controlplanev1.InitializedCondition, metav1.ConditionFalse, controlplanev1.NotInitializedReason)
	require.Nil(t, controlPlane.Status.Initialization.ControlPlaneInitialized)
	require.NotEqual(t, true, field(env.in(older(controlPlaneKind), "new"), "status.initialized"))
	env.awaitCondition(owner, "new", clusterv1.ClusterControlPlaneInitializedCondition, metav1.ConditionFalse, "")
	require.True(t, owner.Spec.ControlPlaneEndpoint.IsZero())

	env.SetScript(controlPlaneApply, goesWell)
	env.awaitTrue(owner, "new", clusterv1.ClusterControlPlaneInitializedCondition)
	owner = env.awaitCluster("new", "it is not initialized", controlPlaneInitialized)
	require.True(t, owner.Spec.ControlPlaneEndpoint.IsValid(), "it comes at the same time")
	require.Equal(t, true, field(env.in(older(controlPlaneKind), "new"), "status.initialized"), "what the contract v1beta1 reads")

	// What is initialized stays initialized, whatever becomes of it.
	env.SetScript(controlPlaneApply, applyFails)
	env.apply(eks("new", "v1.35.0"))
	env.awaitTrue(controlPlane, "new", infrav1.DegradedCondition)
	require.Equal(t, ptr.To(true), controlPlane.Status.Initialization.ControlPlaneInitialized)
}

func controlPlaneConditionsAreMirrored(t *testing.T) {
	requireFields(t, controlPlaneKind, conditionFields)
	env := newEnvironment(t)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	mirrored := func(status metav1.ConditionStatus) {
		t.Helper()
		env.awaitCondition(controlPlane, "new", controlplanev1.AvailableCondition, status, "")
		requireWellFormed(t, controlPlane.Status.Conditions)
		env.awaitMirrored(controlPlane, "new", controlplanev1.AvailableCondition, clusterv1.ClusterControlPlaneAvailableCondition)
	}
	env.SetScript(controlPlaneApply, applyHangs)
	env.apply(inExistingVPC("new", "v1.34.0")...)
	env.AwaitOperation(controlPlaneApply, scripted.Apply)
	mirrored(metav1.ConditionFalse)
	env.SetScript(controlPlaneApply, goesWell)
	mirrored(metav1.ConditionTrue)

	// It is available while it is upgraded, and when that fails.
	env.SetScript(controlPlaneApply, applyFails)
	env.apply(eks("new", "v1.35.0"))
	env.awaitCondition(controlPlane, "new", controlplanev1.ReadyCondition, metav1.ConditionFalse, "ApplyFailed")
	mirrored(metav1.ConditionTrue)
	for _, scaling := range []string{clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition} {
		require.Nil(t, meta.FindStatusCondition(controlPlane.Status.Conditions, scaling), "it is about replicas, of which there are none")
	}
	env.SetScript(controlPlaneApply, destroyHangs)
	env.Remove(&clusterv1.Cluster{}, "new")
	env.AwaitOperation(controlPlaneApply, scripted.Destroy)
	mirrored(metav1.ConditionFalse)
	env.SetScript(controlPlaneApply, goesWell)
	env.AwaitGone(&clusterv1.Cluster{}, "new")
}

func controlPlaneFailuresAreNotTerminal(t *testing.T) {
	require.Nil(t, definedField(t, controlPlaneKind, "status.failureReason"))
	require.Nil(t, definedField(t, controlPlaneKind, "status.failureMessage"))
	env := newEnvironment(t)
	env.SetScript(controlPlaneApply, applyFails)
	env.apply(inExistingVPC("new", "v1.34.0")...)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	condition := env.awaitCondition(controlPlane, "new", controlplanev1.ReadyCondition, metav1.ConditionFalse, "ApplyFailed")
	require.Contains(t, condition.Message, "VpcLimitExceeded", "the user sees what happened")
	env.awaitMirrored(controlPlane, "new", controlplanev1.AvailableCondition, clusterv1.ClusterControlPlaneAvailableCondition)
	requireNotFailed(env, "new")
	env.SetScript(controlPlaneApply, goesWell)
	env.awaitTrue(controlPlane, "new", controlplanev1.ReadyCondition)
}

func kubeconfigIsThatOfTheContract(t *testing.T) {
	env := demoEnvironment(t)
	secret, controlPlane := &corev1.Secret{}, &controlplanev1.CAPTControlPlane{}
	env.read(secret, demo+"-kubeconfig")
	env.read(controlPlane, demo)
	require.Equal(t, clusterv1.ClusterSecretType, secret.Type)
	require.Equal(t, demo, secret.Labels[clusterv1.ClusterNameLabel])
	require.True(t, metav1.IsControlledBy(secret, controlPlane))
	require.Len(t, secret.Data, 1)
	require.NotEmpty(t, secret.Data["value"])

	// Cluster API finds it and can connect with it.
	data, err := kubeconfig.FromSecret(t.Context(), env, client.ObjectKey{Namespace: demo, Name: demo})
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = clients.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	require.NoError(t, err)
	env.awaitTrue(&clusterv1.Cluster{}, demo, clusterv1.ClusterRemoteConnectionProbeCondition)
}

func kubeconfigIsMaintained(t *testing.T) {
	env := newEnvironment(t)
	env.apply(inExistingVPC("new", "v1.34.0")...)
	env.awaitTrue(&controlplanev1.CAPTControlPlane{}, "new", controlplanev1.ReadyCondition)
	secret := &corev1.Secret{}
	env.read(secret, "new-kubeconfig")
	before := secret.DeepCopy()
	restored := func(when string) {
		t.Helper()
		env.await(secret, "new-kubeconfig", func() string {
			return fixture.Unless(secret.Labels[clusterv1.ClusterNameLabel] == "new" && len(secret.OwnerReferences) == 1 &&
				string(secret.Data["value"]) == string(before.Data["value"]) && secret.Type == before.Type, "it was not restored %s", when)
		})
	}
	env.Remove(secret, "new-kubeconfig")
	restored("after it was deleted")
	for _, loss := range []struct {
		what  string
		spoil func()
	}{
		{"value", func() { secret.Data["value"] = []byte("spoiled") }},
		{"label", func() { secret.Labels = nil }},
		{"owner reference", func() { secret.OwnerReferences = nil }},
	} {
		env.change(secret, "new-kubeconfig", loss.spoil)
		restored("after it lost its " + loss.what)
	}
}
