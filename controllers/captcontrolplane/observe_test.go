// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/tokens"
)

var withProfile = builder.With(func(c *controlplanev1.CAPTControlPlane) {
	c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "a", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
})

func TestWhatCannotBeReadIsNotAbsent(t *testing.T) {
	made := func(options ...builder.Option) *environment {
		env := newEnvironment(t, prepared(options...)...)
		env.Tokens = tokens.With(env.clock)
		env.reconcile()
		env.terraformMade()
		env.terraform(builder.WithWorkspaceName("eks"))
		return env
	}
	for name, newEnvironment := range map[string]func() *environment{
		"a new control plane": func() *environment {
			older := builder.CAPTControlPlane("first", builder.WithCreation(builder.Created.Add(-time.Hour)),
				builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "demo" }), builder.OwnedBy(builder.Cluster("x")))
			return newEnvironment(t, append(prepared(builder.WithCreation(builder.Created)), older)...)
		},
		"Terraform has created it":      func() *environment { return made(withProfile) },
		"a creation that may be redone": func() *environment { return failingEnvironment(t, "Network", recreates()) },
		"an update runs": func() *environment {
			env := made(withProfile)
			env.reconcile()
			env.terraform(working)
			return env
		},
		"another version": func() *environment {
			env := made()
			env.reconcile()
			require.NoError(t, env.Client.Create(t.Context(), builder.MachinePool("workers")))
			require.NoError(t, env.Client.Create(t.Context(), builder.CAPTMachinePool("workers", builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))))
			env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.32.0" })
			return env
		},
		"a deletion": func() *environment {
			env := made(withProfile, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))
			env.reconcile()
			require.NoError(t, env.Client.Delete(t.Context(), builder.Cluster("demo")))
			require.NoError(t, env.Client.Delete(t.Context(), env.get()))
			return env
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment()
			builder.FailEachRead(t, env.API, env.try)
		})
	}
}

// The cache may not have what was created a moment ago. While nothing may be created, the API server is not asked.
func TestAnEKSClusterThatOnlyTheAPIServerHasIsNotCreatedAgain(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	byHand := builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("eks"))
	env.Uncached = builder.NewAPI(builder.Clients(byHand))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])

	for name, env := range map[string]*environment{
		"paused":         newEnvironment(t, prepared(builder.Paused())...),
		"before the VPC": newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo"), builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")))),
	} {
		env.Uncached = builder.Unasked(t, env.API)
		env.reconcile()
		assert.Contains(t, env.summary(), "Ready", name)
	}
}

// A manager that probes no API servers does not wait for an answer.
func TestWithoutProbesNoAnswerIsRequired(t *testing.T) {
	env := newEnvironment(t, prepared(builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointProbe = controlplanev1.EndpointProbeRequired }))...)
	env.reconcile()
	env.terraformMade()
	env.reconcile()
	assert.Equal(t, "True Ready", env.summary()["Ready"])
}

// A CAPTCluster of the same name may belong to another Cluster.
func TestTheInfrastructureOfAnotherProviderIsNotACAPTCluster(t *testing.T) {
	other := builder.With(func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Kind = "AWSManagedCluster" })
	env := newEnvironment(t, builder.Cluster("demo", builder.WithInfrastructureProvisioned(), other), vpc(),
		builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithRegion("eu-west-3")))
	env.reconcile()
	assert.Equal(t, "eu-west-3", read(env, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.Variables.Text("region"), env.summary())
}

// Nodes may be two minor versions older than the control plane.
func TestAVersionWaitsForNodeGroups(t *testing.T) {
	env := built(t)
	require.NoError(t, env.Client.Create(t.Context(), builder.MachinePool("workers", builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "v1.28.0" }))))
	require.NoError(t, env.Client.Create(t.Context(), builder.CAPTMachinePool("workers", builder.WithLabel(clusterv1.ClusterNameLabel, "demo"),
		builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Status.Version = "v1.28.0" }))))
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.32.0" })
	env.reconcile()
	assert.Equal(t, "1.31", read(env, applyName, &infrav1.WorkspaceTemplateApply{}).Spec.Variables.Text("kubernetes_version"))
	assert.Contains(t, env.message(controlplanev1.ReadyCondition), "workers")

	env.Client = builder.FailingList[*clusterv1.MachinePoolList](env.API)
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.31.0" })
	require.NoError(t, env.try(), "without a change of the version, node groups are not read")
}

func TestTemplatesAreDependencies(t *testing.T) {
	env := newEnvironment(t, append(prepared(), builder.WorkspaceTemplate("eks"))...)
	env.reconcile()
	assert.Contains(t, env.dependencies(), "Upstream WorkspaceTemplate eks Unknown", "its controller has not checked it")
	env = newEnvironment(t, prepared()...)
	env.reconcile()
	assert.Contains(t, env.dependencies(), "Upstream WorkspaceTemplate eks False TemplateNotFound")
}

// withFargate is an environment whose control plane is Ready, and has a profile that was just created.
func withFargate(t *testing.T) *environment {
	env := newEnvironment(t, append(prepared(withProfile), builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": `vpc_id = "vpc-1"`}))...)
	env.reconcile()
	env.terraformMade()
	env.terraform(builder.WithWorkspaceName("eks"))
	change(env, "demo-eks-connection", &corev1.Secret{}, func(s *corev1.Secret) {
		s.Data["cluster_name"], s.Data["cluster_endpoint"] = []byte("demo"), []byte("https://"+host)
	})
	env.reconcile()
	require.NotNil(t, read(env, profileApply, &infrav1.WorkspaceTemplateApply{}))
	return env
}

const profileApply = "demo-a-fargate-apply"

// While the control plane is blocked, what spec wants of a profile is not known, and does not make one pending that exists.
func TestAProfileStaysReadyWhileTheControlPlaneIsBlocked(t *testing.T) {
	env := withFargate(t)
	change(env, profileApply, &infrav1.WorkspaceTemplateApply{}, func(apply *infrav1.WorkspaceTemplateApply) { builder.UpToDate(nil)(apply) })
	env.reconcile()
	require.Equal(t, "True FargateProfileReady", env.summary()["FargateProfileReady"])
	require.NoError(t, env.Client.Delete(t.Context(), read(env, "demo", &infrav1.CAPTCluster{})))
	env.reconcile()
	assert.Equal(t, "False WaitingForInfrastructure", env.summary()["DependenciesReady"])
	assert.Equal(t, "True FargateProfileReady", env.summary()["FargateProfileReady"])
}

// A profile is created when Terraform is done, and fails after its timeout, also after a restart of the manager.
func TestTheTimeOfAFargateProfile(t *testing.T) {
	env := newEnvironment(t, append(prepared(withProfile), builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": `vpc_id = "vpc-1"`}))...)
	env.reconcile()
	env.terraform(builder.WithWorkspaceName("eks"))
	env.reconcile()
	assert.Nil(t, read(env, profileApply, &infrav1.WorkspaceTemplateApply{}))
	env.terraformMade()
	change(env, "demo-eks-connection", &corev1.Secret{}, func(s *corev1.Secret) {
		s.Data["cluster_name"], s.Data["cluster_endpoint"] = []byte("demo"), []byte("https://"+host)
	})
	env.reconcile()
	change(env, profileApply, &infrav1.WorkspaceTemplateApply{}, func(apply *infrav1.WorkspaceTemplateApply) {
		working(apply)
		apply.Status.StartedTime = ptr.To(metav1.NewTime(env.clock.Now()))
	})
	env.settle()
	assert.LessOrEqual(t, env.again, 30*time.Minute)
	assert.NotContains(t, env.summary()["FargateProfileFailed"], "True")
	env.clock.Pass(30 * time.Minute)
	env.reconcile()
	assert.Equal(t, "True FargateProfileFailed", env.summary()["FargateProfileFailed"])
	env.State = &engine.StateCache{Clock: env.clock}
	assert.Empty(t, env.reconcile(), "a restart of the manager does not revert it")
}

// A control plane that is blocked has no place for new profiles.
func TestNoProfileIsCreatedWhileTheControlPlaneIsBlocked(t *testing.T) {
	env := newEnvironment(t, append(prepared(), builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": `vpc_id = "vpc-1"`}))...)
	env.reconcile()
	env.terraformMade()
	env.terraform(builder.WithWorkspaceName("eks"))
	change(env, "demo-eks-connection", &corev1.Secret{}, func(s *corev1.Secret) {
		s.Data["cluster_name"], s.Data["cluster_endpoint"] = []byte("demo"), []byte("https://"+host)
	})
	env.reconcile()
	env.spec(func(c *controlplanev1.CAPTControlPlane) { withProfile(c); c.Spec.Version = "what?" })
	env.reconcile()
	assert.Nil(t, read(env, profileApply, &infrav1.WorkspaceTemplateApply{}))
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.31.0" })
	env.FailOn("apply "+profileApply, assert.AnError)
	require.ErrorIs(t, env.try(), assert.AnError)
	env.Refuse = nil
	env.reconcile()
	assert.NotNil(t, read(env, profileApply, &infrav1.WorkspaceTemplateApply{}))
	assert.Contains(t, env.dependencies(), "Downstream WorkspaceTemplateApply demo-a-fargate-apply Unknown", "it was just created")
}

// The deletion was accepted because the policy that rejects it is gone. Pods run on the profiles of a Cluster that is not being deleted.
func TestNoProfileIsDeletedWhileALiveClusterRefersToTheControlPlane(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithApplyRef(applyName), builder.Deleting(),
		builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer))
	env := newEnvironment(t, builder.Cluster("demo"), controlPlane, builder.WorkspaceTemplateApply(applyName, ofTemplate("eks"), builder.OwnedBy(controlPlane)),
		builder.WorkspaceTemplateApply("demo-profile", ofTemplate("fargate"), builder.OwnedBy(controlPlane), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup)))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True "+infrav1.UsedByClusterReason, env.summary()["Deleting"])
}

// deleted deletes the control plane with its Cluster, which Cluster API keeps until the control plane is gone.
func (env *environment) deleted() {
	env.Helper()
	change(env, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Finalizers = []string{clusterv1.ClusterFinalizer} })
	require.NoError(env, env.Client.Delete(env.Context(), builder.Cluster("demo")))
	require.NoError(env, env.Client.Delete(env.Context(), env.get()))
}

// What a deletion does not need must not be able to stop it.
func TestADeletionDoesNotReadTheGraph(t *testing.T) {
	env := built(t)
	env.deleted()
	env.Cache = builder.Unasked(t, env.API)
	env.reconcile()
	assert.Nil(t, read(env, applyName, &infrav1.WorkspaceTemplateApply{}))
}

// The cache of a manager of one namespace has no templates of others. It reads its own from the API server, and does not know the state of others.
func TestTemplatesOutsideOfTheNamespaceOfTheManager(t *testing.T) {
	own := builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.WorkspaceTemplateRef.Namespace = "shared" })
	vpcs := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Namespace = "shared" })
	for name, row := range map[string]struct {
		objects []client.Object
		err     error
		want    string
	}{
		"its own":                     {append(prepared(own), vpcApply()), nil, "True"},
		"its own, which is not known": {append(prepared(own), vpcApply()), assert.AnError, "Unknown"},
		"that of its VPC":             {append(prepared(), vpcApply(vpcs)), nil, "Unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			template := builder.With(func(template *infrav1.WorkspaceTemplate) {
				template.Namespace, template.Spec.AllowedNamespaces.Names = "shared", []string{builder.Namespace}
				template.Status.Conditions = []metav1.Condition{{Type: infrav1.ValidCondition, Status: metav1.ConditionTrue}}
			})
			env := newEnvironment(t, append(row.objects, builder.WorkspaceTemplate("eks", template), builder.WorkspaceTemplate("vpc", template))...)
			env.Namespace = builder.Namespace
			if row.err != nil {
				env.Uncached = builder.FailingGet[*infrav1.WorkspaceTemplate](env.API, row.err)
			}
			env.reconcile()
			assert.Contains(t, env.dependencies(), "Upstream WorkspaceTemplate (another namespace) "+row.want)
		})
	}
}

// The API server is asked for the values of Secrets, so only those are read that a reconcile uses.
func TestWhichSecretsAreRead(t *testing.T) {
	const contract, user, connection = "demo-kubeconfig", "demo-user-kubeconfig", "demo-eks-connection"
	probes := func(env *environment) {
		env.Probes = probe.NewPool(metrics.NewHealth(prometheus.NewRegistry()), env.mustProbe)
		env.Tokens = nil
	}
	for name, row := range map[string]struct {
		happens func(env *environment)
		want    []string
	}{
		"Terraform is done": {func(*environment) {}, []string{contract, user, connection}},
		"an update runs":    {func(env *environment) { env.terraform(working) }, []string{contract, connection}},
		"an update runs, without a token": {func(env *environment) {
			env.spec(func(c *controlplanev1.CAPTControlPlane) { withSource(controlplanev1.KubeconfigExec)(c) })
			env.reconcile()
			env.terraform(working)
		}, []string{contract}},
		"an update runs, without tokens":   {func(env *environment) { env.Tokens = nil; env.terraform(working) }, nil},
		"an update runs, only with probes": {func(env *environment) { probes(env); env.terraform(working) }, []string{contract}},
		"a creation, with probes": {func(env *environment) {
			probes(env)
			env.terraform(working)
			controlPlane := env.get()
			controlPlane.Status.Initialization.ControlPlaneInitialized = nil
			require.NoError(env, env.Client.Status().Update(env.Context(), controlPlane))
		}, nil},
		"the WorkspaceTemplateApply is gone": {func(env *environment) {
			require.NoError(env, env.Client.Delete(env.Context(), read(env, applyName, &infrav1.WorkspaceTemplateApply{})))
		}, nil},
		"a deletion": {(*environment).deleted, nil},
	} {
		t.Run(name, func(t *testing.T) {
			env, _ := withToken(t, controlplanev1.KubeconfigToken)
			row.happens(env)
			var got []string
			env.Secrets = engine.NewSecrets(env.API, interceptor.NewClient(env.API, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if _, ok := object.(*corev1.Secret); ok {
						got = append(got, key.Name)
					}
					return c.Get(ctx, key, object, options...)
				},
			}))
			env.reconcile()
			assert.Equal(t, row.want, got)
		})
	}
}

// Before the control plane has its Workspace, a profile is what its WorkspaceTemplateApply reports.
func TestAProfileOfAControlPlaneWithoutItsWorkspace(t *testing.T) {
	env := newEnvironment(t, append(prepared(withProfile), builder.WorkspaceTemplateApply(profileApply, builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("fargate"),
		builder.UpToDate(nil), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup), builder.WithVariables(map[string]string{"cluster_name": "demo", "profile_name": "a"})))...)
	env.reconcile()
	env.reconcile()
	assert.Equal(t, "True FargateProfileReady", env.summary()["FargateProfileReady"])
}

// While Terraform changes the control plane no profile is created, so the API server is not asked whether one exists.
func TestTheAPIServerIsNotAskedForProfilesDuringAnUpdate(t *testing.T) {
	env := newEnvironment(t, append(prepared(withProfile), builder.SecretWith("demo-vpc-connection", map[string]string{"vpc_config": `vpc_id = "vpc-1"`}))...)
	env.reconcile()
	env.terraform(working)
	env.terraform(builder.WithWorkspaceName("eks"))
	env.Uncached = builder.Unasked(t, env.API)
	env.reconcile()
	assert.Equal(t, "False WaitingForWorkspace", env.summary()["FargateProfileReady"])
}

// An EKS cluster that was adopted has another name than its Cluster, and its profiles may have lost their owner reference.
func TestAnOrphanedProfileIsDeletedBeforeItsEKSCluster(t *testing.T) {
	of := func(variables map[string]string) builder.Option {
		variables["cluster_name"] = "older"
		return builder.WithVariables(variables)
	}
	controlPlane := builder.CAPTControlPlane("demo", builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), withProfile, builder.WithApplyRef(applyName), builder.Deleting(),
		builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer))
	env := newEnvironment(t, builder.DeletedCluster("demo"), controlPlane, builder.WorkspaceTemplateApply(applyName, ofTemplate("eks"), builder.OwnedBy(controlPlane), of(map[string]string{})),
		builder.WorkspaceTemplateApply(profileApply, ofTemplate("fargate"), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup), of(map[string]string{"profile_name": "a"}),
			builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)))
	env.reconcile()
	assert.False(t, read(env, profileApply, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero())
	assert.True(t, read(env, applyName, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero())
}

// Cluster API reports the infrastructure of an object that was moved or restored once its controller has. Until then, what serves is not Degraded, unless a
// problem is known.
func TestInfrastructureThatClusterAPIHasNotReportedYet(t *testing.T) {
	broken := func(f *Facts) {
		engine.Set(f.Infrastructure, engine.False(infrav1.ReadyCondition, infrav1.ApplyFailedReason, ""))
	}
	lost := func(f *Facts) { f.Cluster.Status.Initialization.InfrastructureProvisioned = nil }
	refused := func(f *Facts) { f.Cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(false) }
	for name, row := range map[string]struct {
		changes []func(*Facts)
		want    infrav1.State
	}{
		"a CAPTCluster":                               {[]func(*Facts){lost}, infrav1.StateConfiguring},
		"a CAPTCluster with a problem":                {[]func(*Facts){lost, broken}, infrav1.StateDegraded},
		"a CAPTCluster that is reported":              {[]func(*Facts){refused}, infrav1.StateDegraded},
		"that of another provider":                    {[]func(*Facts){foreignInfrastructure, lost}, infrav1.StateConfiguring},
		"that of another provider, which is reported": {[]func(*Facts){foreignInfrastructure, refused}, infrav1.StateDegraded},
		"a CAPTCluster that does not exist":           {[]func(*Facts){func(f *Facts) { f.Infrastructure = nil }, lost}, infrav1.StateDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			o := onceReady(t)
			o.controlPlane.Spec.Region = builder.Region
			for _, change := range row.changes {
				change(o.Facts)
			}
			assert.Equal(t, row.want, o.status().State)
			assert.Equal(t, "False WaitingForInfrastructure", o.summary()["Ready"])
		})
	}
}
