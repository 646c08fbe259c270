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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	applyindex "github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/test/builder"
)

// environment is a reconciler with an API server.
type environment struct {
	*testing.T
	*Reconciler
	*builder.API
	clock *builder.Clock
	// again is after how long the last reconcile wanted another one.
	again time.Duration
}

func newEnvironment(t *testing.T, objects ...client.Object) *environment {
	clients := builder.Clients(objects...).WithStatusSubresource(&controlplanev1.CAPTControlPlane{}).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, workspacetemplate.UserIndex, func(object client.Object) []string {
			return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
		})
	require.NoError(t, RegisterIndexes(t.Context(), builder.Indexes{ClientBuilder: clients}))
	require.NoError(t, applyindex.Register(t.Context(), builder.Indexes{ClientBuilder: clients}))
	env := &environment{T: t, clock: builder.NewClock(), API: builder.NewAPI(clients)}
	env.Reconciler = &Reconciler{Cache: env.API, FargateMetrics: metrics.NewFargate(prometheus.NewRegistry()), Reconciler: owner.Reconciler{Engine: engine.Engine{Uncached: env.API, Secrets: engine.NewSecrets(env.API, env.API),
		Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{Clock: env.clock},
		Client: env.API,
	}}}
	env.Gate = &adoption.Gate{Client: env.API, Uncached: env.API}
	return env
}

func (env *environment) try() error {
	env.Writes = nil
	result, err := env.Reconcile(env.T.Context(), demo()[0])
	env.again = result.RequeueAfter
	return err
}

// reconcile returns the writes of one reconcile.
func (env *environment) reconcile() []string {
	env.Helper()
	require.NoError(env, env.try())
	return env.Writes
}

// settle reconciles until no details wait, and returns the writes.
func (env *environment) settle() []string {
	env.Helper()
	writes := env.reconcile()
	if env.again > 0 && env.again <= detailsDelay {
		env.clock.Pass(env.again)
		writes = append(writes, env.reconcile()...)
	}
	return writes
}

func demo() []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}}}
}

func read[O client.Object](env *environment, name string, object O) O {
	env.Helper()
	found, err := engine.Get(context.Background(), env.Client, client.ObjectKey{Namespace: builder.Namespace, Name: name}, object)
	require.NoError(env, err)
	return found
}

func (env *environment) get() *controlplanev1.CAPTControlPlane {
	return read(env, "demo", &controlplanev1.CAPTControlPlane{})
}

// terraformMade does what the controller of WorkspaceTemplateApplies and Terraform do.
func (env *environment) terraformMade() {
	env.Helper()
	apply := read(env, applyName, &infrav1.WorkspaceTemplateApply{})
	builder.UpToDate(outputs())(apply)
	builder.WithCreation(builder.Created)(apply) // As the API server does; the fake client does not.
	require.NoError(env, env.Client.Update(context.Background(), apply))
	require.NoError(env, env.Client.Create(context.Background(), connection(map[string]string{"cluster_certificate_authority_data": builder.CA()})))
}

// built is an environment whose control plane is Ready.
func built(t *testing.T) *environment {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraformMade()
	env.reconcile()
	return env
}

// prepared is a control plane about to be made.
func prepared(options ...builder.Option) []client.Object {
	options = append([]builder.Option{builder.OwnedBy(builder.Cluster("demo"))}, options...)
	return []client.Object{builder.Cluster("demo", builder.WithInfrastructureProvisioned()), vpc(), builder.CAPTControlPlane("demo", options...)}
}

func TestTheLifeOfAControlPlane(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	assert.Equal(t, []string{"patch", "apply " + applyName, "status"}, env.reconcile(), "the reference is written down first")
	assert.Equal(t, applyName, env.get().Spec.WorkspaceTemplateApplyRef.Name)
	assert.Equal(t, []string{controlplanev1.CAPTControlPlaneFinalizer}, env.get().Finalizers)
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
	assert.Equal(t, "False WaitingForWorkspace", env.summary()["EndpointAvailable"])

	env.terraformMade()
	env.reconcile()
	require.Len(t, env.Writes, 4)
	assert.ElementsMatch(t, []string{"apply demo-kubeconfig", "apply demo-user-kubeconfig"}, env.Writes[:2], "the kubeconfigs come before the endpoint")
	assert.Equal(t, []string{"patch", "status"}, env.Writes[2:])
	assert.Equal(t, clusterv1.APIEndpoint{Host: host, Port: 443}, env.get().Spec.ControlPlaneEndpoint)
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)
	assert.NotNil(t, read(env, "demo-kubeconfig", &corev1.Secret{}))

	for range 3 {
		assert.Empty(t, env.reconcile(), "at rest nothing is written")
	}
}

// An empty reference next to a WorkspaceTemplateApply must not make a second EKS cluster.
func TestNoSecondClusterIsCreatedNextToACandidate(t *testing.T) {
	env := newEnvironment(t, append(prepared(), builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("eks")))...)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])
}

// One that was adopted, or restored from a backup, is ready before anything is provisioned.
func TestAReadyControlPlaneGetsItsFinalizer(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	env.terraformMade()
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Finalizers = nil })
	env.reconcile()
	assert.Equal(t, []string{controlplanev1.CAPTControlPlaneFinalizer}, env.get().Finalizers)
}

func TestSecretKeys(t *testing.T) {
	assert.Equal(t, []string{"default/demo-eks-connection"}, secretKeys(builder.CAPTControlPlane("demo")))
	assert.Equal(t,
		[]string{"default/demo-eks-connection", "default/c-kubeconfig", "default/c-user-kubeconfig"},
		secretKeys(builder.CAPTControlPlane("demo", builder.WithLabel(clusterv1.ClusterNameLabel, "c"))))
}

// What is refused because of its contents is corrected by an edit, which no owner reference leads from.
func TestAnEditOfAReferencedObjectEnqueuesTheOwner(t *testing.T) {
	profile := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "default", WorkspaceTemplateApplyRef: infrav1.WorkspaceTemplateApplyReference{Name: "profile"}}, {Name: "other"}}
	})
	env := newEnvironment(t, builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand"), profile), builder.CAPTControlPlane("fresh"),
		builder.CAPTControlPlane("elsewhere", builder.WithNamespace("elsewhere"), builder.WithApplyRef("by-hand")))
	for _, name := range []string{"by-hand", "profile"} {
		assert.Equal(t, demo(), env.requests().ReferringTo(t.Context(), builder.WorkspaceTemplateApply(name)))
	}
	assert.Empty(t, env.requests().ReferringTo(t.Context(), builder.WorkspaceTemplateApply("unknown")))
}

// An adopted control plane keeps the connection Secret that CAPT v0.3 gave it.
func TestTheConnectionSecretIsWatchedUnderItsOwnName(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand")),
		builder.WorkspaceTemplateApply("by-hand", builder.WithConnectionSecret("legacy-outputs", builder.Namespace)))
	assert.Equal(t, demo(), env.ofSecret(t.Context(), builder.SecretWith("legacy-outputs", nil)))
	assert.Equal(t, demo(), env.ofSecret(t.Context(), builder.SecretWith("demo-eks-connection", nil)), "that of the naming scheme")
	assert.Empty(t, env.ofSecret(t.Context(), builder.SecretWith("unknown", nil)))
}

// All of a tenant's objects have the names that those of the other one have.
func TestEachTenantReceivesItsOwnKubeconfig(t *testing.T) {
	env := newEnvironment(t)
	for _, tenant := range []string{"tenant-a", "tenant-b"} {
		in := []builder.Option{builder.WithNamespace(tenant)}
		owner := builder.Cluster("demo", append(in, builder.WithInfrastructureProvisioned())...)
		captCluster := vpc(in...)
		for _, object := range []client.Object{owner, captCluster, builder.CAPTControlPlane("demo", append(in, builder.OwnedBy(owner))...)} {
			object.SetUID(object.GetUID() + "/" + owner.UID)
			require.NoError(t, env.Client.Create(context.Background(), object))
		}
		request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: tenant, Name: "demo"}}
		_, err := env.Reconcile(context.Background(), request)
		require.NoError(t, err)

		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, env.Client.Get(context.Background(), client.ObjectKey{Namespace: tenant, Name: applyName}, apply))
		builder.UpToDate(map[string]string{"cluster_endpoint": "https://" + tenant + ".example.com"})(apply)
		require.NoError(t, env.Client.Update(context.Background(), apply))
		secret := connection(map[string]string{"cluster_certificate_authority_data": builder.CA()})
		secret.Namespace = tenant
		require.NoError(t, env.Client.Create(context.Background(), secret))
		_, err = env.Reconcile(context.Background(), request)
		require.NoError(t, err)
	}
	var list corev1.SecretList
	require.NoError(t, env.Client.List(context.Background(), &list))
	servers := map[string]string{}
	for i := range list.Items {
		if data := list.Items[i].Data["value"]; data != nil {
			made, err := clientcmd.RESTConfigFromKubeConfig(data)
			require.NoError(t, err)
			servers[list.Items[i].Namespace+"/"+list.Items[i].Name] = made.Host
		}
	}
	assert.Equal(t, map[string]string{
		"tenant-a/demo-kubeconfig": "https://tenant-a.example.com:443", "tenant-a/demo-user-kubeconfig": "https://tenant-a.example.com:443",
		"tenant-b/demo-kubeconfig": "https://tenant-b.example.com:443", "tenant-b/demo-user-kubeconfig": "https://tenant-b.example.com:443",
	}, servers)
}

// asV03LeftIt is the status of a WorkspaceTemplateApply of CAPT v0.3: with Crossplane's reasons, of no generation.
func asV03LeftIt() builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Applied = metav1.ConditionTrue
		apply.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Available"}}
	})
}

// adopted is a control plane that was Ready in CAPT v0.3, before its first reconcile.
func adopted(t *testing.T) *observation {
	t.Helper()
	o := configured(t).apply(asV03LeftIt())
	o.controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	o.controlPlane.Status.Phase = controlplanev1.PhaseReady
	engine.Set(o.controlPlane, engine.True(controlplanev1.ReadyCondition, controlplanev1.ReadyReason, ""))
	o.controlPlane.Status.Conditions[0].ObservedGeneration = 0
	return o
}

// What CAPT v0.3 reported is what is so until the adoption. Captcluster has the other cases of engine.GateDecision.
func TestTheStatusIsKeptBeforeAdoption(t *testing.T) {
	for name, observation := range map[string]func(t *testing.T) *observation{
		"ready":       adopted,
		"rolled back": onceReady,
	} {
		t.Run(name, func(t *testing.T) {
			o := observation(t).with(func(f *Facts) {
				f.Apply = owner.Facts{Block: &desired.Blocked{Reason: engine.DecisionReason, Message: applyName}, Held: true}
			})
			before := o.controlPlane.DeepCopy()
			want := builder.ConditionSummary(before.Status.Conditions)
			want["AdoptionRequired"] = "True AdoptionRequired"
			o.status()
			assert.Equal(t, want, builder.ConditionSummary(o.controlPlane.Status.Conditions))
			assert.Equal(t, owner.Wait, o.step())
			once := o.controlPlane.DeepCopy()
			o.status()
			assert.Equal(t, once, o.controlPlane, "at rest nothing is written")
			before.Status.Conditions, once.Status.Conditions = nil, nil
			assert.Equal(t, before, once)
		})
	}
}

// v0.3 used the finalizer for Fargate profiles as well.
func TestBeforeAdoptionNoFinalizerIsRemoved(t *testing.T) {
	objects := prepared(builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), builder.WithApplyRef(applyName))
	apply := builder.WorkspaceTemplateApply(applyName, asV03LeftIt(), builder.OwnedBy(objects[2]), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
		ofTemplate("eks"))
	env := newEnvironment(t, append(objects, apply)...)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])
	assert.Contains(t, env.get().Finalizers, controlplanev1.FargateProfileFinalizer)
}

// What only has the name of its WorkspaceTemplateApply stays, and does not hold the deletion.
func TestAControlPlaneOfCAPTV03IsDeletedWithWhatItOwns(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.Deleting(),
		builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer), builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
		}))
	env := newEnvironment(t, builder.DeletedCluster("demo"), controlPlane, builder.WorkspaceTemplateApply(applyName, ofTemplate("eks")),
		builder.WorkspaceTemplateApply(profileApply, ofTemplate("fargate"), builder.OwnedBy(controlPlane), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup)))
	for range 2 {
		env.reconcile()
	}
	assert.Nil(t, env.get())
	assert.Nil(t, read(env, profileApply, &infrav1.WorkspaceTemplateApply{}))
	assert.True(t, read(env, applyName, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero())
}

func TestAnAdoptedControlPlaneStaysReadyUntilItIsObserved(t *testing.T) {
	o := adopted(t)
	before := o.controlPlane.Status.DeepCopy()
	assert.Equal(t, *before, o.status(), "neither Degraded nor Provisioning, and nothing to write")

	o.apply(builder.WithGeneration(2), builder.UpToDate(outputs()))
	o.Apply.Live.Generation = 3 // The owner has written it in between.
	assert.Equal(t, *before, o.status())

	o.Apply.Live.Status.ObservedGeneration = 3
	after := o.status()
	assert.Equal(t, infrav1.StateReady, after.State)
	ready := meta.FindStatusCondition(after.Conditions, controlplanev1.ReadyCondition)
	assert.Equal(t, metav1.ConditionTrue, ready.Status)
	assert.Equal(t, before.Conditions[0].LastTransitionTime, ready.LastTransitionTime, "it was Ready all the time")
	assert.Equal(t, o.controlPlane.Generation, after.ObservedGeneration)
}

func TestProblemsAfterAnAdoptionAreReported(t *testing.T) {
	for name, row := range map[string]struct {
		observation *observation
		ready       string
		state       infrav1.State
	}{
		"Terraform failed": {adopted(t).apply(failing, builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.Applied = metav1.ConditionTrue })),
			"False ApplyFailed", infrav1.StateDegraded},
		"the WorkspaceTemplateApply is gone":          {adopted(t).with(func(f *Facts) { f.Apply.Live = nil }), "False Provisioning", infrav1.StateConfiguring},
		"the WorkspaceTemplateApply is being deleted": {adopted(t).apply(asV03LeftIt(), builder.Deleting()), "False Deleting", infrav1.StateDegraded},
		"the WorkspaceTemplateApply is another's":     {adopted(t).with(func(f *Facts) { f.Apply.Live, f.Apply.Conflict = nil, "it is b's" }), "False ReferenceConflict", infrav1.StateDegraded},
		"the API server refuses what is written":      {adopted(t).with(func(f *Facts) { f.Apply.Refused = assert.AnError }), "False WorkspaceTemplateApplyRefused", infrav1.StateDegraded},
		"the API server refuses a write before":       {adopted(t).with(func(f *Facts) { f.Apply.OwnRefused = assert.AnError }), "False WriteRefused", infrav1.StateDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			got := row.observation.status()
			assert.Equal(t, row.ready, builder.ConditionSummary(got.Conditions)["Ready"])
			assert.Equal(t, row.state, got.State)
		})
	}
}

func TestAStatusOfThisVersionIsNotKept(t *testing.T) {
	deleted := adopted(t)
	builder.Deleting()(deleted.controlPlane)
	for name, o := range map[string]*observation{
		"a new control plane":             newObservation(t).apply(asV03LeftIt()),
		"one that this version had Ready": onceReady(t).apply(asV03LeftIt()),
		"one that lost its status":        configured(t).apply(asV03LeftIt()),
		"one that is being deleted":       deleted,
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotEqual(t, "True Ready", builder.ConditionSummary(o.status().Conditions)["Ready"])
			assert.Equal(t, o.controlPlane.Generation, o.controlPlane.Status.ObservedGeneration)
		})
	}
}

func TestAnAdoptedControlPlaneReportsThatItIsPaused(t *testing.T) {
	o := adopted(t).with(func(f *Facts) { f.Paused = "annotation" })
	// It was seen, but what the owner wants is not written while it is paused.
	o.apply(builder.UpToDate(outputs()))
	o.unwritten = true
	assert.Equal(t, map[string]string{"Ready": "True Ready", "Paused": "True Paused"}, builder.ConditionSummary(o.status().Conditions))

	o.Paused, o.unwritten = "", false
	o.apply(asV03LeftIt())
	assert.Equal(t, map[string]string{"Ready": "True Ready", "Paused": "False NotPaused"}, builder.ConditionSummary(o.status().Conditions))
}
