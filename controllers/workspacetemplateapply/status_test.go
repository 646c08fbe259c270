// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/test/builder"
)

func (s *scene) status() infrav1.WorkspaceTemplateApplyStatus {
	status(s.apply, s.Facts, s.plan())
	return s.apply.Status
}

func (s *scene) message(conditionType string) string {
	s.Helper()
	condition := meta.FindStatusCondition(s.status().Conditions, conditionType)
	require.NotNil(s, condition)
	return condition.Message
}

func TestMessages(t *testing.T) {
	missing := newScene(t).with(func(f *Facts) { f.Missing = lacking("Secret a does not exist", "Workspace b is not up to date") })
	assert.Equal(t, "Secret a does not exist (since 2026-01-02T03:04:05Z); Workspace b is not up to date (since 2026-01-02T03:04:05Z)", missing.message("Ready"))

	claim := newScene(t).with(func(f *Facts) { f.OlderClaim = "WorkspaceTemplateApply demo" })
	assert.Contains(t, claim.message("Ready"), "belongs to WorkspaceTemplateApply demo, which is older")

	gone := newScene(t).with(func(f *Facts) { f.Template, f.Rendered = nil, nil })
	assert.Contains(t, gone.message("Ready"), "does not exist, or does not allow this namespace", "the message does not reveal which of the two")

	refused := newScene(t).with(func(f *Facts) { f.Rejected = refused })
	assert.Contains(t, refused.message("Ready"), "spec.forProvider.module: Invalid value")
}

func TestConditionsOmitTheOutputOfTerraform(t *testing.T) {
	for _, row := range builder.Rows() {
		s := newScene(t).withWorkspace(row).status()
		for _, condition := range s.Conditions {
			assert.NotContains(t, condition.Message, builder.Secret, "%s in %s", condition.Type, row)
		}
		assert.NotContains(t, s.LastFailureMessage, builder.Secret, row)
	}
}

func TestStatusFieldsOfAnUpToDateWorkspace(t *testing.T) {
	s := newScene(t, builder.WithGeneration(3)).withWorkspace(builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1", "secret": "x"}))
	got := s.status()
	assert.Equal(t, int64(3), got.ObservedGeneration)
	assert.Equal(t, "demo-vpc", got.WorkspaceName)
	assert.Equal(t, s.Live.Reference(), got.WorkspaceRef)
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, got.Outputs)
	assert.Equal(t, metav1.ConditionTrue, got.Applied)
	assert.Equal(t, s.Rendered.Revision, got.LastAppliedRevision)
	assert.Equal(t, ptr.To(metav1.NewTime(now)), got.LastAppliedTime)
	for _, condition := range got.Conditions {
		assert.Equal(t, int64(3), condition.ObservedGeneration, condition.Type)
	}
}

func TestATemplateMayPublishMoreOutputs(t *testing.T) {
	s := newScene(t).withWorkspace(builder.AtRest, builder.WithOutputs(map[string]any{"mine": []any{"a"}, "other": "x"}))
	s.Template.Spec.PublishOutputs = []string{"mine"}
	assert.Equal(t, map[string]string{"mine": `["a"]`}, s.status().Outputs)
}

func TestLastAppliedTimeChangesWithTheRevision(t *testing.T) {
	s := newScene(t).withWorkspace(builder.AtRest)
	first := s.status().LastAppliedTime
	s.Now = now.Add(time.Hour)
	assert.Equal(t, first, s.status().LastAppliedTime)

	s.apply.Status.LastAppliedRevision = "000000000000"
	assert.Equal(t, metav1.NewTime(s.Now), *s.status().LastAppliedTime)
}

func TestStartedTime(t *testing.T) {
	s := newScene(t)
	assert.Nil(t, s.status().StartedTime, "there is no Workspace")
	assert.Nil(t, s.withWorkspace(builder.Planning).status().StartedTime, "nothing is applied yet")
	assert.Equal(t, builder.Created, s.withWorkspace(builder.FirstApplyRunning).status().StartedTime.UTC())
	s.Now = now.Add(time.Hour)
	assert.Equal(t, builder.Created, s.withWorkspace(builder.FirstApplyFailed).status().StartedTime.UTC(), "it is the same work")
	assert.Nil(t, s.withWorkspace(builder.AtRest).status().StartedTime, "it is done")
	assert.Equal(t, s.Now, s.withWorkspace(builder.UpdateFailed).status().StartedTime.Time, "drift that cannot be repaired: it was up to date until now")
	s.Now = now.Add(2 * time.Hour)
	assert.Equal(t, now.Add(time.Hour), s.withWorkspace(builder.UpdateFailed).status().StartedTime.Time)
}

func TestAFailureIsRecordedUntilAnApplySucceeds(t *testing.T) {
	s := newScene(t).withWorkspace(builder.UpdateFailed)
	got := s.status()
	assert.Equal(t, s.Rendered.Revision, got.LastFailedRevision)
	assert.Contains(t, got.LastFailureMessage, "ThrottlingException")

	s.withWorkspace(builder.Updating)
	assert.NotEmpty(t, s.status().LastFailedRevision, "it is not known yet how the next one ends")

	s.withWorkspace(builder.AtRest)
	got = s.status()
	assert.Empty(t, got.LastFailedRevision)
	assert.Empty(t, got.LastFailureMessage)
}

func TestARejectionIsAFailure(t *testing.T) {
	s := newScene(t).with(func(f *Facts) { f.Rejected = refused })
	assert.Equal(t, s.Rendered.Revision, s.status().LastFailedRevision)
	assert.Contains(t, s.apply.Status.LastFailureMessage, "Invalid value")
}

func TestUnobservedStatusStays(t *testing.T) {
	s := newScene(t).withWorkspace(builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	s.status()
	before := s.apply.Status.DeepCopy()
	s.Live, s.Ownership = nil, ""
	after := s.status()
	assert.Equal(t, before.WorkspaceRef, after.WorkspaceRef)
	assert.Equal(t, before.Outputs, after.Outputs)
	assert.Equal(t, before.LastAppliedRevision, after.LastAppliedRevision)
	assert.Equal(t, before.Applied, after.Applied)
}

func TestAForeignWorkspaceIsNotRecorded(t *testing.T) {
	s := newScene(t).withWorkspace(builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	s.Ownership = workspace.Foreign
	got := s.status()
	assert.Nil(t, got.WorkspaceRef)
	assert.Empty(t, got.Outputs)
	assert.Empty(t, got.Applied)
}

func TestTransitionTimesChangeOnlyWithTheStatus(t *testing.T) {
	s := newScene(t).withWorkspace(builder.FirstApplyRunning)
	s.status()
	for i := range s.apply.Status.Conditions {
		s.apply.Status.Conditions[i].LastTransitionTime = metav1.NewTime(builder.Created)
	}
	before := s.apply.Status.DeepCopy()
	s.withWorkspace(builder.FirstApplyDone)
	assert.Equal(t, *before, s.status())
}
