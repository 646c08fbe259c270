// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// closedTemplate makes control planes whose API server only some networks can reach.
func closedTemplate() string {
	return template("eks", controlPlaneModule+`
variable "endpoint_public_access_cidrs" {
  type = string
}
output "networks" {
  value = var.endpoint_public_access_cidrs
}
`, "sandbox", "cluster_name", "kubernetes_version", "endpoint_public_access_cidrs")
}

// The template comes after the control plane, as with GitOps, so that admission cannot refuse it.
func TestSafety14ARestrictedAPIServerIsNotReplacedByAnOpenOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const restricted = `endpointAccess: {publicCIDRs: [203.0.113.0/24]}`
	controlPlane := &controlplanev1.CAPTControlPlane{}
	w.apply(vpcTemplate(), cluster("demo"), captCluster("demo"), planeWith(restricted))
	w.awaitCondition(patience, controlPlane, "demo", controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)

	w.apply(controlPlaneTemplate())
	w.awaitCondition(patience, controlPlane, "demo", controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason,
		"spec.endpointAccess.publicCIDRs", "${endpoint_public_access_cidrs}", "Add the placeholder")
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	w.awaitCondition(patience, controlPlane, "demo", controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason)
	err := w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo-eks-controlplane-apply"}, &infrav1.WorkspaceTemplateApply{})
	require.True(t, engine.Absent(err), "nothing is made: %v", err)

	w.apply(closedTemplate())
	w.awaitCondition(patience, controlPlane, "demo", controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)

	// The cluster runs: what was taken from the template is reported, and nothing is held up.
	w.apply(controlPlaneTemplate())
	w.awaitCondition(patience, controlPlane, "demo", infrav1.FieldsConsumedCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason, "spec.endpointAccess.publicCIDRs")
	w.awaitCondition(patience, controlPlane, "demo", controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)
	w.apply(planeWith(restricted + `, timeouts: {secretSeconds: 600}`)) // Changes elsewhere are not refused.
	w.refuses(planeWith(`endpointAccess: {publicCIDRs: [203.0.113.0/24, 198.51.100.0/24]}`), "spec.endpointAccess.publicCIDRs", "does not pass ${endpoint_public_access_cidrs}")
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), applied("user", `, variables: {vpc_name: a}`))
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "user", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "vpc"}}
	require.NoError(t, w.Delete(t.Context(), template))
	w.awaitCondition(patience, template, "vpc", infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason)

	const says = "is being deleted and cannot be used by new objects"
	w.refuses(applied("other", `, variables: {vpc_name: b}`), "spec.templateRef", says)
	w.refuses(captCluster("demo"), "spec.vpc.template.ref", says)
	w.refuses(legacyNetwork(`{region: eu-central-1, vpcTemplateRef: {name: vpc}}`), "spec.vpc.template.ref", says)

	w.apply(applied("user", `, variables: {vpc_name: a, more: x}`))
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "user", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
}
