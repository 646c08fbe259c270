// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package defects_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// The control plane of a CAPTCluster was looked up by its own name. One of another name was not found, and the VPC destroyed
// under a live EKS.
func TestDefect04VPCOutlivesAControlPlaneOfAnotherName(t *testing.T) {
	t.Parallel()
	const vpc, controlPlane = "net-vpc", "plane-eks-controlplane-apply"
	inEitherScope(t, func(w *fixture.World) {
		w.User(append(w.Templates(), fixture.ClusterOf("net", "plane"), fixture.CAPTCluster("net"), fixture.CAPTControlPlane("plane"))...)
		w.Await(&controlplanev1.CAPTControlPlane{}, "plane", controlplanev1.ReadyCondition, metav1.ConditionTrue, "")

		w.Remove(&infrav1.CAPTCluster{}, "net")
		w.Await(&infrav1.CAPTCluster{}, "net", infrav1.DeletingCondition, metav1.ConditionTrue,
			infrav1.WaitingForControlPlaneDeletionReason, "waiting for the deletion of CAPTControlPlane plane")
		require.Empty(w, w.Operations(vpc, scripted.Destroy))
		require.Nil(w, w.Workspace(vpc).GetDeletionTimestamp())

		w.Remove(&clusterv1.Cluster{}, fixture.Demo)
		w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
		require.NotEmpty(w, w.Operations(controlPlane, scripted.Destroy))
		w.RequireDestroyedInOrder(vpc, controlPlane)
		w.RequireNothingLeft()
	})
}

// The dependency on the VPC was there only if its WorkspaceTemplateApply was. GitOps applies everything at once, in any order.
func TestDefect15ControlPlaneWaitsForTheVPCInAnyOrder(t *testing.T) {
	t.Parallel()
	objects := map[string]func(w *fixture.World) []string{
		"Templates":        (*fixture.World).Templates,
		"Cluster":          func(*fixture.World) []string { return []string{fixture.Cluster()} },
		"CAPTCluster":      func(*fixture.World) []string { return []string{fixture.CAPTCluster(fixture.Demo)} },
		"CAPTControlPlane": func(*fixture.World) []string { return []string{fixture.CAPTControlPlane(fixture.Demo)} },
	}
	for i, order := range permutations([]string{"Cluster", "CAPTCluster", "CAPTControlPlane"}) {
		// Templates come first in one half of the orders, last in the other.
		if order = append([]string{"Templates"}, order...); i%2 == 1 {
			order = append(order[1:], order[0])
		}
		t.Run(strings.Join(order, "-"), func(t *testing.T) {
			t.Parallel()
			w := shared.NewWorld(t, terraform.ScopeNamespaced)
			w.Play(fixture.VPC, scripted.Script{Apply: scripted.Step{Delay: time.Second}})
			for _, kind := range order {
				w.User(objects[kind](w)...)
			}
			w.AwaitState(controlplanev1.StateReady, "")
			network, control := w.Operations(fixture.VPC, scripted.Apply), w.Operations(fixture.ControlPlane, scripted.Init)
			require.Len(w, network, 1)
			require.True(w, network[0].End.Before(control[0].Start), "the control plane was begun before the VPC was there")

			apply := &infrav1.WorkspaceTemplateApply{}
			require.True(w, w.Exists(apply, fixture.ControlPlane))
			require.Equal(w, []infrav1.WorkspaceDependency{{Name: w.WorkspaceKey(fixture.VPC).Name, Namespace: w.Namespace}}, apply.Spec.WaitForWorkspaces)
			require.NotEmpty(w, apply.Spec.Variables["vpc_id"])
		})
	}
}

// permutations lists all orders of a few words.
func permutations(words []string) (all [][]string) {
	if len(words) < 2 {
		return [][]string{words}
	}
	for i := range words {
		others := append(append([]string{}, words[:i]...), words[i+1:]...)
		for _, rest := range permutations(others) {
			all = append(all, append([]string{words[i]}, rest...))
		}
	}
	return all
}
