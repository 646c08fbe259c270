// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// What has no template is not rendered: it is reported.
func TestWhatCannotBeRenderedIsReported(t *testing.T) {
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
func TestAnEditAfterAdoptionIsReported(t *testing.T) {
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
			func(h *helped) { h.eks.Spec.Variables["region"] = infrav1.TextValue("eu-west-1") }, []string{"Warning PendingChange CAPTControlPlane demo"}, []string{"spec.forProvider.vars[region]"},
		},
		"a WorkspaceTemplateApply whose owner cannot write it": {
			func(h *helped) {
				h.plane.Spec.Version = "latest"
				h.eks.Spec.Variables["region"] = infrav1.TextValue("eu-west-1")
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

// The manager writes the revision that a rollout assigned, and nothing while that is not stored.
func TestAnEditThatARolloutHoldsIsNotPending(t *testing.T) {
	for name, stored := range map[string]bool{"stored": true, "not stored": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture("demo", "team-a").withWorkspaces(t)
			f.plane.Spec.ControlPlaneEndpoint.Host = f.endpoint()
			adopt(f.vpc, f.eks)
			record := rollout.History(nil).Record(f.vpcTemplate)
			revision, err := record.Object(f.vpcTemplate)
			require.NoError(t, err)
			f.vpc.Spec.TemplateRevision = record.Hash
			f.vpcTemplate.Spec.Rollout.Strategy = infrav1.RolloutStaged
			f.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited"
			s := snapshot(t, f)
			if stored {
				s.Revisions = append(s.Revisions, *revision)
			}
			got, err := planner.New(s, nil)
			require.NoError(t, err)
			assert.Empty(t, summary(got))

			for i := range s.Applies {
				if s.Applies[i].Name == f.vpc.Name {
					s.Applies[i].Spec.TemplateRevision = rollout.HashOf(f.vpcTemplate)
				}
			}
			got, err = planner.New(s, nil)
			require.NoError(t, err)
			assert.Equal(t, []string{"Warning PendingChange CAPTCluster demo"}, summary(got), "it is assigned")
		})
	}
}

// A WorkspaceTemplate is shared: to revert an edit of it runs Terraform for the clusters that were built from the edit.
func TestTheMessageAboutAnEditNamesTheOtherUsersOfTheTemplate(t *testing.T) {
	demo, old, blue := newFixture("demo", "team-a").withWorkspaces(t), newFixture("old", "team-a").withWorkspaces(t), newFixture("blue", "team-a")
	demo.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited"
	blue.vpcTemplate = demo.vpcTemplate
	blue.withWorkspaces(t)

	before := finding(t, planner.ReasonWorkspaceDiffers, demo, old).Message
	assert.Contains(t, before, "Terraform would run for Workspace demo-vpc, in spec.forProvider.module: WorkspaceTemplate team-a/vpc was edited since")
	assert.Contains(t, before, "Set pin: true in --decisions")
	assert.Contains(t, before, "Or revert the edit while CAPT v0.3 is stopped (other users of the template: 1, none built from the edit)")
	assert.Contains(t, finding(t, planner.ReasonWorkspaceDiffers, demo, old, blue).Message,
		"Do not revert an edit of the template (other users: 2): Terraform would run for WorkspaceTemplateApplies that were built from the edit: team-a/blue-vpc")

	adopt(demo.vpc, demo.eks, blue.vpc, blue.eks)
	assert.Contains(t, finding(t, planner.ReasonPendingChange, demo, blue).Message, "Do not revert an edit of the template (other users: 1)")
}

// The spec of an owner is its own.
func TestTheMessageAboutAnEditNamesTheOwner(t *testing.T) {
	demo, blue := newFixture("demo", "team-a").withWorkspaces(t), newFixture("blue", "team-a").withWorkspaces(t)
	demo.plane.Spec.Version = "v1.32.0"

	message := finding(t, planner.ReasonWorkspaceDiffers, demo, blue).Message
	assert.Contains(t, message, "the spec of CAPTControlPlane team-a/demo was edited")
	assert.Contains(t, message, "Or revert the edit while CAPT v0.3 is stopped")
	assert.NotContains(t, message, "other users")
}

// finding is the first one about the first of some fixtures that has a reason.
func finding(t *testing.T, reason string, fixtures ...*fixture) migrate.Finding {
	t.Helper()
	p := planFor(t, nil, fixtures...)
	for _, found := range p.Findings {
		if found.Reason == reason && found.Object.Name == fixtures[0].name {
			return found
		}
	}
	require.Fail(t, "no finding", "%v", summary(p))
	return migrate.Finding{}
}

// A step may write fields for several reasons. The one with the widest effect must not be hidden behind the others.
func TestAStepHasAReasonForEachField(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain
	unit := unitOf(t, planFor(t, nil, s), "team-a/demo")
	require.Len(t, unit.Steps[0].Fields, 2)
	assert.Equal(t, "spec.workspaceName: its Workspace is found without status; spec.deletionPolicy: spec.vpc.template.deletionPolicy of its CAPTCluster is Retain",
		unit.Steps[0].Why)
	for _, step := range unit.Steps {
		for _, field := range step.Fields {
			assert.Contains(t, step.Why, strings.ReplaceAll(field.Path[1:], "/", ".")+": ", "%s", step.Object)
		}
	}
}
