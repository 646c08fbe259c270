// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"

	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// stage is the stage of a profile's life cycle.
type stage = controlplanev1.FargateProfileState

const (
	waiting           = controlplanev1.FargateProfileStateWaiting
	creating          = controlplanev1.FargateProfileStateCreating
	ready             = controlplanev1.FargateProfileStateReady
	dependencyMissing = controlplanev1.FargateProfileStateDependencyMissing
	failed            = controlplanev1.FargateProfileStateFailed
	deleting          = controlplanev1.FargateProfileStateDeleting
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
	case apply.Block != nil:
		return state{failed, apply.Block.Message}
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
		return &state{waiting, engine.PausedMessage("created or updated", p.Paused)}
	case !p.Ready:
		return &state{waiting, desired.WaitingForControlPlane}
	}
	return nil
}

// failureState is the state of a profile that Terraform cannot apply.
func failureState(apply *owner.Plan) state {
	condition := apply.Condition("", "")
	switch condition.Reason {
	case infrav1.WaitingForDependenciesReason, infrav1.TemplateNotFoundReason, infrav1.WorkspaceKindMissingReason,
		infrav1.ProviderConfigFailedReason, infrav1.WorkspaceNotReconciledReason, infrav1.WorkspacePausedReason, infrav1.LookupFailedReason:
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
		return state{waiting, engine.PausedMessage("deleted", p.Paused)}
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
