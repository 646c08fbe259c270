// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// paused is the name of what is paused in a test.
const paused = "paused"

// pauses holds an object of a Cluster to the rule for pausing: by the Cluster and by annotation, in life and when it is
// deleted. note changes the spec of the object in a way that its WorkspaceTemplateApply, of the name apply, takes over.
func pauses(t *testing.T, apply string, object engine.Object, note func(object engine.Object, text string), documents ...string) {
	w := newWorld(t)
	w.apply(documents...)
	w.awaitTrue(object, paused, infrav1.ReadyCondition)
	require.Nil(t, meta.FindStatusCondition(object.GetConditions(), clusterv1.PausedCondition), "a condition that was never True is absent")

	pauseCluster := func(on bool) {
		owner := &clusterv1.Cluster{}
		w.change(owner, paused, func() { owner.Spec.Paused = ptr.To(on) })
	}
	annotate := func(on bool) {
		w.change(object, paused, func() {
			annotations := map[string]string{}
			if on {
				annotations[clusterv1.PausedAnnotation] = ""
			}
			object.SetAnnotations(annotations)
		})
	}
	t.Run("spec.paused of the Cluster", func(t *testing.T) {
		(&world{w.In(t)}).holdsStill(apply, object, note, pauseCluster)
	})
	t.Run("annotation", func(t *testing.T) {
		(&world{w.In(t)}).holdsStill(apply, object, note, annotate)
	})
	t.Run("deletion", func(t *testing.T) {
		(&world{w.In(t)}).isNotDeletedWhilePaused(apply, object, annotate)
	})
}

// holdsStill pauses an object, changes it, and lets it go on.
func (w *world) holdsStill(name string, object engine.Object, note func(object engine.Object, text string), pause func(on bool)) {
	w.Helper()
	pause(true)
	w.awaitTrue(object, paused, clusterv1.PausedCondition)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.read(apply, name)
	generation := apply.Generation

	w.change(object, paused, func() { note(object, w.Name()) })
	w.await(object, paused, func() string {
		for _, condition := range object.GetConditions() {
			if condition.Type == clusterv1.PausedCondition && condition.ObservedGeneration == object.GetGeneration() {
				return ""
			}
		}
		return "the change was not seen"
	})
	w.read(apply, name)
	require.Equal(w, generation, apply.Generation, "the change was seen, and nothing was done about it")

	pause(false)
	w.awaitCondition(object, paused, clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
	w.await(apply, name, func() string {
		if apply.Spec.Variables["note"] == w.Name() {
			return ""
		}
		return "the change was not made"
	})
	w.awaitTrue(object, paused, infrav1.ReadyCondition)
}

// isNotDeletedWhilePaused deletes the Cluster of an object that is paused.
func (w *world) isNotDeletedWhilePaused(name string, object engine.Object, annotate func(on bool)) {
	w.Helper()
	annotate(true)
	w.awaitTrue(object, paused, clusterv1.PausedCondition)
	w.Remove(&clusterv1.Cluster{}, paused)
	w.awaitTrue(object, paused, clusterv1.DeletingCondition)
	require.NotNil(w, object.GetDeletionTimestamp())
	apply := &infrav1.WorkspaceTemplateApply{}
	w.read(apply, name)
	require.Nil(w, apply.DeletionTimestamp, "it is paused")

	annotate(false)
	w.AwaitGone(object, paused)
	w.AwaitGone(&clusterv1.Cluster{}, paused)
	require.Empty(w, w.workspaces())
}

// requireUntouched requires that CAPT never wrote to an object.
func requireUntouched(w *world, object client.Object, name string) {
	w.Helper()
	w.read(object, name)
	require.Empty(w, object.GetFinalizers())
	for _, entry := range object.GetManagedFields() {
		require.False(w, strings.HasPrefix(entry.Manager, "capt"), "%s wrote %s", entry.Manager, entry.FieldsV1)
		ours := entry.Subresource == "status" && entry.Manager != outside
		require.False(w, ours, "%s wrote status", entry.Manager)
	}
}

// outside is the system that manages what CAPT does not.
const outside = "outside"

// report writes the status of an object, as the system outside does.
func (w *world) report(object client.Object, name string, change func()) {
	w.Helper()
	w.read(object, name)
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	change()
	require.NoError(w, w.Status().Patch(w.Context(), object, patch, client.FieldOwner(outside)))
}

// provision reports a CAPTCluster that others manage as the contract asks them to, and no more than that.
func (w *world) provision(name string) *infrav1.CAPTCluster {
	w.Helper()
	captCluster := &infrav1.CAPTCluster{}
	w.report(captCluster, name, func() {
		captCluster.Status.Initialization.Provisioned = ptr.To(true)
		captCluster.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "eu-central-1c", ControlPlane: ptr.To(true)}}
	})
	return captCluster
}

// The document says that it is a label. It is an annotation: so says Cluster API's proposal, and so do all of its predicates.
func infrastructureOfOthersIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.apply(vpcTemplate(), annotated(newVPC("theirs"), clusterv1.ManagedByAnnotation, outside), infrastructureOnly("theirs"))
	owned := &infrav1.CAPTCluster{}
	w.await(owned, "theirs", func() string {
		if len(owned.OwnerReferences) == 1 {
			return ""
		}
		return "Cluster API has not made the Cluster its owner"
	})
	w.provision("theirs")
	owner := w.awaitCluster("theirs", "it is not provisioned", func(owner *clusterv1.Cluster) bool {
		return ptr.Deref(owner.Status.Initialization.InfrastructureProvisioned, false)
	})
	require.Equal(t, "eu-central-1c", owner.Status.FailureDomains[0].Name)

	// By the time CAPT has made another one, it has seen all that happened before.
	w.apply(newVPC("ours"), infrastructureOnly("ours"))
	w.awaitTrue(&infrav1.CAPTCluster{}, "ours", infrav1.ReadyCondition)
	requireUntouched(w, &infrav1.CAPTCluster{}, "theirs")
	require.Len(t, w.workspaces(), 1, "that of ours")

	// Nor does it block the deletion.
	w.Remove(&clusterv1.Cluster{}, "theirs")
	w.AwaitGone(&infrav1.CAPTCluster{}, "theirs")
	w.AwaitGone(&clusterv1.Cluster{}, "theirs")
}

func controlPlaneOfOthersIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	documents := inExistingVPC("theirs", "v1.34.0")
	documents[slices.Index(documents, eks("theirs", "v1.34.0"))] = annotated(eks("theirs", "v1.34.0"), clusterv1.ManagedByAnnotation, outside)
	w.apply(documents...)
	w.awaitTrue(&clusterv1.Cluster{}, "theirs", clusterv1.ClusterInfrastructureReadyCondition)

	controlPlane := &controlplanev1.CAPTControlPlane{}
	endpoint := clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
	w.change(controlPlane, "theirs", func() { controlPlane.Spec.ControlPlaneEndpoint = endpoint })
	w.report(controlPlane, "theirs", func() { controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true) })
	owner := w.awaitCluster("theirs", "its control plane is not initialized", func(owner *clusterv1.Cluster) bool {
		return ptr.Deref(owner.Status.Initialization.ControlPlaneInitialized, false)
	})
	require.Equal(t, endpoint, owner.Spec.ControlPlaneEndpoint)

	w.apply(inExistingVPC("ours", "v1.34.0")...)
	w.awaitTrue(&controlplanev1.CAPTControlPlane{}, "ours", controlplanev1.ReadyCondition)
	requireUntouched(w, &controlplanev1.CAPTControlPlane{}, "theirs")
	require.Len(t, w.workspaces(), 1, "that of ours")
	w.Remove(&clusterv1.Cluster{}, "theirs")
	w.AwaitGone(&controlplanev1.CAPTControlPlane{}, "theirs")
	w.AwaitGone(&clusterv1.Cluster{}, "theirs")
}

// Who manages a CAPTCluster from outside owes it the fields of the contract and no others. The VPC is in its spec.
func controlPlaneStandsOnInfrastructureOfOthers(t *testing.T) {
	w := newWorld(t)
	documents := inExistingVPC("theirs", "v1.34.0")
	documents[0] = annotated(documents[0], clusterv1.ManagedByAnnotation, outside)
	w.apply(documents...)
	w.provision("theirs")
	w.awaitCluster("theirs", "it is not provisioned", func(owner *clusterv1.Cluster) bool {
		return ptr.Deref(owner.Status.Initialization.InfrastructureProvisioned, false)
	})
	w.awaitTrue(&controlplanev1.CAPTControlPlane{}, "theirs", controlplanev1.ReadyCondition)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.read(apply, "theirs-eks-controlplane-apply")
	require.Equal(t, "vpc-0123456789abcdef0", apply.Spec.Variables["vpc_id"])
	requireUntouched(w, &infrav1.CAPTCluster{}, "theirs")
}
