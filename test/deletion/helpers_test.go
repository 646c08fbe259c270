// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletion_test deletes a Cluster in every state of its control plane, with every obstacle. Each cell of the
// matrix ends, or says what it waits for and who can help; and it ends when that help comes.
// docs/deletion-reference.md holds the matrix as a table.
package deletion_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// Helpers that CAPT v0.3 created for each control plane, as an adoption leaves them.
const (
	kubeconfigHelper = "demo-kubeconfig-apply"
	spotRoleCheck    = "demo-spot-role-check"
	spotRoleCreate   = "demo-spot-role-create"
)

const helperModule = `
variable "cluster_name" { type = string }
resource "terraform_data" "helper" { input = var.cluster_name }
`

// adopted makes a Cluster with the helpers of CAPT v0.3: one that waits for the EKS Workspace, one that is retained, and one that
// was never applied because its template does not exist.
func adopted(t *testing.T, scope terraform.Scope) *fixture.Environment {
	t.Helper()
	env := shared.NewEnvironment(t, scope)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.True(t, env.Exists(controlPlane, fixture.Demo))
	env.User(env.Template("helper", helperModule, "cluster_name"))
	waiting := fmt.Sprintf("waitForWorkspaces: [{name: %s}]", env.WorkspaceKey(fixture.ControlPlane).Name)
	env.User(helper(kubeconfigHelper, "helper", controlPlane, waiting), helper(spotRoleCheck, "helper", controlPlane, "deletionPolicy: Retain"))
	for _, name := range []string{kubeconfigHelper, spotRoleCheck} {
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	}
	env.User(helper(spotRoleCreate, "missing", controlPlane, "deletionPolicy: Retain"))
	env.Edit(&infrav1.WorkspaceTemplateApply{}, spotRoleCreate, `{"metadata":{"finalizers":["`+infrav1.LegacyWorkspaceTemplateApplyFinalizer+`"]}}`)
	return env
}

// helper is a WorkspaceTemplateApply, controlled by an owner if there is one.
func helper(name, template string, owner *controlplanev1.CAPTControlPlane, more ...string) string {
	document := fixture.WorkspaceTemplateApply(template, name, append(more, "variables: {cluster_name: demo}")...)
	if owner == nil {
		return document
	}
	references := fmt.Sprintf(`ownerReferences: [{apiVersion: %s, kind: CAPTControlPlane, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]`,
		controlplanev1.GroupVersion, owner.Name, owner.UID)
	return strings.Replace(document, "metadata: {", "metadata: {"+references+", ", 1)
}

func requireAllGone(env *fixture.Environment) {
	env.Helper()
	for _, name := range []string{kubeconfigHelper, spotRoleCheck, spotRoleCreate, fixture.ControlPlane, fixture.VPC} {
		env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, name)
	}
	for _, object := range []client.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		env.AwaitGone(object, fixture.Demo)
	}
	env.RequireDestroyedInOrder(fixture.ControlPlane, kubeconfigHelper)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	require.Empty(env, env.Operations(spotRoleCheck, scripted.Destroy), "the Spot role belongs to the whole AWS account")
}

// The helper for the kubeconfig waits for the EKS Workspace, whose deletion waits for the helper.
func TestHelpersOfAnAdoptedControlPlaneAreDeletedFirst(t *testing.T) {
	t.Parallel()
	for _, deletion := range fixture.Sample(0, 1, []struct {
		name   string
		remove func(env *fixture.Environment)
	}{
		{"Cluster", func(env *fixture.Environment) { env.Remove(&clusterv1.Cluster{}, fixture.Demo) }},
		{"FixedOrder", func(env *fixture.Environment) {
			env.RemoveAllowed(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
			env.Remove(&clusterv1.Cluster{}, fixture.Demo)
		}},
		{"ForegroundDeletion", func(env *fixture.Environment) {
			env.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}},
		{"Namespace", func(env *fixture.Environment) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
			require.NoError(env, sandbox.AllowDelete(env.Context(), env.Client, namespace))
			require.NoError(env, env.Delete(env.Context(), namespace))
		}},
	}) {
		t.Run(deletion.name, func(t *testing.T) {
			t.Parallel()
			env := adopted(t, terraform.ScopeCluster)
			deletion.remove(env)
			requireAllGone(env)
		})
	}
}

// What a user created on top of the control plane is not deleted with it.
func TestWhatAUserCreatedOnTopStillBlocks(t *testing.T) {
	t.Parallel()
	env := adopted(t, terraform.ScopeNamespaced)
	env.User(helper("karpenter", "helper", nil, fmt.Sprintf("waitForWorkspaces: [{name: %s}]", env.WorkspaceKey(fixture.ControlPlane).Name)))
	env.Await(&infrav1.WorkspaceTemplateApply{}, "karpenter", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue,
		infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, fixture.ControlPlane, "WorkspaceTemplateApply karpenter")
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, kubeconfigHelper)
	require.Empty(env, env.Operations(fixture.ControlPlane, scripted.Destroy))
	env.Remove(&infrav1.WorkspaceTemplateApply{}, "karpenter")
	requireAllGone(env)
}

// A helper that is paused holds the deletion up, and the control plane reports which one.
func TestAPausedHelperIsReported(t *testing.T) {
	t.Parallel()
	env := adopted(t, terraform.ScopeNamespaced)
	env.Edit(&infrav1.WorkspaceTemplateApply{}, kubeconfigHelper, pause)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue,
		infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, kubeconfigHelper, clusterv1.PausedAnnotation)
	require.Empty(env, env.Operations(fixture.ControlPlane, scripted.Destroy))
	env.Edit(&infrav1.WorkspaceTemplateApply{}, kubeconfigHelper, resume)
	requireAllGone(env)
}
