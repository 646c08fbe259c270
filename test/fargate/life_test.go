// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const aWhile = 2 * time.Second

// The whole life of profiles: made one after the other on a cluster that is there, edited, taken out, and gone before the
// cluster is.
func TestTheLifeOfProfiles(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		for _, profile := range []string{"z", "a"} {
			w.Play(apply(profile), takes(aWhile))
		}
		w.Play(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
		w.start("z", "a")
		w.AwaitOperation(fixture.ControlPlane, scripted.Apply)
		assert.Empty(w, w.profiles(), "the EKS cluster comes first")
		assert.False(w, w.Exists(&infrav1.WorkspaceTemplateApply{}, apply("z")))

		w.Play(fixture.ControlPlane, takes(0))
		w.AwaitState(controlplanev1.StateConfiguring, controlplanev1.FargateProfileCreatingReason)
		w.AwaitState(controlplanev1.StateReady, "")
		assert.Equal(w, []string{"z is ready", "a is ready"}, w.profiles(), "the order is that of spec")
		assert.True(w, controllerutil.ContainsFinalizer(w.live(), controlplanev1.FargateProfileFinalizer))
		made := w.work("z", "a")
		assert.Len(w, made, 2)
		w.requireOneAtATime(slices.Concat(w.Operations(fixture.ControlPlane, scripted.Apply), made))

		w.User(controlPlane("z=other", "a"))
		w.AwaitState(controlplanev1.StateConfiguring, controlplanev1.FargateProfileCreatingReason)
		w.AwaitState(controlplanev1.StateReady, "")
		assert.Len(w, w.work("z", "a"), 3, "one was changed, the other was not")

		w.User(controlPlane("a"))
		w.awaitProfiles("a is ready")
		w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply("z"))
		w.AwaitState(controlplanev1.StateReady, "")
		w.requireOneAtATime(w.work("z", "a"))

		w.Remove(&clusterv1.Cluster{}, fixture.Demo)
		w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		w.RequireNothingLeft()
		w.RequireDestroyedInOrder(fixture.ControlPlane, apply("a"))
		w.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
		assert.Equal(w, []string{
			"Normal FargateProfileCreating: creating Fargate profile z; see WorkspaceTemplateApply " + apply("z"),
			"Normal FargateProfileReady: Fargate profile z is ready",
			"Normal FargateProfileCreating: creating Fargate profile a; see WorkspaceTemplateApply " + apply("a"),
			"Normal FargateProfileReady: Fargate profile a is ready",
			"Normal FargateProfileCreating: updating Fargate profile z; see WorkspaceTemplateApply " + apply("z"),
			"Normal FargateProfileReady: Fargate profile z is ready",
			"Normal FargateProfileDeleting: deleting Fargate profile z", "Normal FargateProfileDeleted: Fargate profile z was deleted",
			"Normal FargateProfileDeleting: deleting Fargate profile a", "Normal FargateProfileDeleted: Fargate profile a was deleted",
		}, w.eventLines())
	})
}

// Three profiles deleted with their cluster are destroyed one at a time, and all before the EKS cluster.
func TestProfilesGoBeforeTheirCluster(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		names := []string{"a", "b", "c"}
		w.start(names...)
		w.AwaitState(controlplanev1.StateReady, "")
		for _, name := range names {
			w.Play(apply(name), takes(aWhile))
		}
		w.Remove(&clusterv1.Cluster{}, fixture.Demo)
		w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.DeletingCondition, metav1.ConditionTrue, controlplanev1.FargateProfileDeletingReason, "the control plane is deleted after its Fargate profiles; deleting Fargate profile")
		w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		for _, name := range names {
			w.RequireDestroyedInOrder(fixture.ControlPlane, apply(name))
		}
		w.requireOneAtATime(w.work(names...))
		w.RequireNothingLeft()
	})
}

// A foreground deletion has the garbage collector delete all that the control plane owns, at once.
func TestProfilesGoFirstInAForegroundDeletionToo(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.start("a", "b")
		w.AwaitState(controlplanev1.StateReady, "")
		for _, name := range []string{"a", "b"} {
			w.Play(apply(name), takes(aWhile))
		}
		require.NoError(w, w.Delete(w.Context(), w.live(), client.PropagationPolicy(metav1.DeletePropagationForeground)))
		w.AwaitGone(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
		for _, name := range []string{"a", "b"} {
			w.RequireDestroyedInOrder(fixture.ControlPlane, apply(name))
		}
		w.requireOneAtATime(w.work("a", "b"))
	})
}

// An edit of the template that all profiles share changes them one at a time.
func TestAnEditOfTheTemplateChangesOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "Namespaced")
	names := []string{"a", "b", "c"}
	w.start(names...)
	w.AwaitState(controlplanev1.StateReady, "")
	for _, name := range names {
		w.Play(apply(name), takes(aWhile))
	}
	edited := w.Template("fargate", profileModule+"# edited\n", "cluster_name", "profile_name", "region", "selectors", "tags")
	w.User(edited + "        varFiles:\n        - {source: SecretKey, format: HCL, secretKeyRef: {name: '${vpc_connection_secret}', key: vpc_config}}\n")
	w.Insist(func() string {
		for _, name := range names {
			if len(w.Operations(apply(name), scripted.Apply)) < 2 {
				return name + " was not changed"
			}
		}
		return ""
	})
	w.AwaitState(controlplanev1.StateReady, "")
	w.requireOneAtATime(w.work(names...))
}

// Both versions of the API show the same truth.
func TestBothVersionsShowTheSameProfiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "Namespaced")
	w.Play(apply("b"), scripted.Script{Apply: scripted.Step{Stderr: quota}})
	w.start("a", "b")
	w.awaitProfiles("a is ready", "b is not ready: FargateProfileFailed")
	shown := func(version, field string) any {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("controlplane.cluster.x-k8s.io/" + version)
		object.SetKind("CAPTControlPlane")
		require.True(w, w.Exists(object, fixture.Demo))
		statuses, found, err := unstructured.NestedSlice(object.Object, "status", field)
		require.NoError(w, err)
		require.True(w, found, "%s has no %s", version, field)
		for _, status := range statuses { // A bool in v1beta1, the status of a condition in v1beta2.
			of := status.(map[string]any)
			of["ready"] = strings.ToLower(fmt.Sprint(of["ready"]))
		}
		return statuses
	}
	assert.Equal(w, shown("v1beta2", "fargateProfiles"), shown("v1beta1", "fargateProfileStatuses"))
	assert.Len(w, shown("v1beta1", "fargateProfileStatuses"), 2)
}

// The profiles of v1beta1 are those of v1beta2.
func TestAProfileOfV1Beta1IsCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "Namespaced")
	w.User(append(w.templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {name: demo}
spec:
  version: "1.35"
  workspaceTemplateRef: {name: eks}
  additionalFargateProfiles:
  - {name: monitoring, selectors: [{namespace: monitoring}], workspaceTemplateRef: {name: fargate}}
`)...)
	w.AwaitState(controlplanev1.StateReady, "")
	assert.Equal(w, []string{"monitoring is ready"}, w.profiles())
}

// At rest nothing is written, whatever there is.
func TestAClusterWithProfilesIsQuiet(t *testing.T) {
	w := &world{shared.Exclusive(t).NewWorld(t, "Namespaced")}
	w.start("a", "b")
	w.AwaitState(controlplanev1.StateReady, "")
	before := w.live()
	secret := &corev1.Secret{}
	require.True(w, w.Exists(secret, "demo-vpc-connection"))
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "example.com/touched", "yes")
	require.NoError(w, w.Update(w.Context(), secret), "a change of this Secret enqueues the control plane")
	w.AwaitRest(2 * time.Second)
	assert.Equal(w, before.ResourceVersion, w.live().ResourceVersion)
}

// The garbage collector takes the owner references away from all that the control plane has, while that deletes it.
func TestProfilesGoFirstWithAnOrphaningDeletionToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "Namespaced")
	w.start("a", "b")
	w.AwaitState(controlplanev1.StateReady, "")
	for _, name := range []string{"a", "b"} {
		w.Play(apply(name), takes(aWhile))
	}
	require.NoError(w, w.Delete(w.Context(), w.live(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.AwaitGone(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
	for _, name := range []string{"a", "b"} {
		w.RequireDestroyedInOrder(fixture.ControlPlane, apply(name))
	}
	w.requireOneAtATime(w.work("a", "b"))
}

// byHand is a WorkspaceTemplateApply that the user created for profile a.
const byHand = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: by-hand-apply}
spec:
  templateRef: {name: fargate}
  variables: {cluster_name: demo, profile_name: a, region: eu-central-1, selectors: "[]", tags: "{}", vpc_connection_secret: demo-vpc-connection}
`

// A profile that spec refers to was never written, since the control plane was not ready. It goes before the EKS cluster all the
// same.
func TestAReferencedProfileIsDeletedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "Namespaced")
	w.start()
	w.AwaitState(controlplanev1.StateReady, "")
	w.User(byHand)
	w.Await(&infrav1.WorkspaceTemplateApply{}, "by-hand-apply", infrav1.ReadyCondition, metav1.ConditionTrue, "")
	w.Play(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: quota}})
	w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec": {"additionalTags": {"team": "a"}, "fargateProfiles": [
		{"name": "a", "selectors": [{"namespace": "a"}], "workspaceTemplateRef": {"name": "fargate"}, "workspaceTemplateApplyRef": {"name": "by-hand-apply"}}]}}`)
	w.AwaitState(controlplanev1.StateDegraded, infrav1.ApplyFailedReason)
	w.Remove(&clusterv1.Cluster{}, fixture.Demo)
	w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	require.False(w, w.Exists(&infrav1.WorkspaceTemplateApply{}, "by-hand-apply"), "it is left behind")
	w.RequireDestroyedInOrder(fixture.ControlPlane, "by-hand-apply")
	w.RequireNothingLeft()
}
