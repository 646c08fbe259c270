// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// column is what happens besides the deletion.
type column struct {
	name  string
	scope terraform.Scope
	// obstruct creates the obstacle; it may be nil.
	obstruct func(c *cell)
	// destroy is how destroys behave until the user resolves the obstacle.
	destroy scripted.Step
	// namespace reports whether the namespace is deleted, and not the Cluster.
	namespace bool
	// options are those of the deletion.
	options []client.DeleteOption
	// frozen reports whether no Workspace is deleted before the user resolves the obstacle.
	frozen bool
	// report is what is reported until the user resolves the obstacle; nil when the deletion ends without help.
	report func(r row) *report
	// help is what takes it away.
	help     func(c *cell)
	helpText string
	// mayEnd reports whether the deletion may also end by itself: it is a race between others.
	mayEnd bool
	// leavesCloud reports whether the user must destroy by hand, in whatever order.
	leavesCloud bool
}

// report is a condition that users read.
type report struct {
	object          engine.Object
	kind, name      string
	condition       string
	reason, message string
}

var columns = []column{
	{name: "nothing else"},
	{name: "namespace deleted", scope: terraform.ScopeCluster, namespace: true},
	{
		name: "namespace deleted, Workspaces in it", namespace: true,
		report: ofApply(infrav1.NamespaceTerminatingReason, "delete the Cluster first, and the namespace when the Cluster is gone"),
		help:   releaseWorkspaces, helpText: "destroy the resources of the state manually, and remove the finalizers of the Workspaces", mayEnd: true, leavesCloud: true,
	},
	{name: "foreground deletion", options: []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationForeground)}},
	{name: "template missing", obstruct: forceTemplates},
	{
		name: "ProviderConfig missing", obstruct: removeProviderConfig,
		report: ofApply(infrav1.ProviderConfigFailedReason, "Create or correct the ProviderConfig"),
		help:   func(c *cell) { c.User(c.ProviderConfig()) }, helpText: "recreate the ProviderConfig",
	},
	{
		name: "Cluster paused", scope: terraform.ScopeCluster, obstruct: pauseCluster, frozen: true,
		report: func(row) *report {
			return &report{&clusterv1.Cluster{}, "Cluster", fixture.Demo, clusterv1.PausedCondition, clusterv1.PausedReason, "Cluster spec.paused is set to true"}
		},
		help: func(c *cell) { c.Edit(&clusterv1.Cluster{}, fixture.Demo, `{"spec":{"paused":false}}`) }, helpText: "unpause the Cluster",
	},
	{
		name: "objects paused", obstruct: pauseObjects, frozen: true, report: ofOwner("nothing is deleted while the object is paused"),
		help: resumeObjects, helpText: "unpause the objects",
	},
	{
		name: "destroy failing", scope: terraform.ScopeCluster, destroy: scripted.Step{Stderr: inUse},
		report: ofApply(infrav1.DestroyFailedReason, "DependencyViolation"),
		help:   func(c *cell) { c.scriptDestroy(scripted.Step{}) }, helpText: "delete the AWS resources that use the VPC",
	},
}

// providerDown is a column that all Clusters of the control plane share.
var providerDown = column{
	name: "provider down", report: ofApply(infrav1.WaitingForWorkspaceDeletionReason, "check provider-terraform"),
	helpText: "start the provider",
}

// ofApply is reported by the WorkspaceTemplateApply that is deleted first: that of the control plane, or of the VPC where there is no
// other.
func ofApply(reason, message string) func(row) *report {
	return func(r row) *report {
		name := fixture.VPC
		if r.held {
			name = fixture.ControlPlane
		}
		return &report{&infrav1.WorkspaceTemplateApply{}, "WorkspaceTemplateApply", name, infrav1.DeletingCondition, reason, message}
	}
}

// ofOwner is reported by the owner that is deleted first.
func ofOwner(message string) func(row) *report {
	return func(r row) *report {
		if !r.held {
			return &report{&infrav1.CAPTCluster{}, "CAPTCluster", fixture.Demo, infrav1.DeletingCondition, infrav1.DeletingReason, message}
		}
		return &report{&controlplanev1.CAPTControlPlane{}, "CAPTControlPlane", fixture.Demo, infrav1.DeletingCondition, infrav1.DeletingReason, message}
	}
}

// releaseWorkspaces is what a user does after destroying by hand what the state lists. One that is released before it is deleted
// gets its finalizer back from the provider, so it is done until the namespace is gone.
func releaseWorkspaces(c *cell) {
	c.Eventually(func() string {
		for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
			if workspace := c.Workspace(apply); workspace != nil && workspace.GetDeletionTimestamp() != nil {
				c.release(workspace)
			}
		}
		return fixture.Unless(!c.Exists(&corev1.Namespace{}, c.Namespace), "the namespace is still there")
	})
}

// forceTemplates takes templates away that are in use, finalizer and all.
func forceTemplates(c *cell) {
	for _, name := range []string{fixture.VPCTemplate, fixture.ControlPlaneTemplate} {
		template := &infrav1.WorkspaceTemplate{}
		c.RemoveAllowed(template, name)
		c.release(template)
		c.AwaitGone(template, name)
	}
}

func removeProviderConfig(c *cell) {
	config := &unstructured.Unstructured{}
	require.NoError(c, yaml.Unmarshal([]byte(c.ProviderConfig()), &config.Object))
	require.NoError(c, c.Delete(c.Context(), config))
}

func pauseCluster(c *cell) {
	c.Edit(&clusterv1.Cluster{}, fixture.Demo, `{"spec":{"paused":true}}`)
	c.awaitPaused()
}

func pauseObjects(c *cell) {
	c.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, pause)
	c.Edit(&infrav1.CAPTCluster{}, fixture.Demo, pause)
	c.awaitPaused()
}

func (c *cell) awaitPaused() {
	c.Helper()
	for _, object := range []engine.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}} {
		c.Await(object, fixture.Demo, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	}
}

func resumeObjects(c *cell) {
	for _, object := range []client.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}} {
		if c.Exists(object, fixture.Demo) {
			c.Edit(object, fixture.Demo, resume)
		}
	}
}

// An edited template, and a foreground deletion, reached what a paused owner controls.
func TestNothingOfAPausedOwnerIsChangedOrDestroyed(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeCluster)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	pauseObjects(&cell{Environment: env})
	applies := map[string]string{fixture.VPC: "CAPTCluster demo, which controls this object", fixture.ControlPlane: "CAPTControlPlane demo, which controls this object"}
	versions := map[string]string{}
	for name, message := range applies {
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, message)
		versions[name] = env.Workspace(name).GetResourceVersion()
	}

	env.User(env.VPCTemplate(fixture.VPCModule+"# edited\n"), env.ControlPlaneTemplate(fixture.ControlPlaneModule+"# edited\n"))
	env.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
	for name := range applies {
		env.Await(&infrav1.WorkspaceTemplateApply{}, name, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DeletingReason, "nothing is deleted while the object is paused")
		require.Equal(t, versions[name], env.Workspace(name).GetResourceVersion(), "neither the edit nor the deletion reaches Terraform")
		require.Empty(t, env.Operations(name, scripted.Destroy))
	}

	resumeObjects(&cell{Environment: env})
	for _, object := range []client.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		env.AwaitGone(object, fixture.Demo)
	}
	env.RequireNothingLeft()
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
}

// The EKS cluster was released, and then its VPC destroyed.
func TestAVPCIsNotDestroyedUnderARetainedControlPlane(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]client.DeleteOption{
		"Background": nil,
		"Foreground": {client.PropagationPolicy(metav1.DeletePropagationForeground)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeCluster)
			env.User(env.Everything()...)
			env.AwaitState(infrav1.StateReady, "")
			env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, `{"spec":{"deletionPolicy":"Retain"}}`)
			before := env.Workspace(fixture.ControlPlane)

			env.Remove(&clusterv1.Cluster{}, fixture.Demo, options...)
			env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue,
				infrav1.DeletionPolicyConflictReason, "spec.vpc.template.deletionPolicy of CAPTCluster demo", "WorkspaceTemplateApply "+fixture.ControlPlane+" to Delete")
			require.True(t, env.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane))

			env.Edit(&infrav1.CAPTCluster{}, fixture.Demo, `{"spec":{"vpc":{"template":{"deletionPolicy":"Retain"}}}}`)
			env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
			env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, fixture.VPC)
			for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
				require.NotNil(t, env.Workspace(apply), apply)
				require.Empty(t, env.Operations(apply, scripted.Destroy), apply)
			}
			require.Equal(t, before.GetResourceVersion(), env.Workspace(fixture.ControlPlane).GetResourceVersion())
		})
	}
}
