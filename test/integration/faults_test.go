// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Each fault is visible on the WorkspaceTemplateApply and on its owner, says what to do, and disappears when it is corrected.

func TestMissingTemplateIsReportedUntilCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(cluster("demo"), captCluster("demo"))

	w.awaitCondition(prompt, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.TemplateNotFoundReason, "create it")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.TemplateNotFoundReason, "demo-vpc", "create it")
	require.Empty(t, w.workspaces())

	w.apply(vpcTemplate())
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
}

// A module that does not parse is refused, unless it is a variable that makes it so.
func TestModuleThatDoesNotParseWithItsVariablesIsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(template("vpc", "\nresource \"terraform_data\" \"vpc\" {\n  input = ${size}\n}\n", "sandbox"), cluster("demo"),
		strings.Replace(captCluster("demo"), "ref: {name: vpc}", `ref: {name: vpc}, variables: {size: "1 2"}`, 1))

	w.awaitCondition(prompt, &infrav1.WorkspaceTemplate{}, "vpc", infrav1.ValidCondition, metav1.ConditionTrue, infrav1.ValidReason)
	w.awaitCondition(prompt, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.TemplateInvalidReason, "spec.template.spec.forProvider.module", "line 2, column 13", "Correct the module")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.TemplateInvalidReason, "line 2, column 13")
	require.Empty(t, w.workspaces())

	w.apply(vpcTemplate())
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
}

func TestModuleWhoseApplyFailsIsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failing := `
resource "terraform_data" "vpc" {
  provisioner "local-exec" {
    command = "echo the subnet does not exist >&2; exit 7"
  }
}
`
	w.apply(template("vpc", failing, "sandbox"), cluster("demo"), captCluster("demo"))

	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.ApplyFailedReason, "correct the WorkspaceTemplate")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.ApplyFailedReason, "demo-vpc", "correct the WorkspaceTemplate")
	before := w.workspaces()
	require.Len(t, before, 1)

	w.apply(vpcTemplate())
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	after := w.workspaces()
	require.Len(t, after, 1)
	require.Equal(t, before[0].GetUID(), after[0].GetUID(), "the Workspace was updated, not replaced")
}

func TestMissingProviderConfigIsReportedUntilCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := w.namespace // A name that no other test uses.
	w.apply(template("vpc", vpcModule, config, "vpc_name"), cluster("demo"), captCluster("demo"))

	w.awaitCondition(prompt, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.ProviderConfigFailedReason, "Create or correct the ProviderConfig")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.ProviderConfigFailedReason, "Create or correct the ProviderConfig")

	w.apply(`
apiVersion: tf.m.upbound.io/v1beta1
kind: ClusterProviderConfig
metadata: {name: ` + config + `}
spec: {pluginCache: false}
`)
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
}

func TestMissingOutputIsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), template("eks", "\nresource \"terraform_data\" \"eks\" {}\n", "sandbox"),
		cluster("demo"), captCluster("demo"), controlPlane("demo", "v1.35.0"))

	w.awaitCondition(patience, &controlplanev1.CAPTControlPlane{}, "demo", controlplanev1.ReadyCondition, metav1.ConditionFalse,
		controlplanev1.EndpointMissingReason, `no output "cluster_endpoint"`, "Add the output to the module")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, controlPlane))
	require.Nil(t, controlPlane.Status.Initialization.ControlPlaneInitialized, "not initialized without an endpoint")

	w.apply(controlPlaneTemplate())
	w.awaitCondition(patience, &controlplanev1.CAPTControlPlane{}, "demo", controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)
}

func TestUnknownFieldIsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(strings.Replace(vpcTemplate(), "source: Inline", "source: Inline\n        modul: misspelled", 1), cluster("demo"), captCluster("demo"))

	w.awaitCondition(prompt, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.WorkspaceRejectedReason, "modul", "correct the WorkspaceTemplate")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceRejectedReason, "modul")
	require.Empty(t, w.workspaces())

	w.apply(vpcTemplate())
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
}
