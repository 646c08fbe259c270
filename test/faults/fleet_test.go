// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
)

// many makes WorkspaceTemplateApplies of one template, and waits until all are Ready.
func (env *environment) many(n int) []string {
	env.Helper()
	env.user(env.template())
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("user-%02d", i)
		env.user(workspaceTemplateApply(names[i], before))
	}
	env.awaitAllReady(before, names...)
	return names
}

// turn is how far apart CAPT changes Workspaces.
const turn = 100 * time.Millisecond

// withSecret is an edit of the environment's template.
func (env *environment) withSecret() string {
	return env.template(`writeConnectionSecretToRef: {name: "${WORKSPACE_NAME}"}`)
}

// requireTurns proves that the last write to each Workspace respected the rate limit, counted from a time. Other tests write in
// between, so one may come later, but never earlier.
func (env *environment) requireTurns(began time.Time, names []string) {
	env.Helper()
	var times []time.Time
	for _, name := range names {
		writes := env.writes(name)
		times = append(times, writes[len(writes)-1].at)
	}
	slices.SortFunc(times, time.Time.Compare)
	for i, at := range times {
		// The API server notes when a request came in, and the first of them may have taken longer on its way.
		require.GreaterOrEqual(env, at.Sub(began), time.Duration(i)*turn-turn/2, "update %d of %d came before the rate limit allowed it", i+1, len(names))
	}
}

// Who sees the first users fail takes the edit back. The next edit changes the Workspaces of all users, each once, ten per second.
func TestARevertedTemplateEditLeavesNoQueue(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		names := env.many(30)
		env.user(env.withSecret())
		env.awaitFirst(hasSecret)
		env.user(env.template())
		env.eventually(tick, func() string {
			for _, name := range names {
				if hasSecret(env.Workspace(name)) == "" {
					return name + " still has the reverted change"
				}
			}
			return ""
		})
		env.awaitQuiet(time.Duration(len(names)+10) * turn)
		changed, writes, generations := 0, map[string]int{}, map[string]int64{}
		for _, name := range names {
			writes[name], generations[name] = len(env.writes(name)), env.Workspace(name).GetGeneration()
			if writes[name] > 1 {
				changed++
			}
		}
		require.Less(env, changed, len(names), "the edit was reverted before all were changed")

		began := time.Now()
		env.user(env.withSecret())
		for _, name := range names {
			env.awaitWorkspace(name, hasSecret)
			env.awaitReady(name, before)
			require.Len(env, env.writes(name), writes[name]+1, "changed once")
			require.Equal(env, generations[name]+1, env.Workspace(name).GetGeneration())
		}
		env.requireTurns(began, names)
		env.end(names...)
	})
}

// awaitFirst waits until any Workspace is as wanted. One request lists all of them: a request for each would come too late.
func (env *environment) awaitFirst(wanted func(*unstructured.Unstructured) string) {
	env.Helper()
	env.eventually(tick, func() string {
		all := fixture.List(env, env, env.Scope.GroupVersionKind(), client.InNamespace(fixture.ScopeNamespace(env.Scope, env.Namespace)))
		return fixture.Unless(slices.ContainsFunc(all, func(workspace unstructured.Unstructured) bool {
			// Cluster-wide ones are in no namespace.
			ours := strings.HasPrefix(workspace.GetAnnotations()[naming.ClaimAnnotation], env.Namespace+"/")
			return ours && wanted(&workspace) == ""
		}), "none is as wanted")
	})
}

// hasSecret waits until a Workspace has a connection Secret.
func hasSecret(workspace *unstructured.Unstructured) string {
	_, found, _ := unstructured.NestedMap(workspace.Object, "spec", "writeConnectionSecretToRef")
	return fixture.Unless(found, "%s has no connection Secret", workspace.GetName())
}

// awaitQuiet waits until CAPT has written nothing for a while.
func (env *environment) awaitQuiet(silence time.Duration) {
	env.Helper()
	env.eventually(time.Second, func() string {
		writes := env.allWrites(time.Now().Add(-silence))
		return fixture.Unless(len(writes) == 0, "something was written a moment ago: %v", writes)
	})
}

func TestAtRestNothingIsWritten(t *testing.T) {
	const objects, rest = 20, 20 * time.Second
	withAnyProvider(t, func(env *environment) {
		names := env.many(objects)
		env.awaitQuiet(2 * time.Second) // Events are written a moment after what they report.
		since := time.Now()
		require.Never(env, func() bool { return len(env.allWrites(since)) > 0 }, rest, rest/10)
		require.Empty(env, env.allWrites(since))
		env.end(names...)
	})
}
