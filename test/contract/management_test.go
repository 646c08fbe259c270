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
	"github.com/capt-provider/capt/test/fixture"
)

// paused is the name of what is paused in a test.
const paused = "paused"

// pauses holds an object of a Cluster to the rule for pausing: by the Cluster and by annotation, in life and when it is
// deleted. note changes the spec of the object in a way that its WorkspaceTemplateApply, of the name apply, takes over.
func pauses(t *testing.T, apply string, object engine.Object, note func(object engine.Object, text string), documents ...string) {
	env := newEnvironment(t)
	env.apply(documents...)
	env.awaitTrue(object, paused, infrav1.ReadyCondition)
	require.Nil(t, meta.FindStatusCondition(object.GetConditions(), clusterv1.PausedCondition), "a condition that was never True is absent")

	pauseCluster := func(on bool) {
		owner := &clusterv1.Cluster{}
		env.change(owner, paused, func() { owner.Spec.Paused = ptr.To(on) })
	}
	annotate := func(on bool) {
		env.change(object, paused, func() {
			annotations := map[string]string{}
			if on {
				annotations[clusterv1.PausedAnnotation] = ""
			}
			object.SetAnnotations(annotations)
		})
	}
	t.Run("spec.paused of the Cluster", func(t *testing.T) {
		(&environment{env.In(t)}).holdsStill(apply, object, note, pauseCluster)
	})
	t.Run("annotation", func(t *testing.T) {
		(&environment{env.In(t)}).holdsStill(apply, object, note, annotate)
	})
	t.Run("deletion", func(t *testing.T) {
		(&environment{env.In(t)}).isNotDeletedWhilePaused(apply, object, annotate)
	})
}

// holdsStill pauses an object, changes it, and lets it go on.
func (env *environment) holdsStill(name string, object engine.Object, note func(object engine.Object, text string), pause func(on bool)) {
	env.Helper()
	pause(true)
	env.awaitTrue(object, paused, clusterv1.PausedCondition)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(apply, name)
	generation := apply.Generation

	env.change(object, paused, func() { note(object, env.Name()) })
	env.await(object, paused, func() string {
		c := meta.FindStatusCondition(object.GetConditions(), clusterv1.PausedCondition)
		return fixture.Unless(c != nil && c.ObservedGeneration == object.GetGeneration(), "the change was not seen")
	})
	env.read(apply, name)
	require.Equal(env, generation, apply.Generation, "the change was seen, and nothing was done about it")

	pause(false)
	env.awaitCondition(object, paused, clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
	env.await(apply, name, func() string {
		return fixture.Unless(apply.Spec.Variables.Text("note") == env.Name(), "the change was not made")
	})
	env.awaitTrue(object, paused, infrav1.ReadyCondition)
}

// isNotDeletedWhilePaused deletes the Cluster of an object that is paused.
func (env *environment) isNotDeletedWhilePaused(name string, object engine.Object, annotate func(on bool)) {
	env.Helper()
	annotate(true)
	env.awaitTrue(object, paused, clusterv1.PausedCondition)
	env.Remove(&clusterv1.Cluster{}, paused)
	env.awaitTrue(object, paused, clusterv1.DeletingCondition)
	require.NotNil(env, object.GetDeletionTimestamp())
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(apply, name)
	require.Nil(env, apply.DeletionTimestamp, "it is paused")

	annotate(false)
	env.AwaitGone(object, paused)
	env.AwaitGone(&clusterv1.Cluster{}, paused)
	require.Empty(env, env.workspaces())
}

// requireUntouched requires that CAPT never wrote to an object.
func requireUntouched(env *environment, object client.Object, name string) {
	env.Helper()
	env.read(object, name)
	require.Empty(env, object.GetFinalizers())
	for _, entry := range object.GetManagedFields() {
		require.False(env, strings.HasPrefix(entry.Manager, "capt"), "%s wrote %s", entry.Manager, entry.FieldsV1)
		ours := entry.Subresource == "status" && entry.Manager != outside
		require.False(env, ours, "%s wrote status", entry.Manager)
	}
}

// outside is the system that manages what CAPT does not.
const outside = "outside"

// report writes the status of an object, as the system outside does.
func (env *environment) report(object client.Object, name string, change func()) {
	env.Helper()
	env.read(object, name)
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	change()
	require.NoError(env, env.Status().Patch(env.Context(), object, patch, client.FieldOwner(outside)))
}

// provision reports a CAPTCluster that others manage as the contract asks them to, and no more than that.
func (env *environment) provision(name string) *infrav1.CAPTCluster {
	env.Helper()
	captCluster := &infrav1.CAPTCluster{}
	env.report(captCluster, name, func() {
		captCluster.Status.Initialization.Provisioned = ptr.To(true)
		captCluster.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "eu-central-1c", ControlPlane: ptr.To(true)}}
	})
	return captCluster
}

// The document says that it is a label. It is an annotation: so says Cluster API's proposal, and so do all of its predicates.
func infrastructureOfOthersIsLeftAlone(t *testing.T) {
	env := newEnvironment(t)
	env.apply(vpcTemplate(), annotated(newVPC("theirs"), clusterv1.ManagedByAnnotation, outside), infrastructureOnly("theirs"))
	owned := &infrav1.CAPTCluster{}
	env.await(owned, "theirs", func() string {
		return fixture.Unless(len(owned.OwnerReferences) == 1, "Cluster API has not made the Cluster its owner")
	})
	env.provision("theirs")
	owner := env.awaitCluster("theirs", "it is not provisioned", infrastructureProvisioned)
	require.Equal(t, "eu-central-1c", owner.Status.FailureDomains[0].Name)

	// By the time CAPT has made another one, it has seen all that happened before.
	env.apply(newVPC("ours"), infrastructureOnly("ours"))
	env.awaitTrue(&infrav1.CAPTCluster{}, "ours", infrav1.ReadyCondition)
	requireUntouched(env, &infrav1.CAPTCluster{}, "theirs")
	require.Len(t, env.workspaces(), 1, "that of ours")

	// Nor does it block the deletion.
	env.Remove(&clusterv1.Cluster{}, "theirs")
	env.AwaitGone(&infrav1.CAPTCluster{}, "theirs")
	env.AwaitGone(&clusterv1.Cluster{}, "theirs")
}

func controlPlaneOfOthersIsLeftAlone(t *testing.T) {
	env := newEnvironment(t)
	documents := inExistingVPC("theirs", "v1.34.0")
	documents[slices.Index(documents, eks("theirs", "v1.34.0"))] = annotated(eks("theirs", "v1.34.0"), clusterv1.ManagedByAnnotation, outside)
	env.apply(documents...)
	env.awaitTrue(&clusterv1.Cluster{}, "theirs", clusterv1.ClusterInfrastructureReadyCondition)

	controlPlane := &controlplanev1.CAPTControlPlane{}
	endpoint := clusterv1.APIEndpoint{Host: "api.example.com", Port: 6443}
	env.change(controlPlane, "theirs", func() { controlPlane.Spec.ControlPlaneEndpoint = endpoint })
	env.report(controlPlane, "theirs", func() { controlPlane.Status.Initialization.ControlPlaneInitialized = ptr.To(true) })
	owner := env.awaitCluster("theirs", "its control plane is not initialized", controlPlaneInitialized)
	require.Equal(t, endpoint, owner.Spec.ControlPlaneEndpoint)

	env.apply(inExistingVPC("ours", "v1.34.0")...)
	env.awaitTrue(&controlplanev1.CAPTControlPlane{}, "ours", controlplanev1.ReadyCondition)
	requireUntouched(env, &controlplanev1.CAPTControlPlane{}, "theirs")
	require.Len(t, env.workspaces(), 1, "that of ours")
	env.Remove(&clusterv1.Cluster{}, "theirs")
	env.AwaitGone(&controlplanev1.CAPTControlPlane{}, "theirs")
	env.AwaitGone(&clusterv1.Cluster{}, "theirs")
}

// Who manages a CAPTCluster from outside owes it the fields of the contract and no others. The VPC is in its spec.
func controlPlaneStandsOnInfrastructureOfOthers(t *testing.T) {
	env := newEnvironment(t)
	documents := inExistingVPC("theirs", "v1.34.0")
	documents[0] = annotated(documents[0], clusterv1.ManagedByAnnotation, outside)
	env.apply(documents...)
	env.provision("theirs")
	env.awaitCluster("theirs", "it is not provisioned", infrastructureProvisioned)
	env.awaitTrue(&controlplanev1.CAPTControlPlane{}, "theirs", controlplanev1.ReadyCondition)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(apply, "theirs-eks-controlplane-apply")
	require.Equal(t, "vpc-0123456789abcdef0", apply.Spec.Variables.Text("vpc_id"))
	requireUntouched(env, &infrav1.CAPTCluster{}, "theirs")
}
