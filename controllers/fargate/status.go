// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// Report is what a control plane tells of its profiles.
type Report struct {
	// Statuses of the profiles of spec, in its order, and then of those that are leaving. A profile for which nothing was begun
	// yet is left out.
	Statuses []controlplanev1.FargateProfileStatus
	// Conditions are FargateProfileReady, which is the first, FargateProfileCreating and FargateProfileFailed. There are none
	// when there are no profiles.
	Conditions []engine.Condition
	// Working is true while Terraform is at work on a profile, or about to be, and nothing is wrong with any.
	Working bool
}

// maxStatuses is how many statuses the API takes; those of spec are fewer.
const maxStatuses = 64

// Types of the conditions of a Report.
func Types() []string {
	return []string{controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileFailedCondition}
}

// Report is a pure function of the facts.
func (f *Facts) Report() Report {
	if f.none() {
		return Report{}
	}
	tally := map[stage][]string{}
	var r Report
	count := func(p *Profile, v view) {
		tally[v.stage] = append(tally[v.stage], told(p, v))
		if begun := v.stage != waiting || p.Apply.Apply != nil; begun && len(r.Statuses) < maxStatuses && find(r.Statuses, p.Name).Name == "" {
			r.Statuses = append(r.Statuses, v.status(p))
		}
	}
	for i := range f.Profiles {
		count(&f.Profiles[i], f.view(&f.Profiles[i]))
	}
	for i := range f.Leaving {
		count(&f.Leaving[i], f.leaving(&f.Leaving[i]))
	}
	r.Conditions = []engine.Condition{f.summary(tally), isCreating(tally[creating]), hasFailed(tally[failed])}
	r.Working = len(tally[failed]) == 0 && len(tally[deprived]) == 0 && len(tally[creating])+len(tally[deleting])+len(tally[waiting]) > 0
	return r
}

func told(p *Profile, v view) string {
	if v.message == "" {
		return p.Name
	}
	return fmt.Sprintf("%s (%s)", p.Name, v.message)
}

// summary is the condition FargateProfileReady. Of what stands in the way, the reason is what a person must look at first.
func (f *Facts) summary(tally map[stage][]string) engine.Condition {
	no := func(reason, what string, names []string) engine.Condition {
		return engine.False(controlplanev1.FargateProfileReadyCondition, reason, what+": "+strings.Join(names, "; "))
	}
	switch {
	case len(tally[failed]) > 0:
		return no(controlplanev1.FargateProfileFailedReason, "Fargate profiles that failed", tally[failed])
	case len(tally[deprived]) > 0:
		return no(controlplanev1.FargateProfileDependencyReason, "Fargate profiles that wait for what they need", tally[deprived])
	case len(tally[creating]) > 0:
		return no(controlplanev1.FargateProfileCreatingReason, "Terraform makes or changes Fargate profiles, one at a time", tally[creating])
	case len(tally[deleting]) > 0:
		return no(controlplanev1.FargateProfileDeletingReason, "Terraform deletes Fargate profiles, one at a time", tally[deleting])
	case len(tally[waiting]) > 0 && f.Paused != "":
		return no(clusterv1.PausedReason, "Fargate profiles that wait", tally[waiting])
	case len(tally[waiting]) > 0:
		return no(controlplanev1.WaitingForWorkspaceReason, "Fargate profiles that wait", tally[waiting])
	}
	return engine.True(controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileReadyReason, "")
}

func isCreating(names []string) engine.Condition {
	if len(names) == 0 {
		return engine.False(controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileNotCreatingReason, "")
	}
	return engine.True(controlplanev1.FargateProfileCreatingCondition, controlplanev1.FargateProfileCreatingReason,
		"Terraform makes or changes Fargate profiles, one at a time: "+strings.Join(names, "; "))
}

func hasFailed(names []string) engine.Condition {
	if len(names) == 0 {
		return engine.False(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileNotFailedReason, "")
	}
	return engine.True(controlplanev1.FargateProfileFailedCondition, controlplanev1.FargateProfileFailedReason,
		"Fargate profiles that failed: "+strings.Join(names, "; "))
}

// Set puts a report into the status of a control plane.
func (r Report) Set(controlPlane *controlplanev1.CAPTControlPlane) {
	controlPlane.Status.FargateProfiles = r.Statuses
	engine.Set(controlPlane, r.Conditions...)
	if len(r.Conditions) == 0 {
		for _, conditionType := range Types() {
			meta.RemoveStatusCondition(&controlPlane.Status.Conditions, conditionType)
		}
	}
}

// Deleting says which profiles a control plane that is deleted waits for; nil when for none.
func (f *Facts) Deleting() *engine.Condition {
	if len(f.Leaving) == 0 {
		return nil
	}
	condition := engine.Condition{Type: controlplanev1.DeletingCondition, Status: metav1.ConditionTrue, Reason: controlplanev1.FargateProfileDeletingReason}
	if f.Paused != "" {
		condition.Reason, condition.Message = infrav1.DeletingReason, "nothing is deleted while the object is paused: "+f.Paused
		return &condition
	}
	names := make([]string, len(f.Leaving))
	for i := range f.Leaving {
		v := f.leaving(&f.Leaving[i])
		if names[i] = told(&f.Leaving[i], v); v.stage == failed {
			condition.Reason = controlplanev1.FargateProfileFailedReason
		}
	}
	condition.Message = "the EKS cluster stays until its Fargate profiles are gone, which Terraform deletes one at a time: " + strings.Join(names, "; ")
	return &condition
}
