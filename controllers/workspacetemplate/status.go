// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
)

// namedUsers limits how many users a message names.
const namedUsers = 5

// status computes the status from the facts.
func status(template *infrav1.WorkspaceTemplate, f *Facts, _ Action) {
	if s := &template.Status; !f.AwaitsAdoption {
		s.ObservedGeneration = template.Generation
		s.Users = ptr.To(int32(len(f.Users)))                             //nolint:gosec // No cluster holds 2^31 objects.
		s.OutdatedUsers = ptr.To(int32(len(f.Failing) + len(f.Outdated))) //nolint:gosec // As above.
		s.Revision = f.Revision
	}
	engine.Set(template, valid(f), inUse(f), deleting(template, f))
	engine.SetNegativePolarity(template, rollingOut(f))
}

// Revision is a hash of the template of Workspaces: 12 hexadecimal digits.
func Revision(template *infrav1.WorkspaceTemplate) string {
	revision, err := terraform.Revision([]any{template.Spec.WorkspaceScope.OrDefault(), template.Spec.Template.Spec})
	if err != nil {
		return "" // Cannot happen: it was decoded from JSON.
	}
	return revision
}

func valid(f *Facts) engine.Condition {
	if len(f.Errors) > 0 {
		return engine.False(infrav1.ValidCondition, infrav1.TemplateInvalidReason, f.Errors.ToAggregate().Error())
	}
	return engine.True(infrav1.ValidCondition, infrav1.ValidReason, "")
}

func inUse(f *Facts) engine.Condition {
	if len(f.Users) == 0 {
		return engine.False(infrav1.InUseCondition, infrav1.NotUsedReason, "")
	}
	return engine.True(infrav1.InUseCondition, infrav1.UsedReason, "used by "+names(f.Users))
}

// rollingOut reports users with another revision. Those that Terraform failed for come first in the message.
func rollingOut(f *Facts) engine.Condition {
	message := fmt.Sprintf("%d of %d users do not have revision %s yet: ", len(f.Failing)+len(f.Outdated), len(f.Users), f.Revision)
	switch {
	case len(f.Failing) > 0:
		return engine.True(infrav1.RollingOutCondition, infrav1.RolloutFailingReason, message+names(slices.Concat(f.Failing, f.Outdated))+
			fmt.Sprintf(". Terraform fails for %d of them: see their conditions", len(f.Failing)))
	case len(f.Outdated) > 0:
		return engine.True(infrav1.RollingOutCondition, infrav1.RollingOutReason, message+names(f.Outdated))
	}
	return engine.False(infrav1.RollingOutCondition, infrav1.RolledOutReason, "")
}

func deleting(template *infrav1.WorkspaceTemplate, f *Facts) engine.Condition {
	switch {
	case template.DeletionTimestamp.IsZero():
		return engine.False(infrav1.DeletingCondition, infrav1.NotDeletingReason, "")
	case len(f.Users) > 0:
		return engine.True(infrav1.DeletingCondition, infrav1.WaitingForUsersReason,
			"waiting for the deletion of WorkspaceTemplateApplies that use the template: "+names(f.Users))
	}
	return engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, "")
}

func names(users []string) string {
	if len(users) <= namedUsers {
		return strings.Join(users, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(users[:namedUsers], ", "), len(users)-namedUsers)
}

// isWarning reports whether the event for a transition is a warning, because the user must act.
func isWarning(condition metav1.Condition) bool {
	return condition.Reason == infrav1.TemplateInvalidReason || condition.Reason == infrav1.RolloutFailingReason
}
