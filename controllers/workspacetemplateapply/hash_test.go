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
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

func TestPartOfAHashApprovesNoChange(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways})
	p.size("2")
	held := p.change().Revision
	p.approve(held[:12])
	assert.Equal(t, "# 1", p.module())
	assert.Contains(t, p.ready("demo-vpc"), "is "+held[:12]+", which is not the hash of this content")
	p.approve(held)
	assert.Equal(t, "# 2", p.module())
}

func TestAContentWithTheSameBeginningOfTheHashIsNotRendered(t *testing.T) {
	old, revision := stored(t, stagedTemplate(builder.Harmless))
	env := newEnvironment(t, stagedTemplate(builder.Harmful), revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(assign(old))))
	env.look()
	assert.Equal(t, builder.Harmless, env.module())
}

// downgrade changes what is stored to what an earlier version would have stored.
func (env *environment) downgrade() {
	env.Helper()
	apply := env.get("demo-vpc")
	builder.RecordedEarlier(apply)
	require.NoError(env, env.Status().Update(env.Context(), apply))
	builder.RecordedEarlier(apply)
	env.update(apply)
	var list appsv1.ControllerRevisionList
	require.NoError(env, env.List(env.Context(), &list))
	for i := range list.Items {
		env.remove(&list.Items[i])
		env.create(builder.StoredEarlier(&list.Items[i]))
	}
}

func TestAnUpgradeChangesNoWorkspace(t *testing.T) {
	for name, current := range map[string]string{"of the current content": "# 1", "of an earlier content": "# 2"} {
		t.Run(name, func(t *testing.T) {
			template := stagedTemplate(current)
			template.Spec.Rollout.Approval = infrav1.RolloutApprovalAlways
			hash, revision := stored(t, stagedTemplate("# 1"))
			env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(assign(hash))))
			env.look()
			env.provide("demo-vpc", builder.AtRest)
			env.look()
			before := env.get("demo-vpc").Status
			env.downgrade()
			env.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(time.Hour))
			assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
			after := env.get("demo-vpc").Status
			assert.Equal(t, before, after, "whole hashes are recorded again, and nothing else changes")
			assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
			assert.Equal(t, hash[:12], env.get("demo-vpc").Spec.TemplateRevision)
			assert.Empty(t, env.mustReconcile("demo-vpc"), "at rest nothing is written")

			env.edit("demo-vpc", assign(hash)) // As the rollout assigns it.
			assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
			assert.Equal(t, "# 1", env.module())
		})
	}
}

// The user may have got the other content before the upgrade: neither is written.
func TestARecordThatMayMeanTwoContentsChangesNoWorkspace(t *testing.T) {
	old, revision := stored(t, stagedTemplate(builder.Harmless))
	template := stagedTemplate(builder.Harmless)
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(assign(old))))
	env.look()
	env.provide("demo-vpc", builder.AtRest)
	env.look()
	env.downgrade()
	env.template(builder.WithModule(builder.Harmful), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Rollout.Strategy = infrav1.RolloutStaged
	}))
	env.look()
	assert.Equal(t, builder.Harmless, env.module())
	assert.Equal(t, "False RevisionMissing", builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)["Rendered"])
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))

	live := env.workspace("demo-vpc")
	require.NoError(t, unstructured.SetNestedField(live.Object, builder.Harmful, "spec", "forProvider", "module"))
	env.update(live)
	env.look()
	assert.Equal(t, builder.Harmful, env.module(), "a Workspace with the current content stays as it is")
}

// The approval was of one of several contents with these digits.
func TestAHeldChangeIsApprovedAgainAfterAnUpgrade(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways})
	p.size("2")
	held := p.change().Revision
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Annotations[naming.ApproveAnnotation] = held
	})
	p.downgrade()
	p.look()
	assert.Equal(t, "# 1", p.module())
	assert.Equal(t, held, p.change().Revision)
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForApproval")
	p.approve(held)
	assert.Equal(t, "# 2", p.module())
}

func TestARevisionWakesTheUsersThatAreToRunIt(t *testing.T) {
	hash, revision := stored(t, stagedTemplate("# 1"))
	_, other := stored(t, stagedTemplate("# 3"))
	revision.Labels = map[string]string{naming.TemplateRevisionLabel: "other"} // Its value does not matter.
	env := newEnvironment(t, stagedTemplate("# 2"), builder.WorkspaceTemplateApply("other"), builder.WorkspaceTemplateApply("a", builder.With(assign(hash))),
		builder.WorkspaceTemplateApply("recorded-earlier", builder.With(assign(hash[:12]))))
	assert.Len(t, env.reconciler.ofRevision(t.Context(), revision), 1)
	assert.Len(t, env.reconciler.ofRevision(t.Context(), builder.StoredEarlier(revision)), 2)
	assert.Empty(t, env.reconciler.ofRevision(t.Context(), other))
}

func TestARevisionWakesObjectsWithoutAWorkspaceWhenItIsRolledOutOrApproved(t *testing.T) {
	hash, proven := stored(t, stagedTemplate("# 1"))
	created := builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "created"}
	})
	env := newEnvironment(t, stagedTemplate("# 2"), builder.WorkspaceTemplateApply("waiting", builder.With(assign(hash))),
		builder.WorkspaceTemplateApply("created", builder.With(assign(hash)), created))
	before := proven.DeepCopy()
	before.Annotations = nil
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	env.reconciler.revisionChanged(t.Context(), event.UpdateEvent{ObjectOld: proven, ObjectNew: proven}, queue)
	assert.Zero(t, queue.Len())
	env.reconciler.revisionChanged(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: proven}, queue)
	assert.Equal(t, 1, queue.Len())
	request, _ := queue.Get()
	assert.Equal(t, "waiting", request.Name)
}
