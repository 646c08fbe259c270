// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// environment is a reconciler with an API server.
type environment struct {
	*testing.T
	*Reconciler
	*builder.API
}

// newEnvironment adds the control plane of the Cluster, if there is none.
func newEnvironment(t *testing.T, objects ...client.Object) *environment {
	kinds := map[string]bool{}
	for _, object := range objects {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		kinds[kind] = kinds[kind] || kind == "Cluster" || object.GetDeletionTimestamp().IsZero()
	}
	if kinds["Cluster"] && kinds["CAPTCluster"] && !kinds["CAPTControlPlane"] {
		objects = append(objects, builder.CAPTControlPlane("demo"))
	}
	clients := builder.Clients(objects...).WithStatusSubresource(&infrav1.CAPTCluster{}).
		WithIndex(&controlplanev1.CAPTControlPlane{}, owner.EKSNameIndex, owner.IndexEKSName).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, owner.EKSIndex, owner.IndexEKS)
	require.NoError(t, RegisterIndexes(t.Context(), builder.Indexes{ClientBuilder: clients}))
	api := builder.NewAPI(clients)
	return &environment{T: t, API: api, Reconciler: &Reconciler{owner.Reconciler{
		Engine: engine.Engine{Client: api, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{}, Gate: &adoption.Gate{Client: api, Uncached: api}, Uncached: api},
	}}}
}

// reconcile returns the writes of one reconcile.
func (env *environment) reconcile() []string {
	env.Helper()
	env.Writes = nil
	got, err := env.Reconcile(env.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}})
	require.NoError(env, err)
	require.True(env, got.RequeueAfter == 0 || got.RequeueAfter > time.Minute, "nothing is polled: %s", got.RequeueAfter)
	return env.Writes
}

func (env *environment) get() *infrav1.CAPTCluster {
	env.Helper()
	captCluster, err := engine.Get(env.T.Context(), env.API, client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}, &infrav1.CAPTCluster{})
	require.NoError(env, err)
	return captCluster
}

func (env *environment) conditionSummary() map[string]string {
	return builder.ConditionSummary(env.get().Status.Conditions)
}

func (env *environment) message(condition string) string {
	env.Helper()
	return conditions.GetMessage(env.get(), condition)
}

func (env *environment) apply(name string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	apply, err := engine.Get(env.T.Context(), env.API, client.ObjectKey{Namespace: builder.Namespace, Name: name}, &infrav1.WorkspaceTemplateApply{})
	require.NoError(env, err)
	return apply
}

// update changes an object as its user does.
func update[O client.Object](env *environment, object O, change func(O)) {
	env.Helper()
	change(object)
	require.NoError(env, env.Update(env.T.Context(), object))
}

func (env *environment) remove(object client.Object) {
	env.Helper()
	require.NoError(env, env.Delete(env.T.Context(), object))
}

var (
	owned  = builder.OwnedBy(builder.Cluster("demo"))
	held   = builder.WithFinalizers(infrav1.CAPTClusterFinalizer)
	retain = builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain })
)

// Without the reference, a crash between the two writes could lead to a second VPC. The Cluster is never written.
func TestTheReferenceIsWrittenBeforeTheApply(t *testing.T) {
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	env.FailOn("apply demo-vpc", errors.New("killed"))
	_, err := env.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(env.get())})
	require.ErrorContains(t, err, "killed")
	assert.Equal(t, infrav1.WorkspaceTemplateApplyReference{Name: "demo-vpc"}, env.get().Spec.WorkspaceTemplateApplyRef)
	assert.Equal(t, []string{infrav1.CAPTClusterFinalizer}, env.get().Finalizers)

	env.Refuse = nil
	assert.Contains(t, env.reconcile(), "apply demo-vpc")
	assert.Equal(t, "demo", env.apply("demo-vpc").Labels[clusterv1.ClusterNameLabel])
	assert.Equal(t, "demo-vpc-connection", env.apply("demo-vpc").Spec.WriteConnectionSecretToRef.Name)
	env.reconcile()
	assert.Empty(t, env.reconcile(), "at rest nothing is written")
}

func TestTheApplyOfTheVPC(t *testing.T) {
	p, err := plan(builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) {
		c.Spec.VPC.Template.Ref = infrav1.WorkspaceTemplateReference{Name: "golden", Namespace: "shared"}
	})), &Facts{Observed: owner.Observed{Cluster: builder.Cluster("demo")}, EKS: &validation.EKSClaim{ControlPlane: builder.CAPTControlPlane("demo")}})
	require.NoError(t, err)
	spec := p.Desired.Object["spec"].(map[string]any)
	assert.Equal(t, map[string]any{"name": "golden", "namespace": "shared"}, spec["templateRef"])
}

func TestFieldsOfStatusOfACAPTCluster(t *testing.T) {
	facts := made(map[string]string{"vpc_id": "vpc-1", "availability_zones": "a"})
	facts.Cluster = builder.Cluster("demo", builder.WithEndpoint("eks.example.com", 443))
	for id, captCluster := range map[string]*infrav1.CAPTCluster{
		"vpc-1": builder.CAPTCluster("demo", builder.WithGeneration(3)),
		"vpc-0": builder.CAPTCluster("demo", builder.WithGeneration(3), builder.WithExistingVPC("vpc-0")),
	} {
		report(captCluster, facts)
		assert.Equal(t, id, captCluster.Status.VPC.ID)
		assert.Equal(t, int64(3), captCluster.Status.ObservedGeneration)
		assert.Equal(t, "eks.example.com:443", captCluster.Status.Endpoint)
		assert.Equal(t, ptr.To(true), captCluster.Status.Initialization.Provisioned)
		assert.Equal(t, []clusterv1.FailureDomain{{Name: "a", ControlPlane: ptr.To(true)}}, captCluster.Status.FailureDomains)
		assert.Equal(t, "demo-vpc", captCluster.Status.WorkspaceTemplateApply.Name)
	}
	waiting := builder.CAPTCluster("demo")
	report(waiting, withApply())
	assert.Nil(t, waiting.Status.Initialization.Provisioned)
}

// Status records it, and nothing matches.
func TestNoVPCIsCreatedIfStatusRecordsOne(t *testing.T) {
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned, builder.With(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" })))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.conditionSummary()["AdoptionRequired"])
	assert.Equal(t, "False AdoptionRequired", env.conditionSummary()["VPCReady"])
}

// What does not match is neither written nor deleted: a wrong name, or a name that another client used for another purpose.
func TestAReferencedApplyIsUsedOnlyIfItMatches(t *testing.T) {
	another := builder.WithVariables(map[string]string{"cluster_name": "another"})
	ofEKS := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "eks" })
	recorded := builder.With(func(c *infrav1.CAPTCluster) {
		c.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "by-hand"}
	})
	for name, row := range map[string]struct {
		ref     string
		options []builder.Option
		owner   builder.Option
		used    bool
	}{
		"a VPC made by hand":                        {"by-hand", nil, owned, true},
		"that of the default name":                  {"demo-vpc", nil, owned, true},
		"its own, which lost its owner reference":   {"by-hand", []builder.Option{another, ofEKS}, recorded, true},
		"an EKS cluster":                            {"by-hand", []builder.Option{ofEKS}, owned, false},
		"the VPC of another cluster":                {"by-hand", []builder.Option{another}, owned, false},
		"of the default name, of another's cluster": {"demo-vpc", []builder.Option{another}, owned, false},
	} {
		t.Run(name, func(t *testing.T) {
			there := builder.WorkspaceTemplateApply(row.ref, row.options...)
			env := newEnvironment(t, builder.Cluster("demo"), there,
				builder.CAPTCluster("demo", owned, row.owner, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.WithApplyRef(row.ref), builder.WithFinalizers("x/y")))
			if row.used {
				assert.Equal(t, []string{"patch", "apply " + row.ref}, env.reconcile()[:2])
				assert.Equal(t, builder.UID("CAPTCluster", "demo"), env.apply(row.ref).OwnerReferences[0].UID)
				assert.Equal(t, "vpc", env.apply(row.ref).Spec.TemplateRef.Name)
				return
			}
			assert.Equal(t, []string{"status"}, env.reconcile(), "it is not held for what is not its own")
			assert.Equal(t, "False ReferenceConflict", env.conditionSummary()["Ready"])
			env.remove(env.get())
			env.reconcile()
			assert.Equal(t, there.Spec, env.apply(row.ref).Spec)
			assert.Nil(t, env.apply(row.ref).DeletionTimestamp)
		})
	}
}

// The policy reaches the WorkspaceTemplateApply before its deletion does, and the CAPTCluster is released after it.
func TestRetainOfAVPCReachesItsWorkspaceTemplateApply(t *testing.T) {
	env := newEnvironment(t, builder.DeletedCluster("demo"), builder.CAPTCluster("demo", owned))
	env.reconcile()
	env.remove(builder.CAPTControlPlane("demo"))
	update(env, env.get(), func(c *infrav1.CAPTCluster) { retain(c) })
	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = []string{"held/by-the-test"} })
	env.remove(env.get())
	assert.Equal(t, []string{"apply demo-vpc", "delete demo-vpc", "status"}, env.reconcile())
	assert.Equal(t, infrav1.DeletionPolicyRetain, env.apply("demo-vpc").Spec.DeletionPolicy)
	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
	env.reconcile()
	assert.Nil(t, env.get(), "it is released")
}

func TestTheVPCStaysUntilTheControlPlaneIsGone(t *testing.T) {
	label := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	cluster := func(kind, name string) client.Object {
		return builder.DeletedCluster("demo", builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind, c.Spec.ControlPlaneRef.Name = kind, name }))
	}
	other := cluster("CAPTControlPlane", "of-another-name")
	controlPlane := func(options ...builder.Option) client.Object {
		return builder.CAPTControlPlane("of-another-name", options...)
	}
	for name, row := range map[string]struct {
		objects []client.Object
		stays   bool
	}{
		"the Cluster refers to it":                   {[]client.Object{other, controlPlane()}, true},
		"its label names the Cluster":                {[]client.Object{builder.DeletedCluster("demo"), controlPlane(label)}, true},
		"the Cluster is deleted, the label is there": {[]client.Object{controlPlane(label)}, true},
		"it is another Cluster's":                    {[]client.Object{builder.DeletedCluster("demo"), controlPlane(builder.WithLabel(clusterv1.ClusterNameLabel, "x"))}, false},
		"it is in another namespace":                 {[]client.Object{other, controlPlane(label, builder.WithNamespace("x"))}, false},
		"the control plane is another provider's":    {[]client.Object{cluster("KubeadmControlPlane", "of-another-name"), controlPlane()}, false},
		"there is none":                              {[]client.Object{other}, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, append(row.objects, builder.CAPTCluster("demo", owned, label, builder.WithApplyRef("demo-vpc"), held, builder.Deleting()),
				builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo"))))...)
			env.reconcile()
			assert.Equal(t, row.stays, env.apply("demo-vpc") != nil)
		})
	}
}

// What the CAPTCluster controls goes before the VPC, and is waited for.
func TestWhatTheCAPTClusterControlsIsDeletedBeforeTheVPC(t *testing.T) {
	holding := builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting())
	env := newEnvironment(t, builder.DeletedCluster("demo"), captCluster,
		builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithWorkspaceName("demo-vpc"), holding),
		builder.WorkspaceTemplateApply("demo-dns", builder.OwnedBy(captCluster), builder.WaitingForWorkspace("demo-vpc", ""), holding))
	assert.Equal(t, []string{"delete demo-dns", "status"}, env.reconcile())
	assert.Equal(t, "waiting for WorkspaceTemplateApply demo-dns to be deleted", env.message(infrav1.DeletingCondition))
	update(env, env.apply("demo-dns"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
	assert.Equal(t, []string{"delete demo-vpc", "status"}, env.reconcile())
}

// The deletion was accepted because the policy that rejects it is gone.
func TestNothingOfAProtectedCAPTClusterIsDeleted(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting(),
		builder.WithDeletionProtection(infrav1.DeletionProtectionEnabled))
	env := newEnvironment(t, builder.DeletedCluster("demo"), captCluster, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster)))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True "+infrav1.DeletionProtectedReason, env.conditionSummary()[infrav1.DeletingCondition])
	assert.Contains(t, env.message(infrav1.DeletingCondition), "spec.deletionProtection is Enabled, so nothing is destroyed")
	assert.Contains(t, env.get().Finalizers, infrav1.CAPTClusterFinalizer)
	assert.Empty(t, env.reconcile(), "at rest nothing is written")

	update(env, env.get(), func(c *infrav1.CAPTCluster) { c.Spec.DeletionProtection = infrav1.DeletionProtectionDisabled })
	assert.Contains(t, env.reconcile(), "delete demo-vpc")
}

// The control plane may wait for another policy of the VPC.
func TestThePolicyOfTheVPCIsWrittenWhileTheControlPlaneIsDeleted(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting(), retain)
	env := newEnvironment(t, builder.DeletedCluster("demo"), captCluster, builder.CAPTControlPlane("demo"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithWorkspaceName("demo-vpc")))
	env.reconcile()
	assert.Equal(t, infrav1.DeletionPolicyRetain, env.apply("demo-vpc").Spec.DeletionPolicy)
	assert.Empty(t, env.reconcile(), "written once")
}

// A restored CAPTCluster is garbage-collected when the UID of its Cluster is dead. It never had the WorkspaceTemplateApply.
func TestARestoredOwnerDeletesNothingThatItNeverHad(t *testing.T) {
	dead := builder.With(func(c *infrav1.CAPTCluster) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "dead"}}
	})
	env := newEnvironment(t, builder.WorkspaceTemplateApply("demo-vpc", builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)),
		builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), held, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), dead, builder.Deleting()))
	for _, write := range env.reconcile() {
		assert.False(t, strings.HasSuffix(write, "demo-vpc"), write)
	}
}

func TestFieldsOfAVPCThatHaveNoEffectAreReported(t *testing.T) {
	env := newEnvironment(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc"), builder.CAPTCluster("demo", owned))
	assert.Contains(t, env.reconcile(), "apply demo-vpc")
	assert.Contains(t, env.message(infrav1.FieldsConsumedCondition), "spec.region: has no effect: WorkspaceTemplate default/vpc does not pass ${region} to its module")
	env.remove(builder.WorkspaceTemplate("vpc"))
	require.NoError(t, env.Create(t.Context(), builder.WorkspaceTemplate("vpc", builder.Consuming("region"))))
	env.reconcile()
	assert.NotContains(t, env.conditionSummary(), infrav1.FieldsConsumedCondition)
}

func TestATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	leaving := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)
	env := newEnvironment(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", builder.Deleting(), leaving), builder.CAPTCluster("demo", owned))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False TemplateDeleting", env.conditionSummary()["VPCReady"])

	t.Run("its users go on", func(t *testing.T) {
		env := newEnvironment(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", leaving), builder.CAPTCluster("demo", owned))
		env.reconcile()
		env.remove(builder.WorkspaceTemplate("vpc"))
		update(env, env.get(), func(c *infrav1.CAPTCluster) {
			c.Spec.VPC.Template.Variables = infrav1.TextVariables(map[string]string{"cidr": "10.0.0.0/16"})
		})
		assert.Contains(t, env.reconcile(), "apply demo-vpc")
	})
}

// No watch reports that a template of another namespace no longer blocks.
func TestABlockingTemplateOfAnotherNamespaceIsReadAgain(t *testing.T) {
	shared := builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Namespace, template.Spec.AllowedNamespaces.Names = "shared", []string{builder.Namespace}
	})
	env := newEnvironment(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", shared, builder.Deleting(), builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)),
		builder.CAPTCluster("demo", owned, builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref.Namespace = "shared" })))
	got, err := env.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(env.get())})
	require.NoError(t, err)
	assert.Equal(t, owner.TemplateInterval, got.RequeueAfter)
}

// The owner reference says that the Cluster exists. Nothing else would wake the CAPTCluster before the resync.
func TestAClusterThatReachesTheCacheLateIsNotWaitedFor(t *testing.T) {
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	absent := apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), "demo")
	env.Client = builder.FailingGet[*clusterv1.Cluster](env.API, absent)
	assert.Contains(t, env.reconcile(), "apply demo-vpc")

	env.remove(builder.Cluster("demo"))
	env.reconcile() // A deleted one is not read repeatedly.
	assert.Equal(t, "False WaitingForOwner", env.conditionSummary()["Ready"])
}

// What is refused because of its contents is corrected by an edit, which no owner reference leads from.
func TestAnEditOfAReferencedObjectEnqueuesTheOwner(t *testing.T) {
	env := newEnvironment(t, builder.CAPTCluster("demo", builder.WithApplyRef("by-hand")), builder.CAPTCluster("other", builder.WithApplyRef("another")), builder.CAPTCluster("fresh"),
		builder.CAPTCluster("elsewhere", builder.WithNamespace("elsewhere"), builder.WithApplyRef("by-hand")))
	demo := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}}
	assert.Equal(t, []ctrl.Request{demo}, env.requests().ReferringTo(t.Context(), builder.WorkspaceTemplateApply("by-hand")))
	assert.Empty(t, env.requests().ReferringTo(t.Context(), builder.WorkspaceTemplateApply("unknown")))
}

// The API server and the cache list in any order; another order would be another message.
func TestControlPlanesAreNamedInOneOrder(t *testing.T) {
	labeled := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	env := newEnvironment(t, builder.CAPTControlPlane("c", labeled), builder.CAPTControlPlane("b", labeled), builder.CAPTControlPlane("a"))
	env.Uncached = interceptor.NewClient(env.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			slices.Reverse(list.(*controlplanev1.CAPTControlPlaneList).Items)
			return err
		},
	})
	cluster := builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Name = "a" }))
	names, err := env.existingControlPlanes(t.Context(), builder.CAPTCluster("demo", labeled), cluster)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, names)

	for _, known := range []*clusterv1.Cluster{nil, builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Name = "b" }))} {
		names, err = env.existingControlPlanes(t.Context(), builder.CAPTCluster("demo", labeled), known)
		require.NoError(t, err)
		assert.Equal(t, []string{"b", "c"}, names, "each is named once")
	}
	none := builder.CAPTControlPlane("none", builder.WithLabel(clusterv1.ClusterNameLabel, ""))
	names, err = newEnvironment(t, none).existingControlPlanes(t.Context(), builder.CAPTCluster("demo"), nil)
	require.NoError(t, err)
	assert.Empty(t, names, "without a label, it is not known whose they are")
}

func TestWithoutTheDefinitionOfControlPlanesThereAreNone(t *testing.T) {
	env := newEnvironment(t)
	env.Uncached = interceptor.NewClient(env.API, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewNotFound(controlplanev1.GroupVersion.WithResource("captcontrolplanes").GroupResource(), "")
	}})
	names, err := env.existingControlPlanes(t.Context(), builder.CAPTCluster("demo", builder.WithLabel(clusterv1.ClusterNameLabel, "demo")), nil)
	require.NoError(t, err)
	assert.Empty(t, names)
}

// The start of Terraform is written with the next change, or later than the others.
func TestTheStartOfTerraformIsADetail(t *testing.T) {
	env := newEnvironment(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	clock := builder.NewClock()
	env.State.Clock = clock
	assert.Contains(t, env.reconcile(), "status")
	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.StartedTime, apply.Status.WorkspaceName = ptr.To(metav1.NewTime(clock.Now())), "demo-vpc"
	})
	next := func() ([]string, time.Duration) {
		env.Writes = nil
		got, err := env.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(env.get())})
		require.NoError(t, err)
		return env.Writes, got.RequeueAfter
	}
	writes, after := next()
	assert.Empty(t, writes)
	assert.Equal(t, 10*time.Second, after)
	clock.Pass(after)
	writes, after = next()
	assert.Equal(t, []string{"status"}, writes)
	assert.Greater(t, after, 10*time.Minute, "the timeout")
	assert.Equal(t, "demo-vpc", env.get().Status.WorkspaceTemplateApply.WorkspaceName)
	writes, _ = next()
	assert.Empty(t, writes)

	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.StartedTime = nil })
	writes, _ = next()
	assert.Empty(t, writes)
	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.NotUpToDate("ApplyFailed", "no permission")(apply)
	})
	writes, _ = next()
	assert.Equal(t, []string{"status"}, writes, "a failure does not wait")
}

// A write that the API server refuses because the cache was older, for example while captctl migrate writes, does not change what the object reports.
func TestAConflictChangesNoStatus(t *testing.T) {
	env := newRecovering(t)
	env.terraform(builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}))
	update(env.environment, env.get(), func(c *infrav1.CAPTCluster) {
		c.Spec.VPC.Template.Variables = infrav1.TextVariables(map[string]string{"cidr": "10.0.0.0/16"})
	})
	before := env.get().Status
	env.FailOn("apply demo-vpc", apierrors.NewConflict(schema.GroupResource{Resource: "workspacetemplateapplies"}, "demo-vpc", errors.New("it was written")))
	env.reconcile()
	assert.Equal(t, before, env.get().Status)

	env.Refuse = nil
	env.reconcile()
	assert.Equal(t, "10.0.0.0/16", env.apply("demo-vpc").Spec.Variables.Text("cidr"))
}
