// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// profile is a Fargate profile with its WorkspaceTemplateApply.
func profile(name string, options ...builder.Option) fargate.Profile {
	apply := builder.WorkspaceTemplateApply("demo-"+name+"-fargate-apply", options...)
	return fargate.Profile{Name: name, Apply: owner.Facts{Live: apply}, Existing: apply}
}

func of(profiles ...fargate.Profile) func(o *observation) {
	return func(o *observation) { o.Fargate = fargate.Facts{Profiles: profiles} }
}

// resolved are profiles whose references were read. It lacks the Secret of the VPC.
func resolved(profiles ...fargate.Profile) func(o *observation) {
	return func(o *observation) {
		of(profiles...)(o)
		o.Fargate.Cluster = &fargate.Cluster{EKSCluster: desired.EKSCluster{VPCSecretName: "demo-vpc-connection"}, Connection: o.Connection}
		o.controlPlane.Spec.FargateProfiles = make([]controlplanev1.FargateProfile, len(profiles))
	}
}

// obsolete is a profile that spec no longer has.
func obsolete(options ...builder.Option) func(o *observation) {
	return func(o *observation) { o.Fargate.Obsolete = []fargate.Profile{profile("old", options...)} }
}

func and(first, then func(o *observation)) func(o *observation) {
	return func(o *observation) { first(o); then(o) }
}

// profiles are what can be the case with Fargate profiles, when all else is there.
func profiles() []fact {
	ready := profile("a", builder.UpToDate(nil))
	unmade := fargate.Profile{Name: "a"}
	return []fact{
		{"profiles ready", of(ready, profile("b", builder.UpToDate(nil)))},
		{"a profile is about to be made", of(unmade)},
		{"a profile is being made", of(ready, profile("b", working))},
		{"a queued profile", of(profile("a", builder.NotUpToDate(infrav1.QueuedReason, "turn")))},
		{"a Secret is missing for a profile", resolved(unmade)},
		{"a profile failed, another is being made", of(profile("a", failing), profile("b", working))},
		{"a profile belongs to another owner", resolved(fargate.Profile{Name: "a", Apply: owner.Facts{Conflict: "it belongs to other"}})},
		{"a profile is being deleted", and(of(ready), obsolete(builder.Deleting()))},
		{"the last profile is about to be deleted", obsolete(builder.UpToDate(nil))},
	}
}

func TestConditionsOfProfilesAreRemovedWithTheLastProfile(t *testing.T) {
	o := configured(t)
	of(profile("a", builder.UpToDate(nil)))(o)
	assert.Equal(t, "True FargateProfileReady", o.summary()["FargateProfileReady"])
	o.Fargate = fargate.Facts{}
	got := o.status()
	for _, conditionType := range fargate.ConditionTypes() {
		assert.NotContains(t, builder.ConditionSummary(got.Conditions), conditionType)
	}
	assert.Empty(t, got.FargateProfiles)
}

func TestAProfileHasNoTimeoutOfTheConnectionSecret(t *testing.T) {
	o := configured(t)
	of(profile("a", working))(o)
	o.RunningSecret = ptr.To(24 * time.Hour)
	assert.Equal(t, infrav1.StateConfiguring, o.status().State)
	r := &Reconciler{Reconciler: owner.Reconciler{Engine: engine.Engine{State: &engine.StateCache{}}}}
	assert.NoError(t, r.await(t.Context(), o.controlPlane, o.Facts, o.plan()), "nothing is awaited")
}

// An adopted one keeps its name, and another EKS cluster may have the name of the Cluster.
func TestAProfileBelongsToTheExistingEKSCluster(t *testing.T) {
	cluster := builder.Cluster("demo", builder.WithInfrastructureProvisioned())
	held := builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer)
	controlPlane := builder.CAPTControlPlane("demo", held, builder.OwnedBy(cluster), builder.WithApplyRef(applyName), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "a", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	}))
	older := builder.WithVariables(map[string]string{"cluster_name": "older"})
	network := builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": `vpc_id = "vpc-1"`})
	env := newEnvironment(t, cluster, vpc(), controlPlane, network,
		builder.WorkspaceTemplateApply(applyName, builder.OwnedBy(controlPlane), ofTemplate("eks"), older, builder.WithWorkspaceName("eks")))
	env.reconcile()
	env.terraformMade()
	secret := read(env, "demo-eks-connection", &corev1.Secret{})
	secret.Data["cluster_name"], secret.Data["cluster_endpoint"] = []byte("older"), []byte("https://"+host)
	require.NoError(t, env.Client.Update(t.Context(), secret))

	for range 2 {
		env.reconcile()
		profile := read(env, "demo-a-fargate-apply", &infrav1.WorkspaceTemplateApply{})
		require.NotNil(t, profile)
		assert.Equal(t, "older", profile.Spec.Variables.Text("cluster_name"))
		assert.NotContains(t, env.summary(), "FargateProfileFailed")
	}
}

// What the control plane waits for, its profiles wait for, too: one that spec has got meanwhile is not ready.
func TestProfilesAreNotReadyWhileTheControlPlaneIsBlocked(t *testing.T) {
	cluster := builder.Cluster("demo", builder.WithInfrastructureProvisioned())
	asking := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Version = "what?"
		for _, name := range []string{"a", "b"} {
			c.Spec.FargateProfiles = append(c.Spec.FargateProfiles, controlplanev1.FargateProfile{Name: name})
		}
	})
	controlPlane := builder.CAPTControlPlane("demo", builder.OwnedBy(cluster), builder.WithApplyRef(applyName), asking)
	env := newEnvironment(t, cluster, vpc(), controlPlane,
		builder.WorkspaceTemplateApply(applyName, builder.OwnedBy(controlPlane), ofTemplate("eks"), builder.WithWorkspaceName("eks"), builder.UpToDate(outputs())),
		builder.WorkspaceTemplateApply("demo-a-fargate-apply", builder.OwnedBy(controlPlane), ofTemplate("fargate"), builder.UpToDate(nil),
			builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup), builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "a"})))
	env.reconcile()
	assert.Equal(t, "False InvalidVersion", env.summary()["DependenciesReady"])
	assert.Equal(t, "False WaitingForWorkspace", env.summary()["FargateProfileReady"])
	require.Len(t, env.get().Status.FargateProfiles, 1)
	assert.Equal(t, "a", env.get().Status.FargateProfiles[0].Name)
}

var (
	// restricted is a control plane whose API server only an office may reach.
	restricted = builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{Public: controlplanev1.EndpointEnabled, PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24"}}
	})
	versioned = builder.Consuming("kubernetes_version")
	closing   = builder.Consuming("endpoint_public_access_cidrs")
	leaving   = []builder.Option{builder.Deleting(), builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)}
)

// replace replaces the template.
func (env *environment) replace(options ...builder.Option) {
	env.Helper()
	require.NoError(env, env.Delete(env.T.Context(), builder.WorkspaceTemplate("eks")))
	require.NoError(env, env.Create(env.T.Context(), builder.WorkspaceTemplate("eks", options...)))
}

func (env *environment) message(condition string) string {
	env.Helper()
	return conditions.GetMessage(env.get(), condition)
}

// A template may lose the placeholder, and a control plane of CAPT v0.3 never had one: it is reported, and nothing is held up.
func TestARunningControlPlaneIsReportedOnly(t *testing.T) {
	env := newEnvironment(t, append(prepared(restricted), builder.WorkspaceTemplate("eks", versioned, closing))...)
	env.reconcile()
	env.terraformMade()
	env.reconcile()
	env.reconcile()
	require.Equal(t, infrav1.StateReady, env.get().Status.State)

	env.replace(versioned)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	assert.Equal(t, "True DependenciesReady", env.summary()["DependenciesReady"])
	assert.Equal(t, "False FieldNotConsumed", env.summary()["FieldsConsumed"])
	assert.Contains(t, env.message("FieldsConsumed"), "spec.endpointAccess.publicCIDRs: the API server would be reachable from more networks")
	assert.Empty(t, env.reconcile())

	// Its WorkspaceTemplateApply was lost: the new one goes on with the same state.
	require.NoError(t, env.Client.Delete(t.Context(), read(env, applyName, &infrav1.WorkspaceTemplateApply{})))
	assert.Contains(t, env.reconcile(), "apply "+applyName)

	// What cannot be read is not known to be better.
	reader := env.Client
	env.Client = builder.FailingGet[*infrav1.WorkspaceTemplate](env.API, errors.New("no route to host"))
	env.reconcile()
	assert.Equal(t, "False FieldNotConsumed", env.summary()["FieldsConsumed"])
	env.Client = reader

	env.replace(versioned, closing)
	env.reconcile()
	assert.NotContains(t, env.summary(), "FieldsConsumed")
}

func TestATemplateThatOpensTheAPIServerIsNotSwitchedTo(t *testing.T) {
	env := newEnvironment(t, append(prepared(restricted), builder.WorkspaceTemplate("eks", versioned, closing), builder.WorkspaceTemplate("open", versioned))...)
	env.reconcile()
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Name = "open" })
	env.reconcile()
	assert.Equal(t, "eks", read(env, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.TemplateRef.Name)
	assert.Equal(t, "False FieldNotConsumed", env.summary()["DependenciesReady"])

	require.NoError(t, env.Client.Delete(t.Context(), builder.Cluster("demo")))
	require.NoError(t, env.Client.Delete(t.Context(), env.get()))
	env.reconcile()
	assert.Nil(t, read(env, applyName, &infrav1.WorkspaceTemplateApply{}), "it does not hold up the deletion")
}

func TestOtherFieldsAreReportedOnly(t *testing.T) {
	tagged := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a"}
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "batch", Selectors: []controlplanev1.FargateSelector{{Namespace: "batch"}},
			WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	})
	env := newEnvironment(t, append(prepared(tagged), builder.WorkspaceTemplate("eks", versioned), builder.WorkspaceTemplate("fargate", builder.Consuming("profile_name")))...)
	assert.Contains(t, env.reconcile(), "apply "+applyName)
	assert.Contains(t, env.message("FieldsConsumed"), "spec.additionalTags: has no effect")
	assert.Contains(t, env.message("FieldsConsumed"), "; spec.fargateProfiles[0].selectors: has no effect")
}

func TestATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	env := newEnvironment(t, append(prepared(), builder.WorkspaceTemplate("eks", append(leaving, versioned)...))...)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False TemplateDeleting", env.summary()["DependenciesReady"])
	assert.Contains(t, env.message("Ready"), "WorkspaceTemplate default/eks is being deleted and cannot be used by new objects")
}

func TestUsersOfATemplateThatLeavesGoOn(t *testing.T) {
	env := newEnvironment(t, append(prepared(), builder.WorkspaceTemplate("eks", versioned, builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)))...)
	env.reconcile()
	require.NoError(t, env.Client.Delete(t.Context(), builder.WorkspaceTemplate("eks")))
	env.spec(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": "a"}
	})
	assert.Contains(t, env.reconcile(), "apply "+applyName)
	assert.Equal(t, "True DependenciesReady", env.summary()["DependenciesReady"])
}
