// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestApproveBindsToTheContentThatItShows(t *testing.T) {
	s := newStaging()
	s.terminal, s.answer = true, "yes\n"
	out, errOut, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "2")
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplate team-a/vpc: revision 2 ("+s.two[:12]+")\nChanges since revision 1 ("+s.one[:12]+"):\n")
	assert.Contains(t, out, "    -# one\n    +# two\n")
	assert.Contains(t, out, "Users that get it: 3, first the canaries: team-a/a\n")
	assert.Contains(t, errOut, "Do you want to approve revision 2 ("+s.two[:12]+") of WorkspaceTemplate team-a/vpc in context production (http://127.0.0.1:1)?")
	assert.Contains(t, out, "WorkspaceTemplate team-a/vpc: revision 2 ("+s.two[:12]+") is approved\n")
	assert.Equal(t, s.two, s.stored(t).Annotations[naming.ApproveAnnotation])

	out, _, err = s.run(t, "template", "approve", "team-a/vpc", "--revision", s.two, "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "unchanged: revision 2 ("+s.two[:12]+") is approved already, by alice at 2026-10-22T09:00:00Z\n")
}

func TestApproveWithoutConsentOrInADryRunWritesNothing(t *testing.T) {
	s := newStaging()
	s.terminal, s.answer = true, "no\n"
	_, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "2")
	require.EqualError(t, err, "canceled: nothing was written")
	out, errOut, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "2", "--dry-run")
	require.NoError(t, err)
	assert.Contains(t, out, "is approved (dry run: nothing was written)\n")
	assert.NotContains(t, errOut, "Do you want")
	assert.Equal(t, s.one, s.stored(t).Annotations[naming.ApproveAnnotation])
}

func TestApproveRefusesWhatIsNotTheTarget(t *testing.T) {
	for name, row := range map[string]struct {
		change   func(*staging)
		revision string
		want     string
	}{
		"an older revision": {func(*staging) {}, "1", "is not the current content, which is revision 2 (<two>). Only that can be approved. captctl template rollback team-a/vpc --to-revision 1 returns to revision 1 (<one>)"},
		"unknown":           {func(*staging) {}, "7", "WorkspaceTemplate team-a/vpc has no revision 7, or more than one; captctl template status team-a/vpc lists its revisions"},
		"no approval is needed": {func(s *staging) { s.template.Spec.Rollout.Approval = "" }, "2",
			"spec.rollout.approval is None, so no revision needs an approval"},
		"not staged": {func(s *staging) { s.template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{} }, "2",
			"spec.rollout.strategy is not Staged: edits reach all users at once, and there is no rollout to change"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaging()
			row.change(s)
			_, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", row.revision, "--yes")
			require.ErrorContains(t, err, strings.NewReplacer("<one>", s.one[:12], "<two>", s.two[:12]).Replace(row.want))
			assert.Equal(t, s.one, s.stored(t).Annotations[naming.ApproveAnnotation])
		})
	}
}

func TestApproveWritesTheWholeHash(t *testing.T) {
	s := newStaging()
	s.terminal, s.answer = true, "yes\n"
	_, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", s.two[:11])
	require.ErrorContains(t, err, "has no revision "+s.two[:11])
	_, _, err = s.run(t, "template", "approve", "team-a/vpc", "--revision", s.two[:12], "--yes")
	require.ErrorContains(t, err, "--yes requires the whole hash in --revision")
	assert.Equal(t, s.one, s.stored(t).Annotations[naming.ApproveAnnotation])
	_, _, err = s.run(t, "template", "approve", "team-a/vpc", "--revision", s.two[:12])
	require.NoError(t, err)
	assert.Equal(t, s.two, s.stored(t).Annotations[naming.ApproveAnnotation])
}

func TestChangesOfTemplatesAreRejectedBeforeConnecting(t *testing.T) {
	for want, arguments := range map[string][]string{
		"--revision is required":                                      {"approve", "vpc", "--yes"},
		"standard input is not a terminal":                            {"rollback", "vpc"},
		"so the question cannot be answered: add --yes":               {"approve", "vpc", "--revision", "2"},
		"--dry-run=client is not supported. Use --dry-run=server":     {"pause", "vpc", "--dry-run=client"},
		`"/vpc": must be NAME or NAMESPACE/NAME`:                      {"resume", "/vpc"},
		`the usage is "captctl template pause [NAMESPACE/]NAME [flag`: {"pause"},
	} {
		s := newStaging()
		_, _, err := s.run(t, append([]string{"template"}, arguments...)...)
		require.ErrorContains(t, err, want)
		assert.Nil(t, s.config, "no cluster was connected to")
	}
}

func TestARevisionThatHasBeenRolledOutIsNotApproved(t *testing.T) {
	s := newStaging()
	s.template.Status.Rollout.Stage = infrav1.RolloutComplete
	out, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "2", "--yes")
	require.NoError(t, err)
	assert.Equal(t, "WorkspaceTemplate team-a/vpc: unchanged: revision 2 ("+s.two[:12]+") has been rolled out already\n", out)
	assert.Equal(t, s.one, s.stored(t).Annotations[naming.ApproveAnnotation])
}

// The manager sees users that the user of the command may not read.
func TestAFailureThatTheUserMayNotReadIsResumed(t *testing.T) {
	s := newStaging()
	s.condition(infrav1.RolloutStoppedReason, "failed: team-b/c")
	out, _, err := s.run(t, "template", "resume", "team-a/vpc", "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "fails for users that you may not read\n")
	assert.Equal(t, s.two, s.stored(t).Annotations[naming.ResumeAnnotation])
}

func TestARolloutIsPausedAndResumed(t *testing.T) {
	s := newStaging()
	s.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		err := c.Get(ctx, key, object, options...)
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{ // The client of tests returns none.
			Manager: "kustomize-controller", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:rollout":{"f:state":{}}}}`)},
		}})
		return err
	}
	for _, step := range []struct {
		command, want string
		state         infrav1.RolloutState
	}{
		{"resume", "unchanged: the rollout is neither paused nor stopped", ""},
		{"pause", "Flux applies spec.rollout.state, and reverts it unless it is changed in Git as well\nWorkspaceTemplate team-a/vpc: the rollout is paused; users that Terraform is updating finish", infrav1.RolloutPaused},
		{"pause", "unchanged: the rollout is paused already", infrav1.RolloutPaused},
		{"resume", "WorkspaceTemplate team-a/vpc: the rollout is resumed", infrav1.RolloutRunning},
	} {
		out, _, err := s.run(t, "template", step.command, "team-a/vpc")
		require.NoError(t, err)
		assert.Contains(t, out, step.want+"\n")
		assert.Equal(t, step.state, s.stored(t).Spec.Rollout.State)
		assert.NotContains(t, s.stored(t).Annotations, naming.ResumeAnnotation)
	}
}

func TestARolloutThatAFailureStoppedIsResumedAfterAQuestion(t *testing.T) {
	s := newStaging()
	s.fail()
	s.template.Spec.Rollout.State = infrav1.RolloutPaused
	out, _, err := s.run(t, "template", "resume", "team-a/vpc")
	require.ErrorContains(t, err, "add --yes")
	assert.Contains(t, out, "WorkspaceTemplate team-a/vpc: revision 2 ("+s.two[:12]+") fails for team-a/a\nIf it continues, no failure of this revision stops it. Waiting: 2 users.\n")
	assert.NotContains(t, s.stored(t).Annotations, naming.ResumeAnnotation)
	out, _, err = s.run(t, "template", "resume", "team-a/vpc", "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "the rollout of revision 2 ("+s.two[:12]+") continues, whatever fails\n")
	assert.Equal(t, s.two, s.stored(t).Annotations[naming.ResumeAnnotation])
	assert.Equal(t, infrav1.RolloutRunning, s.stored(t).Spec.Rollout.State)
}

func TestRollbackRestoresTheContentThatWasRolledOut(t *testing.T) {
	s := newStaging()
	s.fail()
	s.terminal, s.answer = true, "yes\n"
	builder.WithLabel("kustomize.toolkit.fluxcd.io/name", "fleet")(s.template)
	builder.WithLabel("kustomize.toolkit.fluxcd.io/namespace", "flux-system")(s.template)
	out, errOut, err := s.run(t, "template", "rollback", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplate team-a/vpc: back from revision 2 ("+s.two[:12]+") to the content of revision 1 ("+s.one[:12]+")\n")
	assert.Contains(t, out, "    -# two\n    +# one\n")
	assert.Contains(t, out, "Users that return to it: 1. Users that have it: 2.\n")
	assert.Contains(t, out, "Flux (Kustomization flux-system/fleet) applies this template, and reverts the rollback unless the content is changed in Git as well\n")
	assert.Contains(t, errOut, "Do you want to restore revision 1 ("+s.one[:12]+") of WorkspaceTemplate team-a/vpc in context production")
	assert.Contains(t, out, "; to approve it, run captctl template approve team-a/vpc --revision "+s.one+"\n")
	assert.Equal(t, s.one, rollout.HashOf(s.stored(t)))
	assert.Equal(t, s.template.Spec.Rollout, s.stored(t).Spec.Rollout)
}

// Otherwise an approver sees no change, and a rollback is another content: a write without the field keeps it.
func TestASwitchOfTheSubstitutionIsShownAndReturns(t *testing.T) {
	s := newStaging()
	builder.WithModule(`locals { a = "${x}" }`)(s.template)
	s.store(2)
	without := rollout.HashOf(s.template)
	s.template.Spec.Substitution = infrav1.SubstitutionFields
	out, _, err := s.run(t, "template", "approve", "team-a/vpc", "--revision", "3", "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "    + substitution: Fields\n")
	out, _, err = s.run(t, "template", "rollback", "team-a/vpc", "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "    - substitution: Fields\n")
	assert.Equal(t, without, rollout.HashOf(s.stored(t)))
	assert.Equal(t, infrav1.SubstitutionAll, s.stored(t).Spec.Substitution)
}

func TestRollbackToARevision(t *testing.T) {
	s := newStaging()
	s.store(2)
	builder.WithParameters(func(parameters *terraform.WorkspaceParameters) {
		parameters.Vars = append(parameters.Vars, terraform.Var{Key: "new", Value: "x"})
	})(s.template)
	out, _, err := s.run(t, "template", "rollback", "team-a/vpc", "--to-revision", "1", "--dry-run=server")
	require.NoError(t, err)
	assert.Contains(t, out, "    - forProvider.vars[new]: x\n")
	assert.NotEqual(t, s.one, rollout.HashOf(s.stored(t)), "a dry run writes nothing")
	_, _, err = s.run(t, "template", "rollback", "team-a/vpc", "--to-revision", "1", "--yes")
	require.NoError(t, err)
	assert.Equal(t, s.one, rollout.HashOf(s.stored(t)))
	out, _, err = s.run(t, "template", "rollback", "team-a/vpc", "--to-revision", s.one, "--yes")
	require.NoError(t, err)
	assert.Contains(t, out, "unchanged: revision 3 ("+s.one[:12]+") is the current content already\n")
}

func TestRollbackThatCannotWorkWritesNothing(t *testing.T) {
	s := newStaging()
	s.template.Spec.WorkspaceScope = terraform.ScopeCluster
	_, _, err := s.run(t, "template", "rollback", "team-a/vpc", "--yes")
	require.ErrorContains(t, err, "is for Workspaces of scope Namespaced, and the template has scope Cluster: a Workspace cannot change its scope")

	s = newStaging()
	s.objects = s.objects[1:]
	_, _, err = s.run(t, "template", "rollback", "team-a/vpc", "--yes")
	require.ErrorContains(t, err, "WorkspaceTemplate team-a/vpc has no other revision than revision 1 ("+s.two[:12]+"): there is nothing to return to")

	s = newStaging()
	s.funcs.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		edited := s.stored(t)
		builder.WithModule("# another edit")(edited)
		require.NoError(t, s.connected.Update(ctx, edited))
		return c.Patch(ctx, object, patch, options...)
	}
	_, _, err = s.run(t, "template", "rollback", "team-a/vpc", "--yes")
	assert.True(t, apierrors.IsConflict(err), "an edit since then is not lost: %v", err)
}

// Hashes of contents.
var contentA, contentB = strings.Repeat("a", 64), strings.Repeat("b", 64)

// waiting is a management cluster with a WorkspaceTemplateApply whose change waits for an approval.
func waiting(change string) *environment {
	apply := builder.WorkspaceTemplateApply("demo", builder.WithNamespace("team-a"), builder.WithGeneration(2),
		builder.NotUpToDate(infrav1.WaitingForApprovalReason, "Terraform would change resources"),
		builder.WithAnnotation(naming.ApproveAnnotation, contentA), builder.WithAnnotation(naming.ApprovedByAnnotation, "alice"))
	apply.Status.ObservedGeneration, apply.Status.Change.Revision = 2, change
	return &environment{objects: []client.Object{apply}}
}

func approvedContent(t *testing.T, env *environment) string {
	t.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "demo"}, apply))
	return apply.Annotations[naming.ApproveAnnotation]
}

func TestApproveAChange(t *testing.T) {
	env := waiting(contentB)
	env.terminal, env.answer = true, "yes\n"
	out, errOut, err := env.run(t, "template", "approve-change", "team-a/demo")
	require.NoError(t, err)
	assert.Equal(t, "WorkspaceTemplateApply team-a/demo: content bbbbbbbbbbbb\nTerraform would change resources\nWorkspaceTemplateApply team-a/demo: content bbbbbbbbbbbb is approved\n", out)
	assert.Contains(t, errOut, "Do you want to approve content bbbbbbbbbbbb of WorkspaceTemplateApply team-a/demo in context production (http://127.0.0.1:1)?")
	assert.Equal(t, contentB, approvedContent(t, env))

	env = waiting(contentB)
	env.terminal, env.answer = true, "no\n"
	_, _, err = env.run(t, "template", "approve-change", "team-a/demo")
	require.EqualError(t, err, "canceled: nothing was written")
	out, _, err = env.run(t, "template", "approve-change", "team-a/demo", "--dry-run")
	require.NoError(t, err)
	assert.Contains(t, out, "content bbbbbbbbbbbb is approved (dry run: nothing was written)\n")
	out, _, err = env.run(t, "template", "approve-change", "team-a/demo", "--revision", contentA, "--yes")
	require.NoError(t, err)
	assert.Equal(t, "WorkspaceTemplateApply team-a/demo: unchanged: content aaaaaaaaaaaa is approved already, by alice\n", out)
	assert.Equal(t, contentA, approvedContent(t, env))
}

func TestApproveAChangeRefusesAnotherContent(t *testing.T) {
	for want, row := range map[string]struct {
		waiting   string
		arguments []string
	}{
		"content " + contentA[:63] + "b is not the one that waits, which is " + contentB: {contentB, []string{"--revision", contentA[:63] + "b", "--yes"}},
		"content bbbb is not the one that waits":                                         {contentB, []string{"--revision", "bbbb", "--yes"}},
		"--yes requires the whole hash":                                                  {contentB, []string{"--revision", contentB[:12], "--yes"}},
		"no change waits for an approval":                                                {"", []string{"--revision", contentB, "--yes"}},
		"--yes requires --revision":                                                      {contentB, []string{"--yes"}},
		"standard input is not a terminal":                                               {contentB, nil},
	} {
		env := waiting(row.waiting)
		_, _, err := env.run(t, append([]string{"template", "approve-change", "team-a/demo"}, row.arguments...)...)
		require.ErrorContains(t, err, want)
	}
}

// heldCluster is a Cluster whose control plane is held, and an add-on that may be, too.
func heldCluster(addOn string) *environment {
	held := func(apply *infrav1.WorkspaceTemplateApply, content string) {
		apply.Status.Conditions = readyCondition(metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "Terraform would change resources")
		apply.Status.Change.Revision = content
	}
	env := &environment{terminal: true, answer: "yes\n", objects: capt("demo", infrav1.StateConfiguring, func(c *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
		held(apply, contentB)
		c.Spec.Version = "v1.37.0"
		c.Status.Conditions = readyCondition(metav1.ConditionFalse, infrav1.WaitingForApprovalReason, "WorkspaceTemplateApply demo-eks: Terraform would change resources")
		c.Status.Progress = &infrav1.Progress{CurrentOperation: infrav1.OperationUpdate, PercentComplete: ptr.To[int32](10)}
	})}
	other := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("demo-addon")}
	other.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	held(other, addOn)
	env.objects = append(env.objects, other)
	return env
}

func TestAClusterWhoseUpgradeWaitsForAnApprovalSaysSo(t *testing.T) {
	env := heldCluster("")
	out, _, err := env.run(t, "get")
	require.NoError(t, err)
	assert.Regexp(t, `demo +WaitingForApproval +v1.36.0->v1.37.0 +Healthy +- +- +10m`, out)
	assert.Contains(t, out, "\n1 Cluster: 1 WaitingForApproval\nNeeds action: team-a/demo\n")
	out, _, err = env.run(t, "describe", "team-a/demo")
	require.NoError(t, err)
	assert.Contains(t, out, "State:     WaitingForApproval\n")
	assert.NotContains(t, out, "Progress:")
}

func TestApproveChangeAcceptsACluster(t *testing.T) {
	env := heldCluster("")
	out, _, err := env.run(t, "template", "approve-change", "team-a/demo")
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplateApply team-a/demo-eks: content bbbbbbbbbbbb is approved\n")

	env = heldCluster(contentA)
	out, _, err = env.run(t, "template", "approve-change", "team-a/demo", "--yes", "--revision", contentA)
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplateApply team-a/demo-addon: content aaaaaaaaaaaa is approved\n")

	_, _, err = heldCluster("").run(t, "template", "approve-change", "team-a/demo", "--yes", "--revision", contentA)
	require.EqualError(t, err, "no change of Cluster team-a/demo, or not this one, waits for an approval")
	_, _, err = heldCluster("").run(t, "template", "approve-change", "team-a/dem")
	require.EqualError(t, err, "there is no WorkspaceTemplateApply of this name, and there is no Cluster dem of CAPT in namespace team-a; did you mean team-a/demo?")
}

// approvedOf are the approved contents of the control plane and of the add-on.
func approvedOf(t *testing.T, env *environment) (approved [2]string) {
	t.Helper()
	for i, name := range []string{"demo-eks", "demo-addon"} {
		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: name}, apply))
		approved[i] = apply.Annotations[naming.ApproveAnnotation]
	}
	return approved
}

func TestApproveSeveralChangesAtOnce(t *testing.T) {
	const question = "Do you want to do all of this in context production (http://127.0.0.1:1)?\n" +
		"  approve content bbbbbbbbbbbb of WorkspaceTemplateApply team-a/demo-eks\n  approve content aaaaaaaaaaaa of WorkspaceTemplateApply team-a/demo-addon\n"
	both, none := [2]string{contentB, contentA}, [2]string{}
	for name, row := range map[string]struct {
		arguments []string
		approved  [2]string
	}{
		"a Cluster":                    {[]string{"team-a/demo"}, both},
		"names, and their Cluster":     {[]string{"team-a/demo-eks", "team-a/demo-addon", "team-a/demo"}, both},
		"a dry run":                    {[]string{"team-a/demo", "--dry-run"}, none},
		"only what a pipeline reviews": {[]string{"-n", "team-a", "--all", "--yes", "--revision", contentA}, [2]string{1: contentA}},
	} {
		t.Run(name, func(t *testing.T) {
			env := heldCluster(contentA)
			out, errOut, err := env.run(t, append([]string{"template", "approve-change"}, row.arguments...)...)
			require.NoError(t, err)
			assert.Equal(t, row.approved, approvedOf(t, env))
			assert.Equal(t, strings.Contains(errOut, question), row.approved == both)
			assert.Equal(t, 1, strings.Count(out, "WorkspaceTemplateApply team-a/demo-addon: content aaaaaaaaaaaa\nTerraform would change resources\n"), out)
		})
	}
	for name, row := range map[string]struct {
		label    string
		approved [2]string
	}{"all": {"", both}, "selected": {"test", [2]string{1: contentA}}} {
		t.Run(name, func(t *testing.T) {
			env := heldCluster(contentA)
			for _, object := range env.objects {
				if _, is := object.(*clusterv1.Cluster); is {
					object.SetLabels(map[string]string{"environment": "test"})
				}
			}
			arguments := []string{"template", "approve-change", "-n", "team-a", "--all"}
			if row.label != "" {
				arguments = append(arguments[:4], "--selector", "environment="+row.label)
			}
			_, _, err := env.run(t, arguments...)
			require.NoError(t, err)
			assert.Equal(t, row.approved, approvedOf(t, env), "the control plane has no label of its Cluster")
		})
	}
}

func TestSeveralChangesAreApprovedTogetherOrNotAtAll(t *testing.T) {
	env := heldCluster(contentA)
	env.objects[len(env.objects)-1].(*infrav1.WorkspaceTemplateApply).Status.Change.Preview = planned("", replacedCluster)
	out, _, err := env.run(t, "template", "approve-change", "team-a/demo")
	require.EqualError(t, err, "nothing was written:\n  WorkspaceTemplateApply team-a/demo-addon: Terraform would replace or delete resources of 1 user, or may do so: see the list. To approve that as well, add --allow-destroy\nWithout them: name only team-a/demo-eks")
	assert.Contains(t, out, "demo-addon")
	assert.Equal(t, [2]string{}, approvedOf(t, env))

	for want, arguments := range map[string][]string{
		"use either names, --all or --selector":   {},
		"use either names, --all or --selector; ": {"team-a/demo", "--all"},
		"--selector: ":                                {"--selector", "=="},
		"--yes requires --revision":                   {"--all", "--yes"},
		"no change in namespace team-b, or not these": {"-n", "team-b", "--all"},
	} {
		_, _, err := heldCluster(contentA).run(t, append([]string{"template", "approve-change"}, arguments...)...)
		require.ErrorContains(t, err, want)
	}
	_, errOut, err := heldCluster(contentA).run(t, "template", "approve-change", "team-a/demo", "--yes", "--revision", contentA+","+strings.Repeat("c", 64))
	require.NoError(t, err)
	assert.Contains(t, errOut, "Warning: no change with content "+strings.Repeat("c", 64)+" waits there")
}
