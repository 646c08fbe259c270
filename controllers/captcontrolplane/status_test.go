// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

const (
	host      = "ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com"
	applyName = "demo-eks-controlplane-apply"
)

// scene is a control plane with the facts about it. It begins with everything ready except the kubeconfigs.
type scene struct {
	*testing.T
	controlPlane *controlplanev1.CAPTControlPlane
	*Facts
	// unwritten is true when the WorkspaceTemplateApply differs from what is desired.
	unwritten bool
}

func vpc(options ...builder.Option) *infrav1.CAPTCluster {
	captCluster := builder.CAPTCluster("demo", options...)
	captCluster.Status.VPC.ID = "vpc-1"
	captCluster.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "demo-vpc", WorkspaceName: "net"}
	return captCluster
}

func connection(data map[string]string) *corev1.Secret {
	return builder.SecretWith("demo-eks-connection", data)
}

func outputs() map[string]string {
	return map[string]string{"cluster_endpoint": "https://" + host, "cluster_name": "demo"}
}

func newScene(t *testing.T, options ...builder.Option) *scene {
	t.Helper()
	s := &scene{T: t, controlPlane: builder.CAPTControlPlane("demo", append([]builder.Option{builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)}, options...)...)}
	version, err := versions.ParseKubernetesVersion(s.controlPlane.Spec.Version)
	require.NoError(t, err)
	s.Facts = &Facts{
		Cluster:        builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
		Infrastructure: vpc(),
		Version:        version,
		Apply:          owner.Facts{Apply: builder.WorkspaceTemplateApply(applyName, builder.UpToDate(outputs()))},
		Connection:     connection(map[string]string{"cluster_certificate_authority_data": builder.CA()}),
	}
	return s
}

func (s *scene) with(change func(f *Facts)) *scene {
	change(s.Facts)
	return s
}

// apply replaces the WorkspaceTemplateApply. Terraform has applied it if the control plane was Ready.
func (s *scene) apply(options ...builder.Option) *scene {
	s.Apply.Apply = builder.WorkspaceTemplateApply(applyName, options...)
	if ptr.Deref(s.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		s.Apply.Apply.Status.Applied = metav1.ConditionTrue
	}
	return s
}

// configured is a scene in which endpoint and kubeconfigs are written.
func configured(t *testing.T, options ...builder.Option) *scene {
	t.Helper()
	s := newScene(t, append(options, builder.WithEndpoint(host, 443))...)
	written := kubeconfigsecret.Kubeconfig{Data: []byte("kubeconfig"), Written: true}
	s.Kubeconfig, s.UserKubeconfig = written, written
	return s
}

// onceReady is a control plane that was Ready before.
func onceReady(t *testing.T) *scene {
	t.Helper()
	s := configured(t)
	require.Equal(t, controlplanev1.StateReady, s.status().State)
	return s
}

// rawPlan is the plan for the facts.
func (s *scene) rawPlan() *Plan {
	s.Helper()
	p, err := plan(s.controlPlane, s.Facts)
	require.NoError(s, err)
	return p
}

// plan is the plan after the WorkspaceTemplateApply, if it exists, was written as desired.
func (s *scene) plan() *Plan {
	s.Helper()
	p := s.rawPlan()
	if p.Apply.Desired == nil || s.Apply.Apply == nil || s.unwritten {
		return p
	}
	desired := &infrav1.WorkspaceTemplateApply{}
	require.NoError(s, runtime.DefaultUnstructuredConverter.FromUnstructured(p.Apply.Desired.Object, desired))
	written, facts := s.Apply.Apply.DeepCopy(), *s.Facts
	written.Name, written.Labels, written.OwnerReferences, written.Spec = desired.Name, desired.Labels, desired.OwnerReferences, desired.Spec
	facts.Apply.Apply = written
	p, err := plan(s.controlPlane, &facts)
	require.NoError(s, err)
	return p
}

func (s *scene) step() owner.Step { return s.plan().Apply.Step }

func (s *scene) status() controlplanev1.CAPTControlPlaneStatus {
	status(s.controlPlane, s.Facts, s.plan())
	return s.controlPlane.Status
}

func (s *scene) story() map[string]string { return builder.ConditionSummary(s.status().Conditions) }

var (
	working = builder.NotUpToDate(infrav1.ProvisioningReason, "")
	failing = builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")
)

// Recovering is not reported yet; the golden table has the other states.
func TestPhaseOfRecovering(t *testing.T) {
	assert.Equal(t, controlplanev1.PhaseCreating, phase("Recovering", false))
	assert.Equal(t, controlplanev1.PhaseReady, phase("Recovering", true))
}

// Cluster API takes an endpoint over once.
func TestAnOutdatedEndpointOfTheClusterIsReported(t *testing.T) {
	s := configured(t)
	message := func() string {
		return meta.FindStatusCondition(s.status().Conditions, controlplanev1.EndpointAvailableCondition).Message
	}
	assert.Empty(t, message(), "Cluster API has not taken it over yet")
	s.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 443}
	assert.Empty(t, message())
	s.Cluster.Spec.ControlPlaneEndpoint.Host = "earlier.example.com"
	assert.Contains(t, message(), "Cluster demo still has the endpoint earlier.example.com:443 of an earlier control plane. Set spec.controlPlaneEndpoint of the Cluster to "+host+":443")
	assert.Equal(t, controlplanev1.StateReady, s.controlPlane.Status.State)
	s.Cluster.Spec.ControlPlaneEndpoint.Host = "https://" + host
	assert.Equal(t, "spec.controlPlaneEndpoint.host of Cluster demo is the URL https://"+host+", which CAPT v0.3 wrote: clients cannot connect to a URL. Set spec.controlPlaneEndpoint of the Cluster to "+host+
		":443, or run captctl migrate apply with --fix-cluster-endpoints", message())
}

func TestFieldsOfStatus(t *testing.T) {
	s := configured(t, builder.WithGeneration(3))
	got := s.status()
	assert.Equal(t, int64(3), got.ObservedGeneration)
	assert.Equal(t, ptr.To(true), got.ExternalManagedControlPlane)
	assert.Equal(t, "v1.31.0", got.Version)
	assert.Equal(t, []clusterv1.StatusVersion{{Version: "v1.31.0"}}, got.Versions)
	assert.Equal(t, host+":443", got.Endpoint)
	assert.Equal(t, applyName, got.WorkspaceTemplateApply.Name)
	assert.Equal(t, "UpToDate", got.WorkspaceTemplateApply.State)
	assert.Equal(t, outputs(), got.WorkspaceTemplateApply.Outputs)
}

func TestReadyWithoutAKubeconfigForUsers(t *testing.T) {
	s := configured(t).with(func(f *Facts) { f.UserKubeconfig = kubeconfigsecret.Kubeconfig{Problem: "it belongs to another owner"} })
	got := s.status()
	assert.Equal(t, controlplanev1.StateReady, got.State)
	assert.Contains(t, meta.FindStatusCondition(got.Conditions, "KubeconfigReady").Message, "it belongs to another owner")
}

func TestVersionIsTheRunningOne(t *testing.T) {
	s := onceReady(t).apply(working)
	s.Version.Semantic = "v1.32.0"
	assert.Equal(t, "v1.31.0", s.status().Version, "while the update runs")
	s.apply(builder.UpToDate(outputs()))
	assert.Equal(t, "v1.32.0", s.status().Version)
	s.VersionError, s.Version.Semantic = assert.AnError, ""
	assert.Equal(t, "v1.32.0", s.status().Version, "a spec that is wrong changes nothing that runs")
}

func TestMessagesOfReady(t *testing.T) {
	message := func(s *scene) string {
		return meta.FindStatusCondition(s.status().Conditions, controlplanev1.ReadyCondition).Message
	}
	assert.Contains(t, message(newScene(t).with(func(f *Facts) { f.Cluster = nil })), "Create a Cluster whose spec.controlPlaneRef names it")
	assert.Contains(t, message(newScene(t).apply(builder.UpToDate(nil))), `its module has no output "cluster_endpoint". Add the output to the module`)
	assert.Contains(t, message(newScene(t).apply(failing)), "WorkspaceTemplateApply "+applyName+": VpcLimitExceeded")
	assert.Contains(t, message(newScene(t, builder.WithRegion("us-east-1"))), "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region")
}

func foreignInfrastructure(f *Facts) {
	f.Cluster.Spec.InfrastructureRef.Kind, f.Infrastructure = "OtherCluster", nil
}

func TestRules(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		want  string // Empty when nothing does.
	}{
		"nothing":                           {newScene(t), ""},
		"one region, said twice":            {newScene(t, builder.WithRegion(builder.Region)), ""},
		"built in another region":           {newScene(t).apply(builder.UpToDate(outputs()), builder.WithVariables(map[string]string{"region": "us-east-1"})), "RegionConflict"},
		"another provider's infrastructure": {newScene(t, builder.WithRegion("us-east-1")).with(foreignInfrastructure), ""},
		"another provider's, and no region": {newScene(t).with(foreignInfrastructure), "RegionConflict"},
	} {
		t.Run(name, func(t *testing.T) {
			condition := row.scene.plan().Blocked
			if row.want == "" {
				assert.Nil(t, condition)
				return
			}
			require.NotNil(t, condition)
			assert.Equal(t, row.want, condition.Reason)
			assert.NotEmpty(t, condition.Message)
		})
	}
}

func TestWaitingForInfrastructureNamesTheCause(t *testing.T) {
	for name, row := range map[string]struct {
		ready engine.Condition
		want  string
	}{
		"it fails":                             {engine.False(infrav1.ReadyCondition, "ApplyFailed", "Terraform failed"), "waiting for CAPTCluster demo: Terraform failed"},
		"Cluster API has not yet marked it":    {engine.True(infrav1.ReadyCondition, "Ready", ""), "CAPTCluster demo is Ready; waiting until Cluster API reports"},
		"it is Ready, with a message (paused)": {engine.True(infrav1.ReadyCondition, "Ready", "paused"), "CAPTCluster demo is Ready; waiting until Cluster API reports"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).with(func(f *Facts) {
				f.Cluster.Status.Initialization.InfrastructureProvisioned = nil
				engine.Set(f.Infrastructure, row.ready)
			})
			assert.Contains(t, s.plan().Blocked.Message, row.want)
		})
	}
}

func TestVariablesByDefault(t *testing.T) {
	s := newScene(t)
	got := variablesOf(t, s)
	assert.Equal(t, map[string]string{
		"cluster_name": "demo", "kubernetes_version": "1.31", "region": "ap-northeast-1", "vpc_id": "vpc-1",
		"endpoint_public_access": "true", "endpoint_private_access": "false", "endpoint_public_access_cidrs": "[]",
		"addons": "[]", "tags": "{}",
	}, got)
	tags := map[string]controlplanev1.TagValue{"team": "blue"}
	s.controlPlane.Spec.AdditionalTags = tags
	assert.ElementsMatch(t, slices.Collect(maps.Keys(variablesOf(t, s))), owners.ControlPlaneVariables(tags), "admission warns of others")
}

// Whatever the spec says reaches the template; so does the VPC, which is fault 14.
func TestDefect16VariablesOfEverythingInTheSpec(t *testing.T) {
	s := newScene(t, builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Version = "1.32.1"
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{
			Public: controlplanev1.EndpointDisabled, Private: controlplanev1.EndpointEnabled, PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24", "2001:db8::/32"},
		}
		c.Spec.Addons = []controlplanev1.Addon{
			{Name: "coredns"}, {Name: "vpc-cni", Version: "v1.19.0-eksbuild.1", ConfigurationValues: `{"env": {"A": "<b>"}}`},
		}
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"Environment": "dev", "kubernetes.io/cluster/x": "owned"}
		c.Spec.Variables = map[string]string{
			"mine": "kept", "cluster_name": "x", "region": "x", "tags": "x", "tags_Environment": "x", "addons": "x", "vpc_id": "x",
		}
	}))
	got := variablesOf(t, s)

	assert.JSONEq(t, `["203.0.113.0/24", "2001:db8::/32"]`, got["endpoint_public_access_cidrs"])
	assert.JSONEq(t, `[{"name": "coredns"}, {"name": "vpc-cni", "version": "v1.19.0-eksbuild.1",
		"configurationValues": "{\"env\": {\"A\": \"<b>\"}}"}]`, got["addons"])
	assert.JSONEq(t, `{"Environment": "dev", "kubernetes.io/cluster/x": "owned"}`, got["tags"])
	for _, name := range []string{"endpoint_public_access_cidrs", "addons", "tags"} {
		delete(got, name)
	}
	assert.Equal(t, map[string]string{
		"cluster_name": "demo", "kubernetes_version": "1.32", "region": "ap-northeast-1", "vpc_id": "vpc-1",
		"endpoint_public_access": "false", "endpoint_private_access": "true",
		"tags_Environment": "dev", "tags_kubernetes.io/cluster/x": "owned", "mine": "kept",
	}, got)
}

func TestTheIDOfTheVPCIsGivenWhenItIsKnown(t *testing.T) {
	s := newScene(t, builder.WithRegion("us-east-1")).with(foreignInfrastructure)
	got := variablesOf(t, s)
	assert.NotContains(t, got, "vpc_id")
	assert.Equal(t, "us-east-1", got["region"])
}

func TestTheControlPlaneWaitsForTheWorkspaceOfItsVPC(t *testing.T) {
	s := newScene(t)
	assert.Equal(t, []infrav1.WorkspaceDependency{{Name: "net", Namespace: "default"}}, s.vpcWorkspaceDependency())
	assert.Nil(t, s.with(func(f *Facts) { f.Infrastructure.Status.WorkspaceTemplateApply = nil }).vpcWorkspaceDependency(), "an existing VPC has none")
	assert.Nil(t, s.with(foreignInfrastructure).vpcWorkspaceDependency())
}

func TestTheControlPlaneWaitsForTheSecretOfAnExistingVPC(t *testing.T) {
	s := newScene(t)
	assert.Nil(t, s.vpcSecretDependency())
	assert.Nil(t, newScene(t).with(foreignInfrastructure).vpcSecretDependency())
	s.Infrastructure.Spec.VPC = infrav1.VPC{ExistingID: "vpc-1", ConnectionSecretRef: infrav1.LocalSecretReference{Name: "network"}}
	assert.Equal(t, []infrav1.SecretDependency{{Name: "network", Namespace: "default", Keys: []string{"vpc_config"}}}, s.vpcSecretDependency())
	assert.Contains(t, s.plan().Apply.Desired.Object["spec"], "waitForSecrets")
}

func TestTheApplyOfTheControlPlane(t *testing.T) {
	s := newScene(t)
	desired := s.plan().Apply.Desired
	spec := desired.Object["spec"].(map[string]any)
	assert.Equal(t, applyName, desired.GetName())
	assert.Equal(t, map[string]any{"name": "eks", "namespace": "default"}, spec["templateRef"], "said in so many words")
	assert.Equal(t, map[string]any{"name": "demo-eks-connection", "namespace": "default"}, spec["writeConnectionSecretToRef"])
	assert.NotContains(t, spec, "deletionPolicy", "the value of the user is kept")
}

func variablesOf(t *testing.T, s *scene) map[string]string {
	t.Helper()
	want, err := s.wantedApply(s.controlPlane)
	require.NoError(t, err)
	return want.Intent.Variables
}
