// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
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
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

const (
	host      = "ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com"
	applyName = "demo-eks-controlplane-apply"
)

// observation is a control plane with the facts about it. It begins with everything ready except the kubeconfigs.
type observation struct {
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

func newObservation(t *testing.T, options ...builder.Option) *observation {
	t.Helper()
	o := &observation{T: t, controlPlane: builder.CAPTControlPlane("demo", append([]builder.Option{builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)}, options...)...)}
	o.Facts = &Facts{
		Observed: owner.Observed{
			Cluster: builder.Cluster("demo", builder.WithInfrastructureProvisioned()),
			Apply:   owner.Facts{Live: builder.WorkspaceTemplateApply(applyName, builder.UpToDate(outputs()))},
		},
		Infrastructure: vpc(),
		Connection:     connection(map[string]string{"cluster_certificate_authority_data": builder.CA()}),
	}
	return o
}

func (o *observation) with(change func(f *Facts)) *observation {
	change(o.Facts)
	return o
}

// apply replaces the WorkspaceTemplateApply. Terraform has applied it if the control plane was Ready.
func (o *observation) apply(options ...builder.Option) *observation {
	o.Apply.Live = builder.WorkspaceTemplateApply(applyName, options...)
	if ptr.Deref(o.controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		o.Apply.Live.Status.Applied = metav1.ConditionTrue
	}
	return o
}

// configured is a observation in which endpoint and kubeconfigs are written.
func configured(t *testing.T, options ...builder.Option) *observation {
	t.Helper()
	o := newObservation(t, append(options, builder.WithEndpoint(host, 443))...)
	written := kubeconfigsecret.Kubeconfig{Data: []byte("kubeconfig"), Written: true}
	o.Kubeconfig, o.UserKubeconfig = written, written
	return o
}

// onceReady is a control plane that was Ready before.
func onceReady(t *testing.T) *observation {
	t.Helper()
	o := configured(t)
	require.Equal(t, infrav1.StateReady, o.status().State)
	return o
}

// plan is the plan after the WorkspaceTemplateApply, if it exists, was written as desired.
func (o *observation) plan() *Plan {
	o.Helper()
	p, err := plan(o.controlPlane, o.Facts)
	require.NoError(o, err)
	if p.Apply.Desired == nil || o.Apply.Live == nil || o.unwritten {
		return p
	}
	desired := &infrav1.WorkspaceTemplateApply{}
	require.NoError(o, runtime.DefaultUnstructuredConverter.FromUnstructured(p.Apply.Desired.Object, desired))
	written, facts := o.Apply.Live.DeepCopy(), *o.Facts
	written.Name, written.Labels, written.OwnerReferences, written.Spec = desired.Name, desired.Labels, desired.OwnerReferences, desired.Spec
	facts.Apply.Live = written
	p, err = plan(o.controlPlane, &facts)
	require.NoError(o, err)
	return p
}

func (o *observation) step() owner.Step { return o.plan().Apply.Step }

func (o *observation) status() controlplanev1.CAPTControlPlaneStatus {
	p := o.plan()
	o.decision().Report(o.controlPlane, situation(o.controlPlane, o.Facts, p), func() { status(o.controlPlane, o.Facts, p) })
	return o.controlPlane.Status
}

// decision of the gate.
func (o *observation) decision() engine.GateDecision {
	api := builder.Only{Object: o.Apply.Live}
	v, err := (&adoption.Gate{Client: api, Uncached: api}).Check(context.Background(), o.controlPlane)
	if err != nil {
		panic(err)
	}
	return v
}

func (o *observation) summary() map[string]string {
	return builder.ConditionSummary(o.status().Conditions)
}

var (
	working = builder.NotUpToDate(infrav1.ProvisioningReason, "")
	failing = builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")
)

// Cluster API takes an endpoint over once.
func TestAnOutdatedEndpointOfTheClusterIsReported(t *testing.T) {
	o := configured(t)
	message := func() string {
		return meta.FindStatusCondition(o.status().Conditions, controlplanev1.EndpointAvailableCondition).Message
	}
	assert.Empty(t, message(), "Cluster API has not taken it over yet")
	o.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 443}
	assert.Empty(t, message())
	o.Cluster.Spec.ControlPlaneEndpoint.Host = "earlier.example.com"
	assert.Contains(t, message(), "Cluster demo still has the endpoint earlier.example.com:443 of an earlier control plane. Run: kubectl patch -n default cluster demo --type merge -p '{\"spec\":{\"controlPlaneEndpoint\":{\"host\":\""+host+"\",\"port\":443}}}'")
	assert.Equal(t, infrav1.StateReady, o.controlPlane.Status.State)
	o.Cluster.Spec.ControlPlaneEndpoint.Host = "https://" + host
	assert.Equal(t, "spec.controlPlaneEndpoint.host of Cluster demo is the URL https://"+host+", which CAPT v0.3 wrote: clients cannot connect to a URL. Set spec.controlPlaneEndpoint of the Cluster to "+host+
		":443, or run captctl migrate apply with --fix-cluster-endpoints", message())
}

// Cluster API copies an endpoint once: that of a Cluster would never be corrected.
func TestAnEndpointWithoutValueIsNotPublished(t *testing.T) {
	for _, text := range []string{"null", "None", "<nil>", "https://null", "HTTPS://None:443", "nil", "undefined", " null "} {
		o := newObservation(t).apply(builder.UpToDate(map[string]string{"cluster_endpoint": text}))
		assert.Equal(t, "False EndpointInvalid", o.summary()[controlplanev1.EndpointAvailableCondition], text)
		message := meta.FindStatusCondition(o.controlPlane.Status.Conditions, controlplanev1.ReadyCondition).Message
		assert.Contains(t, message, `output "cluster_endpoint" is invalid: it has no value, or the text of one that does not exist, such as null or None. Correct it in the module of WorkspaceTemplate`, text)
	}
	o := configured(t)
	o.controlPlane.Spec.ControlPlaneEndpoint.Host = "null" // An earlier version published it.
	assert.Contains(t, o.summary()[controlplanev1.EndpointAvailableCondition], controlplanev1.WaitingForWorkspaceReason, "the controller writes it again")
}

func TestFieldsOfStatus(t *testing.T) {
	o := configured(t, builder.WithGeneration(3))
	got := o.status()
	assert.Equal(t, int64(3), got.ObservedGeneration)
	assert.Equal(t, ptr.To(true), got.ExternalManagedControlPlane)
	assert.Equal(t, "v1.31.0", got.Version)
	assert.Equal(t, []clusterv1.StatusVersion{{Version: "v1.31.0"}}, got.Versions)
	assert.Equal(t, host+":443", got.Endpoint)
	assert.Equal(t, applyName, got.WorkspaceTemplateApply.Name)
	assert.Equal(t, "UpToDate", got.WorkspaceTemplateApply.State)
	assert.Equal(t, outputs(), got.WorkspaceTemplateApply.Outputs)
}

// Only an endpoint that another one may follow is recorded until that is decided.
func TestTheFirstEndpointAndAnInvalidOneAreReportedDuringAPause(t *testing.T) {
	o := newObservation(t).with(func(f *Facts) { f.Paused = "annotation" })
	o.controlPlane.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{}
	assert.Equal(t, outputs(), o.status().WorkspaceTemplateApply.Outputs)

	o = onceReady(t).with(func(f *Facts) { f.Paused = "annotation" })
	invalid := map[string]string{"cluster_endpoint": "http://x/y"}
	o.apply(builder.UpToDate(invalid))
	assert.Equal(t, invalid, o.status().WorkspaceTemplateApply.Outputs)
}

func TestVersionIsTheRunningOne(t *testing.T) {
	o := onceReady(t).apply(working)
	o.controlPlane.Spec.Version = "v1.32.0"
	assert.Equal(t, "v1.31.0", o.status().Version, "while the update runs")
	o.apply(builder.UpToDate(outputs()))
	assert.Equal(t, "v1.32.0", o.status().Version)
	o.apply(builder.UpToDate(map[string]string{"cluster_endpoint": "https://" + host, "cluster_version": "1.33"}))
	assert.Equal(t, "v1.33.0", o.status().Version, "AWS has upgraded it")
	o.apply(builder.UpToDate(map[string]string{"cluster_endpoint": "https://" + host, "cluster_version": "1.32"}))
	o.controlPlane.Spec.Version = "v1.32.1"
	assert.Equal(t, "v1.32.1", o.status().Version)
	o.controlPlane.Spec.Version = "latest"
	assert.Equal(t, "v1.32.1", o.status().Version, "a spec that is wrong changes nothing that runs")
}

func TestMessages(t *testing.T) {
	message := func(o *observation) string {
		return meta.FindStatusCondition(o.status().Conditions, controlplanev1.ReadyCondition).Message
	}
	assert.Contains(t, message(newObservation(t).with(func(f *Facts) { f.Cluster = nil })), "Create a Cluster whose spec.controlPlaneRef names it")
	assert.Contains(t, message(newObservation(t).apply(builder.UpToDate(nil))), `its module has no output "cluster_endpoint". Add the output to the module`)
	assert.Contains(t, message(newObservation(t).apply(failing)), "WorkspaceTemplateApply "+applyName+": VpcLimitExceeded")
	assert.Contains(t, message(newObservation(t, builder.WithRegion("us-east-1"))), "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region")

	o := configured(t).with(func(f *Facts) { f.UserKubeconfig = kubeconfigsecret.Kubeconfig{Problem: "it belongs to another owner"} })
	assert.Contains(t, meta.FindStatusCondition(o.status().Conditions, "KubeconfigReady").Message, "it belongs to another owner")
	assert.Equal(t, infrav1.StateReady, o.controlPlane.Status.State, "users can do without")
	o.Kubeconfig.Warning = "the token expires"
	assert.Equal(t, "the token expires", meta.FindStatusCondition(o.status().Conditions, "KubeconfigReady").Message)
	assert.Empty(t, meta.FindStatusCondition(onceReady(t).controlPlane.Status.Conditions, "KubeconfigReady").Message)
}

// Degraded is the opposite of the other conditions, whose reasons say whether a user must act.
func TestWhichTransitionsAreWarnings(t *testing.T) {
	for want, all := range map[bool][]metav1.Condition{
		true:  {{Type: "Degraded", Status: metav1.ConditionTrue}, {Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.ApplyFailedReason}},
		false: {{Type: "Degraded", Status: metav1.ConditionFalse, Reason: infrav1.ApplyFailedReason}, {Type: "Ready", Status: metav1.ConditionFalse, Reason: infrav1.ProvisioningReason}},
	} {
		for _, condition := range all {
			assert.Equal(t, want, isWarning(condition), condition)
		}
	}
}

func foreignInfrastructure(f *Facts) {
	f.Cluster.Spec.InfrastructureRef.Kind, f.Infrastructure = "OtherCluster", nil
}

func TestRules(t *testing.T) {
	for name, row := range map[string]struct {
		observation *observation
		want        string // Empty when nothing does.
	}{
		"nothing":                           {newObservation(t), ""},
		"one region, said twice":            {newObservation(t, builder.WithRegion(builder.Region)), ""},
		"built in another region":           {newObservation(t).apply(builder.UpToDate(outputs()), builder.WithVariables(map[string]string{"region": "us-east-1"})), "RegionConflict"},
		"another provider's infrastructure": {newObservation(t, builder.WithRegion("us-east-1")).with(foreignInfrastructure), ""},
		"another provider's, and no region": {newObservation(t).with(foreignInfrastructure), "RegionConflict"},
	} {
		t.Run(name, func(t *testing.T) {
			condition := row.observation.plan().Apply.Blocked
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
		"Terraform creates it":                 {engine.False(infrav1.ReadyCondition, infrav1.ProvisioningReason, "step 3"), "waiting for Terraform to create the VPC of CAPTCluster demo"},
		"it does not know its owner yet":       {engine.False(infrav1.ReadyCondition, infrav1.WaitingForOwnerReason, "no Cluster"), "waiting for Terraform to create the VPC of CAPTCluster demo"},
		"it fails":                             {engine.False(infrav1.ReadyCondition, "ApplyFailed", "Terraform failed"), "waiting for CAPTCluster demo: Terraform failed"},
		"Cluster API has not yet marked it":    {engine.True(infrav1.ReadyCondition, "Ready", ""), "CAPTCluster demo is Ready; waiting until Cluster API reports"},
		"it is Ready, with a message (paused)": {engine.True(infrav1.ReadyCondition, "Ready", "paused"), "CAPTCluster demo is Ready; waiting until Cluster API reports"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObservation(t).with(func(f *Facts) {
				f.Cluster.Status.Initialization.InfrastructureProvisioned = nil
				builder.OwnedBy(f.Cluster)(f.Infrastructure)
				engine.Set(f.Infrastructure, row.ready)
			})
			assert.Contains(t, o.plan().Apply.Blocked.Message, row.want)
		})
	}
}

func TestVariablesByDefault(t *testing.T) {
	o := newObservation(t)
	got := variablesOf(t, o)
	assert.Equal(t, map[string]string{
		"cluster_name": "demo", "kubernetes_version": "1.31", "region": "ap-northeast-1", "vpc_id": "vpc-1",
		"endpoint_public_access": "true", "endpoint_private_access": "false", "endpoint_public_access_cidrs": "[]",
		"addons": "[]", "tags": "{}",
	}, got)
	tags := map[string]controlplanev1.TagValue{"team": "blue"}
	o.controlPlane.Spec.AdditionalTags = tags
	assert.ElementsMatch(t, slices.Collect(maps.Keys(variablesOf(t, o))), validation.ControlPlaneVariables(tags), "admission warns of others")
}

// Whatever the spec says reaches the template; so does the VPC, which is fault 14.
func TestVariablesOfEverythingInTheSpec(t *testing.T) {
	o := newObservation(t, builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Version = "1.32.1"
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{
			Public: controlplanev1.EndpointDisabled, Private: controlplanev1.EndpointEnabled, PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24", "2001:db8::/32"},
		}
		c.Spec.Addons = []controlplanev1.Addon{
			{Name: "coredns"}, {Name: "vpc-cni", Version: "v1.19.0-eksbuild.1", ConfigurationValues: `{"env": {"A": "<b>"}}`},
		}
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"Environment": "dev", "kubernetes.io/cluster/x": "owned"}
		c.Spec.Variables = infrav1.TextVariables(map[string]string{
			"mine": "kept", "cluster_name": "x", "region": "x", "tags": "x", "tags_Environment": "x", "addons": "x", "vpc_id": "x",
		})
	}))
	got := variablesOf(t, o)

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
	o := newObservation(t, builder.WithRegion("us-east-1")).with(foreignInfrastructure)
	got := variablesOf(t, o)
	assert.NotContains(t, got, "vpc_id")
	assert.Nil(t, wantOf(t, o).WaitForWorkspaces)
	assert.Equal(t, "us-east-1", got["region"])

	o = newObservation(t).with(func(f *Facts) { f.Infrastructure = builder.CAPTCluster("demo", builder.WithExistingVPC("vpc-0")) })
	assert.Equal(t, "vpc-0", variablesOf(t, o)["vpc_id"], "its CAPTCluster has no status yet")
}

func TestTheControlPlaneWaitsForTheSecretOfAnExistingVPC(t *testing.T) {
	o := newObservation(t)
	assert.Nil(t, wantOf(t, o).WaitForSecrets)
	assert.Nil(t, wantOf(t, newObservation(t).with(foreignInfrastructure)).WaitForSecrets)
	o.Infrastructure.Spec.VPC = infrav1.VPC{ExistingID: "vpc-1", ConnectionSecretRef: infrav1.LocalSecretReference{Name: "network"}}
	o.Infrastructure.Status.WorkspaceTemplateApply = nil
	assert.Equal(t, []infrav1.SecretDependency{{Name: "network", Namespace: "default", Keys: []string{"vpc_config"}}}, wantOf(t, o).WaitForSecrets)
	spec := o.plan().Apply.Desired.Object["spec"]
	assert.Contains(t, spec, "waitForSecrets")
	assert.NotContains(t, spec, "waitForWorkspaces", "an existing VPC has none")
}

func TestTheApplyOfTheControlPlane(t *testing.T) {
	o := newObservation(t)
	desired := o.plan().Apply.Desired
	spec := desired.Object["spec"].(map[string]any)
	assert.Equal(t, applyName, desired.GetName())
	assert.Equal(t, map[string]any{"name": "eks", "namespace": "default"}, spec["templateRef"], "said in so many words")
	assert.Equal(t, map[string]any{"name": "demo-eks-connection", "namespace": "default"}, spec["writeConnectionSecretToRef"])
	assert.Equal(t, []any{map[string]any{"name": "net", "namespace": "default"}}, spec["waitForWorkspaces"])
	assert.NotContains(t, spec, "deletionPolicy", "the value of the user is kept")

	o.controlPlane.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "golden", Namespace: "shared"}
	spec = o.plan().Apply.Desired.Object["spec"].(map[string]any)
	assert.Equal(t, map[string]any{"name": "golden", "namespace": "shared"}, spec["templateRef"])
}

func variablesOf(t *testing.T, o *observation) map[string]string {
	t.Helper()
	return wantOf(t, o).Intent.Variables.Texts()
}

func wantOf(t *testing.T, o *observation) *desired.Want {
	t.Helper()
	want := o.desired(o.controlPlane).Want()
	return want
}

// Nothing is in progress if the spec is wrong, although Cluster API has not reported the infrastructure yet.
func TestAWrongSpecIsReportedBeforeTheInfrastructure(t *testing.T) {
	o := onceReady(t)
	o.Cluster.Status.Initialization.InfrastructureProvisioned = nil
	assert.Equal(t, infrav1.StateConfiguring, o.status().State)
	o.controlPlane.Spec.Version = "latest"
	assert.Equal(t, infrav1.StateDegraded, o.status().State)
}

// The connection Secret keeps the value of an output that the module does not have any more.
func TestAnEndpointThatTheAppliedModuleDoesNotReturnIsMissing(t *testing.T) {
	template := builder.WorkspaceTemplate("eks", builder.WithModule(`output "a" { value = 1 }`))
	for written, want := range map[string]string{rollout.HashOf(template): "False EndpointMissing", "another": "True EndpointKnown"} {
		o := configured(t).with(func(f *Facts) { f.Template.Template, f.Connection = template, connection(outputs()) })
		o.apply(builder.UpToDate(nil), builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.WrittenTemplateRevision = written }))
		assert.Equal(t, want, o.summary()[controlplanev1.EndpointAvailableCondition])
	}
}
