// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/test/builder"
)

// newChanging is an object at rest whose template has a policy, and the only revision of it. The module has a variable.
func newChanging(t *testing.T, policy infrav1.WorkspaceTemplateRollout) *previewing {
	t.Helper()
	policy.Strategy = infrav1.RolloutStaged
	template := stagedTemplate("# ${size}")
	template.Spec.Rollout = policy
	hash, revision := stored(t, template)
	env := newEnvironment(t, template, revision, builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRevision, apply.Spec.Variables = hash, infrav1.TextVariables(map[string]string{"size": "1"})
	})))
	env.look()
	env.provide("demo-vpc", builder.AtRest)
	env.look()
	require.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	require.Empty(t, env.mustReconcile("demo-vpc"))
	return &previewing{env, hash}
}

func (p *previewing) size(size string) {
	p.Helper()
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.Variables = infrav1.TextVariables(map[string]string{"size": size})
		apply.Generation++
	})
	p.look()
}

func (p *previewing) approve(hash string) {
	p.Helper()
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ApproveAnnotation, hash)
	})
	p.look()
}

func (p *previewing) change() infrav1.HeldChange { return p.get("demo-vpc").Status.Change }

func TestAChangeWaitsForItsPreviewAndItsApproval(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges})
	before := p.get("demo-vpc").Status
	p.size("2")
	assert.Contains(t, p.ready("demo-vpc"), "False PreviewingChange: the changed spec (content "+p.change().Revision[:12]+") is not applied yet: Terraform plans it first")
	preview := p.preview()
	require.NotNil(t, preview)
	module, _, _ := unstructured.NestedString(preview.Object, "spec", "forProvider", "module")
	assert.Equal(t, "# 2", module)
	assert.Equal(t, "# 1", p.module(), "the Workspace is not changed")

	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(11 * time.Second))
	p.look()
	held := p.change()
	assert.Equal(t, infrav1.PreviewChanges, held.Preview.Result)
	command := "kubectl -n default annotate --overwrite workspacetemplateapply demo-vpc capt.cluster.x-k8s.io/approve=" + held.Revision
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForApproval")
	assert.Contains(t, p.ready("demo-vpc"), command)
	p.look()
	require.Nil(t, p.preview())
	assert.Empty(t, p.mustWrite(), "at rest nothing is written")
	assert.Equal(t, before.LastAppliedRevision, p.get("demo-vpc").Status.LastAppliedRevision)
	assert.Equal(t, before.TemplateRevision, p.get("demo-vpc").Status.TemplateRevision, "the rollout does not wait for the change")

	p.approve("0123456789ab")
	assert.Equal(t, "# 1", p.module())
	assert.Contains(t, p.ready("demo-vpc"), "is 0123456789ab, which is not the hash of this content, and has no effect")
	p.approve(held.Revision)
	assert.Equal(t, "# 2", p.module())
	assert.Empty(t, p.change())
	p.provide("demo-vpc", builder.AtRest)
	p.look()
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
	assert.Equal(t, held.Revision, p.get("demo-vpc").Status.LastAppliedRevision)

	p.size("3") // The approval is of the former content.
	assert.Equal(t, "# 2", p.module())
	assert.NotEqual(t, held.Revision, p.change().Revision)
	p.size("2") // It is reverted.
	assert.Empty(t, p.change())
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
	require.Nil(t, p.preview())
}

// An approval is of what the plan shows. Of a Workspace that cannot be planned, only one that includes what is destroyed has an effect.
func TestAnApprovalWaitsForThePlan(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges})
	p.size("2")
	p.approve(p.change().Revision)
	assert.Equal(t, "# 1", p.module())
	assert.Contains(t, p.ready("demo-vpc"), "The approval takes effect then")
	require.NotNil(t, p.preview())
	assert.Empty(t, p.mustWrite())
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(11 * time.Second))
	p.look()
	assert.Equal(t, "# 2", p.module(), "it is planned")
	assert.Empty(t, p.change())

	p.provide("demo-vpc", builder.AtRest)
	p.look()
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(2 * time.Minute)) // Updates are rate-limited.
	p.size("3")
	revision := p.change().Revision
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ApproveDestroyAnnotation, revision)
	})
	p.provide("demo-vpc", builder.UpdateFailed) // It cannot be planned.
	p.approve(revision)
	assert.Equal(t, "# 3", p.module(), "without a plan")
}

// What is never destroyed is known only from the plan.
func TestAnApprovalOfWhatIsDestroyedDoesNotReplaceAPlanThatIsPossible(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges})
	p.reconciler.Plans = &planLog{changes: &planlog.Changes{Counts: planlog.Counts{Replace: 1}, Total: 1, Destroys: []string{"aws_eks_cluster"}}}
	p.size("2")
	revision := p.change().Revision
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ApproveDestroyAnnotation, revision)
	})
	p.approve(revision)
	assert.Equal(t, "# 1", p.module())
	assert.Contains(t, p.ready("demo-vpc"), "False PreviewingChange")
	assert.Contains(t, p.ready("demo-vpc"), "The approval takes effect then")
	assert.NotContains(t, p.ready("demo-vpc"), "--allow-destroy")
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.at(11)
	p.look()
	assert.Equal(t, "# 1", p.module())
	assert.Contains(t, p.ready("demo-vpc"), "Terraform would destroy aws_eks_cluster, which spec.rollout.neverDestroy does not allow")
}

// The result is kept while the update waits for the rate limit. Otherwise, it would be planned again.
func TestAnApprovedChangeKeepsItsPlanUntilItIsWritten(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges})
	p.size("2")
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(11 * time.Second))
	p.look()
	require.Equal(t, infrav1.PreviewChanges, p.change().Preview.Result)
	p.look()
	require.Nil(t, p.preview())
	p.reconciler.RateLimiter.Reserve(client.ObjectKey{Namespace: "default", Name: "other"}, p.reconciler.Clock.Now())
	p.approve(p.change().Revision)
	require.Equal(t, "# 1", p.module(), "the rate limit is reached")
	assert.Equal(t, infrav1.PreviewChanges, p.change().Preview.Result)
	assert.Nil(t, p.preview())
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(2 * time.Minute))
	p.look()
	assert.Equal(t, "# 2", p.module())
}

func TestAChangeWithAnEmptyPlanPasses(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges, State: infrav1.RolloutPaused})
	p.size("2")
	p.shows(builder.AtRest, "abc")
	p.look()
	assert.Equal(t, "# 2", p.module(), "the pause of the rollout does not concern it")
	p.look()
	assert.Nil(t, p.preview())
}

func TestAChangeThatRequiresAnApprovalWithoutAPreview(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways})
	p.size("2")
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForApproval: the changed spec (content "+p.change().Revision[:12]+") is not applied yet: the rollout policy of WorkspaceTemplate default/vpc requires an approval")
	assert.Nil(t, p.preview())
	p.approve(p.change().Revision)
	assert.Equal(t, "# 2", p.module())
}

// Only a change of spec is held: what another client changed is repaired, and a revision that the rollout assigns is written.
func TestOtherUpdatesAreNotHeld(t *testing.T) {
	policy := infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}
	p := newChanging(t, policy)
	live := p.workspace("demo-vpc")
	require.NoError(t, unstructured.SetNestedField(live.Object, "# by another client", "spec", "forProvider", "module"))
	p.update(live)
	p.look()
	assert.Equal(t, "# 1", p.module())

	p.template(builder.WithModule("# new ${size}"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Rollout = policy
		template.Spec.Rollout.Strategy = infrav1.RolloutStaged
		p.target = rollout.HashOf(template)
	}))
	p.edit("demo-vpc", assign(p.target))
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(time.Minute)) // Updates are rate-limited.
	p.look()
	assert.Equal(t, "# new 1", p.module())
}

func TestAHeldChangeIsReleased(t *testing.T) {
	for name, row := range map[string]struct {
		change func(p *previewing)
		module string
	}{
		"by the removal of the policy": {func(p *previewing) {
			p.template(builder.WithModule("# ${size}"), builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{} }))
		}, "# 2"},
		"not while it is paused": {func(p *previewing) {
			p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				metav1.SetMetaDataAnnotation(&a.ObjectMeta, clusterv1.PausedAnnotation, "")
			})
			p.approve(p.change().Revision)
		}, "# 1"},
		"not by a change of the Workspace": {func(p *previewing) { p.provide("demo-vpc", builder.Updating) }, "# 1"},
		"not if the record is lost": {func(p *previewing) {
			apply := p.get("demo-vpc")
			apply.Status.WrittenSpec = ""
			require.NoError(p, p.Status().Update(p.Context(), apply))
		}, "# 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newChanging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways})
			p.size("2")
			row.change(p)
			p.look()
			assert.Equal(t, row.module, p.module())
		})
	}
}

// The deletion of an object does not wait for an approval, and neither does the recovery of the content that its Workspace has.
func TestAHeldChangeBlocksNeitherDeletionNorRecovery(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways})
	p.size("2")
	p.provide("demo-vpc", builder.UpdateFailed)
	p.look()
	assert.Equal(t, "Throttle", p.get("demo-vpc").Status.LastFailureClass)
	request := "Reapply/" + string(p.workspace("demo-vpc").GetUID()) + "/1"
	p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, naming.RecoveryAnnotation, request)
	})
	p.look()
	assert.Equal(t, request, p.workspace("demo-vpc").GetAnnotations()[naming.RecoveryAnnotation])
	assert.Equal(t, "# 1", p.module())
	p.remove(p.get("demo-vpc"))
	p.look()
	assert.Contains(t, p.Writes, "delete Workspace")
}

// The Terraform state may still have the resources, so that a new Workspace would apply the change to them.
func TestAHeldChangeIsNotAppliedByANewWorkspace(t *testing.T) {
	for _, approval := range []infrav1.RolloutApproval{infrav1.RolloutApprovalNone, infrav1.RolloutApprovalOnChanges} {
		p := newChanging(t, infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: approval})
		p.size("2")
		held := p.change().Revision
		p.remove(p.workspace("demo-vpc"))
		p.destroyed("demo-vpc")
		p.look()
		require.Nil(t, p.workspace("demo-vpc"))
		assert.Contains(t, p.ready("demo-vpc"), "False WaitingForApproval: the changed spec (content "+held[:12]+") is not applied yet: it cannot be previewed: Workspace demo-vpc does not exist")
		p.look()
		assert.Empty(t, p.mustWrite(), "at rest nothing is written")
		if approval == infrav1.RolloutApprovalNone {
			p.size("1")
			assert.Equal(t, "# 1", p.module(), "the former content needs no approval")
			continue
		}
		p.approve(held)
		assert.Equal(t, "# 2", p.module())
	}
}

// The policy is added together with a new content: the update is decided by the rollout, and is not a change of the object.
func TestARolloutThatBeginsWithThePolicyIsNotAChange(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithModule("# 1")), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	p := &previewing{environment: env}
	p.template(builder.WithModule("# 2"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways}
		p.target = rollout.HashOf(template)
	}))
	p.look()
	assert.Equal(t, "# 1", p.module())
	p.edit("demo-vpc", assign(p.target))
	p.look()
	assert.Equal(t, "# 2", p.module())
}

// Pause wins over an approval; it does not lose it.
func TestAnApprovalDuringAPauseIsAppliedAfterwards(t *testing.T) {
	p := newChanging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways})
	p.size("2")
	pause := func(change func(*metav1.ObjectMeta)) {
		p.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { change(&a.ObjectMeta) })
		p.look()
	}
	held := p.change().Revision
	pause(func(m *metav1.ObjectMeta) { metav1.SetMetaDataAnnotation(m, clusterv1.PausedAnnotation, "") })
	assert.Equal(t, held, p.change().Revision)
	p.approve(held)
	assert.Equal(t, "# 1", p.module())
	pause(func(m *metav1.ObjectMeta) { delete(m.Annotations, clusterv1.PausedAnnotation) })
	assert.Equal(t, "# 2", p.module())
}

// newMoving is an object at rest, without a rollout policy, that moves to another template. The log of the provider shows the plan of the preview.
func newMoving(t *testing.T, plan planlog.Changes) *previewing {
	t.Helper()
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithModule("# 1")), builder.WorkspaceTemplate("other", builder.WithModule("# 2")),
		builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.reconciler.Plans = &planLog{changes: &plan}
	p := &previewing{env, ""}
	p.move("other")
	return p
}

func (p *previewing) move(template string) {
	p.Helper()
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef.Name = template
		apply.Generation++
	})
	p.look()
}

// planned ends the preview of the change.
func (p *previewing) planned() {
	p.Helper()
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.reconciler.Clock = clocktesting.NewFakePassiveClock(p.reconciler.Clock.Now().Add(11 * time.Second))
	p.look()
}

// A control plane that is pointed at the template of the VPC would lose its EKS cluster: the state is the same.
func TestAMoveToAnotherTemplateDestroysNothingWithoutAnApproval(t *testing.T) {
	p := newMoving(t, planlog.Changes{Counts: planlog.Counts{Create: 1, Delete: 1}, Total: 2, Destroys: []string{"aws_eks_cluster"}})
	assert.Contains(t, p.ready("demo-vpc"), "the move from WorkspaceTemplate default/vpc to default/other (content ")
	p.planned()
	assert.Equal(t, "# 1", p.module())
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForApproval")
	assert.Contains(t, p.ready("demo-vpc"), "captctl template approve-change default/demo-vpc --allow-destroy")
	p.look()
	assert.Empty(t, p.mustWrite(), "at rest nothing is written")

	revision := p.change().Revision
	p.move("vpc")
	assert.Empty(t, p.change())
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))

	p.move("other")
	p.approve(revision)
	p.planned()
	assert.Equal(t, "# 1", p.module(), "what is destroyed is not approved")
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		metav1.SetMetaDataAnnotation(&apply.ObjectMeta, naming.ApproveDestroyAnnotation, revision)
	})
	p.look()
	assert.Equal(t, "# 2", p.module(), "with an approval, neverDestroy of a policy that is not in effect does not matter")
}

func TestAMoveToAnotherTemplateThatDestroysNothingNeedsNoApproval(t *testing.T) {
	p := newMoving(t, planlog.Changes{Counts: planlog.Counts{Create: 1, Update: 1}, Total: 2})
	assert.Equal(t, "# 1", p.module())
	p.planned()
	assert.Equal(t, "# 2", p.module())
	p.provide("demo-vpc", builder.AtRest)
	p.look()
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
	assert.Equal(t, "default/other", p.get("demo-vpc").Status.AppliedTemplate)
	require.Nil(t, p.preview())
}

// Templates with equal contents are common: a template that is replaced by one with another name.
func TestAMoveToATemplateWithTheSameContentIsNotHeld(t *testing.T) {
	p := newMoving(t, planlog.Changes{})
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "third" })
	p.create(builder.WorkspaceTemplate("third", builder.WithModule("# 1")))
	p.look()
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
	assert.Equal(t, "default/third", p.get("demo-vpc").Status.AppliedTemplate)
}

// Nothing is lost: a creation that fails is corrected by another template as well.
func TestAMoveBeforeTheFirstApplyIsNotHeld(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithModule("# 1")), builder.WorkspaceTemplate("other", builder.WithModule("# 2")), builder.WorkspaceTemplateApply("demo-vpc"))
	env.look()
	env.provide("demo-vpc", builder.FirstApplyFailed)
	env.look()
	p := &previewing{env, ""}
	p.move("other")
	assert.Equal(t, "# 2", p.module())
}
