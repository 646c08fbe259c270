// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// What has no template is not rendered: it is reported.
func TestSafety11WhatCannotBeRenderedIsReported(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	helper, template, _ := withKubeconfigHelper(t, s)
	adopt(s.vpc, s.eks, helper)
	s.gone[template] = true

	found := planFor(t, nil, s).Findings
	require.Len(t, found, 1)
	assert.Equal(t, planner.ReasonRenderFailed, found[0].Reason)
	assert.Equal(t, helper.UID, found[0].Object.UID)
}

// adopt does to WorkspaceTemplateApplies what a plan does.
func adopt(applies ...*infrav1.WorkspaceTemplateApply) {
	for _, apply := range applies {
		name := naming.LegacyWorkspace(apply.Name)
		apply.Spec.WorkspaceName = name
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{
			APIVersion: "tf.upbound.io/v1beta1", Kind: "Workspace", Name: name, UID: "Workspace/" + apply.UID,
		}
	}
}

// Starting the manager would run Terraform for what was edited while it was off. Adoption compared only what was there before.
func TestSafety11AnEditAfterAdoptionIsReported(t *testing.T) {
	for name, tc := range map[string]struct {
		edit   func(h *helped)
		want   []string
		fields []string
	}{
		"nothing": {func(*helped) {}, nil, nil},
		"version of a control plane": {
			func(h *helped) { h.plane.Spec.Version = "v1.32.0" }, []string{"Warning PendingChange CAPTControlPlane demo"}, []string{"spec.forProvider.vars[kubernetes_version]"},
		},
		"template of a VPC": {
			func(h *helped) { h.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited" }, []string{"Warning PendingChange CAPTCluster demo"}, []string{"spec.forProvider.module"},
		},
		"template of what has no owner": {
			func(h *helped) { h.template.Spec.Template.Spec.ForProvider.Entrypoint = "modules/x" }, []string{"Warning PendingChange WorkspaceTemplateApply demo-kubeconfig-apply"}, []string{"spec.forProvider.entrypoint"},
		},
		"a WorkspaceTemplateApply": {
			func(h *helped) { h.eks.Spec.Variables["region"] = "eu-west-1" }, []string{"Warning PendingChange CAPTControlPlane demo"}, []string{"spec.forProvider.vars[region]"},
		},
		"a WorkspaceTemplateApply whose owner cannot write it": {
			func(h *helped) {
				h.plane.Spec.Version = "latest"
				h.eks.Spec.Variables["region"] = "eu-west-1"
			}, []string{"Warning PendingChange CAPTControlPlane demo", "Warning RenderFailed CAPTControlPlane demo"}, []string{"spec.forProvider.vars[region]"},
		},
		"a version that cannot be written": {
			func(h *helped) { h.plane.Spec.Version = "latest" }, []string{"Warning RenderFailed CAPTControlPlane demo"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			helper, template, _ := withKubeconfigHelper(t, s)
			s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint()
			adopt(s.vpc, s.eks, helper)
			tc.edit(&helped{s, helper, template, nil})

			got := planFor(t, nil, s)
			var fields []string
			for _, finding := range got.Findings {
				assert.Equal(t, migrate.Warning, finding.Severity)
				for _, difference := range finding.Differences {
					fields = append(fields, difference.Field)
					assert.Contains(t, finding.Message, difference.Field)
				}
			}
			assert.Equal(t, tc.fields, fields)
			assert.Equal(t, tc.want, summary(got))
			assert.Equal(t, map[string]plan.UnitState{"team-a/demo": plan.Adopted}, states(got), "it is adopted, whatever is edited")
		})
	}
}
