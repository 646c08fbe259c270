// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
)

// stage is the stage of a profile's life cycle.
type stage string

const (
	// waiting: the control plane is not ready, or paused.
	waiting stage = "waiting"
	// creating: Terraform creates or changes it, or is about to.
	creating stage = "creating"
	// ready: it is as spec wants it.
	ready stage = "ready"
	// dependencyMissing: a dependency is missing or unusable. The profile continues when that is repaired.
	dependencyMissing stage = "dependencyMissing"
	// failed: it could not be created, changed or deleted, and the user must act.
	failed stage = "failed"
	// deleting: Terraform destroys it, or is about to.
	deleting stage = "deleting"
)

// state is the stage of a profile, with a message.
type state struct {
	stage
	// message is why it is not ready.
	message string
}

// stateOf returns the state of a profile of spec.
func (p *Plan) stateOf(profile *PlannedProfile) state {
	apply := &profile.Apply
	switch {
	case apply.Ready():
		return state{stage: ready}
	case len(apply.Candidates) > 0:
		return state{failed, apply.AdoptionMessage()}
	case apply.Conflict != "", apply.Refused != nil:
		return state{failed, apply.Condition("", "").Message}
	case apply.Apply != nil && !apply.Apply.DeletionTimestamp.IsZero():
		return p.deletionState(apply.Facts)
	case (apply.Apply == nil || apply.Differs) && p.blocked() != nil:
		return *p.blocked()
	case apply.Working():
		return state{stage: creating}
	}
	return failureState(apply)
}

// blocked is the state of profiles that cannot be created or changed now; nil when they can.
func (p *Plan) blocked() *state {
	switch {
	case p.Missing != "":
		return &state{dependencyMissing, p.Missing}
	case p.Paused != "":
		return &state{waiting, owner.PausedMessage("created or updated", p.Paused)}
	case !p.Ready:
		return &state{waiting, "waiting for the control plane"}
	}
	return nil
}

// failureState is the state of a profile that Terraform cannot apply.
func failureState(apply *owner.Plan) state {
	condition := apply.Condition("", "")
	switch condition.Reason {
	case infrav1.WaitingForDependenciesReason, infrav1.TemplateNotFoundReason, infrav1.WorkspaceKindMissingReason,
		infrav1.ProviderConfigFailedReason, infrav1.WorkspaceUnclaimedReason, infrav1.WorkspacePausedReason, infrav1.LookupFailedReason:
		return state{dependencyMissing, condition.Message}
	}
	if dependency, ok := failedDependency(condition.Message); ok {
		return state{dependencyMissing, dependency + " cannot be used: " + condition.Message}
	}
	return state{failed, condition.Message}
}

// deletionState is the state of a profile that is being deleted, or is about to be.
func (p *Plan) deletionState(facts *owner.Facts) state {
	apply := facts.Apply
	if p.Paused != "" && apply.DeletionTimestamp.IsZero() {
		return state{waiting, owner.PausedMessage("deleted", p.Paused)}
	}
	cause := conditions.Get(apply, infrav1.DeletingCondition)
	if cause == nil || apply.DeletionTimestamp.IsZero() || cause.Reason == infrav1.NotDeletingReason {
		return state{stage: deleting}
	}
	message := fmt.Sprintf("WorkspaceTemplateApply %s: %s", apply.Name, cause.Message)
	if infrav1.RequiresUserAction(cause.Reason) {
		return state{failed, message}
	}
	return state{deleting, message}
}

// status of a profile in the API.
func (s state) status(name string, apply *infrav1.WorkspaceTemplateApply) controlplanev1.FargateProfileStatus {
	status := controlplanev1.FargateProfileStatus{Name: name, Ready: infrav1.ConditionStatus(s.stage == ready)}
	if apply != nil {
		status.WorkspaceTemplateApplyName = apply.Name
	}
	switch s.stage {
	case failed:
		status.FailureReason, status.FailureMessage = controlplanev1.FargateProfileFailedReason, s.message
	case dependencyMissing:
		status.FailureReason, status.FailureMessage = controlplanev1.FargateProfileDependencyReason, s.message
	case waiting, creating, ready, deleting:
	}
	return status
}

// Report is the part of a control plane's status that is about its profiles.
type Report struct {
	// Statuses are those of the profiles of spec, in its order, then of obsolete ones. A profile that was not started is left out.
	Statuses []controlplanev1.FargateProfileStatus
	// Conditions are FargateProfileReady, FargateProfileCreating and FargateProfileFailed, in this order; none without profiles.
	Conditions []engine.Condition
	// Working is true while Terraform runs for a profile, or is about to, and nothing is wrong with any.
	Working bool
}

// maxStatuses is the limit of the API, which is higher than that of profiles in spec.
const maxStatuses = 64

// Types returns the types of the conditions of a Report.
func Types() []string {
	return []string{controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileFailedCondition}
}

// each calls visit for all profiles.
func (p *Plan) each(visit func(name string, apply *infrav1.WorkspaceTemplateApply, s state)) {
	for i := range p.Profiles {
		visit(p.Profiles[i].Name, p.Profiles[i].Apply.Apply, p.stateOf(&p.Profiles[i]))
	}
	for i := range p.Obsolete {
		visit(p.Obsolete[i].Name, p.Obsolete[i].Apply.Apply, p.deletionState(&p.Obsolete[i].Apply))
	}
}

// Report is a pure function of the plan and the results of its writes.
func (p *Plan) Report() (r Report) {
	byStage := map[stage][]string{}
	p.each(func(name string, apply *infrav1.WorkspaceTemplateApply, s state) {
		byStage[s.stage] = append(byStage[s.stage], s.describe(name))
		if begun := s.stage != waiting || apply != nil; begun && len(r.Statuses) < maxStatuses && find(r.Statuses, name).Name == "" {
			r.Statuses = append(r.Statuses, s.status(name, apply))
		}
	})
	if len(byStage) == 0 {
		return r
	}
	r.Conditions = []engine.Condition{p.readyCondition(byStage), creatingCondition(byStage[creating]), failedCondition(byStage[failed])}
	r.Working = len(byStage[failed]) == 0 && len(byStage[dependencyMissing]) == 0 && len(byStage[creating])+len(byStage[deleting])+len(byStage[waiting]) > 0
	return r
}

// describe names a profile, with the message of its state.
func (s state) describe(name string) string {
	if s.message == "" {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, s.message)
}

// listed returns a text that ends with "profile", in singular or plural, followed by the names of profiles.
func listed(text string, profiles []string) string {
	if len(profiles) > 1 {
		text += "s"
	}
	return text + " " + strings.Join(profiles, "; ")
}

// readyCondition has the reason that the user must look at first.
func (p *Plan) readyCondition(byStage map[stage][]string) engine.Condition {
	no := func(reason, text string, profiles []string) engine.Condition {
		return engine.False(controlplanev1.FargateProfileReadyCondition, reason, listed(text, profiles))
	}
	switch {
	case len(byStage[failed]) > 0:
		return no(controlplanev1.FargateProfileFailedReason, "failed Fargate profile", byStage[failed])
	case len(byStage[dependencyMissing]) > 0:
		return no(controlplanev1.FargateProfileDependencyReason, "missing dependency of Fargate profile", byStage[dependencyMissing])
	case len(byStage[creating]) > 0:
		return no(controlplanev1.FargateProfileCreatingReason, "creating or updating Fargate profile", byStage[creating])
	case len(byStage[deleting]) > 0:
		return no(controlplanev1.FargateProfileDeletingReason, "deleting Fargate profile", byStage[deleting])
	case len(byStage[waiting]) > 0 && p.Paused != "":
		return no(clusterv1.PausedReason, "pending Fargate profile", byStage[waiting])
	case len(byStage[waiting]) > 0:
		return no(controlplanev1.WaitingForWorkspaceReason, "pending Fargate profile", byStage[waiting])
	}
	return engine.True(controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileReadyReason, "")
}

func creatingCondition(profiles []string) engine.Condition {
	if len(profiles) == 0 {
		return engine.False(controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileNotCreatingReason, "")
	}
	return engine.True(controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileCreatingReason, listed("creating or updating Fargate profile", profiles))
}

func failedCondition(profiles []string) engine.Condition {
	if len(profiles) == 0 {
		return engine.False(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileNotFailedReason, "")
	}
	return engine.True(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileFailedReason, listed("failed Fargate profile", profiles))
}

// Set writes a report into the status of a control plane.
func (r Report) Set(controlPlane *controlplanev1.CAPTControlPlane) {
	controlPlane.Status.FargateProfiles = r.Statuses
	for i, condition := range r.Conditions {
		if i == 0 {
			engine.Set(controlPlane, condition)
			continue
		}
		engine.SetOnce(controlPlane, condition)
	}
	if len(r.Conditions) == 0 {
		for _, conditionType := range Types() {
			meta.RemoveStatusCondition(&controlPlane.Status.Conditions, conditionType)
		}
	}
}

// Deleting is the condition of a control plane whose deletion waits for profiles; nil when it does not.
func (p *Plan) Deleting() *engine.Condition {
	if len(p.Obsolete) == 0 {
		return nil
	}
	if p.Paused != "" {
		condition := engine.True(controlplanev1.DeletingCondition, infrav1.DeletingReason, owner.PausedMessage("deleted", p.Paused))
		return &condition
	}
	reason, profiles := controlplanev1.FargateProfileDeletingReason, make([]string, len(p.Obsolete))
	for i := range p.Obsolete {
		s := p.deletionState(&p.Obsolete[i].Apply)
		if profiles[i] = s.describe(p.Obsolete[i].Name); s.stage == failed {
			reason = controlplanev1.FargateProfileFailedReason
		}
	}
	condition := engine.True(controlplanev1.DeletingCondition, reason, listed("the control plane is deleted after its Fargate profiles; deleting Fargate profile", profiles))
	return &condition
}

// Measured returns the profiles for the metrics.
func (p *Plan) Measured() (profiles []metrics.Profile) {
	p.each(func(_ string, apply *infrav1.WorkspaceTemplateApply, s state) {
		profile := metrics.Profile{Ready: s.stage == ready, Failed: s.stage == failed}
		if apply != nil {
			profile.UID, profile.FirstTime = apply.UID, apply.Status.LastAppliedTime == nil
			if apply.Status.StartedTime != nil {
				profile.StartedAt = apply.Status.StartedTime.Time
			}
			if apply.DeletionTimestamp != nil {
				profile.DeletedAt = apply.DeletionTimestamp.Time
			}
		}
		profiles = append(profiles, profile)
	})
	return profiles
}
