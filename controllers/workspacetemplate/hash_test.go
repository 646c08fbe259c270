// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/test/builder"
)

func TestTheApprovalOfOneContentIsNotThatOfAnotherWithTheSameBeginningOfTheHash(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}, user("a"))
	s.edit(module(builder.Harmless))
	approved := s.settle().Status.Rollout.Revision
	s.edit(func(template *infrav1.WorkspaceTemplate) {
		template.Annotations = map[string]string{naming.ApproveAnnotation: approved}
	})
	s.settle()
	assert.Equal(t, "a", s.assigned(approved))
	s.apply("a")

	s.edit(module(builder.Harmful))
	template := s.settle()
	assert.Equal(t, approved[:12], rollout.HashOf(template)[:12])
	assert.Equal(t, infrav1.RolloutWaitingForApproval, template.Status.Rollout.Stage)
	assert.Equal(t, "a", s.assigned(approved))
}
