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
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
func (env *environment) become(object client.Object) {
	env.Helper()
	live := object.DeepCopyObject().(client.Object)
	require.NoError(env, env.Client.Get(context.Background(), client.ObjectKeyFromObject(object), live))
	object.SetResourceVersion(live.GetResourceVersion())
	require.NoError(env, env.Client.Update(context.Background(), object))
}

func (env *environment) dependencies() (lines []string) {
	for _, d := range env.get().Status.Dependencies {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", d.Direction, d.Kind, d.Name, d.Ready, d.Reason)))
	}
	return lines
}

func TestDependenciesAreReportedInTheStatusWriteOfTheChange(t *testing.T) {
	env := newEnvironment(t, append(prepared(), vpcApply())...)
	assert.Equal(t, []string{"patch", "apply " + applyName, "status"}, env.reconcile())
	assert.Contains(t, env.dependencies(), "Upstream WorkspaceTemplateApply "+applyName+" Unknown", "it was just created")
	assert.Subset(t, env.dependencies(), []string{"Downstream Secret demo-kubeconfig False NotFound", "Downstream Secret demo-user-kubeconfig False NotFound"})
	env.terraformMade()
	env.reconcile()
	assert.Subset(t, env.dependencies(), []string{
		"Upstream WorkspaceTemplateApply " + applyName + " True", "Upstream WorkspaceTemplateApply demo-vpc True", "Upstream Workspace net True",
		"Upstream Secret demo-eks-connection True", "Downstream Secret demo-kubeconfig True", "Downstream Secret demo-user-kubeconfig True", "Downstream Cluster demo False Provisioning",
	})
	assert.Empty(t, env.reconcile())
}

func TestANeighborCausesOneWritePerTransition(t *testing.T) {
	env := built(t)
	require.NoError(t, env.Client.Create(t.Context(), vpcApply()))
	assert.Equal(t, []string{"status"}, env.settle())
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
		env.become(vpcApply(row.state))
		assert.Len(t, env.settle(), row.writes)
	}
}

func TestDependenciesAreKeptWhilePaused(t *testing.T) {
	env := built(t)
	before := env.dependencies()
	env.spec(func(c *controlplanev1.CAPTControlPlane) { builder.Paused()(c) })
	require.NoError(t, env.Client.Create(t.Context(), vpcApply(builder.WaitingForWorkspace("demo-eks-controlplane", ""))))
	env.reconcile()
	assert.Equal(t, before, env.dependencies())
	assert.False(t, conditions.Has(env.get(), controlplanev1.DependencyCycleCondition))
	env.spec(func(c *controlplanev1.CAPTControlPlane) { c.Annotations = nil })
	env.reconcile()
	assert.NotEqual(t, before, env.dependencies())
}

func TestDependenciesOfAnUnadoptedControlPlaneAreNotWritten(t *testing.T) {
	env := newEnvironment(t, append(prepared(builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	})), builder.WorkspaceTemplateApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")), ofTemplate("eks")))...)
	env.reconcile()
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])
	assert.Empty(t, env.dependencies())
}

// Neither the VPC nor the control plane exists, and each waits for the other.
func TestACycleThatNeverEndsIsAFailure(t *testing.T) {
	waits := builder.WaitingForWorkspace("demo-eks-controlplane", "")
	objects := prepared()
	objects[1] = builder.CAPTCluster("demo")
	env := newEnvironment(t, append(objects, vpcApply(builder.NotUpToDate(infrav1.WaitingForDependenciesReason, ""), waits))...)
	env.reconcile()
	assert.Equal(t, infrav1.StateFailed, env.get().Status.State)
	for _, conditionType := range []string{controlplanev1.DependencyCycleCondition, controlplanev1.ReadyCondition, infrav1.FailedCondition} {
		condition := conditions.Get(env.get(), conditionType)
		require.NotNil(t, condition, conditionType)
		assert.Equal(t, controlplanev1.DependencyCycleReason, condition.Reason)
		assert.Contains(t, condition.Message, "WorkspaceTemplateApply demo-vpc → WorkspaceTemplateApply "+applyName+" → CAPTCluster demo → WorkspaceTemplateApply demo-vpc")
		assert.Contains(t, condition.Message, "Remove spec.waitForWorkspaces[0] of WorkspaceTemplateApply demo-vpc")
	}
	assert.Empty(t, env.reconcile())

	env.become(vpcApply())
	env.become(vpc())
	env.reconcile()
	assert.Equal(t, "False NoDependencyCycle", env.summary()["DependencyCycle"])
	assert.Equal(t, infrav1.StateProvisioning, env.get().Status.State)
}

func TestACycleOfWhatDependsOnTheControlPlaneIsNoFailure(t *testing.T) {
	addon := func(name, other string) client.Object {
		return builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName(name), builder.WaitingForWorkspace("demo-eks-controlplane", ""), builder.WaitingForWorkspace(other, ""))
	}
	objects := append(prepared(), addon("a", "b"), addon("b", "a"))
	objects[1] = builder.CAPTCluster("demo")
	env := newEnvironment(t, objects...)
	env.reconcile()
	assert.Equal(t, "True DependencyCycle", env.summary()["DependencyCycle"])
	assert.Equal(t, "False WaitingForInfrastructure", env.summary()["DependenciesReady"])
}

// What is not owned by the control plane is in its graph, too.
func TestEveryObjectOfTheGraphEnqueuesTheControlPlane(t *testing.T) {
	objects := append(prepared(), vpcApply(builder.WaitingForSecret("account"), builder.WaitingForWorkspace("base", "")),
		builder.WorkspaceTemplateApply(applyName, builder.WithWorkspaceName("eks"), builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.WaitingForWorkspace("net", "")))
	for _, object := range objects[:2] {
		builder.OwnedBy(builder.Cluster("demo"))(object)
	}
	env := newEnvironment(t, objects...)
	for name, got := range map[string]any{
		"the VPC":                          env.ofApply(t.Context(), vpcApply()),
		"what the VPC waits for":           env.ofApply(t.Context(), builder.WorkspaceTemplateApply("base", builder.WithWorkspaceName("base"))),
		"what waits for the control plane": env.ofApply(t.Context(), builder.WorkspaceTemplateApply("addon", builder.WaitingForWorkspace("eks", ""))),
		"a Secret that the VPC waits for":  env.ofSecret(t.Context(), builder.SecretWith("account", nil)),
		"the template of the VPC":          env.ofTemplate(t.Context(), builder.WorkspaceTemplate("vpc")),
		"its own template":                 env.ofTemplate(t.Context(), builder.WorkspaceTemplate("eks")),
	} {
		assert.Contains(t, got, demo()[0], name)
	}
	assert.Empty(t, env.ofApply(t.Context(), builder.WorkspaceTemplateApply("unrelated", builder.WithWorkspaceName("unrelated"))))
	assert.Empty(t, env.ofTemplate(t.Context(), builder.WorkspaceTemplate("unrelated")))
}

// From the creation to Ready, each write of status reports a step. What changes between the steps is written with the next one.
func TestDetailsOfACreationAreWrittenWithTheNextStep(t *testing.T) {
	objects := prepared()
	objects[0] = builder.Cluster("demo")
	env := newEnvironment(t, append(objects, vpcApply())...)
	infrastructure := func(ready metav1.ConditionStatus, reason, message, id string) {
		change(env, "demo", &infrav1.CAPTCluster{}, func(c *infrav1.CAPTCluster) {
			builder.OwnedBy(objects[0])(c)
			c.Spec.VPC.Template.Ref.Name, c.Status.VPC.ID = "vpc", id
			conditions.Set(c, metav1.Condition{Type: infrav1.ReadyCondition, Status: ready, Reason: reason, Message: message})
		})
	}
	infrastructure(metav1.ConditionFalse, infrav1.WaitingForOwnerReason, "no Cluster", "")
	assert.Equal(t, []string{"status"}, env.reconcile())
	infrastructure(metav1.ConditionFalse, infrav1.ProvisioningReason, "waiting for Terraform", "")
	assert.Empty(t, env.reconcile())
	infrastructure(metav1.ConditionTrue, "Ready", "", "vpc-1")
	assert.Empty(t, env.reconcile())
	assert.Equal(t, progressDetailsDelay, env.again)
	change(env, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { builder.WithInfrastructureProvisioned()(c) })
	assert.Equal(t, []string{"patch", "apply " + applyName, "status"}, env.reconcile())

	env.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "init"))
	env.terraform(builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Generation++ }))
	assert.Empty(t, env.reconcile())
	env.terraform(started(env.clock.Now()))
	assert.Empty(t, env.reconcile())
	env.terraformMade()
	assert.Contains(t, env.reconcile(), "status")
	assert.Equal(t, infrav1.StateReady, env.get().Status.State)

	change(env, "demo", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
		c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	})
	assert.Empty(t, env.reconcile())
	assert.Equal(t, detailsDelay, env.again)
	env.clock.Pass(detailsDelay)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Contains(t, env.dependencies(), "Downstream Cluster demo True")
}

// A step that takes long does not keep details from being written.
func TestDetailsOfALongStepAreWritten(t *testing.T) {
	env := newEnvironment(t, prepared()...)
	env.reconcile()
	at := env.clock.Now()
	env.terraform(builder.NotUpToDate(infrav1.ProvisioningReason, "init"))
	env.terraform(started(at))
	assert.Empty(t, env.reconcile())
	assert.Equal(t, progressDetailsDelay, env.again)
	env.clock.Pass(env.again)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.True(t, env.get().Status.WorkspaceTemplateApply.StartedTime.Time.Equal(at))
	assert.Empty(t, env.reconcile())
}

// Failures are not details, and neither is their end.
func TestAFailingCheckIsNotADetail(t *testing.T) {
	env := built(t)
	for _, row := range []struct {
		was, is controlplanev1.HealthState
		detail  bool
	}{
		{controlplanev1.HealthUnknown, controlplanev1.HealthHealthy, true},
		{controlplanev1.HealthHealthy, controlplanev1.HealthUnhealthy, false},
		{controlplanev1.HealthUnhealthy, controlplanev1.HealthHealthy, false},
	} {
		before, after := env.get(), env.get()
		before.Status.Health.Overall, after.Status.Health.Overall = row.was, row.is
		before.Status.Progress.EstimatedSecondsRemaining = ptr.To[int32](60)
		details(before, after, &Facts{})
		assert.Equal(t, row.detail, equality.Semantic.DeepEqual(before, after), "from %s to %s", row.was, row.is)
	}
}

// Only while Cluster API has not reported a VPC that is ready, a message that changes is written later.
func TestMessagesAreKeptUntilClusterAPIReportsTheVPC(t *testing.T) {
	const waiting, other = controlplanev1.WaitingForInfrastructureReason, controlplanev1.WaitingForWorkspaceReason
	ready := vpc()
	conditions.Set(ready, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
	for name, row := range map[string]struct {
		vpc     *infrav1.CAPTCluster
		was, is string
		kept    bool
	}{
		"the VPC is ready":            {ready, waiting, waiting, true},
		"the VPC is not ready":        {vpc(), waiting, waiting, false},
		"there is no CAPTCluster":     {nil, waiting, waiting, false},
		"it waits for something else": {ready, other, other, false},
		"it waits since now":          {ready, other, waiting, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := builder.CAPTControlPlane("demo"), builder.CAPTControlPlane("demo")
			conditions.Set(before, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: row.was, Message: "before"})
			conditions.Set(after, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: row.is, Message: "after"})
			conditions.Set(after, metav1.Condition{Type: "New", Status: metav1.ConditionFalse, Reason: "New", Message: "after"})
			details(before, after, &Facts{Infrastructure: row.vpc})
			assert.Equal(t, row.kept, conditions.GetMessage(after, "Ready") == "before")
			assert.Equal(t, "after", conditions.GetMessage(after, "New"))
		})
	}
}
