// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
)

// identified is a module of a VPC whose ID is that of a resource: another resource is another VPC.
const identified = `
variable "vpc_name" { type = string }
resource "terraform_data" "vpc" { input = var.vpc_name }
output "vpc_id" { value = terraform_data.vpc.id }
`

// vpcID is the output of the VPC, once Terraform has applied everything.
func (env environment) vpcID() string {
	env.Helper()
	return env.awaitUpToDate(fixture.VPC).Status.Outputs["vpc_id"]
}

// passedVPCID is the variable of the control plane.
func (env environment) passedVPCID() string {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	if !env.Exists(apply, fixture.ControlPlane) {
		return ""
	}
	return apply.Spec.Variables.Text(naming.VPCIDVariable)
}

// awaitReplaced waits until both objects report that another VPC replaced the one of the cluster, and returns the ID of the other one.
func (env environment) awaitReplaced(old string) (replacedBy string) {
	env.Helper()
	captCluster, controlPlane := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	env.Await(captCluster, fixture.Demo, infrav1.VPCReplacedCondition, metav1.ConditionTrue, infrav1.VPCReplacedReason, old, "Check first whether "+old)
	replacedBy = captCluster.Status.VPC.ReplacedBy
	require.NotEmpty(env, replacedBy)
	require.Equal(env, old, captCluster.Status.VPC.ID, "the VPC of the cluster is not overwritten")
	env.Await(captCluster, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.VPCReplacedReason, old, replacedBy)
	env.Await(controlPlane, fixture.Demo, infrav1.VPCReplacedCondition, metav1.ConditionTrue, infrav1.VPCReplacedReason, old, replacedBy, "Check first whether "+old)
	env.Await(controlPlane, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.VPCReplacedReason)
	env.Await(controlPlane, fixture.Demo, infrav1.DegradedCondition, metav1.ConditionTrue, infrav1.VPCReplacedReason)
	require.Equal(env, infrav1.StateDegraded, controlPlane.Status.State)
	require.Equal(env, controlplanev1.HealthUnhealthy, controlPlane.Status.Health.Overall)
	return replacedBy
}

// awaitSameVPC waits until neither object reports a replaced VPC.
func (env environment) awaitSameVPC(id string) {
	env.Helper()
	captCluster := &infrav1.CAPTCluster{}
	env.Await(captCluster, fixture.Demo, infrav1.VPCReplacedCondition, metav1.ConditionFalse, infrav1.VPCNotReplacedReason)
	require.Equal(env, infrav1.VPCStatus{ID: id}, captCluster.Status.VPC)
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.VPCReplacedCondition, metav1.ConditionFalse, infrav1.VPCNotReplacedReason)
	env.awaitReady()
	env.AwaitState(infrav1.StateReady, "")
}

// An edit for which Terraform replaces the VPC left the control plane in the VPC of before, with everything Ready.
func TestAReplacedVPCIsReportedUntilItIsBack(t *testing.T) {
	t.Parallel()
	env := ready(t)
	old := env.vpcID()
	env.User(env.VPCTemplate(strings.NewReplacer(`"vpc-0${`, `"vpc-1${`, "input = var.vpc_name", `input = "${var.vpc_name} 2"`).Replace(fixture.VPCModule)))
	replacedBy := env.awaitReplaced(old)
	require.Equal(t, strings.Replace(old, "vpc-0", "vpc-1", 1), replacedBy)
	require.Equal(t, old, env.passedVPCID())

	for _, kind := range []string{"CAPTCluster", "CAPTControlPlane"} {
		env.Eventually(func() string {
			warns := func(e eventsv1.Event) bool {
				return e.Regarding.Kind == kind && e.Reason == infrav1.VPCReplacedReason && e.Type == "Warning" && strings.Contains(e.Note, old) && strings.Contains(e.Note, replacedBy)
			}
			return fixture.Unless(slices.ContainsFunc(env.Events(), warns), "there is no warning event of the %s", kind)
		})
	}
	described := env.described()
	assert.Equal(t, infrav1.StateDegraded, described.State)
	require.NotNil(t, described.Cause)
	assert.Equal(t, infrav1.VPCReplacedReason, described.Cause.Reason)
	assert.Contains(t, env.Captctl("describe", env.Namespace+"/demo"), replacedBy)
	assert.Contains(t, env.Captctl("get", "-n", env.Namespace), "Terraform reports VPC "+replacedBy)

	env.User(env.VPCTemplate(fixture.VPCModule))
	env.awaitSameVPC(old)
	assert.Nil(t, env.described().Cause)
}

// A VPC that was destroyed and recreated stays reported until nothing is left of what was built in the first one.
func TestAControlPlaneThatIsRecreatedMovesToTheOtherVPC(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(env.VPCTemplate(identified), env.ControlPlaneTemplate(fixture.ControlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	env.awaitReady()
	old := env.vpcID()
	workspace := env.Workspace(fixture.VPC)
	env.Edit(workspace, workspace.GetName(), `{"metadata":{"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`)
	env.Remove(workspace, workspace.GetName())
	replacedBy := env.awaitReplaced(old)

	env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, `{"metadata":{"annotations":{"`+naming.AllowDeleteAnnotation+`":"true"}}}`)
	env.Remove(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane)
	env.awaitSameVPC(replacedBy)
	require.Equal(t, replacedBy, env.passedVPCID())
}
