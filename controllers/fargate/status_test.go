// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

func planned(name string, apply owner.Facts) PlannedProfile {
	return PlannedProfile{Name: name, Apply: as(apply)}
}

func obsolete(name string, apply owner.Facts) Profile { return Profile{Name: name, Apply: apply} }

var (
	good   = made(builder.UpToDate(nil))
	busy   = shows(infrav1.ProvisioningReason, "")
	broken = shows(infrav1.ApplyFailedReason, "limit")
	lacks  = shows(infrav1.WaitingForDependenciesReason, "no key")
)

// Each row says what the three conditions are, and whether Terraform is at work with nothing wrong.
func TestConditionsOfProfiles(t *testing.T) {
	for name, row := range map[string]struct {
		plan                       Plan
		ready, creating, hasFailed string
		working                    bool
	}{
		"all ready": {Plan{Profiles: []PlannedProfile{planned("a", good), planned("b", good)}},
			"True FargateProfileReady: ", "False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", false},
		"one in the making": {Plan{Intent: Intent{Ready: true}, Profiles: []PlannedProfile{planned("a", good), planned("b", busy), planned("c", owner.Facts{})}},
			"False FargateProfileCreating: creating or updating Fargate profiles b; c",
			"True FargateProfileCreating: creating or updating Fargate profiles b; c", "False FargateProfileNotFailed: ", true},
		"one failed, one in the making": {Plan{Intent: Intent{Ready: true}, Profiles: []PlannedProfile{planned("a", broken), planned("b", busy)}},
			"False FargateProfileFailed: failed Fargate profile a (WorkspaceTemplateApply " + applyName + ": limit)",
			"True FargateProfileCreating: creating or updating Fargate profile b",
			"True FargateProfileFailed: failed Fargate profile a (WorkspaceTemplateApply " + applyName + ": limit)", false},
		"one without what it needs": {Plan{Intent: Intent{Ready: true}, Profiles: []PlannedProfile{planned("a", lacks), planned("b", busy)}},
			"False FargateProfileDependencyNotReady: missing dependency of Fargate profile a (WorkspaceTemplateApply " + applyName + ": no key)",
			"True FargateProfileCreating: creating or updating Fargate profile b", "False FargateProfileNotFailed: ", false},
		"before the control plane": {Plan{Profiles: []PlannedProfile{planned("a", owner.Facts{})}},
			"False WaitingForWorkspace: pending Fargate profile a (waiting for the control plane)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one to be made, while paused": {Plan{Intent: Intent{Ready: true, Paused: "annotation"}, Profiles: []PlannedProfile{planned("a", good), planned("b", owner.Facts{})}},
			"False Paused: pending Fargate profile b (nothing is created or updated while the object is paused: annotation)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one that spec no longer has, while paused": {Plan{Intent: Intent{Ready: true, Paused: "annotation"}, Obsolete: []Profile{obsolete("old", good)}},
			"False Paused: pending Fargate profile old (nothing is deleted while the object is paused: annotation)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one in the making, when paused": {Plan{Intent: Intent{Ready: true, Paused: "annotation"}, Profiles: []PlannedProfile{planned("a", busy)}},
			"False FargateProfileCreating: creating or updating Fargate profile a",
			"True FargateProfileCreating: creating or updating Fargate profile a", "False FargateProfileNotFailed: ", true},
		"one on its way out": {Plan{Intent: Intent{Ready: true}, Profiles: []PlannedProfile{planned("a", good)}, Obsolete: []Profile{obsolete("old", good)}},
			"False FargateProfileDeleting: deleting Fargate profile old",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			report := row.plan.Report()
			var got []string
			for i, condition := range report.Conditions {
				assert.Equal(t, Types()[i], condition.Type)
				got = append(got, fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message))
			}
			assert.Equal(t, []string{row.ready, row.creating, row.hasFailed}, got)
			assert.Equal(t, row.working, report.Working)
		})
	}
}

func TestTheReportIsEmptyWithoutProfiles(t *testing.T) {
	assert.Equal(t, Report{}, (&Plan{Intent: Intent{Ready: true}}).Report())
}

func statuses(p Plan) (names []string) {
	for _, s := range p.Report().Statuses {
		names = append(names, s.Name)
	}
	return names
}

func TestObsoleteProfilesAreReportedLast(t *testing.T) {
	p := Plan{Intent: Intent{Ready: true}, Profiles: []PlannedProfile{planned("z", good), planned("b", busy), planned("m", broken)}, Obsolete: []Profile{obsolete("a", good)}}
	assert.Equal(t, []string{"z", "b", "m", "a"}, statuses(p))
}

func TestAProfileThatWasNotBegunHasNoStatus(t *testing.T) {
	assert.Empty(t, statuses(Plan{Profiles: []PlannedProfile{planned("a", owner.Facts{})}}), "the control plane comes first")
	assert.Equal(t, []string{"a"}, statuses(Plan{Intent: Intent{Ready: true}, Missing: "Secret", Profiles: []PlannedProfile{planned("a", owner.Facts{})}}))
}

// The API takes one status a name, and not more than 64.
func TestStatusesRespectTheLimitsOfTheAPI(t *testing.T) {
	assert.Equal(t, []string{"a"}, statuses(Plan{Obsolete: []Profile{obsolete("a", good), obsolete("a", busy)}}))
	var many Plan
	for i := range maxStatuses + 1 {
		many.Obsolete = append(many.Obsolete, obsolete(fmt.Sprint(i), good))
	}
	assert.Len(t, statuses(many), maxStatuses)
}

func TestDeleting(t *testing.T) {
	assert.Nil(t, (&Plan{}).Deleting())

	two := Plan{Obsolete: []Profile{obsolete("a", deletingBecause(infrav1.WaitingForWorkspaceDeletionReason, "Terraform destroys")), obsolete("b", good)}}
	condition := two.Deleting()
	assert.Equal(t, controlplanev1.FargateProfileDeletingReason, condition.Reason)
	assert.Equal(t, "the control plane is deleted after its Fargate profiles; deleting Fargate profiles "+
		"a (WorkspaceTemplateApply "+applyName+": Terraform destroys); b", condition.Message)

	stuck := Plan{Obsolete: []Profile{obsolete("a", deletingBecause(infrav1.DestroyFailedReason, "AccessDenied"))}}
	assert.Equal(t, controlplanev1.FargateProfileFailedReason, stuck.Deleting().Reason)
	assert.Contains(t, stuck.Deleting().Message, "AccessDenied")

	two.Paused = "the annotation"
	assert.Contains(t, two.Deleting().Message, "nothing is deleted while the object is paused: the annotation")
}
