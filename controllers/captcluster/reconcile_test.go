// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// world is a reconciler with an API server.
type world struct {
	*testing.T
	*Reconciler
	*builder.API
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	api := builder.NewAPI(builder.Clients(objects...).WithStatusSubresource(&infrav1.CAPTCluster{}).
		WithIndex(&infrav1.CAPTCluster{}, owner.ReferenceIndex, referenceKeys))
	return &world{T: t, API: api, Reconciler: &Reconciler{
		Engine: engine.Engine{Client: api, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{}}, Uncached: api,
	}}
}

// reconcile returns the writes of one reconcile.
func (w *world) reconcile() []string {
	w.Helper()
	w.Writes = nil
	got, err := w.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}})
	require.NoError(w, err)
	require.Zero(w, got)
	return w.Writes
}

func (w *world) get() *infrav1.CAPTCluster {
	w.Helper()
	captCluster, err := engine.Get(w.T.Context(), w.API, client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}, &infrav1.CAPTCluster{})
	require.NoError(w, err)
	return captCluster
}

func (w *world) story() map[string]string { return builder.Story(w.get().Status.Conditions) }

func (w *world) message(condition string) string {
	w.Helper()
	found := meta.FindStatusCondition(w.get().Status.Conditions, condition)
	require.NotNil(w, found)
	return found.Message
}

func (w *world) apply(name string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	apply, err := engine.Get(w.T.Context(), w.API, client.ObjectKey{Namespace: builder.Namespace, Name: name}, &infrav1.WorkspaceTemplateApply{})
	require.NoError(w, err)
	return apply
}

// update changes an object as its user does.
func update[O client.Object](w *world, object O, change func(O)) {
	w.Helper()
	change(object)
	require.NoError(w, w.Update(w.T.Context(), object))
}

func (w *world) remove(object client.Object) {
	w.Helper()
	require.NoError(w, w.Delete(w.T.Context(), object))
}

// replace replaces a template.
func (w *world) replace(template *infrav1.WorkspaceTemplate) {
	w.Helper()
	w.remove(template.DeepCopy())
	require.NoError(w, w.Create(w.T.Context(), template))
}

var (
	owned  = builder.OwnedBy(builder.Cluster("demo"))
	held   = builder.WithFinalizers(infrav1.CAPTClusterFinalizer)
	retain = builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain })
)

// Without the reference, a crash between the two writes could lead to a second VPC. The Cluster is never written.
func TestTheReferenceIsWrittenBeforeTheApply(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	w.FailOn("apply demo-vpc", errors.New("killed"))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.get())})
	require.ErrorContains(t, err, "killed")
	assert.Equal(t, infrav1.WorkspaceTemplateApplyReference{Name: "demo-vpc"}, w.get().Spec.WorkspaceTemplateApplyRef)
	assert.Equal(t, []string{infrav1.CAPTClusterFinalizer}, w.get().Finalizers)

	w.Refuse = nil
	assert.Contains(t, w.reconcile(), "apply demo-vpc")
	assert.Equal(t, "demo", w.apply("demo-vpc").Labels[clusterv1.ClusterNameLabel])
	assert.Equal(t, "demo-vpc-connection", w.apply("demo-vpc").Spec.WriteConnectionSecretToRef.Name)
	w.reconcile()
	assert.Empty(t, w.reconcile(), "at rest nothing is written")
}

// Status records it, and nothing matches.
func TestNoVPCIsCreatedIfStatusRecordsOne(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned, builder.With(func(c *infrav1.CAPTCluster) { c.Status.VPC.ID = "vpc-1" })))
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "True AdoptionRequired", w.story()["AdoptionRequired"])
	assert.Equal(t, "False AdoptionRequired", w.story()["VPCReady"])
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
			w := newWorld(t, builder.Cluster("demo"), there,
				builder.CAPTCluster("demo", owned, row.owner, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.WithApplyRef(row.ref), builder.WithFinalizers("x/y")))
			if row.used {
				assert.Equal(t, []string{"patch", "apply " + row.ref}, w.reconcile()[:2])
				assert.Equal(t, builder.UID("CAPTCluster", "demo"), w.apply(row.ref).OwnerReferences[0].UID)
				assert.Equal(t, "vpc", w.apply(row.ref).Spec.TemplateRef.Name)
				return
			}
			assert.Equal(t, []string{"status"}, w.reconcile(), "it is not held for what is not its own")
			assert.Equal(t, "False ReferenceConflict", w.story()["Ready"])
			w.remove(w.get())
			w.reconcile()
			assert.Equal(t, there.Spec, w.apply(row.ref).Spec)
			assert.Nil(t, w.apply(row.ref).DeletionTimestamp)
		})
	}
}

func TestNothingIsWrittenWhilePaused(t *testing.T) {
	cluster := builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) }))
	w := newWorld(t, cluster, builder.CAPTCluster("demo", owned))
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "True Paused", w.story()["Paused"])
}

// The policy reaches the WorkspaceTemplateApply before its deletion does, and the CAPTCluster is released after it.
func TestDefect01RetainOfAVPCReachesItsWorkspaceTemplateApply(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	w.reconcile()
	update(w, w.get(), func(c *infrav1.CAPTCluster) { retain(c) })
	update(w, w.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = []string{"held/by-the-test"} })
	w.remove(w.get())
	assert.Equal(t, []string{"apply demo-vpc", "delete demo-vpc", "status"}, w.reconcile())
	assert.Equal(t, infrav1.DeletionPolicyRetain, w.apply("demo-vpc").Spec.DeletionPolicy)
	update(w, w.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
	w.reconcile()
	assert.Nil(t, w.get(), "it is released")
}

func TestDefect04TheVPCStaysUntilTheControlPlaneIsGone(t *testing.T) {
	label := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	cluster := func(kind, name string) client.Object {
		return builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind, c.Spec.ControlPlaneRef.Name = kind, name }))
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
		"its label names the Cluster":                {[]client.Object{builder.Cluster("demo"), controlPlane(label)}, true},
		"the Cluster is deleted, the label is there": {[]client.Object{controlPlane(label)}, true},
		"it is another Cluster's":                    {[]client.Object{builder.Cluster("demo"), controlPlane(builder.WithLabel(clusterv1.ClusterNameLabel, "x"))}, false},
		"it is in another namespace":                 {[]client.Object{other, controlPlane(label, builder.WithNamespace("x"))}, false},
		"the control plane is another provider's":    {[]client.Object{cluster("KubeadmControlPlane", "of-another-name"), controlPlane()}, false},
		"there is none":                              {[]client.Object{other}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(row.objects, builder.CAPTCluster("demo", owned, label, builder.WithApplyRef("demo-vpc"), held, builder.Deleting()),
				builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo"))))...)
			w.reconcile()
			assert.Equal(t, row.stays, w.apply("demo-vpc") != nil)
		})
	}
}

// What the CAPTCluster controls goes before the VPC, and is waited for.
func TestSafety06WhatTheCAPTClusterControlsIsDeletedBeforeTheVPC(t *testing.T) {
	holding := builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting())
	w := newWorld(t, builder.Cluster("demo"), captCluster,
		builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithWorkspaceName("demo-vpc"), holding),
		builder.WorkspaceTemplateApply("demo-dns", builder.OwnedBy(captCluster), builder.WaitingForWorkspace("demo-vpc", ""), holding))
	assert.Equal(t, []string{"delete demo-dns", "status"}, w.reconcile())
	assert.Equal(t, "waiting for WorkspaceTemplateApply demo-dns to be deleted", w.message(infrav1.DeletingCondition))
	update(w, w.apply("demo-dns"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
	assert.Equal(t, []string{"delete demo-vpc", "status"}, w.reconcile())
}

// The control plane may wait for another policy of the VPC.
func TestSafety05ThePolicyOfTheVPCIsWrittenWhileTheControlPlaneIsDeleted(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting(), retain)
	w := newWorld(t, builder.Cluster("demo"), captCluster, builder.CAPTControlPlane("demo"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithWorkspaceName("demo-vpc")))
	w.reconcile()
	assert.Equal(t, infrav1.DeletionPolicyRetain, w.apply("demo-vpc").Spec.DeletionPolicy)
	assert.Empty(t, w.reconcile(), "written once")
}

// A restored CAPTCluster is garbage-collected when the UID of its Cluster is dead. It never had the WorkspaceTemplateApply.
func TestSafety04ARestoredOwnerDeletesNothingThatItNeverHad(t *testing.T) {
	dead := builder.With(func(c *infrav1.CAPTCluster) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "dead"}}
	})
	w := newWorld(t, builder.WorkspaceTemplateApply("demo-vpc", builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)),
		builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), held, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), dead, builder.Deleting()))
	for _, write := range w.reconcile() {
		assert.False(t, strings.HasSuffix(write, "demo-vpc"), write)
	}
}

func TestSafety14FieldsOfAVPCThatHaveNoEffectAreReported(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc"), builder.CAPTCluster("demo", owned))
	assert.Contains(t, w.reconcile(), "apply demo-vpc")
	assert.Contains(t, w.message(infrav1.FieldsConsumedCondition), "spec.region: has no effect: WorkspaceTemplate default/vpc does not pass ${region} to its module")
	w.replace(builder.WorkspaceTemplate("vpc", builder.Consuming("region")))
	w.reconcile()
	assert.NotContains(t, w.story(), infrav1.FieldsConsumedCondition)
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	leaving := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", builder.Deleting(), leaving), builder.CAPTCluster("demo", owned))
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.Equal(t, "False TemplateDeleting", w.story()["VPCReady"])

	t.Run("its users go on", func(t *testing.T) {
		w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", leaving), builder.CAPTCluster("demo", owned))
		w.reconcile()
		w.remove(builder.WorkspaceTemplate("vpc"))
		update(w, w.get(), func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Variables = map[string]string{"cidr": "10.0.0.0/16"} })
		assert.Contains(t, w.reconcile(), "apply demo-vpc")
	})
}

// No watch reports that a template of another namespace no longer blocks.
func TestABlockingTemplateOfAnotherNamespaceIsReadAgain(t *testing.T) {
	shared := builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Namespace, template.Spec.AllowedNamespaces.Names = "shared", []string{builder.Namespace}
	})
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", shared, builder.Deleting(), builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)),
		builder.CAPTCluster("demo", owned, builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref.Namespace = "shared" })))
	got, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.get())})
	require.NoError(t, err)
	assert.Equal(t, owner.TemplateInterval, got.RequeueAfter)
}

// The owner reference says that the Cluster exists. Nothing else would wake the CAPTCluster before the resync.
func TestSafety18AClusterThatReachesTheCacheLateIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.CAPTCluster("demo", owned))
	absent := apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), "demo")
	w.Client = builder.FailingGet[*clusterv1.Cluster](w.API, absent)
	assert.Contains(t, w.reconcile(), "apply demo-vpc")

	w.remove(builder.Cluster("demo"))
	w.reconcile() // A deleted one is not read repeatedly.
	assert.Equal(t, "False WaitingForOwner", w.story()["Ready"])
}
