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
	inEitherScope(t, func(env *environment) {
		env.slowDown("z", "a")
		env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Hang: true}})
		env.start("z", "a")
		env.AwaitOperation(fixture.ControlPlane, scripted.Apply)
		assert.Empty(env, env.profiles(), "the EKS cluster comes first")
		assert.False(env, env.Exists(&infrav1.WorkspaceTemplateApply{}, apply("z")))

		env.SetScript(fixture.ControlPlane, scripted.Script{})
		env.AwaitState(infrav1.StateConfiguring, controlplanev1.FargateProfileCreatingReason)
		env.AwaitState(infrav1.StateReady, "")
		assert.Equal(env, []string{"z is ready", "a is ready"}, env.profiles(), "the order is that of spec")
		assert.True(env, controllerutil.ContainsFinalizer(env.live(), controlplanev1.FargateProfileFinalizer))
		made := env.work("z", "a")
		assert.Len(env, made, 2)
		env.requireOneAtATime(slices.Concat(env.Operations(fixture.ControlPlane, scripted.Apply), made))

		env.User(controlPlane("z=other", "a"))
		env.AwaitState(infrav1.StateConfiguring, controlplanev1.FargateProfileCreatingReason)
		env.AwaitState(infrav1.StateReady, "")
		assert.Len(env, env.work("z", "a"), 3, "one was changed, the other was not")

		env.User(controlPlane("a"))
		env.awaitProfiles("a is ready")
		env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply("z"))
		env.AwaitState(infrav1.StateReady, "")
		env.requireOneAtATime(env.work("z", "a"))

		env.Remove(&clusterv1.Cluster{}, fixture.Demo)
		env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		env.RequireNothingLeft()
		env.RequireDestroyedInOrder(fixture.ControlPlane, apply("a"))
		env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
		assert.Equal(env, []string{
			"Normal FargateProfileCreating: creating Fargate profile z; see WorkspaceTemplateApply " + apply("z"),
			"Normal FargateProfileReady: Fargate profile z is ready",
			"Normal FargateProfileCreating: creating Fargate profile a; see WorkspaceTemplateApply " + apply("a"),
			"Normal FargateProfileReady: Fargate profile a is ready",
			"Normal FargateProfileCreating: updating Fargate profile z; see WorkspaceTemplateApply " + apply("z"),
			"Normal FargateProfileReady: Fargate profile z is ready",
			"Normal FargateProfileDeleting: deleting Fargate profile z", "Normal FargateProfileDeleted: Fargate profile z was deleted",
			"Normal FargateProfileDeleting: deleting Fargate profile a", "Normal FargateProfileDeleted: Fargate profile a was deleted",
		}, env.eventLines())
	})
}

// Three profiles deleted with their cluster are destroyed one at a time, and all before the EKS cluster.
func TestProfilesGoBeforeTheirCluster(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.requireProfilesGoFirst(func() {
			env.Remove(&clusterv1.Cluster{}, fixture.Demo)
			env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue,
				controlplanev1.FargateProfileDeletingReason, "the control plane is deleted after its Fargate profiles; deleting Fargate profile")
		}, "a", "b", "c")
		env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		env.RequireNothingLeft()
	})
}

// requireProfilesGoFirst makes a cluster with profiles and deletes its control plane: they are destroyed one at a time, and before the EKS cluster.
func (env *environment) requireProfilesGoFirst(remove func(), profiles ...string) {
	env.Helper()
	env.start(profiles...)
	env.AwaitState(infrav1.StateReady, "")
	env.slowDown(profiles...)
	remove()
	env.AwaitGone(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
	for _, profile := range profiles {
		env.RequireDestroyedInOrder(fixture.ControlPlane, apply(profile))
	}
	env.requireOneAtATime(env.work(profiles...))
}

// A foreground deletion has the garbage collector delete all that the control plane owns, at once.
func TestProfilesGoFirstInAForegroundDeletionToo(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.requireProfilesGoFirst(func() {
			env.RemoveAllowed(&controlplanev1.CAPTControlPlane{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}, "a", "b")
	})
}

// An edit of the template that all profiles share changes them one at a time.
func TestAnEditOfTheTemplateChangesOneAtATime(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	names := []string{"a", "b", "c"}
	env.start(names...)
	env.AwaitState(infrav1.StateReady, "")
	env.slowDown(names...)
	env.User(env.FargateProfileTemplate(fixture.FargateProfileModule + "# edited\n"))
	env.Eventually(func() string {
		for _, name := range names {
			if len(env.Operations(apply(name), scripted.Apply)) < 2 {
				return name + " was not changed"
			}
		}
		return ""
	})
	env.AwaitState(infrav1.StateReady, "")
	env.requireOneAtATime(env.work(names...))
}

// Both versions of the API show the same truth.
func TestBothVersionsShowTheSameProfiles(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	env.SetScript(apply("b"), scripted.Script{Apply: scripted.Step{Stderr: quota}})
	env.start("a", "b")
	env.awaitProfiles("a is ready", "b is not ready: FargateProfileFailed")
	shown := func(version, field string) any {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("controlplane.cluster.x-k8s.io/" + version)
		object.SetKind("CAPTControlPlane")
		require.True(env, env.Exists(object, fixture.Demo))
		statuses, found, err := unstructured.NestedSlice(object.Object, "status", field)
		require.NoError(env, err)
		require.True(env, found, "%s has no %s", version, field)
		for _, status := range statuses { // A bool in v1beta1, the status of a condition in v1beta2.
			of := status.(map[string]any)
			of["ready"] = strings.ToLower(fmt.Sprint(of["ready"]))
			delete(of, "state") // v1beta1 has neither.
			delete(of, "lastTransitionTime")
		}
		return statuses
	}
	assert.Equal(env, shown("v1beta2", "fargateProfiles"), shown("v1beta1", "fargateProfileStatuses"))
	assert.Len(env, shown("v1beta1", "fargateProfileStatuses"), 2)
}

// The profiles of v1beta1 are those of v1beta2.
func TestAProfileOfV1Beta1IsCreated(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	env.User(append(env.FargateTemplates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {name: demo}
spec:
  version: "1.35"
  workspaceTemplateRef: {name: eks}
  additionalFargateProfiles:
  - {name: monitoring, selectors: [{namespace: monitoring}], workspaceTemplateRef: {name: fargate}}
`)...)
	env.AwaitState(infrav1.StateReady, "")
	assert.Equal(env, []string{"monitoring is ready"}, env.profiles())
}

// At rest nothing is written, whatever there is.
func TestAClusterWithProfilesIsQuiet(t *testing.T) {
	env := &environment{shared.Exclusive(t).NewEnvironment(t, "Namespaced")}
	env.start("a", "b")
	env.AwaitState(infrav1.StateReady, "")
	env.AwaitRest()
	before := env.live()
	secret := &corev1.Secret{}
	require.True(env, env.Exists(secret, "demo-vpc-connection"))
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "example.com/touched", "yes")
	require.NoError(env, env.Update(env.Context(), secret), "a change of this Secret enqueues the control plane")
	env.AwaitRest()
	assert.Equal(env, before.ResourceVersion, env.live().ResourceVersion)
}

// The garbage collector takes the owner references away from all that the control plane has, while that deletes it.
func TestProfilesGoFirstWithAnOrphaningDeletionToo(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	env.requireProfilesGoFirst(func() {
		env.RemoveAllowed(&controlplanev1.CAPTControlPlane{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	}, "a", "b")
}

// byHand is a WorkspaceTemplateApply that the user created for profile a.
var byHand = fixture.WorkspaceTemplateApply("fargate", "by-hand-apply",
	`variables: {cluster_name: demo, profile_name: a, region: eu-central-1, selectors: "[]", tags: "{}", vpc_connection_secret: demo-vpc-connection}`)

// A profile that spec refers to was never written, since the control plane was not ready. It goes before the EKS cluster all the
// same.
func TestAReferencedProfileIsDeletedFirst(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "Namespaced")
	env.start()
	env.AwaitState(infrav1.StateReady, "")
	env.User(byHand)
	env.Await(&infrav1.WorkspaceTemplateApply{}, "by-hand-apply", infrav1.ReadyCondition, metav1.ConditionTrue, "")
	env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: quota}})
	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec": {"additionalTags": {"team": "a"}, "fargateProfiles": [
		{"name": "a", "selectors": [{"namespace": "a"}], "workspaceTemplateRef": {"name": "fargate"}, "workspaceTemplateApplyRef": {"name": "by-hand-apply"}}]}}`)
	env.AwaitState(infrav1.StateDegraded, infrav1.ApplyFailedReason)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	require.False(env, env.Exists(&infrav1.WorkspaceTemplateApply{}, "by-hand-apply"), "it is left behind")
	env.RequireDestroyedInOrder(fixture.ControlPlane, "by-hand-apply")
	env.RequireNothingLeft()
}
