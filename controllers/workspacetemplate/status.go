// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
)

func status(template *infrav1.WorkspaceTemplate, f *Facts, p Plan) {
	if s := &template.Status; f.Block == nil {
		s.ObservedGeneration = template.Generation
		s.Users = ptr.To(int32(len(f.Users)))                             //nolint:gosec // No cluster holds 2^31 objects.
		s.OutdatedUsers = ptr.To(int32(len(f.Failing) + len(f.Outdated))) //nolint:gosec // As above.
		s.Revision = f.Revision
		s.Rollout = rolloutStatus(template, f.Policy, p.Staged)
		if template.Spec.Rollout.Strategy == "" && p.Staged != nil {
			f.Policy.DeepCopyInto(&s.Rollout.DefaultPolicy)
		}
	}
	engine.Set(template, valid(f), engine.True(infrav1.InUseCondition, infrav1.UsedReason, "used by "+rollout.Names(f.Users)).If(len(f.Users) > 0, infrav1.NotUsedReason), deleting(template, f))
	engine.SetNegativePolarity(template, rollingOut(f, p.Staged))
}

func valid(f *Facts) engine.Condition {
	if len(f.Errors) > 0 {
		return engine.False(infrav1.ValidCondition, infrav1.TemplateInvalidReason, f.Errors.ToAggregate().Error())
	}
	return engine.True(infrav1.ValidCondition, infrav1.ValidReason, "")
}

// rollingOut reports users with another revision. Those that Terraform failed for come first in the message.
func rollingOut(f *Facts, p *stagedPlan) engine.Condition {
	if p != nil {
		return stagedCondition(f.Staged, p)
	}
	message := fmt.Sprintf("%d of %d users are not up to date with revision %s: ", len(f.Failing)+len(f.Outdated), len(f.Users), terraform.ShortRevision(f.Revision))
	switch {
	case len(f.Failing) > 0:
		return engine.True(infrav1.RollingOutCondition, infrav1.RolloutFailingReason, message+rollout.Names(slices.Concat(f.Failing, f.Outdated))+
			fmt.Sprintf(". Terraform fails for %d of them: see their conditions", len(f.Failing)))
	case len(f.Outdated) > 0:
		return engine.True(infrav1.RollingOutCondition, infrav1.RollingOutReason, message+rollout.Names(f.Outdated))
	}
	return engine.False(infrav1.RollingOutCondition, infrav1.RolledOutReason, "")
}

func deleting(template *infrav1.WorkspaceTemplate, f *Facts) engine.Condition {
	switch {
	case template.DeletionTimestamp.IsZero():
		return engine.False(infrav1.DeletingCondition, infrav1.NotDeletingReason, "")
	case len(f.Users) > 0:
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForUsersReason,
			"waiting for the deletion of WorkspaceTemplateApplies that use the template: "+rollout.Names(f.Users))
	}
	return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "")
}

// isWarning reports whether the event for a transition is a warning, because the user must act.
func isWarning(condition metav1.Condition) bool {
	return slices.Contains([]string{infrav1.TemplateInvalidReason, infrav1.RolloutFailingReason, infrav1.RolloutStoppedReason}, condition.Reason)
}

// stageEvents returns the events of a staged rollout: another stage, and an approval. That a rollout stops, waits or is complete is an event of
// condition RollingOut.
func stageEvents(before, after *infrav1.WorkspaceTemplate) (events []engine.Event) {
	was, is := &before.Status.Rollout, &after.Status.Rollout
	add := func(reason, format string, args ...any) {
		events = append(events, engine.Event{Type: corev1.EventTypeNormal, Reason: reason, Action: "RollOut", Message: fmt.Sprintf(format, args...)})
	}
	if is.ApprovedBy != "" && (was.ApprovedBy != is.ApprovedBy || was.Revision != is.Revision) {
		add("RolloutApproved", "revision %s was approved by %s", terraform.ShortRevision(is.Revision), is.ApprovedBy)
	}
	if is.Stage != "" && is.Stage != was.Stage && is.Stage != infrav1.RolloutComplete {
		add("RolloutStage", "the rollout of revision %s is at stage %s", terraform.ShortRevision(is.Revision), is.Stage)
	}
	if left := ptr.Deref(is.LeftBehind, 0); left > ptr.Deref(was.LeftBehind, 0) {
		add("RolloutLeftBehind", "the rollout of revision %s does not wait for %d users any more: see condition %s", is.Revision, left, infrav1.RollingOutCondition)
		events[len(events)-1].Type = corev1.EventTypeWarning
	}
	return events
}
