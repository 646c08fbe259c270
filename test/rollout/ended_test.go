// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// previewing edits the template so that the plan of each preview takes a while, and waits until one runs for each user.
func (env *environment) previewing(plan scripted.Step, users ...string) {
	env.Helper()
	for _, name := range users {
		require.NoError(env, env.Scripts.SetScript(env.previewKey(name), scripted.Script{Plan: plan}))
	}
	env.edit(changed)
	env.Eventually(func() string {
		for _, name := range users {
			if env.operationsOf(name, scripted.Plan) == 0 {
				return "no plan of the preview of " + name + " runs"
			}
		}
		return ""
	})
}

// requireOnlyPlanned requires that Terraform has neither applied nor destroyed a preview.
func (env *environment) requireOnlyPlanned(users ...string) {
	env.Helper()
	for _, name := range users {
		for _, operation := range []scripted.Operation{scripted.Apply, scripted.Destroy} {
			require.Zero(env, env.operationsOf(name, operation), "%s by the preview of %s", operation, name)
		}
	}
}

// Each object is deleted while Terraform plans.
func TestAPreviewEndsWithWhatItIsAbout(t *testing.T) {
	t.Parallel()
	slow := scripted.Step{Delay: 3 * time.Second}
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		t.Run("the template", func(t *testing.T) {
			t.Parallel()
			env := newEnvironmentIn(t, scope, previewed)
			env.use("a")
			env.awaitReady("a")
			env.awaitStage(infrav1.RolloutComplete)
			env.previewing(slow, "a")
			env.RemoveAllowed(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
			env.awaitNoPreviews("a")
			env.requireOnlyPlanned("a")
			require.Len(t, env.Cloud(), 1, "the template is in use")
			require.Nil(t, env.Workspace("a").GetDeletionTimestamp())
			env.Remove(&infrav1.WorkspaceTemplateApply{}, "a")
			env.AwaitGone(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
			env.awaitNoPreviews("a")
			env.RequireNothingLeft()
		})
		t.Run("a retained user", func(t *testing.T) {
			t.Parallel()
			env := newEnvironmentIn(t, scope, previewed)
			env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: a}", "deletionPolicy: Retain"))
			env.awaitReady("a")
			env.awaitStage(infrav1.RolloutComplete)
			env.previewing(slow, "a")
			env.Remove(&infrav1.WorkspaceTemplateApply{}, "a")
			env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, "a")
			env.awaitNoPreviews("a")
			env.requireOnlyPlanned("a")
			require.Len(t, env.Cloud(), 1, "its resources are retained")
			require.NotNil(t, env.Workspace("a"))
			require.Empty(t, env.Operations("a", scripted.Destroy))
		})
		t.Run("the Cluster", func(t *testing.T) {
			t.Parallel()
			env := newEnvironmentIn(t, scope, previewed)
			env.User(fixture.ClusterWithoutControlPlane(fixture.Demo), fixture.CAPTCluster(fixture.Demo))
			env.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
			env.awaitStage(infrav1.RolloutComplete)
			env.previewing(slow, fixture.VPC)
			env.Remove(&clusterv1.Cluster{}, fixture.Demo)
			env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
			env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, fixture.VPC)
			env.awaitNoPreviews(fixture.VPC)
			env.requireOnlyPlanned(fixture.VPC)
			require.Len(t, env.Operations(fixture.VPC, scripted.Destroy), 1)
			env.RequireNothingLeft()
		})
	})
}

// No garbage collector deletes a preview that is not in the namespace.
func TestAClusterWidePreviewEndsWithTheNamespace(t *testing.T) {
	t.Parallel()
	env := newEnvironmentIn(t, terraform.ScopeCluster, previewed)
	env.use("a", "b")
	env.awaitReady("a", "b")
	env.awaitStage(infrav1.RolloutComplete)
	env.previewing(scripted.Step{Delay: 3 * time.Second}, "a", "b")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	require.NoError(t, sandbox.AllowDelete(t.Context(), env.Client, namespace))
	require.NoError(t, env.Delete(t.Context(), namespace))
	fixture.EventuallyGone(t, tick, env.Client, client.ObjectKeyFromObject(namespace), namespace)
	env.awaitNoPreviews("a", "b")
	env.requireOnlyPlanned("a", "b")
	for _, name := range []string{"a", "b"} {
		require.Nil(t, env.Workspace(name))
		require.Len(t, env.Operations(name, scripted.Destroy), 1)
	}
	env.RequireNothingLeft()
}

// A user removes the finalizer, so that CAPT cannot delete the preview with its object.
func TestAClusterWidePreviewWithoutItsObjectIsDeleted(t *testing.T) {
	t.Parallel()
	env := newEnvironmentIn(t, terraform.ScopeCluster, previewed)
	env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {vpc_name: a}", "deletionPolicy: Retain"))
	env.awaitReady("a")
	env.awaitStage(infrav1.RolloutComplete)
	// The preview is created for an object that is gone a moment later, as by a manager that no longer leads.
	orphan := &unstructured.Unstructured{Object: map[string]any{"spec": env.Workspace("a").Object["spec"]}}
	orphan.SetGroupVersionKind(env.Scope.GroupVersionKind())
	orphan.SetName("gone-preview-" + env.Namespace)
	orphan.SetLabels(map[string]string{naming.PreviewLabel: "true"})
	orphan.SetAnnotations(map[string]string{
		naming.PreviewOfAnnotation: env.Namespace + "/gone", "crossplane.io/external-name": env.Workspace("a").GetAnnotations()["crossplane.io/external-name"],
	})
	require.NoError(t, unstructured.SetNestedStringSlice(orphan.Object, []string{"Observe"}, "spec", "managementPolicies"))
	unstructured.RemoveNestedField(orphan.Object, "spec", "writeConnectionSecretToRef")
	require.NoError(t, env.Create(t.Context(), orphan))
	env.awaitNoPreviews("gone")
	env.requireOnlyPlanned("gone")
	require.Len(t, env.Cloud(), 1)
	require.NotNil(t, env.Workspace("a"))
}

// A preview has the state and the content of a Workspace. Commands do not show it as one, and no other object gets it.
func TestAPreviewIsNotTakenForAWorkspace(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := newEnvironmentIn(t, scope, previewed)
		env.User(env.ControlPlaneTemplate(fixture.ControlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
		env.AwaitState(infrav1.StateReady, "")
		env.awaitStage(infrav1.RolloutComplete)
		env.previewing(scripted.Step{Hang: true}, fixture.VPC)
		key, name := env.previewKey(fixture.VPC), env.Namespace+"/"+fixture.Demo
		preview := env.preview(fixture.VPC)
		require.NotNil(t, preview)

		plan := filepath.Join(t.TempDir(), "plan.json")
		for _, command := range [][]string{
			{"get", "-n", env.Namespace, "-o", "wide"}, {"get", "-n", env.Namespace, "-o", "json"}, {"describe", name}, {"tree", name}, {"tree", name, "-o", "json"},
			{"report", "-n", env.Namespace, "-o", "html"}, {"logs", name}, {"template", "status", env.Namespace + "/" + fixture.VPCTemplate},
			{"migrate", "plan", "-n", env.Namespace, "--out", plan}, {"migrate", "status", "-n", env.Namespace},
		} {
			assert.NotContains(t, env.Captctl(command...), key.Name, "%v", command)
		}

		// A user names the preview, and confirms its UID, for an object of their own.
		env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "other", "variables: {vpc_name: other}", "workspaceName: "+key.Name))
		env.Edit(&infrav1.WorkspaceTemplateApply{}, "other", `{"metadata":{"annotations":{"`+naming.AdoptWorkspaceAnnotation+`":"`+string(preview.GetUID())+`"}}}`)
		env.Await(&infrav1.WorkspaceTemplateApply{}, "other", infrav1.WorkspaceConflictCondition, metav1.ConditionTrue, "", key.Name)
		env.Remove(&infrav1.WorkspaceTemplateApply{}, "other")
		env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, "other")
		still := env.preview(fixture.VPC)
		require.NotNil(t, still)
		require.Equal(t, preview.GetUID(), still.GetUID())
		require.Nil(t, still.GetDeletionTimestamp())
		require.Equal(t, preview.Object["spec"], still.Object["spec"])

		require.NoError(t, env.Scripts.SetScript(key, scripted.Script{}))
		env.awaitStage(infrav1.RolloutWaitingForApproval)
		env.awaitNoPreviews(fixture.VPC)
		env.requireOnlyPlanned(fixture.VPC)
		assert.Len(t, env.Cloud(), 2)
		assert.Empty(t, env.Operations(fixture.VPC, scripted.Destroy))
	})
}
