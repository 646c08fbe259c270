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

func named(name string, apply owner.Facts) Profile { return Profile{Name: name, Apply: apply} }

var (
	good   = made(builder.UpToDate(nil))
	busy   = shows(infrav1.ProvisioningReason, "")
	broken = shows(infrav1.ApplyFailedReason, "limit")
	lacks  = shows(infrav1.WaitingForDependenciesReason, "no key")
)

// Each row says what the three conditions are, and whether Terraform is at work with nothing wrong.
func TestConditionsOfProfiles(t *testing.T) {
	for name, row := range map[string]struct {
		facts                      Facts
		ready, creating, hasFailed string
		working                    bool
	}{
		"all ready": {Facts{Profiles: []Profile{named("a", good), named("b", good)}},
			"True FargateProfileReady: ", "False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", false},
		"one in the making": {Facts{ClusterReady: true, Profiles: []Profile{named("a", good), named("b", busy), named("c", owner.Facts{})}},
			"False FargateProfileCreating: Terraform makes or changes Fargate profiles, one at a time: b; c",
			"True FargateProfileCreating: Terraform makes or changes Fargate profiles, one at a time: b; c", "False FargateProfileNotFailed: ", true},
		"one failed, one in the making": {Facts{ClusterReady: true, Profiles: []Profile{named("a", broken), named("b", busy)}},
			"False FargateProfileFailed: Fargate profiles that failed: a (WorkspaceTemplateApply " + applyName + ": limit)",
			"True FargateProfileCreating: Terraform makes or changes Fargate profiles, one at a time: b",
			"True FargateProfileFailed: Fargate profiles that failed: a (WorkspaceTemplateApply " + applyName + ": limit)", false},
		"one without what it needs": {Facts{ClusterReady: true, Profiles: []Profile{named("a", lacks), named("b", busy)}},
			"False FargateProfileDependencyNotReady: Fargate profiles that wait for what they need: a (WorkspaceTemplateApply " + applyName + ": no key)",
			"True FargateProfileCreating: Terraform makes or changes Fargate profiles, one at a time: b", "False FargateProfileNotFailed: ", false},
		"before the control plane": {Facts{Profiles: []Profile{named("a", owner.Facts{})}},
			"False WaitingForWorkspace: Fargate profiles that wait: a (the control plane comes first)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one to be made, while paused": {Facts{ClusterReady: true, Paused: "annotation", Profiles: []Profile{named("a", good), named("b", owner.Facts{})}},
			"False Paused: Fargate profiles that wait: b (nothing is made or changed while the control plane is paused: annotation)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one that spec no longer has, while paused": {Facts{ClusterReady: true, Paused: "annotation", Leaving: []Profile{named("old", good)}},
			"False Paused: Fargate profiles that wait: old (nothing is deleted while the control plane is paused: annotation)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one in the making, when paused": {Facts{ClusterReady: true, Paused: "annotation", Profiles: []Profile{named("a", busy)}},
			"False FargateProfileCreating: Terraform makes or changes Fargate profiles, one at a time: a",
			"True FargateProfileCreating: Terraform makes or changes Fargate profiles, one at a time: a", "False FargateProfileNotFailed: ", true},
		"one on its way out": {Facts{ClusterReady: true, Profiles: []Profile{named("a", good)}, Leaving: []Profile{named("old", good)}},
			"False FargateProfileDeleting: Terraform deletes Fargate profiles, one at a time: old",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			report := row.facts.Report()
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

func TestWithoutProfilesNothingIsTold(t *testing.T) {
	assert.Equal(t, Report{}, (&Facts{ClusterReady: true}).Report())
}

func statuses(f Facts) (names []string) {
	for _, s := range f.Report().Statuses {
		names = append(names, s.Name)
	}
	return names
}

func TestStatusesAreInTheOrderOfSpecAndThoseThatLeaveComeLast(t *testing.T) {
	f := Facts{ClusterReady: true, Profiles: []Profile{named("z", good), named("b", busy), named("m", broken)}, Leaving: []Profile{named("a", good)}}
	assert.Equal(t, []string{"z", "b", "m", "a"}, statuses(f))
}

func TestAProfileForWhichNothingWasBegunHasNoStatus(t *testing.T) {
	assert.Empty(t, statuses(Facts{Profiles: []Profile{named("a", owner.Facts{})}}), "the control plane comes first")
	assert.Equal(t, []string{"a"}, statuses(Facts{ClusterReady: true, Missing: "Secret", Profiles: []Profile{named("a", owner.Facts{})}}))
}

// The API takes one status a name, and not more than 64.
func TestStatusesAreWhatTheAPITakes(t *testing.T) {
	assert.Equal(t, []string{"a"}, statuses(Facts{Leaving: []Profile{named("a", good), named("a", busy)}}))
	var many Facts
	for i := range maxStatuses + 1 {
		many.Leaving = append(many.Leaving, named(fmt.Sprint(i), good))
	}
	assert.Len(t, statuses(many), maxStatuses)
}

func TestWhatDeletionWaitsFor(t *testing.T) {
	assert.Nil(t, (&Facts{}).Deleting())

	two := Facts{Leaving: []Profile{named("a", deletingBecause(infrav1.WaitingForWorkspaceDeletionReason, "Terraform destroys")), named("b", good)}}
	condition := two.Deleting()
	assert.Equal(t, controlplanev1.FargateProfileDeletingReason, condition.Reason)
	assert.Equal(t, "the EKS cluster stays until its Fargate profiles are gone, which Terraform deletes one at a time: "+
		"a (WorkspaceTemplateApply "+applyName+": Terraform destroys); b", condition.Message)

	stuck := Facts{Leaving: []Profile{named("a", deletingBecause(infrav1.DestroyFailedReason, "AccessDenied"))}}
	assert.Equal(t, controlplanev1.FargateProfileFailedReason, stuck.Deleting().Reason)
	assert.Contains(t, stuck.Deleting().Message, "AccessDenied")

	two.Paused = "the annotation"
	assert.Contains(t, two.Deleting().Message, "nothing is deleted while the object is paused: the annotation")
}
