// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletion_test deletes a Cluster in every state of its control plane, with every obstacle. Each cell of the
// matrix ends, or says what it waits for and who can help; and it ends when that help comes.
// docs/deletion.md holds the matrix as a table.
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
func adopted(t *testing.T, scope terraform.Scope) *fixture.World {
	t.Helper()
	w := shared.NewWorld(t, scope)
	w.User(w.Everything()...)
	w.AwaitState(controlplanev1.StateReady, "")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.True(t, w.Exists(controlPlane, fixture.Demo))
	w.User(w.Template("helper", helperModule, "cluster_name"))
	waiting := fmt.Sprintf("waitForWorkspaces: [{name: %s}]", w.WorkspaceKey(fixture.ControlPlane).Name)
	w.User(helper(kubeconfigHelper, "helper", controlPlane, waiting), helper(spotRoleCheck, "helper", controlPlane, "deletionPolicy: Retain"))
	for _, name := range []string{kubeconfigHelper, spotRoleCheck} {
		w.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	}
	w.User(helper(spotRoleCreate, "missing", controlPlane, "deletionPolicy: Retain"))
	w.Edit(&infrav1.WorkspaceTemplateApply{}, spotRoleCreate, `{"metadata":{"finalizers":["`+infrav1.LegacyWorkspaceTemplateApplyFinalizer+`"]}}`)
	return w
}

// helper is a WorkspaceTemplateApply, controlled by an owner if there is one.
func helper(name, template string, owner *controlplanev1.CAPTControlPlane, more ...string) string {
	references := ""
	if owner != nil {
		references = fmt.Sprintf(`, ownerReferences: [{apiVersion: %s, kind: CAPTControlPlane, name: %s, uid: %s, controller: true, blockOwnerDeletion: true}]`,
			controlplanev1.GroupVersion, owner.Name, owner.UID)
	}
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: %s%s}
spec:
  templateRef: {name: %s}
  variables: {cluster_name: demo}
  %s
`, name, references, template, strings.Join(more, "\n  "))
}

func requireAllGone(w *fixture.World) {
	w.Helper()
	for _, name := range []string{kubeconfigHelper, spotRoleCheck, spotRoleCreate, fixture.ControlPlane, fixture.VPC} {
		w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, name)
	}
	for _, object := range []client.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		w.AwaitGone(object, fixture.Demo)
	}
	w.RequireDestroyedInOrder(fixture.ControlPlane, kubeconfigHelper)
	w.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	require.Empty(w, w.Operations(spotRoleCheck, scripted.Destroy), "the Spot role belongs to the whole AWS account")
}

// The helper for the kubeconfig waits for the EKS Workspace, whose deletion waits for the helper.
func TestSafety06HelpersOfAnAdoptedControlPlaneAreDeletedFirst(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(w *fixture.World){
		"Cluster": func(w *fixture.World) { w.Remove(&clusterv1.Cluster{}, fixture.Demo) },
		"FixedOrder": func(w *fixture.World) {
			w.Remove(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
			w.Remove(&clusterv1.Cluster{}, fixture.Demo)
		},
		"ForegroundDeletion": func(w *fixture.World) {
			w.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
		},
		"Namespace": func(w *fixture.World) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
			require.NoError(w, sandbox.AllowDelete(w.Context(), w.Client, namespace))
			require.NoError(w, w.Delete(w.Context(), namespace))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := adopted(t, terraform.ScopeCluster)
			remove(w)
			requireAllGone(w)
		})
	}
}

// What a user created on top of the control plane is not deleted with it.
func TestSafety06WhatAUserCreatedOnTopStillBlocks(t *testing.T) {
	t.Parallel()
	w := adopted(t, terraform.ScopeNamespaced)
	w.User(helper("karpenter", "helper", nil, fmt.Sprintf("waitForWorkspaces: [{name: %s}]", w.WorkspaceKey(fixture.ControlPlane).Name)))
	w.Await(&infrav1.WorkspaceTemplateApply{}, "karpenter", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	w.Remove(&clusterv1.Cluster{}, fixture.Demo)
	w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.DeletingCondition, metav1.ConditionTrue,
		controlplanev1.WaitingForWorkspaceTemplateApplyDeletionReason, fixture.ControlPlane, "WorkspaceTemplateApply karpenter")
	w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, kubeconfigHelper)
	require.Empty(w, w.Operations(fixture.ControlPlane, scripted.Destroy))
	w.Remove(&infrav1.WorkspaceTemplateApply{}, "karpenter")
	requireAllGone(w)
}

// A helper that is paused holds the deletion up, and the control plane reports which one.
func TestSafety06APausedHelperIsReported(t *testing.T) {
	t.Parallel()
	w := adopted(t, terraform.ScopeNamespaced)
	w.Edit(&infrav1.WorkspaceTemplateApply{}, kubeconfigHelper, pause)
	w.Remove(&clusterv1.Cluster{}, fixture.Demo)
	w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.DeletingCondition, metav1.ConditionTrue,
		controlplanev1.WaitingForWorkspaceTemplateApplyDeletionReason, kubeconfigHelper, clusterv1.PausedAnnotation)
	require.Empty(w, w.Operations(fixture.ControlPlane, scripted.Destroy))
	w.Edit(&infrav1.WorkspaceTemplateApply{}, kubeconfigHelper, resume)
	requireAllGone(w)
}
