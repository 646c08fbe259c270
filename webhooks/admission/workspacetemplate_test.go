// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// Their Workspaces would get an empty state in another account. The warning reports how many there are.
func TestSafety02ATemplateInUseWarnsAboutAnotherProviderConfig(t *testing.T) {
	in := func(name string) *infrav1.WorkspaceTemplate {
		return builder.WorkspaceTemplate("vpc", builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: name}
		}))
	}
	users := []client.Object{builder.WorkspaceTemplateApply("a"), builder.WorkspaceTemplateApply("b"),
		builder.WorkspaceTemplateApply("c", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "other" }))}
	response := validated(t, workspaceTemplateRules(newWorld(t, users...)), in("one"), in("two"))
	assert.True(t, response.Allowed)
	assert.Len(t, response.Warnings, 1)
	assert.Contains(t, response.Warnings[0], "providerConfigRef: 2 WorkspaceTemplateApply objects use this template")

	assert.Empty(t, validated(t, workspaceTemplateRules(newWorld(t)), in("one"), in("two")).Warnings, "nothing uses it")
	module := in("one")
	builder.WithModule("# new")(module)
	assert.Empty(t, validated(t, workspaceTemplateRules(newWorld(t, users...)), in("one"), module).Warnings)
}

func TestSafety14ATemplateThatLosesAPlaceholderIsAdmittedWithAWarning(t *testing.T) {
	restricted := builder.CAPTControlPlane("office", builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.EndpointAccess = &controlplanev1.EndpointAccess{PublicCIDRs: []controlplanev1.CIDR{"203.0.113.0/24"}}
	}))
	before := builder.WorkspaceTemplate("eks", builder.Consuming("endpoint_public_access_cidrs"))
	response := validated(t, workspaceTemplateRules(newWorld(t, restricted)), before, builder.WorkspaceTemplate("eks"))
	assert.True(t, response.Allowed)
	assert.Len(t, response.Warnings, 1)
	assert.Contains(t, response.Warnings[0], "default/office")
}

// A manifest without the pin of a migration makes Terraform run.
func TestAnOwnerThatLeavesItsPinnedTemplateIsAdmittedWithAWarning(t *testing.T) {
	pinned, unpinned := builder.WorkspaceTemplate("demo-pinned", builder.WithLabel(naming.PinnedLabel, "true")), builder.WorkspaceTemplate("eks")
	apply := builder.WorkspaceTemplateApply("demo-eks", builder.WithWorkspaceName("demo-eks-workspace"))
	controlPlane := func(template, description string) *controlplanev1.CAPTControlPlane {
		return builder.CAPTControlPlane("demo", builder.WithApplyRef(apply.Name), builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.WorkspaceTemplateRef.Name = template
			c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{"description": controlplanev1.TagValue(description)}
		}))
	}
	for name, row := range map[string]struct {
		old, object *controlplanev1.CAPTControlPlane
		want        int
	}{
		"it leaves the pinned one": {controlPlane(pinned.Name, ""), controlPlane("eks", ""), 1},
		"it keeps the pinned one":  {controlPlane(pinned.Name, ""), controlPlane(pinned.Name, "edited"), 0},
		"it leaves another one":    {controlPlane("eks", ""), controlPlane(pinned.Name, ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			response := validated(t, captControlPlaneRules(newWorld(t, pinned, unpinned, apply)), row.old, row.object)
			var found []string
			for _, warning := range response.Warnings {
				if strings.Contains(warning, "no longer refers to its pinned template") {
					found = append(found, warning)
				}
			}
			require.Len(t, found, row.want, "%v", response.Warnings)
			if row.want > 0 {
				assert.Contains(t, found[0], "CAPTControlPlane demo no longer refers to its pinned template: Terraform will run for Workspace demo-eks-workspace unless WorkspaceTemplate default/eks")
			}
		})
	}
	captCluster := func(template string) *infrav1.CAPTCluster {
		return builder.CAPTCluster("demo", builder.WithApplyRef(apply.Name), builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.Ref.Name = template }))
	}
	assert.NotEmpty(t, validated(t, captClusterRules(newWorld(t, pinned, unpinned, apply)), captCluster(pinned.Name), captCluster("eks")).Warnings)
	alone := apply.DeepCopy()
	alone.Spec.TemplateRef.Name = pinned.Name
	assert.NotEmpty(t, validated(t, workspaceTemplateApplyRules(newWorld(t, pinned, unpinned, alone)), alone, builder.WorkspaceTemplateApply("demo-eks",
		builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec = alone.Spec; a.Spec.TemplateRef.Name = "eks" }))).Warnings)
}
