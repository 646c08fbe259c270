// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/planning/request"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// awaitRest requires that no preview and no request is left, and that nothing is written.
func (env *environment) awaitRest(names ...string) {
	env.Helper()
	env.awaitNoPreviews(names...)
	var requests infrav1.PlanRequestList
	require.NoError(env, env.List(env.Context(), &requests, client.InNamespace(env.Namespace)))
	assert.Empty(env, requests.Items)
	versions := func() (versions []string) {
		for _, name := range names {
			apply := &infrav1.WorkspaceTemplateApply{}
			require.True(env, env.Exists(apply, name))
			versions = append(versions, apply.ResourceVersion)
		}
		return versions
	}
	at := versions()
	env.never(aWhile, func() bool { return !assert.ObjectsAreEqual(at, versions()) })
}

func TestDriftIsFoundOnRequest(t *testing.T) {
	t.Parallel()
	inScopes(t, func(t *testing.T, scope terraform.Scope) {
		env := &environment{shared.NewEnvironment(t, scope)}
		env.User(env.VPCTemplate(fixture.VPCModule))
		env.use("a", "b", "paused")
		env.awaitReady("a", "b", "paused")
		env.SetScript("a", scripted.Script{Drift: "changed by hand"})
		env.Edit(&infrav1.WorkspaceTemplateApply{}, "paused", `{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":"true"}}}`)
		applied := len(env.Operations("a", scripted.Apply))

		var document request.Document
		require.NoError(t, json.Unmarshal([]byte(env.Captctl("plan", "--all", "--namespace="+env.Namespace, "-o", "json")), &document))
		assert.Equal(t, []int{3, 1, 0, 0, 1}, []int{document.Total, document.Changed, document.Unknown, document.Failed, document.Unavailable})
		results := map[string]infrav1.RevisionPreview{}
		for _, plan := range document.Plans {
			results[plan.Name] = plan.Preview
		}
		assert.Equal(t, infrav1.PreviewChanges, results["a"].Result)
		require.NotNil(t, results["a"].Changes)
		assert.Equal(t, int32(1), results["a"].Changes.Drifted)
		assert.Equal(t, infrav1.PreviewEmpty, results["b"].Result)
		assert.Contains(t, results["paused"].Message, "paused")

		env.awaitRest("a", "b", "paused")
		assert.Equal(t, applied, len(env.Operations("a", scripted.Apply)), "nothing is applied")
		assert.Zero(t, env.operationsOf("a", scripted.Apply))
		assert.Zero(t, env.operationsOf("paused", scripted.Plan))
	})
}
