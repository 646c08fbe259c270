// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/fixture"
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
	var stored appsv1.ControllerRevisionList
	require.NoError(t, env.List(t.Context(), &stored, client.InNamespace(env.Namespace), client.HasLabels{naming.TemplateRevisionLabel}))
	assert.Len(t, rollout.HistoryOf(env.template(), stored.Items), 2)

	env.annotate(naming.ApproveAnnotation, harmful)
	env.Eventually(func() string { return fixture.Unless(env.moduleOf("a") == builder.Harmful, "the approved content is not written") })
}
