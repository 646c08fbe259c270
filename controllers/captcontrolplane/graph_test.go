// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// vpcApply is the WorkspaceTemplateApply of the VPC.
func vpcApply(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	options = append([]builder.Option{builder.WithWorkspaceName("net"), builder.OwnedBy(vpc()), builder.UpToDate(nil), ofTemplate("vpc")}, options...)
	return builder.WorkspaceTemplateApply("demo-vpc", options...)
}

// become replaces an object with another state.
func (w *world) become(object client.Object) {
	w.Helper()
	live := object.DeepCopyObject().(client.Object)
	require.NoError(w, w.Client.Get(context.Background(), client.ObjectKeyFromObject(object), live))
	object.SetResourceVersion(live.GetResourceVersion())
	require.NoError(w, w.Client.Update(context.Background(), object))
}

func (w *world) dependencies() (lines []string) {
	for _, d := range w.get().Status.Dependencies {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", d.Direction, d.Kind, d.Name, d.Ready, d.Reason)))
	}
	return lines
}

func TestDependenciesAreReportedInTheStatusWriteOfTheChange(t *testing.T) {
	w := newWorld(t, append(prepared(), vpcApply())...)
	assert.Equal(t, []string{"patch", "apply " + applyName, "status"}, w.reconcile())
	assert.Contains(t, w.dependencies(), "Upstream WorkspaceTemplateApply "+applyName+" Unknown", "it was just created")
	w.terraformMade()
	w.reconcile()
	assert.Subset(t, w.dependencies(), []string{
		"Upstream WorkspaceTemplateApply " + applyName + " True", "Upstream WorkspaceTemplateApply demo-vpc True", "Upstream Workspace net True",
		"Upstream Secret demo-eks-connection True", "Downstream Secret demo-kubeconfig True", "Downstream Cluster demo False Provisioning",
	})
	assert.Empty(t, w.reconcile())
}

func TestANeighborCausesOneWritePerTransition(t *testing.T) {
	w := built(t)
	require.NoError(t, w.Client.Create(t.Context(), vpcApply()))
	assert.Equal(t, []string{"status"}, w.reconcile())
	for _, row := range []struct {
		state  builder.Option
		writes int
	}{
		{builder.UpToDate(map[string]string{"vpc_id": "vpc-1"}), 0},
		{builder.NotUpToDate(infrav1.QueuedReason, "queued"), 1},
		{builder.NotUpToDate(infrav1.ProvisioningReason, "first step"), 0},
		{builder.NotUpToDate(infrav1.ProvisioningReason, "second step"), 0},
		{builder.UpToDate(nil), 1},
	} {
		w.become(vpcApply(row.state))
		assert.Len(t, w.reconcile(), row.writes)
	}
}

func TestDependenciesAreKeptWhilePaused(t *testing.T) {
	w := built(t)
	before := w.dependencies()
	w.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	require.NoError(t, w.Client.Create(t.Context(), vpcApply(builder.WaitingForWorkspace("demo-eks-controlplane", ""))))
	w.reconcile()
	assert.Equal(t, before, w.dependencies())
	assert.False(t, conditions.Has(w.get(), controlplanev1.DependencyCycleCondition))
	w.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	w.reconcile()
	assert.NotEqual(t, before, w.dependencies())
}

func TestDependenciesOfAnUnadoptedControlPlaneAreNotWritten(t *testing.T) {
	w := newWorld(t, append(prepared(builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	})), builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("eks")))...)
	w.reconcile()
	assert.Equal(t, "True AdoptionRequired", w.story()["AdoptionRequired"])
	assert.Empty(t, w.dependencies())
}

// Neither the VPC nor the control plane exists, and each waits for the other.
func TestACycleThatNeverEndsIsAFailure(t *testing.T) {
	waits := builder.WaitingForWorkspace("demo-eks-controlplane", "")
	objects := prepared()
	objects[1] = builder.CAPTCluster("demo")
	w := newWorld(t, append(objects, vpcApply(builder.NotUpToDate(infrav1.WaitingForDependenciesReason, ""), waits))...)
	w.reconcile()
	assert.Equal(t, controlplanev1.StateFailed, w.get().Status.State)
	for _, conditionType := range []string{controlplanev1.DependencyCycleCondition, controlplanev1.ReadyCondition, controlplanev1.FailedCondition} {
		condition := conditions.Get(w.get(), conditionType)
		require.NotNil(t, condition, conditionType)
		assert.Equal(t, controlplanev1.DependencyCycleReason, condition.Reason)
		assert.Contains(t, condition.Message, "WorkspaceTemplateApply demo-vpc → WorkspaceTemplateApply "+applyName+" → CAPTCluster demo → WorkspaceTemplateApply demo-vpc")
		assert.Contains(t, condition.Message, "Remove spec.waitForWorkspaces[0] of WorkspaceTemplateApply demo-vpc")
	}
	assert.Empty(t, w.reconcile())

	w.become(vpcApply())
	w.become(vpc())
	w.reconcile()
	assert.Equal(t, "False NoDependencyCycle", w.story()["DependencyCycle"])
	assert.Equal(t, controlplanev1.StateProvisioning, w.get().Status.State)
}

func TestACycleOfWhatDependsOnTheControlPlaneIsNoFailure(t *testing.T) {
	addon := func(name, other string) client.Object {
		return builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName(name), builder.WaitingForWorkspace("demo-eks-controlplane", ""), builder.WaitingForWorkspace(other, ""))
	}
	objects := append(prepared(), addon("a", "b"), addon("b", "a"))
	objects[1] = builder.CAPTCluster("demo")
	w := newWorld(t, objects...)
	w.reconcile()
	assert.Equal(t, "True DependencyCycle", w.story()["DependencyCycle"])
	assert.Equal(t, "False WaitingForInfrastructure", w.story()["DependenciesReady"])
}

func TestACycleKeepsAControlPlaneThatExists(t *testing.T) {
	w := built(t)
	require.NoError(t, w.Client.Create(t.Context(), vpcApply(builder.WaitingForWorkspace("demo-eks-controlplane", ""))))
	w.reconcile()
	assert.Equal(t, "True DependencyCycle", w.story()["DependencyCycle"])
	assert.Equal(t, controlplanev1.StateReady, w.get().Status.State)
}

// What is not owned by the control plane is in its graph, too.
func TestEveryObjectOfTheGraphEnqueuesTheControlPlane(t *testing.T) {
	objects := append(prepared(), vpcApply(builder.WaitingForSecret("account"), builder.WaitingForWorkspace("base", "")),
		builder.WorkspaceTemplateApply(applyName, builder.WithWorkspaceName("eks"), builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.WaitingForWorkspace("net", "")))
	for _, object := range objects[:2] {
		builder.OwnedBy(builder.Cluster("demo"))(object)
	}
	w := newWorld(t, objects...)
	for name, got := range map[string]any{
		"the VPC":                          w.ofApply(t.Context(), vpcApply()),
		"what the VPC waits for":           w.ofApply(t.Context(), builder.WorkspaceTemplateApply("base", builder.WithWorkspaceName("base"))),
		"what waits for the control plane": w.ofApply(t.Context(), builder.WorkspaceTemplateApply("addon", builder.WaitingForWorkspace("eks", ""))),
		"a Secret that the VPC waits for":  w.ofSecret(t.Context(), builder.SecretWith("account", nil)),
		"the template of the VPC":          w.ofTemplate(t.Context(), builder.WorkspaceTemplate("vpc")),
		"its own template":                 w.ofTemplate(t.Context(), builder.WorkspaceTemplate("eks")),
	} {
		assert.Contains(t, got, demo()[0], name)
	}
	assert.Empty(t, w.ofApply(t.Context(), builder.WorkspaceTemplateApply("unrelated", builder.WithWorkspaceName("unrelated"))))
	assert.Empty(t, w.ofTemplate(t.Context(), builder.WorkspaceTemplate("unrelated")))
}
