// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/test/builder"
)

// stagedTemplate is a template with a staged rollout and a module.
func stagedTemplate(module string) *infrav1.WorkspaceTemplate {
	return builder.WorkspaceTemplate("vpc", builder.WithModule(module), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Rollout.Strategy = infrav1.RolloutStaged
	}))
}

// stored is the ControllerRevision of the content of a template that was rolled out.
func stored(t *testing.T, template *infrav1.WorkspaceTemplate) (string, *appsv1.ControllerRevision) {
	t.Helper()
	revision := rollout.History(nil).Record(template)
	revision.RolledOut = true
	object, err := revision.Object(template)
	require.NoError(t, err)
	return revision.Hash, object
}

func (env *environment) module() string {
	env.Helper()
	module, _, err := unstructured.NestedString(env.workspace("demo-vpc").Object, "spec", "forProvider", "module")
	require.NoError(env, err)
	return module
}

func assign(revision string) func(*infrav1.WorkspaceTemplateApply) {
	return func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRevision = revision
		apply.Generation++
	}
}

func TestAnObjectRunsTheRevisionThatIsAssignedToIt(t *testing.T) {
	template := stagedTemplate("# 2")
	old, revision := stored(t, stagedTemplate("# 1"))
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.workspace("demo-vpc"), "nothing is assigned")
	assert.Contains(t, env.ready("demo-vpc"), "False WaitingForRollout: no revision of WorkspaceTemplate default/vpc is assigned yet")

	env.edit("demo-vpc", assign(old))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "# 1", env.module())
	assert.Equal(t, old, env.get("demo-vpc").Status.WrittenTemplateRevision)
	assert.Equal(t, "True RevisionHeld", builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)["Rendered"])
	env.provide("demo-vpc", builder.AtRest)
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	assert.Equal(t, old, env.get("demo-vpc").Status.TemplateRevision)

	env.edit("demo-vpc", assign(rollout.HashOf(template)))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "# 2", env.module())
	assert.Equal(t, rollout.HashOf(template), env.get("demo-vpc").Status.WrittenTemplateRevision)
	assert.Equal(t, "True Rendered", builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)["Rendered"])
}

// A rollout waits for an object until a deadline, which nothing that the user does may move.
func TestTheTimeOfAnAssignmentDoesNotChange(t *testing.T) {
	old, revision := stored(t, stagedTemplate("# 1"))
	template := stagedTemplate("# 2")
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	assert.Zero(t, env.get("demo-vpc").Status.Assignment)
	assigned := func(hash string, at time.Time) {
		t.Helper()
		got := env.get("demo-vpc").Status.Assignment
		assert.Equal(t, hash, got.TemplateRevision)
		assert.Equal(t, at.UTC(), got.Time.UTC())
	}
	env.edit("demo-vpc", assign(old))
	env.mustReconcile("demo-vpc")
	assigned(old, now)
	later := now.Add(time.Hour)
	env.reconciler.Clock = clocktesting.NewFakePassiveClock(later)
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.Variables = infrav1.TextVariables(map[string]string{"a": "b"})
		apply.Generation++
	})
	env.look()
	assigned(old, now)
	env.edit("demo-vpc", assign(rollout.HashOf(template)))
	env.look()
	assigned(rollout.HashOf(template), later)
}

// Without admission, a user could write any stored or current revision into a new object.
func TestANewObjectGetsNoRevisionThatIsNeitherRolledOutNorApproved(t *testing.T) {
	template := stagedTemplate("# 2")
	old, revision := stored(t, stagedTemplate("# 1"))
	revision.Annotations = nil
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(assign(old))))
	for _, unproven := range []string{old, rollout.HashOf(template)} {
		env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRevision = unproven })
		env.mustReconcile("demo-vpc")
		assert.Nil(t, env.workspace("demo-vpc"))
		assert.Contains(t, env.ready("demo-vpc"), "False WaitingForRollout: no revision of WorkspaceTemplate default/vpc is assigned yet")
	}
	for annotation, value := range map[string]string{naming.RolledOutAnnotation: "true", naming.ApprovedByAnnotation: "alice"} {
		env := newEnvironment(t, template, builder.WorkspaceTemplateApply("demo-vpc", builder.With(assign(old))))
		_, proven := stored(t, stagedTemplate("# 1"))
		proven.Annotations = map[string]string{annotation: value}
		env.create(proven)
		env.mustReconcile("demo-vpc")
		assert.Equal(t, "# 1", env.module(), annotation)
	}
}

// The policy can be added together with a new content, and captctl or another client can remove an assignment.
func TestAnObjectWithoutAssignmentKeepsItsWorkspace(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithModule("# 1"))
	env := newEnvironment(t, template, builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	env.provide("demo-vpc", builder.AtRest)
	env.mustReconcile("demo-vpc")
	require.Equal(t, rollout.HashOf(template), env.get("demo-vpc").Status.TemplateRevision)

	edited := stagedTemplate("# 2")
	edited.ResourceVersion = ""
	require.NoError(t, env.Delete(t.Context(), template))
	require.NoError(t, env.Create(t.Context(), edited))
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Equal(t, "# 1", env.module())
	assert.Equal(t, "False RevisionMissing", builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)["Rendered"])
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"), "nothing is wrong with the Workspace")

	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.Variables, apply.Generation = infrav1.TextVariables(map[string]string{"a": "b"}), 2
	})
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Contains(t, env.ready("demo-vpc"), "False RevisionMissing: revision "+rollout.HashOf(template)[:12]+" of WorkspaceTemplate default/vpc is not stored")
}

func TestAMissingRevisionChangesNoWorkspace(t *testing.T) {
	template := stagedTemplate("# 2")
	old, revision := stored(t, stagedTemplate("# 1"))
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRevision = old })))
	env.mustReconcile("demo-vpc")
	env.remove(revision)
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Equal(t, "# 1", env.module())
	env.remove(env.get("demo-vpc"))
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace", "it can be deleted nevertheless")
}

// clusterctl moves the Workspace and the object, but not its status and the revision.
func TestAnObjectThatWasMovedWithoutItsRevisionStaysReady(t *testing.T) {
	template := stagedTemplate("# 2")
	template.Spec.Rollout.Approval = infrav1.RolloutApprovalAlways
	old, revision := stored(t, stagedTemplate("# 1"))
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRevision = old })))
	env.mustReconcile("demo-vpc")
	env.provide("demo-vpc", builder.AtRest)
	env.mustReconcile("demo-vpc")
	env.remove(revision)
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Generation = 1 })
	moved := env.get("demo-vpc")
	moved.Status = infrav1.WorkspaceTemplateApplyStatus{}
	require.NoError(t, env.API.Status().Update(t.Context(), moved))

	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	status := env.get("demo-vpc").Status
	assert.Equal(t, []string{old, old}, []string{status.WrittenTemplateRevision, status.TemplateRevision})
	assert.Equal(t, rollout.SpecHash(env.get("demo-vpc")), status.WrittenSpec)
	assert.Equal(t, "False RevisionMissing", builder.ConditionSummary(status.Conditions)["Rendered"])
	assert.Empty(t, env.mustReconcile("demo-vpc"), "nothing is written at rest")

	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.Variables, apply.Generation = infrav1.TextVariables(map[string]string{"a": "b"}), 2
	})
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Contains(t, env.ready("demo-vpc"), "False RevisionMissing: ")

	revision.ResourceVersion = ""
	require.NoError(t, env.Create(t.Context(), revision))
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.Variables = nil })
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	assert.Equal(t, "True RevisionHeld", builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)["Rendered"])
	assert.Equal(t, "# 1", env.module())
}

func TestTheDefaultPolicyHoldsAnObject(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.reconciler.DefaultRollout.Strategy = infrav1.RolloutStaged
	env.mustReconcile("demo-vpc")
	assert.Contains(t, env.ready("demo-vpc"), "False WaitingForRollout: ")
}

func TestTheFailureOfARevisionIsRecordedUntilAnApplySucceeds(t *testing.T) {
	s := newFixture(t).withWorkspace(builder.UpdateFailed)
	assert.Equal(t, s.Revision, s.status().FailedTemplateRevision)
	s.withWorkspace(builder.AtRest)
	assert.Empty(t, s.status().FailedTemplateRevision)
	s.Rejected = "no"
	assert.Equal(t, s.Revision, s.status().FailedTemplateRevision)
}

// Without a staged rollout, an assignment that is left has no effect.
func TestAnAssignmentWithoutAStagedRolloutHasNoEffect(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithModule("# 2")), builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRevision = "0123456789ab"
	})))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "# 2", env.module())
}
