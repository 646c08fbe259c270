// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
)

// closed is a template of control planes whose API server only some networks can reach.
func closed(w world) string {
	return w.Template(fixture.ControlPlaneTemplate, fixture.ControlPlaneModule+`
variable "endpoint_public_access_cidrs" { type = string }
output "networks" { value = var.endpoint_public_access_cidrs }
`, "cluster_name", "tags", "endpoint_public_access_cidrs")
}

// The template comes after the control plane, as with GitOps, so that admission cannot refuse it.
func TestSafety14ARestrictedAPIServerIsNotReplacedByAnOpenOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const restricted = `endpointAccess: {publicCIDRs: [203.0.113.0/24]}`
	open := w.ControlPlaneTemplate(fixture.ControlPlaneModule)
	await := func(condition string, status metav1.ConditionStatus, reason string, parts ...string) {
		t.Helper()
		w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, condition, status, reason, parts...)
	}
	w.User(w.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), plane(restricted))
	await(controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)

	w.User(open)
	await(controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason,
		"spec.endpointAccess.publicCIDRs", "${endpoint_public_access_cidrs}", "Add the placeholder")
	w.AwaitVPC()
	await(controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason)
	require.False(t, w.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane))

	w.User(closed(w))
	w.awaitReady()

	// The cluster runs: what was taken from the template is reported, and nothing is held up.
	w.User(open)
	await(infrav1.FieldsConsumedCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason, "spec.endpointAccess.publicCIDRs")
	w.awaitReady()
	w.User(plane(restricted + `, timeouts: {secretSeconds: 600}`)) // Changes elsewhere are not refused.
	w.refuses(plane(`endpointAccess: {publicCIDRs: [203.0.113.0/24, 198.51.100.0/24]}`), "spec.endpointAccess.publicCIDRs", "does not pass ${endpoint_public_access_cidrs}")
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(w.VPCTemplate(fixture.VPCModule), applied("user", `variables: {vpc_name: a}`))
	w.awaitUpToDate("user")
	w.Remove(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
	w.Await(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason)

	const text = "is being deleted and cannot be used by new objects"
	w.refuses(applied("other", `variables: {vpc_name: b}`), "spec.templateRef", text)
	w.refuses(legacyDocument("CAPTCluster", fixture.Demo, `{region: eu-central-1, vpcTemplateRef: {name: vpc}}`), "spec.vpc.template.ref", text)

	w.User(applied("user", `variables: {vpc_name: a, more: x}`))
	w.awaitUpToDate("user")
}
