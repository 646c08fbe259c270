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
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

const applyName = "demo-monitoring-fargate-apply"

func made(options ...builder.Option) owner.Facts {
	return owner.Facts{Apply: builder.WorkspaceTemplateApply(applyName, options...)}
}

func shows(reason, message string) owner.Facts { return made(builder.NotUpToDate(reason, message)) }

// wanting is a profile that spec wants otherwise than it is.
func wanting(facts owner.Facts) owner.Facts {
	desired, err := engine.Unstructured(builder.WorkspaceTemplateApply(applyName, builder.WithVariables(map[string]string{"selectors": "other"})))
	if err != nil {
		panic(err)
	}
	facts.Desired = desired
	return facts
}

// deletingBecause is a profile that is being deleted, with what its Deleting condition says.
func deletingBecause(reason, message string) owner.Facts {
	return made(builder.Deleting(), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{
			Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		})
	}))
}

// The four states of the design note come first, then what can stand in the way. status is that of the API: whether it is ready,
// and failureReason and failureMessage.
func TestWhatIsToldOfAProfile(t *testing.T) {
	const dependency, failure = controlplanev1.FargateProfileDependencyReason, controlplanev1.FargateProfileFailedReason
	for name, row := range map[string]struct {
		apply   owner.Facts
		facts   Facts
		stage   stage
		reason  string
		message string
	}{
		"the control plane is not there":        {apply: owner.Facts{}, stage: waiting},
		"about to be made":                      {apply: owner.Facts{}, facts: Facts{ClusterReady: true}, stage: creating},
		"Terraform at work":                     {apply: shows(infrav1.ProvisioningReason, ""), facts: Facts{ClusterReady: true}, stage: creating},
		"another one comes first":               {apply: shows(infrav1.WaitingForTurnReason, ""), facts: Facts{ClusterReady: true}, stage: creating},
		"ready":                                 {apply: made(builder.UpToDate(nil)), facts: Facts{ClusterReady: true}, stage: ready},
		"ready, while the control plane is not": {apply: made(builder.UpToDate(nil)), stage: ready},
		"could not be made": {shows(infrav1.ApplyFailedReason, "Failed to create Fargate profile: subnet not found"), Facts{ClusterReady: true}, failed, failure,
			"WorkspaceTemplateApply " + applyName + ": Failed to create Fargate profile: subnet not found"},

		"about to be changed":                     {apply: wanting(made(builder.UpToDate(nil))), facts: Facts{ClusterReady: true}, stage: creating},
		"to be changed after the control plane":   {apply: wanting(made(builder.UpToDate(nil))), stage: waiting},
		"a Secret is missing":                     {owner.Facts{}, Facts{ClusterReady: true, Missing: "Secret x does not exist"}, deprived, dependency, "Secret x does not exist"},
		"a Secret is missing for a change":        {wanting(made(builder.UpToDate(nil))), Facts{ClusterReady: true, Missing: "no key"}, deprived, dependency, "no key"},
		"a Secret is missing for others only":     {apply: made(builder.UpToDate(nil)), facts: Facts{ClusterReady: true, Missing: "no key"}, stage: ready},
		"a Secret went away before it was made":   {shows(infrav1.WaitingForDependenciesReason, "Secret x has no key"), Facts{ClusterReady: true}, deprived, dependency, "Secret x has no key"},
		"no template":                             {shows(infrav1.TemplateNotFoundReason, "no template"), Facts{ClusterReady: true}, deprived, dependency, "no template"},
		"provider down":                           {shows(infrav1.WorkspaceUnclaimedReason, "provider"), Facts{ClusterReady: true}, deprived, dependency, "provider"},
		"no ProviderConfig":                       {shows(infrav1.ProviderConfigFailedReason, "config"), Facts{ClusterReady: true}, deprived, dependency, "config"},
		"a template that is none":                 {shows(infrav1.TemplateInvalidReason, "line 3"), Facts{ClusterReady: true}, failed, failure, "line 3"},
		"interrupted":                             {shows(infrav1.CreateInterruptedReason, "look"), Facts{ClusterReady: true}, failed, failure, "look"},
		"somebody else's":                         {owner.Facts{Claimed: "belongs to other"}, Facts{ClusterReady: true}, failed, failure, "belongs to other"},
		"refused":                                 {owner.Facts{Refused: assert.AnError}, Facts{ClusterReady: true}, failed, failure, assert.AnError.Error()},
		"a person must decide":                    {owner.Facts{Candidates: []adoption.Candidate{{Name: "by-hand", Evidence: []adoption.Evidence{adoption.Referred}}}, Unadopted: "older"}, Facts{ClusterReady: true}, failed, failure, "by-hand"},
		"being deleted by somebody":               {apply: made(builder.Deleting()), facts: Facts{ClusterReady: true}, stage: deleting},
		"being deleted, which fails":              {deletingBecause(infrav1.DestroyFailedReason, "AccessDenied"), Facts{ClusterReady: true}, failed, failure, "AccessDenied"},
		"being deleted, another one comes first":  {apply: deletingBecause(infrav1.WaitingForTurnReason, "turn"), facts: Facts{ClusterReady: true}, stage: deleting},
		"not looked at: the Cluster is not known": {apply: shows(infrav1.ProvisioningReason, ""), stage: creating},
	} {
		t.Run(name, func(t *testing.T) {
			profile := &Profile{Name: "monitoring", Apply: row.apply}
			v := row.facts.view(profile)
			assert.Equal(t, row.stage, v.stage)
			got := v.status(profile)
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
