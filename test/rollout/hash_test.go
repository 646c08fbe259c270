// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// moduleOf returns the module of the Workspace of a user.
func (env *environment) moduleOf(name string) string {
	env.Helper()
	workspace := env.Workspace(name)
	require.NotNil(env, workspace)
	module, _, err := unstructured.NestedString(workspace.Object, "spec", "forProvider", "module")
	require.NoError(env, err)
	return module
}

// The ProviderConfig does not exist, so that Terraform never runs. What reaches the Workspaces is what matters.
func TestTheApprovalOfOneContentIsNotThatOfAnotherWithTheSameBeginningOfTheHash(t *testing.T) {
	t.Parallel()
	env := &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
	content := func(module string) string {
		return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: %s}
spec:
  passVariables: None
  rollout: {strategy: Staged, approval: Always}
  template:
    spec:
      providerConfigRef: {name: aws}
      forProvider: {source: Inline, module: %q}
`, fixture.VPCTemplate, module)
	}
	env.User(content(builder.Harmless))
	env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "a", "variables: {}"))
	approved := env.awaitStage(infrav1.RolloutWaitingForApproval).Revision
	env.annotate(naming.ApproveAnnotation, approved[:12])
	env.never(aWhile, func() bool { return env.Workspace("a") != nil })
	env.annotate(naming.ApproveAnnotation, approved)
	env.Eventually(func() string { return fixture.Unless(env.Workspace("a") != nil, "no Workspace is created") })
	env.awaitStage(infrav1.RolloutComplete)
	require.Equal(t, builder.Harmless, env.moduleOf("a"))

	env.User(content(builder.Harmful))
	harmful := rollout.HashOf(env.template())
	require.Equal(t, approved[:12], harmful[:12])
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.never(aWhile, func() bool { return env.moduleOf("a") != builder.Harmless })
	assert.Len(t, env.revisions(), 2)

	env.annotate(naming.ApproveAnnotation, harmful)
	env.Eventually(func() string {
		return fixture.Unless(env.moduleOf("a") == builder.Harmful, "the approved content is not written")
	})
}

// asManager returns a client with the permissions of the manager.
func (env *environment) asManager() client.Client {
	env.Helper()
	config, err := env.ConfigOf(sandbox.Manager)
	require.NoError(env, err)
	manager, err := client.New(config, client.Options{Scheme: env.Scheme()})
	require.NoError(env, err)
	return manager
}

// downgrade changes what is stored about a template and its user to what an earlier version would have stored. Meanwhile the manager leaves them alone. It returns
// a function that makes the manager observe them, as after an upgrade.
func (env *environment) downgrade(user string) (upgrade func()) {
	env.Helper()
	external := func(value string) {
		for name, object := range map[string]client.Object{user: &infrav1.WorkspaceTemplateApply{}, fixture.VPCTemplate: &infrav1.WorkspaceTemplate{}} {
			env.Edit(object, name, `{"metadata":{"annotations":{"`+clusterv1.ManagedByAnnotation+`":`+value+`}}}`)
		}
	}
	external(`"test"`)
	manager, apply, template := env.asManager(), &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
	require.True(env, env.Exists(apply, user))
	require.True(env, env.Exists(template, fixture.VPCTemplate))
	earlier := apply.DeepCopy()
	builder.RecordedEarlier(earlier)
	require.NoError(env, manager.Patch(env.Context(), earlier.DeepCopy(), client.MergeFrom(apply)))
	require.NoError(env, manager.Status().Patch(env.Context(), earlier, client.MergeFrom(apply)))
	before := template.DeepCopy()
	template.Status.Revision, template.Status.Rollout.Revision = builder.Short(template.Status.Revision), builder.Short(template.Status.Rollout.Revision)
	require.NoError(env, manager.Status().Patch(env.Context(), template, client.MergeFrom(before)))
	env.annotate(naming.ApproveAnnotation, builder.Short(template.Annotations[naming.ApproveAnnotation]))
	for _, revision := range env.revisions() {
		require.NoError(env, env.Delete(env.Context(), revision.DeepCopy()))
		require.NoError(env, env.Create(env.Context(), builder.StoredEarlier(&revision)))
	}
	return func() { external("null") }
}

func (env *environment) revisions() []appsv1.ControllerRevision {
	env.Helper()
	var stored appsv1.ControllerRevisionList
	require.NoError(env, env.List(env.Context(), &stored, client.InNamespace(env.Namespace), client.HasLabels{naming.TemplateRevisionLabel}))
	return stored.Items
}

func TestAnUpgradeFromShortHashesChangesNoWorkspaceAndApprovesNothing(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "approval: Always")
	env.use("a")
	first := env.awaitStage(infrav1.RolloutWaitingForApproval).Revision
	env.annotate(naming.ApproveAnnotation, first)
	env.awaitReady("a")
	complete := env.awaitStage(infrav1.RolloutComplete)
	before, applies := env.Workspace("a"), len(env.Operations("a", scripted.Apply))

	env.downgrade("a")()
	env.Eventually(func() string {
		apply := &infrav1.WorkspaceTemplateApply{}
		require.True(t, env.Exists(apply, "a"))
		s := &apply.Status
		recorded := []string{apply.Spec.TemplateRevision, s.TemplateRevision, s.WrittenTemplateRevision}
		return fixture.Unless(slices.Equal(recorded, []string{first, first, first}) && len(s.LastAppliedRevision) == len(first) && len(s.WrittenSpec) == len(first),
			"the records are %v of %s", recorded, first)
	})
	env.awaitReady("a")
	after := env.awaitStage(infrav1.RolloutComplete)
	assert.Equal(t, complete.StartTime, after.StartTime)
	assert.Equal(t, before.GetResourceVersion(), env.Workspace("a").GetResourceVersion())
	assert.Len(t, env.Operations("a", scripted.Apply), applies)
	require.Len(t, env.revisions(), 1)
	assert.Equal(t, naming.TemplateRevision(fixture.VPCTemplate, first[:12]), env.revisions()[0].Name)
	assert.NotEmpty(t, env.revisions()[0].Annotations[naming.ApprovedByAnnotation], "who approved it remains recorded")

	second := env.edit(changed)
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.annotate(naming.ApproveAnnotation, second)
	env.awaitStage(infrav1.RolloutComplete)
	env.edit(fixture.VPCModule)
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.annotate(naming.ApproveAnnotation, first) // In progress, and approved.
	env.awaitStage(infrav1.RolloutComplete)
	env.edit(changed)
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	applies = len(env.Operations("a", scripted.Apply))
	upgrade := env.downgrade("a")
	env.annotate(naming.ApproveAnnotation, second[:12]) // The manager of before would roll it out.
	upgrade()
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.never(aWhile, func() bool { return env.revision("a") == second })
	assert.Len(t, env.Operations("a", scripted.Apply), applies)
	env.annotate(naming.ApproveAnnotation, second)
	env.awaitStage(infrav1.RolloutComplete)
}
