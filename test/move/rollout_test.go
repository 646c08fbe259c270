// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// stagedTemplate is the template of the VPC with a policy, in YAML without braces.
func stagedTemplate(policy, module string) string {
	return strings.Replace(documents(terraform.ScopeNamespaced).VPCTemplate(module), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+policy+"}\n", 1)
}

// awaitStage waits until the rollout of the current content of the template has reached a stage.
func (env *environment) awaitStage(on *side, stage infrav1.RolloutStage) *infrav1.WorkspaceTemplate {
	env.Helper()
	template := &infrav1.WorkspaceTemplate{}
	env.await(on, template, fixture.VPCTemplate, func() string {
		s := &template.Status.Rollout
		return fixture.Unless(s.Revision == rollout.HashOf(template) && s.Stage == stage, "the rollout is %+v", s)
	})
	return template
}

// awaitRendered waits for a reason of the condition Rendered of the VPC.
func (env *environment) awaitRendered(on *side, status metav1.ConditionStatus, reason string) {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(on, apply, vpc, func() string {
		return fixture.ConditionMismatch(apply, infrav1.RenderedCondition, status, reason, "")
	})
}

// clusterctl does not move revisions. Without them, everything stays as it is and Ready; the user copies them after the move, when the new side has
// stored the current one.
func TestAClusterMovesWhileARolloutWaits(t *testing.T) {
	env := readyCluster(t)
	t.Parallel()
	env.apply(source, stagedTemplate("approval: Always", fixture.VPCModule))
	env.awaitStage(source, infrav1.RolloutComplete)
	env.apply(source, stagedTemplate("approval: Always", fixture.VPCModule+"# changed\n"))
	held := env.awaitStage(source, infrav1.RolloutWaitingForApproval)
	env.awaitRendered(source, metav1.ConditionTrue, infrav1.RevisionHeldReason)
	env.awaitReady(source, "v1.34.0")
	for _, name := range []string{vpc, eks} {
		env.awaitBlock(name, "until-paused")
	}
	env.follow(saveRevisions)

	began := time.Now()
	env.startMove().wait()
	env.requireMoved()
	env.awaitReady(target, "v1.34.0")
	env.awaitRendered(target, metav1.ConditionFalse, infrav1.RevisionMissingReason)
	template := env.awaitStage(target, infrav1.RolloutWaitingForApproval)
	require.Equal(t, rollout.HashOf(held), rollout.HashOf(template))
	env.requireUnnoticed(began)

	out, err := env.shell(commands(t, createRevisions)).CombinedOutput()
	require.Error(t, err, "the new side has stored the current one: %s", out)
	require.Contains(t, string(out), `"`+naming.TemplateRevision(fixture.VPCTemplate, rollout.HashOf(template))+`" already exists`)
	env.awaitRendered(target, metav1.ConditionTrue, infrav1.RevisionHeldReason)
	var revisions appsv1.ControllerRevisionList
	fixture.EventuallyTrue(t, tick, func() bool {
		require.NoError(t, target.List(t.Context(), &revisions, client.InNamespace(env.namespace), client.HasLabels{naming.TemplateRevisionLabel}))
		history := rollout.HistoryOf(template, revisions.Items)
		return len(history) == 2 && history[0].Hash == rollout.HashOf(template) && !history[1].Copied
	}, "the template does not get the revisions")
	env.awaitReady(target, "v1.34.0")
	env.requireUnnoticed(began)

	env.change(target, template, fixture.VPCTemplate, func() {
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, naming.ApproveAnnotation, rollout.HashOf(template))
	})
	env.awaitStage(target, infrav1.RolloutComplete)
	env.awaitReady(target, "v1.34.0")
	require.Equal(t, []string{"apply " + vpcWorkspace}, env.done(began))
}
