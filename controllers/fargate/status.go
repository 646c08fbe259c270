// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
)

// status of a profile in the API.
func (s state) status(name string, apply *infrav1.WorkspaceTemplateApply) controlplanev1.FargateProfileStatus {
	status := controlplanev1.FargateProfileStatus{Name: name, State: s.stage, Ready: infrav1.ConditionStatus(s.stage == ready)}
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
	// Now is the time of the report.
	Now metav1.Time
}

// maxStatuses is the limit of the API, which is higher than that of profiles in spec.
const maxStatuses = 64

// ConditionTypes returns the types of the conditions of a Report.
func ConditionTypes() []string {
	return []string{controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileFailedCondition}
}

// forEach calls visit for all profiles.
func (p *Plan) forEach(visit func(name string, apply *infrav1.WorkspaceTemplateApply, s state)) {
	for i := range p.Profiles {
		visit(p.Profiles[i].Name, p.Profiles[i].Apply.Apply, p.stateOf(&p.Profiles[i]))
	}
	for i := range p.Obsolete {
		visit(p.Obsolete[i].Name, p.Obsolete[i].Apply.Apply, p.deletionState(&p.Obsolete[i].Apply))
	}
}

// Report is a pure function of the plan and the results of its writes.
func (p *Plan) Report(now time.Time) (r Report) {
	r.Now = metav1.NewTime(now).Rfc3339Copy()
	byStage := map[stage][]string{}
	p.forEach(func(name string, apply *infrav1.WorkspaceTemplateApply, s state) {
		byStage[s.stage] = append(byStage[s.stage], s.describe(name))
		if begun := s.stage != waiting || apply != nil; begun && len(r.Statuses) < maxStatuses && statusOf(r.Statuses, name).Name == "" {
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

// listProfiles returns a text that ends with "profile", in singular or plural, followed by the names of profiles.
func listProfiles(text string, profiles []string) string {
	if len(profiles) > 1 {
		text += "s"
	}
	return text + " " + strings.Join(profiles, "; ")
}

// readyCondition has the reason that the user must look at first.
func (p *Plan) readyCondition(byStage map[stage][]string) engine.Condition {
	no := func(reason, text string, profiles []string) engine.Condition {
		return engine.False(controlplanev1.FargateProfileReadyCondition, reason, listProfiles(text, profiles))
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
	return engine.True(controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileCreatingReason, listProfiles("creating or updating Fargate profile", profiles))
}

func failedCondition(profiles []string) engine.Condition {
	if len(profiles) == 0 {
		return engine.False(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileNotFailedReason, "")
	}
	return engine.True(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileFailedReason, listProfiles("failed Fargate profile", profiles))
}

// Set writes a report into the status of a control plane.
func (r Report) Set(controlPlane *controlplanev1.CAPTControlPlane) {
	r.SetStatuses(controlPlane)
	for i, condition := range r.Conditions {
		if i == 0 {
			engine.Set(controlPlane, condition)
			continue
		}
		engine.SetNegativePolarity(controlPlane, condition)
	}
	if len(r.Conditions) == 0 {
		for _, conditionType := range ConditionTypes() {
			meta.RemoveStatusCondition(&controlPlane.Status.Conditions, conditionType)
		}
	}
}

// SetStatuses writes the statuses of profiles into the status of a control plane. One whose state has not changed keeps its transition time.
func (r Report) SetStatuses(controlPlane *controlplanev1.CAPTControlPlane) {
	for i := range r.Statuses {
		status := &r.Statuses[i]
		before := statusOf(controlPlane.Status.FargateProfiles, status.Name)
		if status.LastTransitionTime = before.LastTransitionTime; before.State != status.State || before.LastTransitionTime == nil {
			status.LastTransitionTime = ptr.To(r.Now)
		}
	}
	controlPlane.Status.FargateProfiles = r.Statuses
}

// Deleting is the condition of a control plane whose deletion waits for profiles; nil when it does not.
func (p *Plan) Deleting() *engine.Condition {
	if len(p.Obsolete) == 0 {
		return nil
	}
	if p.Paused != "" {
		condition := engine.True(controlplanev1.DeletingCondition, infrav1.DeletingReason, engine.PausedMessage("deleted", p.Paused))
		return &condition
	}
	reason, profiles := controlplanev1.FargateProfileDeletingReason, make([]string, len(p.Obsolete))
	for i := range p.Obsolete {
		s := p.deletionState(&p.Obsolete[i].Apply)
		if profiles[i] = s.describe(p.Obsolete[i].Name); s.stage == failed {
			reason = controlplanev1.FargateProfileFailedReason
		}
	}
	condition := engine.True(controlplanev1.DeletingCondition, reason, listProfiles("the control plane is deleted after its Fargate profiles; deleting Fargate profile", profiles))
	return &condition
}

// MetricProfiles returns the profiles as the metrics count them.
func (p *Plan) MetricProfiles() (profiles []metrics.Profile) {
	p.forEach(func(_ string, apply *infrav1.WorkspaceTemplateApply, s state) {
		profile := metrics.Profile{Ready: s.stage == ready, Failed: s.stage == failed, DependencyMissing: s.stage == dependencyMissing}
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
