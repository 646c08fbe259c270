// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

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
