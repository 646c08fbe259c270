// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// world is a reconciler with an API server.
type world struct {
	*testing.T
	*Reconciler
	// applies counts the writes of WorkspaceTemplateApplies; refuse is what the next of them fails with.
	applies int
	refuse  error
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	w := &world{T: t}
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).WithStatusSubresource(&infrav1.CAPTCluster{}).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if w.refuse != nil {
				return w.refuse
			}
			w.applies++
			return c.Apply(ctx, obj, opts...)
		},
	}).Build()
	w.Reconciler = &Reconciler{
		Engine: engine.Engine{Client: c, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{}}, Uncached: c,
	}
	return w
}

func (w *world) reconcile() error {
	_, err := w.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}})
	return err
}

func (w *world) get() *infrav1.CAPTCluster {
	w.Helper()
	captCluster := &infrav1.CAPTCluster{}
	require.NoError(w, w.Client.Get(context.Background(), client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}, captCluster))
	return captCluster
}

func (w *world) apply(name string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	apply, err := engine.Get(context.Background(), w.Client, client.ObjectKey{Namespace: builder.Namespace, Name: name}, &infrav1.WorkspaceTemplateApply{})
	require.NoError(w, err)
	return apply
}

var owned = builder.OwnedBy(builder.Cluster("demo"))

func TestTheReferenceIsWrittenBeforeTheApply(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	w.refuse = errors.New("killed")
	require.Error(t, w.reconcile())
	assert.Equal(t, infrav1.WorkspaceTemplateApplyReference{Name: "demo-vpc"}, w.get().Spec.WorkspaceTemplateApplyRef)
	assert.Equal(t, []string{infrav1.CAPTClusterFinalizer}, w.get().Finalizers)
	assert.Nil(t, w.apply("demo-vpc"))

	w.refuse = nil
	require.NoError(t, w.reconcile())
	require.NotNil(t, w.apply("demo-vpc"))
	assert.Equal(t, "demo", w.apply("demo-vpc").Labels[clusterv1.ClusterNameLabel])
	assert.Equal(t, "demo-vpc-connection", w.apply("demo-vpc").Spec.WriteConnectionSecretToRef.Name)
}

func TestAtRestNothingIsWritten(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	require.NoError(t, w.reconcile())
	version, applies := w.get().ResourceVersion, w.applies
	for range 3 {
		require.NoError(t, w.reconcile())
	}
	assert.Equal(t, version, w.get().ResourceVersion)
	assert.Equal(t, applies, w.applies)
}

func TestNoVPCIsCreatedNextToACandidate(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned),
		builder.WorkspaceTemplateApply("made-by-hand", builder.OwnedBy(builder.CAPTCluster("demo"))))
	require.NoError(t, w.reconcile())
	assert.Zero(t, w.applies)
	assert.Zero(t, w.get().Spec.WorkspaceTemplateApplyRef)
	assert.Equal(t, "True AdoptionRequired", builder.Story(w.get().Status.Conditions)["AdoptionRequired"])
}

// Status records it, and nothing matches.
func TestNoVPCIsCreatedIfStatusRecordsOne(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned, builder.With(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" })))
	require.NoError(t, w.reconcile())
	assert.Zero(t, w.applies)
	assert.Zero(t, w.get().Spec.WorkspaceTemplateApplyRef)
	assert.Equal(t, "True AdoptionRequired", builder.Story(w.get().Status.Conditions)["AdoptionRequired"])
	assert.Equal(t, "False AdoptionRequired", builder.Story(w.get().Status.Conditions)["VPCReady"])
}

// The policy reaches the WorkspaceTemplateApply before its deletion does.
func TestDefect01RetainOfAVPCReachesItsWorkspaceTemplateApply(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	require.NoError(t, w.reconcile())
	captCluster := w.get()
	captCluster.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain
	require.NoError(t, w.Client.Update(context.Background(), captCluster))
	held := w.apply("demo-vpc")
	builder.WithFinalizers("held/by-the-test")(held)
	require.NoError(t, w.Client.Update(context.Background(), held))

	require.NoError(t, w.Client.Delete(context.Background(), captCluster))
	require.NoError(t, w.reconcile())
	assert.Equal(t, infrav1.DeletionPolicyRetain, w.apply("demo-vpc").Spec.DeletionPolicy)
	assert.False(t, w.apply("demo-vpc").DeletionTimestamp.IsZero())
}

func TestDefect04TheVPCStaysUntilTheControlPlaneIsGone(t *testing.T) {
	other := builder.Cluster("demo")
	other.Spec.ControlPlaneRef.Name = "of-another-name"
	foreign := builder.Cluster("demo")
	foreign.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane"
	label := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	controlPlane := func(options ...builder.Option) client.Object {
		return builder.CAPTControlPlane("of-another-name", options...)
	}
	for name, row := range map[string]struct {
		cluster      client.Object
		controlPlane client.Object
		stays        bool
	}{
		"the Cluster refers to it":                   {other, controlPlane(), true},
		"its label names the Cluster":                {builder.Cluster("demo"), controlPlane(label), true},
		"the Cluster is deleted, the label is there": {nil, controlPlane(label), true},
		"it is another Cluster's":                    {builder.Cluster("demo"), controlPlane(builder.WithLabel(clusterv1.ClusterNameLabel, "x")), false},
		"it is in another namespace":                 {other, controlPlane(label, builder.WithNamespace("x")), false},
		"the control plane is another provider's":    {foreign, controlPlane(), false},
		"there is none":                              {other, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{
				builder.CAPTCluster("demo", owned, label, builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting()),
				builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo"))),
			}
			for _, object := range []client.Object{row.cluster, row.controlPlane} {
				if object != nil {
					objects = append(objects, object)
				}
			}
			w := newWorld(t, objects...)
			require.NoError(t, w.reconcile())
			assert.Equal(t, row.stays, w.apply("demo-vpc") != nil)
		})
	}
}

func TestACAPTClusterIsReleasedAfterItsVPC(t *testing.T) {
	w := newWorld(t, builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting()))
	require.NoError(t, w.reconcile())
	assert.True(t, engine.Absent(w.Client.Get(context.Background(), client.ObjectKeyFromObject(builder.CAPTCluster("demo")), &infrav1.CAPTCluster{})))
}

func TestNothingIsWrittenWhilePaused(t *testing.T) {
	cluster := builder.Cluster("demo")
	cluster.Spec.Paused = ptr.To(true)
	w := newWorld(t, cluster, builder.CAPTCluster("demo", owned))
	require.NoError(t, w.reconcile())
	assert.Zero(t, w.applies)
	assert.Empty(t, w.get().Finalizers)
	assert.Equal(t, "True Paused", builder.Story(w.get().Status.Conditions)["Paused"])
}

func TestTheClusterIsNeverWritten(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	before := &clusterv1.Cluster{}
	key := client.ObjectKeyFromObject(builder.Cluster("demo"))
	require.NoError(t, w.Client.Get(context.Background(), key, before))
	require.NoError(t, w.reconcile())
	after := &clusterv1.Cluster{}
	require.NoError(t, w.Client.Get(context.Background(), key, after))
	assert.Equal(t, before.ResourceVersion, after.ResourceVersion)
}

// Defaulting sets the reference when nothing of the name exists; then another client creates one for another purpose.
func TestAnUnrelatedApplyOfTheDefaultNameIsNotUsed(t *testing.T) {
	label := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	strange := builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": "another"}))
	w := newWorld(t, builder.Cluster("demo"), strange,
		builder.CAPTCluster("demo", owned, label, builder.WithApplyRef("demo-vpc"), builder.WithFinalizers("held/by-the-test")))
	require.NoError(t, w.reconcile())
	assert.Zero(t, w.applies)
	assert.Equal(t, "False ReferenceConflict", builder.Story(w.get().Status.Conditions)["Ready"])

	require.NoError(t, w.Client.Delete(context.Background(), w.get()))
	require.NoError(t, w.reconcile())
	assert.Equal(t, strange.Spec, w.apply("demo-vpc").Spec)
	assert.Nil(t, w.apply("demo-vpc").DeletionTimestamp)
}

func TestAMatchingApplyOfTheDefaultNameIsUsed(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplateApply("demo-vpc"),
		builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc")))
	require.NoError(t, w.reconcile())
	assert.Equal(t, 1, w.applies)
	assert.Equal(t, builder.UID("CAPTCluster", "demo"), w.apply("demo-vpc").OwnerReferences[0].UID)
}

func TestALostOwnerReferenceIsRestored(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	require.NoError(t, w.reconcile())
	require.NoError(t, w.reconcile())
	require.Equal(t, "demo-vpc", w.get().Status.WorkspaceTemplateApply.Name)

	stripped := w.apply("demo-vpc")
	stripped.OwnerReferences, stripped.Spec.TemplateRef.Name = nil, "of-long-ago"
	require.NoError(t, w.Client.Update(context.Background(), stripped))
	require.NoError(t, w.reconcile())
	assert.Len(t, w.apply("demo-vpc").OwnerReferences, 1)
	assert.Equal(t, "vpc", w.apply("demo-vpc").Spec.TemplateRef.Name)
}

// The owner reference says that the Cluster exists. Nothing else would wake the CAPTCluster before the resync.
func TestSafety18AClusterThatReachesTheCacheLateIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	server := w.Client
	w.Client = interceptor.NewClient(server.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, isCluster := object.(*clusterv1.Cluster); isCluster {
				return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	require.NoError(t, w.reconcile())
	assert.Equal(t, 1, w.applies)

	require.NoError(t, server.Delete(context.Background(), builder.Cluster("demo")))
	result, err := w.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}})
	require.NoError(t, err)
	assert.Zero(t, result, "a deleted one is not read repeatedly")
	assert.Equal(t, "False WaitingForOwner", builder.Story(w.get().Status.Conditions)["Ready"])
}
