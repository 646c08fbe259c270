// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

const applyName = "demo-monitoring-fargate-apply"

func made(options ...builder.Option) owner.Facts {
	return owner.Facts{Live: builder.WorkspaceTemplateApply(applyName, options...)}
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
		"about to be made":                      {apply: as(owner.Facts{}), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: creating},
		"Terraform running":                     {apply: as(shows(infrav1.ProvisioningReason, "")), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: creating},
		"another one comes first":               {apply: as(shows(infrav1.QueuedReason, "")), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: creating},
		"ready":                                 {apply: as(made(builder.UpToDate(nil))), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: ready},
		"ready, while the control plane is not": {apply: as(made(builder.UpToDate(nil))), stage: ready},
		"could not be made": {as(shows(infrav1.ApplyFailedReason, "Failed to create Fargate profile: subnet not found")), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure,
			"WorkspaceTemplateApply " + applyName + ": Failed to create Fargate profile: subnet not found"},

		"about to be changed":                     {apply: differing(made(builder.UpToDate(nil))), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: creating},
		"to be changed after the control plane":   {apply: differing(made(builder.UpToDate(nil))), stage: waiting},
		"a Secret is missing":                     {as(owner.Facts{}), Plan{PlanInput: PlanInput{Ready: true}, Missing: "Secret x does not exist"}, dependencyMissing, dependency, "Secret x does not exist"},
		"a Secret is missing for a change":        {differing(made(builder.UpToDate(nil))), Plan{PlanInput: PlanInput{Ready: true}, Missing: "no key"}, dependencyMissing, dependency, "no key"},
		"a Secret is missing for others only":     {apply: as(made(builder.UpToDate(nil))), plan: Plan{PlanInput: PlanInput{Ready: true}, Missing: "no key"}, stage: ready},
		"a Secret went away before it was made":   {as(shows(infrav1.WaitingForDependenciesReason, "Secret x has no key")), Plan{PlanInput: PlanInput{Ready: true}}, dependencyMissing, dependency, "Secret x has no key"},
		"no template":                             {as(shows(infrav1.TemplateNotFoundReason, "no template")), Plan{PlanInput: PlanInput{Ready: true}}, dependencyMissing, dependency, "no template"},
		"provider down":                           {as(shows(infrav1.WorkspaceNotReconciledReason, "provider")), Plan{PlanInput: PlanInput{Ready: true}}, dependencyMissing, dependency, "provider"},
		"no ProviderConfig":                       {as(shows(infrav1.ProviderConfigFailedReason, "config")), Plan{PlanInput: PlanInput{Ready: true}}, dependencyMissing, dependency, "config"},
		"an invalid template":                     {as(shows(infrav1.TemplateInvalidReason, "line 3")), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure, "line 3"},
		"interrupted":                             {as(shows(infrav1.CreateInterruptedReason, "look")), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure, "look"},
		"of another owner":                        {as(owner.Facts{Conflict: "belongs to other"}), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure, "belongs to other"},
		"refused":                                 {as(owner.Facts{Refused: assert.AnError}), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure, assert.AnError.Error()},
		"the user must decide":                    {as(owner.Facts{Block: &desired.Blocked{Message: "by-hand"}}), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure, "by-hand"},
		"being deleted by another client":         {apply: as(made(builder.Deleting())), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: deleting},
		"being deleted, which fails":              {as(deletingBecause(infrav1.DestroyFailedReason, "AccessDenied")), Plan{PlanInput: PlanInput{Ready: true}}, failed, failure, "AccessDenied"},
		"being deleted, another one comes first":  {apply: as(deletingBecause(infrav1.QueuedReason, "turn")), plan: Plan{PlanInput: PlanInput{Ready: true}}, stage: deleting},
		"not looked at: the Cluster is not known": {apply: as(shows(infrav1.ProvisioningReason, "")), stage: creating},
	} {
		t.Run(name, func(t *testing.T) {
			s := row.plan.stateOf(&PlannedProfile{Name: "monitoring", Apply: row.apply})
			assert.Equal(t, row.stage, s.stage)
			got := s.status("monitoring", row.apply.Live)
			assert.Equal(t, "monitoring", got.Name)
			assert.Equal(t, row.stage, got.State)
			assert.Equal(t, infrav1.ConditionStatus(row.stage == ready), got.Ready)
			assert.Equal(t, row.reason, got.FailureReason)
			assert.Equal(t, row.reason == "", got.FailureMessage == "")
			assert.Contains(t, got.FailureMessage, row.message)
			if row.apply.Live != nil {
				assert.Equal(t, applyName, got.WorkspaceTemplateApplyName)
			}
		})
	}
}

var resource = schema.GroupResource{Resource: "workspacetemplateapplies"}

// answering lets the API server answer the first writes of WorkspaceTemplateApplies with an error each.
func (env *environment) answering(errs ...error) {
	env.Client = interceptor.NewClient(env.Client.(client.WithWatch), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if len(errs) > 0 {
				err := errs[0]
				errs = errs[1:]
				return err
			}
			return c.Apply(ctx, object, options...)
		},
	})
}

// The others are created, and the user who can correct it sees what the API server reported.
func TestARefusedProfileDoesNotBlockOthers(t *testing.T) {
	env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a", "b")), vpcSecret())
	env.answering(apierrors.NewForbidden(resource, "demo-a-fargate-apply", nil))
	f := env.plan(cluster())
	require.ErrorContains(t, f.Act(ctx, env.Client, env.Client), "writing Fargate profile a")
	require.Len(t, env.applies(), 1)
	assert.Equal(t, "b", env.applies()[0].Spec.Variables.Text("profile_name"))
	status := f.Report(builder.Created).Statuses[0]
	assert.Equal(t, controlplanev1.FargateProfileFailedReason, status.FailureReason)
	assert.Contains(t, status.FailureMessage, "the API server rejected the WorkspaceTemplateApply")
}

// Errors of the API server are not errors of the profile: they are retried and not reported.
func TestAnErrorOfTheAPIServerIsRetried(t *testing.T) {
	for name, err := range map[string]error{
		"an API server that is busy": apierrors.NewTooManyRequests("later", 1),
		"a conflict of versions":     apierrors.NewConflict(resource, "demo-a-fargate-apply", nil),
		"no answer":                  context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.CAPTControlPlane("demo", withProfiles("a")), vpcSecret())
			env.answering(err)
			f := env.plan(cluster())
			require.ErrorIs(t, f.Act(ctx, env.Client, env.Client), err)
			assert.Equal(t, creating, f.stateOf(&f.Profiles[0]).stage)
			env.act(env.plan(cluster()))
			assert.Len(t, env.applies(), 1)
		})
	}
}

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
		"one in the making": {Plan{PlanInput: PlanInput{Ready: true}, Profiles: []PlannedProfile{planned("a", good), planned("b", busy), planned("c", owner.Facts{})}},
			"False FargateProfileCreating: creating or updating Fargate profiles b; c",
			"True FargateProfileCreating: creating or updating Fargate profiles b; c", "False FargateProfileNotFailed: ", true},
		"one failed, one in the making": {Plan{PlanInput: PlanInput{Ready: true}, Profiles: []PlannedProfile{planned("a", broken), planned("b", busy)}},
			"False FargateProfileFailed: failed Fargate profile a (WorkspaceTemplateApply " + applyName + ": limit)",
			"True FargateProfileCreating: creating or updating Fargate profile b",
			"True FargateProfileFailed: failed Fargate profile a (WorkspaceTemplateApply " + applyName + ": limit)", false},
		"one without what it needs": {Plan{PlanInput: PlanInput{Ready: true}, Profiles: []PlannedProfile{planned("a", lacks), planned("b", busy)}},
			"False FargateProfileDependencyNotReady: missing dependency of Fargate profile a (WorkspaceTemplateApply " + applyName + ": no key)",
			"True FargateProfileCreating: creating or updating Fargate profile b", "False FargateProfileNotFailed: ", false},
		"before the control plane": {Plan{Profiles: []PlannedProfile{planned("a", owner.Facts{})}},
			"False WaitingForWorkspace: pending Fargate profile a (waiting for the control plane)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one to be made, while paused": {Plan{PlanInput: PlanInput{Ready: true, Paused: "annotation"}, Profiles: []PlannedProfile{planned("a", good), planned("b", owner.Facts{})}},
			"False Paused: pending Fargate profile b (nothing is created or updated while the object is paused: annotation)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one that spec no longer has, while paused": {Plan{PlanInput: PlanInput{Ready: true, Paused: "annotation"}, Obsolete: []Profile{obsolete("old", good)}},
			"False Paused: pending Fargate profile old (nothing is deleted while the object is paused: annotation)",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
		"one in the making, when paused": {Plan{PlanInput: PlanInput{Ready: true, Paused: "annotation"}, Profiles: []PlannedProfile{planned("a", busy)}},
			"False FargateProfileCreating: creating or updating Fargate profile a",
			"True FargateProfileCreating: creating or updating Fargate profile a", "False FargateProfileNotFailed: ", true},
		"one on its way out": {Plan{PlanInput: PlanInput{Ready: true}, Profiles: []PlannedProfile{planned("a", good)}, Obsolete: []Profile{obsolete("old", good)}},
			"False FargateProfileDeleting: deleting Fargate profile old",
			"False FargateProfileNotCreating: ", "False FargateProfileNotFailed: ", true},
	} {
		t.Run(name, func(t *testing.T) {
			report := row.plan.Report(builder.Created)
			var got []string
			for i, condition := range report.Conditions {
				assert.Equal(t, ConditionTypes()[i], condition.Type)
				got = append(got, fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message))
			}
			assert.Equal(t, []string{row.ready, row.creating, row.hasFailed}, got)
			assert.Equal(t, row.working, report.Working)
		})
	}
}

func TestTheReportIsEmptyWithoutProfiles(t *testing.T) {
	assert.Equal(t, Report{Now: metav1.NewTime(builder.Created)}, (&Plan{PlanInput: PlanInput{Ready: true}}).Report(builder.Created))
}

func statuses(p Plan) (names []string) {
	for _, s := range p.Report(builder.Created).Statuses {
		names = append(names, s.Name)
	}
	return names
}

func TestObsoleteProfilesAreReportedLast(t *testing.T) {
	p := Plan{PlanInput: PlanInput{Ready: true}, Profiles: []PlannedProfile{planned("z", good), planned("b", busy), planned("m", broken)}, Obsolete: []Profile{obsolete("a", good)}}
	assert.Equal(t, []string{"z", "b", "m", "a"}, statuses(p))
}

func TestAProfileThatWasNotBegunHasNoStatus(t *testing.T) {
	assert.Empty(t, statuses(Plan{Profiles: []PlannedProfile{planned("a", owner.Facts{})}}), "the control plane comes first")
	assert.Equal(t, []string{"a"}, statuses(Plan{PlanInput: PlanInput{Ready: true}, Missing: "Secret", Profiles: []PlannedProfile{planned("a", owner.Facts{})}}))
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

func plane(deleted bool, spec []string, statuses ...controlplanev1.FargateProfileStatus) *controlplanev1.CAPTControlPlane {
	controlPlane := builder.CAPTControlPlane("demo")
	if deleted {
		builder.Deleting()(controlPlane)
	}
	for _, name := range spec {
		controlPlane.Spec.FargateProfiles = append(controlPlane.Spec.FargateProfiles, controlplanev1.FargateProfile{Name: name})
	}
	controlPlane.Status.FargateProfiles = statuses
	return controlPlane
}

func TestAStatusKeepsItsTransitionTime(t *testing.T) {
	later := builder.Created.Add(time.Hour)
	controlPlane := plane(false, []string{"a"})
	for _, step := range []struct {
		state controlplanev1.FargateProfileState
		now   time.Time
		want  time.Time
	}{
		{creating, builder.Created, builder.Created}, {creating, later, builder.Created}, {ready, later, later},
	} {
		report := Report{Now: metav1.NewTime(step.now), Statuses: []controlplanev1.FargateProfileStatus{{Name: "a", State: step.state}}}
		report.SetStatuses(controlPlane)
		assert.Equal(t, step.want, controlPlane.Status.FargateProfiles[0].LastTransitionTime.Time)
	}
}

func TestEvents(t *testing.T) {
	is := func(isReady bool, reason, message string) controlplanev1.FargateProfileStatus {
		return controlplanev1.FargateProfileStatus{Name: "a", Ready: infrav1.ConditionStatus(isReady), WorkspaceTemplateApplyName: "wta", FailureReason: reason, FailureMessage: message}
	}
	unmade := controlplanev1.FargateProfileStatus{Name: "a", Ready: metav1.ConditionFalse}
	lacking := controlplanev1.FargateProfileStatus{Name: "a", Ready: metav1.ConditionFalse, FailureReason: controlplanev1.FargateProfileDependencyReason, FailureMessage: "no Secret"}
	inSpec, none := []string{"a"}, []controlplanev1.FargateProfileStatus(nil)
	all := func(s ...controlplanev1.FargateProfileStatus) []controlplanev1.FargateProfileStatus { return s }
	for name, row := range map[string]struct {
		before, after []controlplanev1.FargateProfileStatus
		spec          []string
		deleted       bool
		want          string
	}{
		"being made":                 {none, all(is(false, "", "")), inSpec, false, "Normal FargateProfileCreating: creating Fargate profile a; see WorkspaceTemplateApply wta"},
		"made after a Secret came":   {all(lacking), all(is(false, "", "")), inSpec, false, "Normal FargateProfileCreating: creating Fargate profile a; see WorkspaceTemplateApply wta"},
		"ready":                      {all(is(false, "", "")), all(is(true, "", "")), inSpec, false, "Normal FargateProfileReady: Fargate profile a is ready"},
		"failed":                     {all(is(false, "", "")), all(is(false, "FargateProfileFailed", "limit")), inSpec, false, "Warning FargateProfileFailed: Fargate profile a: limit"},
		"failed in other words":      {all(is(false, "FargateProfileFailed", "x")), all(is(false, "FargateProfileFailed", "y")), inSpec, false, ""},
		"ready after all":            {all(is(false, "FargateProfileFailed", "limit")), all(is(true, "", "")), inSpec, false, "Normal FargateProfileReady: Fargate profile a is ready"},
		"a Secret is missing":        {none, all(lacking), inSpec, false, "Warning FargateProfileDependencyNotReady: Fargate profile a: no Secret"},
		"about to be made":           {none, all(unmade), inSpec, false, ""},
		"an edit":                    {all(is(true, "", "")), all(is(false, "", "")), inSpec, false, "Normal FargateProfileCreating: updating Fargate profile a; see WorkspaceTemplateApply wta"},
		"taken out of spec":          {all(is(true, "", "")), all(is(false, "", "")), nil, false, "Normal FargateProfileDeleting: deleting Fargate profile a"},
		"taken out after it failed":  {all(is(false, "FargateProfileFailed", "limit")), all(is(false, "", "")), nil, false, "Normal FargateProfileDeleting: deleting Fargate profile a"},
		"gone with the cluster":      {all(is(true, "", "")), all(is(false, "", "")), inSpec, true, "Normal FargateProfileDeleting: deleting Fargate profile a"},
		"gone":                       {all(is(false, "", "")), none, nil, false, "Normal FargateProfileDeleted: Fargate profile a was deleted"},
		"never made, and not wanted": {all(lacking), none, nil, false, ""},
		"at rest":                    {all(is(true, "", "")), all(is(true, "", "")), inSpec, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, note := range Events(plane(false, row.spec, row.before...), plane(row.deleted, row.spec, row.after...)) {
				assert.Equal(t, "spec.fargateProfiles{a}", note.Related.(*corev1.ObjectReference).FieldPath)
				got += note.Type + " " + note.Reason + ": " + note.Message
			}
			assert.Equal(t, row.want, got)
		})
	}
}
