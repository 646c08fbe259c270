// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
)

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
