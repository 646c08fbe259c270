// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// TestTheNetworkIsNotKeptForALaterTemplate: Terraform would replace the EKS cluster when the template begins to use a network that the cluster does not have.
func TestTheNetworkIsNotKeptForALaterTemplate(t *testing.T) {
	cluster := builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) {
		c.Spec.ClusterNetwork.Services.CIDRBlocks = []string{"10.96.0.0/12"}
	}))
	template := func(module string) *infrav1.WorkspaceTemplate {
		return builder.WorkspaceTemplate("eks", builder.With(func(template *infrav1.WorkspaceTemplate) {
			template.Spec.Substitution, template.Spec.PassVariables = infrav1.SubstitutionFields, infrav1.PassDeclared
			template.Spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module}
		}))
	}
	of := func(template *infrav1.WorkspaceTemplate) *desired.ControlPlane {
		c := desired.NewControlPlane(builder.CAPTControlPlane("demo"), cluster, builder.CAPTCluster("demo"))
		c.Template = &desired.TemplateFacts{Template: template}
		return c
	}
	uses := template("variable \"service_cidr\" {}\noutput \"x\" { value = var.service_cidr }")
	before := template("output \"x\" { value = 1 }")

	assert.Equal(t, "10.96.0.0/12", of(uses).Want().Intent.For(nil).Variables.Text("service_cidr"))
	assert.Equal(t, infrav1.TemplateNotFoundReason, of(nil).Blocked().Reason, "what it uses is decided at creation")
	created := of(before).Want().Intent.For(nil)
	assert.False(t, created.Variables.Has("service_cidr"))

	later := of(uses)
	later.Apply = builder.WorkspaceTemplateApply("demo", builder.WithVariables(created.Variables.Texts()))
	assert.False(t, later.Want().Intent.For(later.Apply).Variables.Has("service_cidr"))

	_, others := validation.FieldsWithoutEffect(before, validation.NetworkFields(cluster))
	require.Len(t, others, 1)
	assert.Contains(t, others[0].Error(), "does not use the variable service_cidr, and the network of an EKS cluster cannot be changed. Unset the field, or create a new Cluster")
}

// TestAControlPlaneDependsOnItsVPCWhileThatIsRecreated: without the dependency, Terraform would create the control plane in a VPC that does not exist, or destroy
// the VPC first.
func TestAControlPlaneDependsOnItsVPCWhileThatIsRecreated(t *testing.T) {
	vpc := []infrav1.WorkspaceDependency{{Name: "demo-vpc", Namespace: builder.Namespace}}
	c := desired.NewControlPlane(builder.CAPTControlPlane("demo"), builder.Cluster("demo", builder.WithInfrastructureProvisioned()), builder.CAPTCluster("demo"))
	c.Template = &desired.TemplateFacts{Template: builder.WorkspaceTemplate("eks")}
	c.CAPTCluster.Status.VPC.ID = "vpc-1"
	assert.True(t, c.InfrastructureReady())
	assert.Empty(t, c.Want().WaitForWorkspaces)

	for _, reason := range []string{infrav1.DeletingReason, infrav1.ProvisioningReason} {
		c.CAPTCluster.Status.Conditions = []metav1.Condition{{Type: infrav1.VPCReadyCondition, Status: metav1.ConditionFalse, Reason: reason}}
		assert.False(t, c.InfrastructureReady(), "a new control plane waits for the next VPC: %s", reason)
	}

	c.Apply = builder.WorkspaceTemplateApply("demo", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.WaitForWorkspaces = vpc }))
	assert.True(t, c.InfrastructureReady())
	for name, summary := range map[string]*infrav1.WorkspaceTemplateApplySummary{"unknown": nil, "recreated": {Name: "demo-vpc"}} {
		c.CAPTCluster.Status.WorkspaceTemplateApply = summary
		assert.Equal(t, vpc, c.Want().WaitForWorkspaces, name)
	}
	c.CAPTCluster.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{WorkspaceName: "other-vpc"}
	assert.Equal(t, "other-vpc", c.Want().WaitForWorkspaces[0].Name)
}
