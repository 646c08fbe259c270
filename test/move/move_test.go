// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const (
	definition   = "workspaces.tf.m.upbound.io"
	untilLabeled = "until-labeled"
)

// labeled lets clusterctl move Workspaces.
func (env *environment) labeled() {
	env.Helper()
	env.follow(labelDefinition)
}

// readyCluster makes a Cluster on the source that is Ready and could be moved.
func readyCluster(t *testing.T) *environment {
	t.Helper()
	env := newEnvironment(t)
	env.labeled()
	env.apply(source, everything(terraform.ScopeNamespaced)...)
	env.awaitReady(source, "v1.34.0")
	return env
}

// awaitReady waits until the Cluster demo runs a version, and everything of it is Ready.
func (env *environment) awaitReady(on *side, version string) {
	env.Helper()
	controlPlane, owner := &controlplanev1.CAPTControlPlane{}, &clusterv1.Cluster{}
	env.await(on, controlPlane, "demo", func() string {
		return fixture.Unless(controlPlane.Status.Version == version, "its version is %s", controlPlane.Status.Version)
	})
	env.awaitCondition(on, controlPlane, "demo", controlplanev1.ReadyCondition, "")
	env.awaitCondition(on, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, "")
	for _, name := range []string{vpc, eks} {
		env.awaitCondition(on, &infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, "")
	}
	env.await(on, owner, "demo", func() string {
		return fixture.Unless(ptr.Deref(owner.Status.Initialization.ControlPlaneInitialized, false) && !ptr.Deref(owner.Spec.Paused, false),
			"it is paused, or not initialized")
	})
	env.awaitCondition(on, owner, "demo", clusterv1.ClusterControlPlaneInitializedCondition, "")
	env.await(on, controlPlane, "demo", func() string { return fixture.ClusterPending(controlPlane) })
}

// statuses are what the objects of a Cluster report, except for what differs in another cluster: times, generations and UIDs.
func (env *environment) statuses(on *side) map[string]any {
	env.Helper()
	statuses := map[string]any{}
	for name, object := range map[string]client.Object{
		"CAPTCluster": &infrav1.CAPTCluster{}, "CAPTControlPlane": &controlplanev1.CAPTControlPlane{},
		vpc: &infrav1.WorkspaceTemplateApply{}, eks: &infrav1.WorkspaceTemplateApply{},
	} {
		key := name
		if _, apply := object.(*infrav1.WorkspaceTemplateApply); !apply {
			key = "demo"
		}
		env.read(on, object, key)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		require.NoError(env, err)
		statuses[name] = lasting(content["status"])
	}
	return statuses
}

// lasting removes what differs in another cluster. The endpoints of these tests do not exist, and health depends on the time of its probes. A move
// drops the history of progress.
func lasting(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range []string{"lastTransitionTime", "lastAppliedTime", "observedGeneration", "writtenGeneration", "uid", "health", "progress"} {
			delete(value, field)
		}
		for field, inner := range value {
			value[field] = lasting(inner)
		}
	case []any:
		// These conditions are absent until they are True for the first time.
		value = slices.DeleteFunc(value, func(inner any) bool {
			condition, _ := inner.(map[string]any)
			return condition["reason"] == clusterv1.NotPausedReason || condition["reason"] == infrav1.NotDegradedReason
		})
		for i, inner := range value {
			value[i] = lasting(inner)
		}
		return value
	}
	return value
}

// moved are the kinds of which nothing may be left where a Cluster was moved from.
var moved = []schema.GroupVersionKind{
	workspaceKind, clusterv1.GroupVersion.WithKind("Cluster"), corev1.SchemeGroupVersion.WithKind("Secret"),
	infrav1.GroupVersion.WithKind("CAPTCluster"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
	clusterv1.GroupVersion.WithKind("MachinePool"), infrav1.GroupVersion.WithKind("CAPTMachinePool"), infrav1.GroupVersion.WithKind("WorkspaceTemplate"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
}

// requireMoved requires that nothing is left on the source.
func (env *environment) requireMoved() {
	env.Helper()
	for _, kind := range moved {
		require.Empty(env, env.names(source, kind), kind.Kind)
	}
}

// Both providers run all the time, which is not what the manual asks for, but must not hurt.
func TestAClusterMovesAndTerraformDoesNotNotice(t *testing.T) {
	env := readyCluster(t)
	for _, name := range []string{vpc, eks} {
		env.awaitBlock(name, "until-paused")
	}
	statuses, secrets := env.statuses(source), env.names(source, corev1.SchemeGroupVersion.WithKind("Secret"))
	before := env.workspace(source, eksWorkspace)
	t.Parallel()

	began := time.Now()
	env.startMove().wait()
	env.requireMoved()
	require.Contains(t, env.follow(lookAfterwards), "No resources found", "on the old side")
	env.awaitReady(target, "v1.34.0")
	require.Equal(t, statuses, env.statuses(target))
	require.ElementsMatch(t, secrets, env.names(target, corev1.SchemeGroupVersion.WithKind("Secret")))
	after := env.workspace(target, eksWorkspace)
	require.Equal(t, before.Object["spec"], after.Object["spec"])
	require.Equal(t, before.GetAnnotations(), after.GetAnnotations())
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(target, apply, eks)
	require.Equal(t, after.GetUID(), apply.Status.WorkspaceRef.UID)
	require.Equal(t, untilLabeled, apply.Annotations["clusterctl.cluster.x-k8s.io/block-move"], "the definition has no label here")
	env.requireUnnoticed(began)

	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.change(target, controlPlane, "demo", func() { controlPlane.Spec.Version = "v1.35.0" })
	env.awaitReady(target, "v1.35.0")
	require.Equal(t, []string{"apply " + eksWorkspace}, env.done(began), "an upgrade, by one of the two providers")
	env.change(target, controlPlane, "demo", func() { controlPlane.Spec.Version = "v1.34.0" })
	env.awaitReady(target, "v1.34.0")

	owner := &clusterv1.Cluster{}
	env.read(target, owner, "demo")
	require.NoError(t, target.Delete(t.Context(), owner))
	env.awaitGone(target, owner, "demo")
	require.Equal(t, []string{"apply " + eksWorkspace, "apply " + eksWorkspace, "destroy " + eksWorkspace, "destroy " + vpcWorkspace}, env.done(began))
	require.Zero(t, env.cloud())
}

func TestAMoveWaitsForTerraformAndGoesOn(t *testing.T) {
	env := readyCluster(t)
	t.Parallel()

	began := time.Now()
	env.setScript(eksWorkspace, scripted.Script{Apply: scripted.Step{Hang: true}})
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.change(source, controlPlane, "demo", func() { controlPlane.Spec.Version = "v1.35.0" })
	fixture.EventuallyTrue(t, tick, func() bool { return len(env.done(began)) == 1 }, "Terraform does not begin")

	move := env.startMove()
	env.awaitCondition(source, &infrav1.WorkspaceTemplateApply{}, eks, clusterv1.PausedCondition, "clusterctl move would wait: Workspace "+eksWorkspace+" is not up to date")
	env.awaitBlock(vpc, "")
	env.awaitBlock(eks, "until-paused")
	require.Empty(t, env.names(target, clusterv1.GroupVersion.WithKind("Cluster")))

	env.setScript(eksWorkspace, scripted.Script{})
	move.wait()
	require.Contains(t, move.output.String(), "Move blocked by clusterctl.cluster.x-k8s.io/block-move annotation")
	require.Contains(t, move.output.String(), eks)
	env.awaitReady(target, "v1.35.0")
	require.Equal(t, []string{"apply " + eksWorkspace}, env.done(began))
}

// A move that began before Workspaces were to be moved does not take them along, whatever is labeled while it waits.
func TestAMoveWithoutWorkspacesIsNotPossible(t *testing.T) {
	env := readyCluster(t)
	env.kubectl(source, "label", "crd", definition, "clusterctl.cluster.x-k8s.io-", "clusterctl.cluster.x-k8s.io/move-hierarchy-")
	env.awaitBlock(vpc, untilLabeled)
	env.awaitBlock(eks, untilLabeled)
	began := time.Now()

	move := env.startMove()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.awaitCondition(source, apply, vpc, clusterv1.PausedCondition, "clusterctl move would wait: clusterctl would not move Workspace "+vpcWorkspace)
	env.awaitCondition(source, apply, vpc, clusterv1.PausedCondition, "kubectl label crd "+definition+" clusterctl.cluster.x-k8s.io= clusterctl.cluster.x-k8s.io/move-hierarchy=")
	env.labeled()
	env.awaitCondition(source, apply, vpc, clusterv1.PausedCondition, "Workspace "+vpcWorkspace+" could not be moved yet when clusterctl listed the objects")
	move.stop()
	require.Empty(t, env.names(target, clusterv1.GroupVersion.WithKind("Cluster")))

	require.Contains(t, env.follow(askWhy), "could not be moved yet when clusterctl listed the objects")
	require.Contains(t, env.follow(takePauseAway, "NAME", "demo"), "cluster.cluster.x-k8s.io/demo patched")
	env.awaitBlock(vpc, "until-paused")
	env.awaitBlock(eks, "until-paused")
	env.awaitReady(source, "v1.34.0")
	env.startMove().wait()
	env.awaitReady(target, "v1.34.0")
	env.requireUnnoticed(began)
}

// clusterctl pauses Clusters. An object without one is paused and unpaused by hand.
func TestWhatBelongsToNoClusterMovesToo(t *testing.T) {
	env := newEnvironment(t)
	env.labeled()
	env.apply(source, documents(terraform.ScopeNamespaced).VPCTemplate(fixture.VPCModule), alone())
	apply := &infrav1.WorkspaceTemplateApply{}
	env.awaitCondition(source, apply, "alone", infrav1.ReadyCondition, "")
	env.awaitBlock("alone", "until-paused")
	t.Parallel()

	began := time.Now()
	env.follow(pauseByHand, "NAME", "alone")
	env.startMove().wait()
	env.requireMoved()
	env.follow(unpauseByHand, "NAME", "alone")
	env.awaitCondition(target, apply, "alone", infrav1.ReadyCondition, "")
	require.Equal(t, env.workspace(target, "alone").GetUID(), apply.Status.WorkspaceRef.UID)
	require.Contains(t, env.names(target, corev1.SchemeGroupVersion.WithKind("Secret")), "alone-outputs")
	env.requireUnnoticed(began)
}
