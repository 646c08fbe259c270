// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

var ctx = context.Background()

// environment is a control plane with an API server, of which the cache may lag behind.
type environment struct {
	*testing.T
	Reader
	controlPlane *controlplanev1.CAPTControlPlane
}

func newClient(objects ...client.Object) client.WithWatch {
	return builder.Clients(objects...).WithIndex(&infrav1.WorkspaceTemplateApply{}, ControllerIndex, IndexController).Build()
}

func connection() *corev1.Secret {
	return builder.SecretWith("demo-eks-connection", map[string]string{"cluster_name": "demo", "cluster_endpoint": "https://x", "cluster_certificate_authority_data": "x"})
}

func vpcSecret() *corev1.Secret {
	return builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": "vpc_id = \"vpc-1\"\nprivate_subnets = [\"subnet-1\"]\n"})
}

func withProfiles(names ...string) builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) {
		for _, name := range names {
			c.Spec.FargateProfiles = append(c.Spec.FargateProfiles, controlplanev1.FargateProfile{
				Name: name, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
				Selectors: []controlplanev1.FargateSelector{{Namespace: "kube-system", Labels: map[string]string{"k8s-app": "kube-dns"}}},
			})
		}
	})
}

func newEnvironment(t *testing.T, controlPlane *controlplanev1.CAPTControlPlane, objects ...client.Object) *environment {
	c := newClient(append(objects, controlPlane)...)
	live := &controlplanev1.CAPTControlPlane{}
	require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(controlPlane), live))
	return &environment{T: t, Reader: Reader{&owner.Reconciler{Engine: engine.Engine{Client: c, Gate: engine.OpenGate{}, Uncached: c, Secrets: engine.NewSecrets(c, c)}}}, controlPlane: live}
}

func cluster() Cluster {
	return Cluster{
		EKSCluster: desired.EKSCluster{
			Name: "demo", EKSName: "demo", Region: "eu-central-1", Workspace: "demo-eks-controlplane", ConnectionName: "demo-eks-connection", VPCSecretName: "demo-vpc-connection",
		},
		UpToDate: true, Connection: connection(),
	}
}

// observe reads the profiles as the controller of control planes does.
func (env *environment) observe(cluster Cluster) *Facts {
	env.Helper()
	f, err := env.ObserveExisting(ctx, env.controlPlane)
	require.NoError(env, err)
	if env.controlPlane.DeletionTimestamp.IsZero() {
		require.NoError(env, env.ObserveSpec(ctx, env.controlPlane, cluster, &f))
	}
	require.NoError(env, env.ObserveOrphans(ctx, env.controlPlane, cluster.EKSName, &f))
	return &f
}

// plan is the plan of a control plane that is ready when its cluster is up to date.
func (env *environment) plan(cluster Cluster) *Plan {
	return env.planOf(env.observe(cluster), PlanInput{Ready: cluster.UpToDate})
}

func (env *environment) planOf(f *Facts, in PlanInput) *Plan {
	env.Helper()
	p, err := f.Plan(env.controlPlane, in)
	require.NoError(env, err)
	return &p
}

func (env *environment) act(p *Plan) {
	env.Helper()
	require.NoError(env, p.Act(ctx, env.Client, env.Client))
}

// alone is a WorkspaceTemplateApply without an owner.
var alone = builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = nil })

// make lets Terraform make all profiles.
func (env *environment) make(cluster Cluster) {
	env.Helper()
	for range env.controlPlane.Spec.FargateProfiles {
		env.act(env.plan(cluster))
		for _, apply := range env.applies() {
			builder.UpToDate(nil)(&apply)
			require.NoError(env, env.Client.Update(ctx, &apply))
		}
	}
}

func (env *environment) applies() (applies []infrav1.WorkspaceTemplateApply) {
	env.Helper()
	var list infrav1.WorkspaceTemplateApplyList
	require.NoError(env, env.Client.List(ctx, &list))
	return list.Items
}

func owned(name, profile string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{
		builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup),
		builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": profile}),
		builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "fargate" }),
	}, options...)...)
}

func TestTheWorkspaceTemplateApplyOfAProfile(t *testing.T) {
	tagged := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"team": `a "b"`}
	})
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("dns"), tagged), vpcSecret())
	env.act(env.plan(cluster()))

	require.Len(t, env.applies(), 1)
	apply := env.applies()[0]
	assert.Equal(t, naming.FargateWorkspaceTemplateApply("demo", "dns"), apply.Name)
	assert.Equal(t, map[string]string{clusterv1.ClusterNameLabel: "demo", naming.SerializeLabel: naming.FargateProfilesGroup}, apply.Labels)
	assert.True(t, metav1.IsControlledBy(&apply, env.controlPlane))
	assert.Equal(t, infrav1.WorkspaceTemplateApplySpec{
		TemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: builder.Namespace},
		Variables: infrav1.TextVariables(map[string]string{
			"cluster_name": "demo", "profile_name": "dns", "region": "eu-central-1",
			"selectors": `[{"namespace":"kube-system","labels":{"k8s-app":"kube-dns"}}]`, "tags": `{"team":"a \"b\""}`,
			"vpc_connection_secret": "demo-vpc-connection", "eks_connection_secret": "demo-eks-connection",
		}),
		WriteConnectionSecretToRef: &terraform.SecretReference{Name: naming.FargateConnectionSecret("demo", "dns"), Namespace: builder.Namespace},
		WaitForWorkspaces:          []infrav1.WorkspaceDependency{{Name: "demo-eks-controlplane", Namespace: builder.Namespace}},
		WaitForSecrets: []infrav1.SecretDependency{
			{Name: "demo-eks-connection", Namespace: builder.Namespace, Keys: []string{"cluster_name", "cluster_endpoint", "cluster_certificate_authority_data"}},
			{Name: "demo-vpc-connection", Namespace: builder.Namespace, Keys: []string{"vpc_config"}},
		},
	}, apply.Spec)
	assert.ElementsMatch(t, validation.FargateVariables(), slices.Collect(maps.Keys(apply.Spec.Variables)), "admission knows them all")
	assert.True(t, env.held(), "it is not left behind")
	assert.Zero(t, env.controlPlane.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef, "the list is the user's")
}

func TestTheTemplateOfAProfileCanBeInAnotherNamespace(t *testing.T) {
	shared := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles[0].WorkspaceTemplateRef.Namespace = "shared"
	})
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("dns"), shared), vpcSecret())
	env.act(env.plan(cluster()))
	require.Len(t, env.applies(), 1)
	assert.Equal(t, infrav1.WorkspaceTemplateReference{Name: "fargate", Namespace: "shared"}, env.applies()[0].Spec.TemplateRef)
}

func (env *environment) held() bool {
	return controllerutil.ContainsFinalizer(env.controlPlane, controlplanev1.FargateProfileFinalizer)
}

// The design asks for the EKS cluster first, and for every key of both Secrets. More of this is in test/fargate.
func TestNothingIsCreatedBeforeItsDependencies(t *testing.T) {
	for name, row := range map[string]struct {
		on   func(*Cluster)
		vpc  *corev1.Secret
		says string
	}{
		"the EKS cluster":       {func(on *Cluster) { on.UpToDate = false }, vpcSecret(), ""},
		"its connection Secret": {func(on *Cluster) { on.Connection = nil }, vpcSecret(), "Secret demo-eks-connection does not exist"},
		"cluster_endpoint":      {func(on *Cluster) { on.Connection.Data["cluster_endpoint"] = nil }, vpcSecret(), "no value for key cluster_endpoint"},
		"certificate authority": {func(on *Cluster) { delete(on.Connection.Data, "cluster_certificate_authority_data") }, vpcSecret(), "no value for key cluster_certificate_authority_data"},
		"vpc_config":            {func(*Cluster) {}, builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_id": "vpc-1"}), "Secret demo-vpc-connection has no value for key vpc_config"},
		"an invalid VPC":        {func(*Cluster) {}, builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": "private_subnets = []"}), "key vpc_config of Secret demo-vpc-connection does not describe a VPC"},
		"all of them": {func(on *Cluster) { on.Connection.Data = nil }, builder.SecretWith("other", nil), "Secret demo-eks-connection has no value for key cluster_name, " +
			"key cluster_endpoint, key cluster_certificate_authority_data. Add outputs of these names to the template of the control plane; Secret demo-vpc-connection does not exist"},
		"a VPC that is described": {func(on *Cluster) { on.VPCSecretName = "" }, vpcSecret(), "Set spec.vpc.connectionSecretRef of the CAPTCluster"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), row.vpc)
			on := cluster()
			row.on(&on)
			f := env.plan(on)
			assert.Contains(t, f.Missing, row.says)
			assert.Equal(t, row.says == "", f.Missing == "")
			env.act(f)
			assert.Empty(t, env.applies())
			assert.False(t, env.held(), "there is nothing that could be left behind")
		})
	}
}

// The order is that of spec, whatever the names.
func TestNewProfilesAreCreatedOneAfterTheOther(t *testing.T) {
	for name, state := range map[string]func(*infrav1.WorkspaceTemplateApply){
		"a failed one does not block others": func(apply *infrav1.WorkspaceTemplateApply) {
			builder.NotUpToDate(infrav1.ApplyFailedReason, "limit")(apply)
		},
		"a paused one does not block others": func(apply *infrav1.WorkspaceTemplateApply) {
			builder.NotUpToDate(infrav1.ProvisioningReason, "Workspace demo-z-fargate has not been updated to the current template and variables yet")(apply)
			engine.Set(apply, engine.PausedCondition("the object has the annotation"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("z", "a")), vpcSecret())
			env.act(env.plan(cluster()))
			env.act(env.plan(cluster()))
			require.Len(t, env.applies(), 1, "Terraform is at work on the first")
			assert.Equal(t, "z", env.applies()[0].Spec.Variables.Text("profile_name"))
			f := env.plan(cluster())
			assert.Equal(t, []string{"z", "a"}, statuses(*f))
			assert.Equal(t, creating, f.stateOf(&f.Profiles[1]).stage)

			first := env.applies()[0]
			state(&first)
			require.NoError(t, env.Client.Update(ctx, &first))
			env.act(env.plan(cluster()))
			assert.Len(t, env.applies(), 2)
		})
	}
}

func TestANewProfileWaitsForOneThatIsNotInTheCache(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("z", "a")), vpcSecret())
	env.act(env.plan(cluster()))
	live := env.Client
	env.Client = newClient(env.controlPlane.DeepCopy())
	f := env.plan(cluster())
	env.Client = live
	env.act(f)
	assert.Len(t, env.applies(), 1)
}

// One that is paused, or waits for its dependents, may wait forever.
func TestANewProfileWaitsForADeletionThatGoesOn(t *testing.T) {
	for reason, waits := range map[string]bool{
		"": true, infrav1.WaitingForWorkspaceDeletionReason: true, infrav1.QueuedReason: true,
		infrav1.DeletingReason: false, infrav1.WaitingForDependentsReason: false, infrav1.DestroyFailedReason: false,
	} {
		leaving := deletingBecause(reason, "").Live.Status
		env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret(), owned("demo-old-fargate-apply", "old",
			builder.WithFinalizers("terraform"), builder.Deleting(), builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status = leaving })))
		env.act(env.plan(cluster()))
		assert.Equal(t, waits, len(env.applies()) == 1, reason)
	}
}

func TestAnEditWaitsForTheControlPlane(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret())
	env.act(env.plan(cluster()))
	before := env.applies()
	env.controlPlane.Spec.FargateProfiles[0].Selectors[0].Namespace = "other"
	on := cluster()
	on.UpToDate = false
	env.act(env.plan(on))
	assert.Equal(t, before, env.applies())
}

func TestNothingIsWrittenWhilePaused(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret(), owned("demo-old-fargate-apply", "old"))
	before := env.applies()
	env.act(env.planOf(env.observe(cluster()), PlanInput{Ready: true, Paused: "annotation"}))
	assert.Equal(t, before, env.applies())
	assert.False(t, env.held())
}

// What another client created under the name of a profile is written only if it matches the profile.
func TestAnApplyOfAnotherOwnerIsNotUsed(t *testing.T) {
	name := naming.FargateWorkspaceTemplateApply("demo", "a")
	for what, row := range map[string]struct {
		there *infrav1.WorkspaceTemplateApply
		taken bool
	}{
		"of another profile":                 {owned(name, "b", alone), false},
		"just what it needs":                 {owned(name, "a", alone), true},
		"its own, of the template of before": {owned(name, "a", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "older" })), true},
	} {
		t.Run(what, func(t *testing.T) {
			env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), row.there, vpcSecret())
			f := env.plan(cluster())
			assert.Equal(t, row.taken, f.Profiles[0].Apply.Conflict == "", f.Profiles[0].Apply.Conflict)
			env.act(f)
			assert.Equal(t, row.taken, env.applies()[0].Spec.Variables.Text("selectors") != "")
		})
	}
}

// A reference is for what exists. One that is added to a profile that CAPT has made would be a second Workspace for it.
func TestNoProfileIsCreatedTwice(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret())
	env.make(cluster())
	env.controlPlane.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "another"}
	f := env.plan(cluster())
	assert.Equal(t, failed, f.stateOf(&f.Profiles[0]).stage)
	assert.Contains(t, f.stateOf(&f.Profiles[0]).message, "exists with WorkspaceTemplateApply demo-a-fargate-apply")
	env.act(f)
	assert.Len(t, env.applies(), 1)
}

func TestANameConflictDoesNotBlockOtherProfiles(t *testing.T) {
	name := naming.FargateWorkspaceTemplateApply("demo", "a")
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a", "b")), vpcSecret(), builder.WorkspaceTemplateApply(name, builder.OwnedBy(builder.CAPTControlPlane("other"))))
	env.act(env.plan(cluster()))
	assert.Len(t, env.applies(), 2)
}

// Values of Secrets are not cached, so each read of one is a request.
func TestTheVPCSecretIsReadOnlyForAProfileThatIsToBeWritten(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret())
	assert.NotNil(t, env.observe(cluster()).VPCSecret, "a profile is to be created")
	env.make(cluster())
	assert.Nil(t, env.observe(cluster()).VPCSecret, "at rest")
	env.controlPlane.Spec.FargateProfiles[0].Selectors[0].Namespace = "other"
	assert.NotNil(t, env.observe(cluster()).VPCSecret, "a profile is to be changed")
}
