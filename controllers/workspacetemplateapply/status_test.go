// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
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

// resting is what the conditions say when all is well; a row of the table names the differences.
func resting(differences map[string]string) map[string]string {
	story := map[string]string{
		"Ready": "True UpToDate", "Synced": "True UpToDate", "Rendered": "True Rendered", "DependenciesReady": "True DependenciesReady",
	}
	maps.Copy(story, differences)
	return story
}

func TestConditions(t *testing.T) {
	invalid := field.ErrorList{field.Invalid(field.NewPath("spec", "template", "spec", "forProvider", "module"), field.OmitValueType{}, "line 1")}
	for name, row := range map[string]struct {
		scene *scene
		want  map[string]string
	}{
		"nothing there yet": {newScene(t), map[string]string{"Ready": "False WorkspaceNotFound", "Synced": "Unknown WorkspaceNotFound"}},
		"queued":            {newScene(t).withWorkspace(builder.Queued, builder.WithCreation(now)), map[string]string{"Ready": "False Provisioning", "Synced": "Unknown Provisioning"}},
		"queued for a day": {newScene(t).withWorkspace(builder.Queued).with(func(f *Facts) { f.UnclaimedFor = 24 * time.Hour }), map[string]string{
			"Ready": "False WorkspaceUnclaimed", "Synced": "Unknown WorkspaceUnclaimed"}},
		"first apply":                  {newScene(t).withWorkspace(builder.FirstApplyRunning), map[string]string{"Ready": "False Provisioning", "Synced": "Unknown Provisioning"}},
		"first apply done":             {newScene(t).withWorkspace(builder.FirstApplyDone), map[string]string{"Ready": "False Provisioning", "Synced": "Unknown Provisioning"}},
		"at rest":                      {newScene(t).withWorkspace(builder.AtRest), nil},
		"updating, with a stale Ready": {newScene(t).withWorkspace(builder.Updating), map[string]string{"Ready": "False Provisioning", "Synced": "Unknown Provisioning"}},
		"not written yet, with a stale Ready": {
			newScene(t).withWorkspace(builder.AtRest, withOtherSpec()), map[string]string{"Ready": "False Provisioning", "Synced": "Unknown Provisioning"}},
		"apply failed":                      {newScene(t).withWorkspace(builder.FirstApplyFailed), map[string]string{"Ready": "False ApplyFailed", "Synced": "False ApplyFailed"}},
		"update failed, with a stale Ready": {newScene(t).withWorkspace(builder.UpdateFailed), map[string]string{"Ready": "False ApplyFailed", "Synced": "False ApplyFailed"}},
		"plan failed":                       {newScene(t).withWorkspace(builder.PlanFailed), map[string]string{"Ready": "False PlanFailed", "Synced": "False PlanFailed"}},
		"no ProviderConfig": {newScene(t).withWorkspace(builder.ProviderConfigMissing), map[string]string{
			"Ready": "False ProviderConfigFailed", "Synced": "False ProviderConfigFailed"}},
		"interrupted":      {newScene(t).withWorkspace(builder.Interrupted), map[string]string{"Ready": "False CreateInterrupted", "Synced": "False CreateInterrupted"}},
		"Workspace paused": {newScene(t).withWorkspace(builder.WorkspacePaused), map[string]string{"Ready": "False WorkspacePaused", "Synced": "Unknown WorkspacePaused"}},
		"unpaused": {newScene(t, builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{{Type: "Paused", Status: metav1.ConditionTrue, Reason: "Paused"}}
		})).withWorkspace(builder.AtRest), map[string]string{"Paused": "False NotPaused"}},
		"paused": {newScene(t).withWorkspace(builder.AtRest).with(func(f *Facts) { f.Paused = "by annotation" }), map[string]string{"Paused": "True Paused"}},
		"it is queued": {newScene(t).with(func(f *Facts) { f.Queued = "one at a time" }), map[string]string{
			"Ready": "False WaitingForTurn", "Synced": "Unknown WorkspaceNotFound"}},
		"it is queued to correct what failed": {newScene(t).withWorkspace(builder.UpdateFailed, withOtherSpec()).with(func(f *Facts) { f.Queued = "one at a time" }),
			map[string]string{"Ready": "False WaitingForTurn", "Synced": "False ApplyFailed"}},
		"no template": {newScene(t).with(func(f *Facts) { f.Template, f.Rendered = nil, nil }), map[string]string{
			"Rendered": "False TemplateNotFound", "Ready": "False TemplateNotFound", "Synced": "Unknown WorkspaceNotFound"}},
		"invalid template": {newScene(t).with(func(f *Facts) { f.Rendered, f.RenderErrors = nil, invalid }), map[string]string{
			"Rendered": "False TemplateInvalid", "Ready": "False TemplateInvalid", "Synced": "Unknown WorkspaceNotFound"}},
		"invalid template of a Workspace at rest": {newScene(t).withWorkspace(builder.AtRest).with(func(f *Facts) { f.Rendered, f.RenderErrors = nil, invalid }),
			map[string]string{"Rendered": "False TemplateInvalid", "Ready": "False TemplateInvalid"}},
		"refused by the API server": {newScene(t).with(func(f *Facts) { f.Rejected = refused }), map[string]string{
			"Rendered": "False WorkspaceRejected", "Ready": "False WorkspaceRejected", "Synced": "Unknown WorkspaceNotFound"}},
		"waiting": {newScene(t).with(func(f *Facts) { f.Missing = lacking("x") }), map[string]string{
			"DependenciesReady": "False WaitingForDependencies", "Ready": "False WaitingForDependencies", "Synced": "Unknown WorkspaceNotFound"}},
		"waiting to change": {newScene(t).withWorkspace(builder.AtRest, withOtherSpec()).with(func(f *Facts) { f.Missing = lacking("x") }), map[string]string{
			"DependenciesReady": "False WaitingForDependencies", "Ready": "False WaitingForDependencies", "Synced": "Unknown Provisioning"}},
		"what it waited for is gone (defect 10)": {newScene(t).withWorkspace(builder.AtRest).with(func(f *Facts) { f.Missing = lacking("x") }), map[string]string{
			"DependenciesReady": "False WaitingForDependencies"}},
		"its template is gone (defect 10)": {newScene(t).withWorkspace(builder.AtRest).with(func(f *Facts) { f.Template, f.Rendered = nil, nil }), map[string]string{
			"Rendered": "False TemplateNotFound"}},
		"the kind is not installed": {newScene(t).with(func(f *Facts) { f.KindMissing = true }), map[string]string{
			"Ready": "False WorkspaceKindMissing", "Synced": "Unknown WorkspaceKindMissing"}},
		"an older one is in the way": {newScene(t).with(func(f *Facts) { f.OlderClaim = "WorkspaceTemplateApply demo" }), map[string]string{
			"WorkspaceConflict": "True WorkspaceConflict", "Ready": "False WorkspaceConflict", "Synced": "Unknown WorkspaceNotFound"}},
		"of another owner": {newScene(t).withWorkspace(builder.AtRest).with(func(f *Facts) { f.Ownership = workspace.Foreign }), map[string]string{
			"WorkspaceConflict": "True WorkspaceConflict", "Ready": "False WorkspaceConflict", "Synced": "Unknown WorkspaceNotFound"}},
		"recreated by another client": {newScene(t).withWorkspace(builder.AtRest).with(func(f *Facts) { f.Ownership = workspace.Replaced }), map[string]string{
			"WorkspaceConflict": "True WorkspaceReplaced", "Ready": "False WorkspaceReplaced", "Synced": "Unknown WorkspaceNotFound"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, resting(row.want), builder.Story(row.scene.status().Conditions))
		})
	}
}

func TestConditionsWhileTheApplyIsDeleted(t *testing.T) {
	deleting := func() *scene { return newScene(t, builder.Deleting()) }
	for name, row := range map[string]struct {
		scene *scene
		want  string
	}{
		"Terraform is about to destroy":      {deleting().withWorkspace(builder.AtRest), "True WaitingForWorkspaceDeletion"},
		"Terraform destroys":                 {deleting().withWorkspace(builder.Destroying), "True WaitingForWorkspaceDeletion"},
		"destroy fails":                      {deleting().withWorkspace(builder.DestroyFailed), "True DestroyFailed"},
		"nothing is destroyed while paused":  {deleting().withWorkspace(builder.WorkspacePaused, builder.Deleting()), "True WorkspacePaused"},
		"interrupted: the provider is stuck": {deleting().withWorkspace(builder.Interrupted, builder.Deleting()), "True CreateInterrupted"},
		"the provider cannot be reached":     {deleting().with(func(f *Facts) { f.KindMissing = true }), "True WorkspaceKindMissing"},
		"it is queued": {deleting().withWorkspace(builder.UpdateFailed).with(func(f *Facts) { f.Queued = "one at a time" }),
			"True WaitingForTurn"},
		"the Workspace is gone": {deleting(), "True Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			story := builder.Story(row.scene.status().Conditions)
			assert.Equal(t, row.want, story["Deleting"])
			assert.Equal(t, "False Deleting", story["Ready"])
		})
	}
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
