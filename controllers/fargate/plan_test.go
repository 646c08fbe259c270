// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

const applyName = "demo-monitoring-fargate-apply"

func made(options ...builder.Option) owner.Facts {
	return owner.Facts{Apply: builder.WorkspaceTemplateApply(applyName, options...)}
}

func shows(reason, message string) owner.Facts { return made(builder.NotUpToDate(reason, message)) }

// differing is a profile that spec wants otherwise than it is.
func differing(facts owner.Facts) owner.Plan { return owner.Plan{Facts: &facts, Differs: true} }

func as(facts owner.Facts) owner.Plan {
	return owner.Plan{Facts: &facts, Owner: owner.Owner{Creates: "Fargate profile monitoring"}}
}

// deletingBecause is a profile that is being deleted, with what its Deleting condition says.
func deletingBecause(reason, message string) owner.Facts {
	return made(builder.Deleting(), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{
			Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		})
	}))
}

// The four states of the design note come first, then the obstacles. reason and message are failureReason and failureMessage.
func TestStateOfAProfile(t *testing.T) {
	const dependency, failure = controlplanev1.FargateProfileDependencyReason, controlplanev1.FargateProfileFailedReason
	for name, row := range map[string]struct {
		apply   owner.Plan
		plan    Plan
		stage   stage
		reason  string
		message string
	}{
		"the control plane is not there":        {apply: as(owner.Facts{}), stage: waiting},
		"about to be made":                      {apply: as(owner.Facts{}), plan: Plan{Intent: Intent{Ready: true}}, stage: creating},
		"Terraform running":                     {apply: as(shows(infrav1.ProvisioningReason, "")), plan: Plan{Intent: Intent{Ready: true}}, stage: creating},
		"another one comes first":               {apply: as(shows(infrav1.WaitingForTurnReason, "")), plan: Plan{Intent: Intent{Ready: true}}, stage: creating},
		"ready":                                 {apply: as(made(builder.UpToDate(nil))), plan: Plan{Intent: Intent{Ready: true}}, stage: ready},
		"ready, while the control plane is not": {apply: as(made(builder.UpToDate(nil))), stage: ready},
		"could not be made": {as(shows(infrav1.ApplyFailedReason, "Failed to create Fargate profile: subnet not found")), Plan{Intent: Intent{Ready: true}}, failed, failure,
			"WorkspaceTemplateApply " + applyName + ": Failed to create Fargate profile: subnet not found"},

		"about to be changed":                     {apply: differing(made(builder.UpToDate(nil))), plan: Plan{Intent: Intent{Ready: true}}, stage: creating},
		"to be changed after the control plane":   {apply: differing(made(builder.UpToDate(nil))), stage: waiting},
		"a Secret is missing":                     {as(owner.Facts{}), Plan{Intent: Intent{Ready: true}, Missing: "Secret x does not exist"}, dependencyMissing, dependency, "Secret x does not exist"},
		"a Secret is missing for a change":        {differing(made(builder.UpToDate(nil))), Plan{Intent: Intent{Ready: true}, Missing: "no key"}, dependencyMissing, dependency, "no key"},
		"a Secret is missing for others only":     {apply: as(made(builder.UpToDate(nil))), plan: Plan{Intent: Intent{Ready: true}, Missing: "no key"}, stage: ready},
		"a Secret went away before it was made":   {as(shows(infrav1.WaitingForDependenciesReason, "Secret x has no key")), Plan{Intent: Intent{Ready: true}}, dependencyMissing, dependency, "Secret x has no key"},
		"no template":                             {as(shows(infrav1.TemplateNotFoundReason, "no template")), Plan{Intent: Intent{Ready: true}}, dependencyMissing, dependency, "no template"},
		"provider down":                           {as(shows(infrav1.WorkspaceUnclaimedReason, "provider")), Plan{Intent: Intent{Ready: true}}, dependencyMissing, dependency, "provider"},
		"no ProviderConfig":                       {as(shows(infrav1.ProviderConfigFailedReason, "config")), Plan{Intent: Intent{Ready: true}}, dependencyMissing, dependency, "config"},
		"an invalid template":                     {as(shows(infrav1.TemplateInvalidReason, "line 3")), Plan{Intent: Intent{Ready: true}}, failed, failure, "line 3"},
		"interrupted":                             {as(shows(infrav1.CreateInterruptedReason, "look")), Plan{Intent: Intent{Ready: true}}, failed, failure, "look"},
		"of another owner":                        {as(owner.Facts{Conflict: "belongs to other"}), Plan{Intent: Intent{Ready: true}}, failed, failure, "belongs to other"},
		"refused":                                 {as(owner.Facts{Refused: assert.AnError}), Plan{Intent: Intent{Ready: true}}, failed, failure, assert.AnError.Error()},
		"the user must decide":                    {as(owner.Facts{Candidates: []adoption.Candidate{{Name: "by-hand", Evidence: []adoption.Evidence{adoption.Referred}}}, Unadopted: "older"}), Plan{Intent: Intent{Ready: true}}, failed, failure, "by-hand"},
		"being deleted by another client":         {apply: as(made(builder.Deleting())), plan: Plan{Intent: Intent{Ready: true}}, stage: deleting},
		"being deleted, which fails":              {as(deletingBecause(infrav1.DestroyFailedReason, "AccessDenied")), Plan{Intent: Intent{Ready: true}}, failed, failure, "AccessDenied"},
		"being deleted, another one comes first":  {apply: as(deletingBecause(infrav1.WaitingForTurnReason, "turn")), plan: Plan{Intent: Intent{Ready: true}}, stage: deleting},
		"not looked at: the Cluster is not known": {apply: as(shows(infrav1.ProvisioningReason, "")), stage: creating},
	} {
		t.Run(name, func(t *testing.T) {
			s := row.plan.stateOf(&PlannedProfile{Name: "monitoring", Apply: row.apply})
			assert.Equal(t, row.stage, s.stage)
			got := s.status("monitoring", row.apply.Apply)
			assert.Equal(t, "monitoring", got.Name)
			assert.Equal(t, infrav1.ConditionStatus(row.stage == ready), got.Ready)
			assert.Equal(t, row.reason, got.FailureReason)
			assert.Equal(t, row.reason == "", got.FailureMessage == "")
			assert.Contains(t, got.FailureMessage, row.message)
			if row.apply.Apply != nil {
				assert.Equal(t, applyName, got.WorkspaceTemplateApplyName)
			}
		})
	}
}
