// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// The control plane of a CAPTCluster was looked up by its own name. One of another name was not found, and the VPC destroyed
// under a live EKS.
func TestVPCOutlivesAControlPlaneOfAnotherName(t *testing.T) {
	t.Parallel()
	const vpc, controlPlane = "net-vpc", "plane-eks-controlplane-apply"
	shared.InEitherScope(t, func(env *fixture.Environment) {
		env.User(append(env.Templates(), fixture.ClusterOf("net", "plane"), fixture.CAPTCluster("net"), fixture.CAPTControlPlane("plane"))...)
		env.Await(&controlplanev1.CAPTControlPlane{}, "plane", controlplanev1.ReadyCondition, metav1.ConditionTrue, "")

		env.RemoveAllowed(&infrav1.CAPTCluster{}, "net")
		env.Await(&infrav1.CAPTCluster{}, "net", infrav1.DeletingCondition, metav1.ConditionTrue,
			infrav1.WaitingForControlPlaneDeletionReason, "waiting for the deletion of CAPTControlPlane plane")
		require.Empty(env, env.Operations(vpc, scripted.Destroy))
		require.Nil(env, env.Workspace(vpc).GetDeletionTimestamp())

		env.Remove(&clusterv1.Cluster{}, fixture.Demo)
		env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		require.NotEmpty(env, env.Operations(controlPlane, scripted.Destroy))
		env.RequireDestroyedInOrder(vpc, controlPlane)
		env.RequireNothingLeft()
	})
}

// The dependency on the VPC was there only if its WorkspaceTemplateApply was. GitOps applies everything at once, in any order.
func TestControlPlaneWaitsForTheVPCInAnyOrder(t *testing.T) {
	t.Parallel()
	objects := map[string]func(env *fixture.Environment) []string{
		"Templates":        (*fixture.Environment).Templates,
		"Cluster":          func(*fixture.Environment) []string { return []string{fixture.Cluster()} },
		"CAPTCluster":      func(*fixture.Environment) []string { return []string{fixture.CAPTCluster(fixture.Demo)} },
		"CAPTControlPlane": func(*fixture.Environment) []string { return []string{fixture.CAPTControlPlane(fixture.Demo)} },
	}
	for _, order := range fixture.Sample(2, 2, [][]string{
		{"Templates", "Cluster", "CAPTCluster", "CAPTControlPlane"}, {"Cluster", "CAPTControlPlane", "CAPTCluster", "Templates"},
		{"Templates", "CAPTCluster", "Cluster", "CAPTControlPlane"}, {"CAPTCluster", "CAPTControlPlane", "Cluster", "Templates"},
		{"Templates", "CAPTControlPlane", "Cluster", "CAPTCluster"}, {"CAPTControlPlane", "CAPTCluster", "Cluster", "Templates"},
	}) {
		t.Run(strings.Join(order, "-"), func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
			env.SetScript(fixture.VPC, scripted.Script{Apply: scripted.Step{Delay: time.Second}})
			for _, kind := range order {
				env.User(objects[kind](env)...)
			}
			env.AwaitState(infrav1.StateReady, "")
			network, control := env.Operations(fixture.VPC, scripted.Apply), env.Operations(fixture.ControlPlane, scripted.Init)
			require.Len(env, network, 1)
			require.True(env, network[0].End.Before(control[0].Start), "the control plane was begun before the VPC was there")

			apply := &infrav1.WorkspaceTemplateApply{}
			require.True(env, env.Exists(apply, fixture.ControlPlane))
			require.Equal(env, []infrav1.WorkspaceDependency{{Name: env.WorkspaceKey(fixture.VPC).Name, Namespace: env.Namespace}}, apply.Spec.WaitForWorkspaces)
			require.NotEmpty(env, apply.Spec.Variables.Text("vpc_id"))
		})
	}
}

// A VPC marked "retain" was destroyed by garbage collection, since its WorkspaceTemplateApply did not know of the mark.
func TestRetainedVPCSurvivesGarbageCollection(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name   string
		remove func(env *fixture.Environment)
		// whole reports whether the whole Cluster is deleted, and not the CAPTCluster alone.
		whole bool
	}{
		{"Background", func(env *fixture.Environment) {
			env.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationBackground))
		}, true},
		{"Foreground", func(env *fixture.Environment) {
			env.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}, true},
		// Another client removes the finalizer: the garbage collector alone deletes the WorkspaceTemplateApply.
		{"Forced", func(env *fixture.Environment) {
			env.RemoveAllowed(&infrav1.CAPTCluster{}, fixture.Demo)
			env.Edit(&infrav1.CAPTCluster{}, fixture.Demo, `{"metadata":{"finalizers":null}}`)
		}, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			shared.InEitherScope(t, func(env *fixture.Environment) {
				env.User(append(env.Templates(), fixture.CAPTCluster(fixture.Demo, "deletionPolicy: Retain"))...)
				if !way.whole {
					env.User(fixture.ClusterWithoutControlPlane(fixture.Demo))
				} else {
					env.User(fixture.Cluster(), fixture.CAPTControlPlane(fixture.Demo))
					env.AwaitState(infrav1.StateReady, "")
				}
				env.AwaitVPC()
				before := env.Workspace(fixture.VPC)

				way.remove(env)
				env.AwaitGone(&infrav1.CAPTCluster{}, fixture.Demo)
				env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, fixture.VPC)
				if way.whole {
					env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
					require.Nil(env, env.Workspace(fixture.ControlPlane), "only the VPC is to be kept")
				}
				after := env.Workspace(fixture.VPC)
				require.NotNil(env, after)
				require.Equal(env, before.GetUID(), after.GetUID())
				require.Equal(env, before.GetResourceVersion(), after.GetResourceVersion(), "nothing was written to it")
				require.Empty(env, env.Operations(fixture.VPC, scripted.Destroy))
				require.Len(env, env.Cloud(), 1)
			})
		})
	}
}

// eventLines are the events about an object of a kind, in the order in which they happened: type, reason, and the condition.
func eventLines(env *fixture.Environment, kind string) []string {
	env.Helper()
	var lines []string
	for _, event := range env.Events() {
		if event.Regarding.Kind == kind {
			lines = append(lines, event.Type+" "+event.Action+" "+event.Reason)
		}
	}
	return lines
}

// What "kubectl describe" shows at 3 a.m. is what happened to the object, in order and without noise. CAPT v0.3 sent an event
// every ten seconds (defect 23).
func TestEventsReportTransitionsInOrder(t *testing.T) {
	t.Parallel()
	shared.InEitherScope(t, func(env *fixture.Environment) {
		env.SetScript(fixture.VPC, hangs)
		env.User(env.Everything()...)
		env.AwaitState(infrav1.StateValidating, controlplanev1.WaitingForInfrastructureReason)
		env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		env.SetScript(fixture.VPC, scripted.Script{})
		env.AwaitState(infrav1.StateProvisioning, infrav1.ApplyFailedReason)
		env.SetScript(fixture.ControlPlane, scripted.Script{})
		env.AwaitState(infrav1.StateReady, "")
		env.SetScript(fixture.ControlPlane, scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"a":"b"}}}`)
		env.AwaitState(infrav1.StateDegraded, infrav1.ApplyFailedReason)
		env.SetScript(fixture.ControlPlane, scripted.Script{})
		env.AwaitState(infrav1.StateReady, "")
		env.Remove(&clusterv1.Cluster{}, fixture.Demo)
		env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)

		// What passes quickly may never be seen: Cluster API and Terraform can be faster than a look. For the same reason, the end of a recovery
		// is reported with the first Ready or before it, so its events are compared among themselves.
		var lines, recovery []string
		for _, event := range eventLines(env, "CAPTControlPlane") {
			switch {
			case event == "Normal Ready WaitingForOwner" || event == "Normal Ready Provisioning":
			case strings.HasPrefix(event, "Normal Recovering "):
				recovery = append(recovery, event)
			default:
				lines = append(lines, event)
			}
		}
		assert.Equal(env, []string{
			"Normal Ready WaitingForInfrastructure",
			"Normal FieldsConsumed FieldsWithoutEffect", // The template of this test ignores the version.
			"Warning Ready ApplyFailed",
			"Normal Initialized Initialized",
			"Normal Ready Ready",
			"Warning Ready ApplyFailed",
			"Warning Degraded ApplyFailed",
			"Normal Ready Ready",
			"Normal Degraded NotDegraded",
			"Normal Ready Deleting",
			"Normal Deleting WaitingForWorkspaceTemplateApplyDeletion",
		}, lines)
		assert.Equal(env, []string{
			"Normal Recovering WaitingForRetry",
			"Normal Recovering NotRecovering",
			"Normal Recovering WaitingForRetry",
			"Normal Recovering NotRecovering",
		}, recovery)
	})
}
