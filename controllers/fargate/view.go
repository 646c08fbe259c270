// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"

	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// stage is where a profile is in its life.
type stage string

const (
	// waiting: the EKS cluster comes first, or the control plane is paused.
	waiting stage = "waiting"
	// creating: Terraform makes or changes it, or is about to.
	creating stage = "creating"
	// ready: it is what spec asks for.
	ready stage = "ready"
	// deprived: what it stands on is missing or can not be used. It goes on when that is mended.
	deprived stage = "deprived"
	// failed: it could not be made, changed or deleted, and a person must mend it.
	failed stage = "failed"
	// deleting: Terraform destroys it, or is about to.
	deleting stage = "deleting"
)

// view is what is to be told of a profile.
type view struct {
	stage
	// message says why it is not ready.
	message string
}

// view of a profile of spec.
func (f *Facts) view(p *Profile) view {
	apply := &p.Apply
	switch {
	case apply.Ready(manager):
		return view{stage: ready}
	case len(apply.Candidates) > 0:
		return view{failed, apply.AdoptionCondition("").Message}
	case apply.Claimed != "", apply.Refused != nil:
		return view{failed, apply.Condition("", "", manager).Message}
	case apply.Apply != nil && !apply.Apply.DeletionTimestamp.IsZero():
		return f.leaving(p)
	case p.unwritten() && f.heldUp() != nil:
		return *f.heldUp()
	case apply.Working():
		return view{stage: creating}
	}
	return unready(p)
}

// heldUp is the view of profiles that can not be made or changed now; nil when they can.
func (f *Facts) heldUp() *view {
	switch {
	case f.Missing != "":
		return &view{deprived, f.Missing}
	case f.Paused != "":
		return &view{waiting, "nothing is made or changed while the control plane is paused: " + f.Paused}
	case !f.ClusterReady:
		return &view{waiting, "the control plane comes first"}
	}
	return nil
}

// unready is the view of a profile that Terraform does not get done.
func unready(p *Profile) view {
	condition := p.Apply.Condition("", "", manager)
	switch condition.Reason {
	case infrav1.WaitingForDependenciesReason, infrav1.TemplateNotFoundReason, infrav1.WorkspaceKindMissingReason,
		infrav1.ProviderConfigFailedReason, infrav1.WorkspaceUnclaimedReason, infrav1.WorkspacePausedReason, infrav1.LookupFailedReason:
		return view{deprived, condition.Message}
	}
	if what, ok := dependency(condition.Message); ok {
		return view{deprived, "something is wrong with " + what + ": " + condition.Message}
	}
	return view{failed, condition.Message}
}

// leaving is the view of a profile that is being deleted, or is about to be.
func (f *Facts) leaving(p *Profile) view {
	if f.Paused != "" && p.Apply.Apply.DeletionTimestamp.IsZero() {
		return view{waiting, "nothing is deleted while the control plane is paused: " + f.Paused}
	}
	cause := conditions.Get(p.Apply.Apply, infrav1.DeletingCondition)
	if cause == nil || p.Apply.Apply.DeletionTimestamp.IsZero() || cause.Reason == infrav1.NotDeletingReason {
		return view{stage: deleting}
	}
	message := fmt.Sprintf("WorkspaceTemplateApply %s: %s", p.Apply.Apply.Name, cause.Message)
	if infrav1.NeedsPerson(cause.Reason) {
		return view{failed, message}
	}
	return view{deleting, message}
}

// status of a profile, in the form of the API.
func (v view) status(p *Profile) controlplanev1.FargateProfileStatus {
	isReady := v.stage == ready
	s := controlplanev1.FargateProfileStatus{Name: p.Name, Ready: infrav1.ConditionStatus(isReady)}
	if p.Apply.Apply != nil {
		s.WorkspaceTemplateApplyName = p.Apply.Apply.Name
	}
	switch v.stage {
	case failed:
		s.FailureReason, s.FailureMessage = controlplanev1.FargateProfileFailedReason, v.message
	case deprived:
		s.FailureReason, s.FailureMessage = controlplanev1.FargateProfileDependencyReason, v.message
	case waiting, creating, ready, deleting:
	}
	return s
}
