// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
