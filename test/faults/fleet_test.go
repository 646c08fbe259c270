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
)

// many makes WorkspaceTemplateApplies of one template, and waits until all are Ready.
func (w *world) many(n int) []string {
	w.Helper()
	w.user(w.template())
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("user-%02d", i)
		w.user(workspaceTemplateApply(names[i], before))
	}
	for _, name := range names {
		w.awaitReady(name, before)
	}
	return names
}

// turn is how far apart CAPT changes Workspaces.
const turn = 100 * time.Millisecond

// withSecret is an edit of the world's template.
func (w *world) withSecret() string {
	return w.template(`writeConnectionSecretToRef: {name: "${WORKSPACE_NAME}"}`)
}

// requireTurns proves that the last write to each Workspace respected the rate limit, counted from a time. Other tests write in
// between, so one may come later, but never earlier.
func (w *world) requireTurns(began time.Time, names []string) {
	w.Helper()
	var times []time.Time
	for _, name := range names {
		writes := w.writes(name)
		times = append(times, writes[len(writes)-1].at)
	}
	slices.SortFunc(times, time.Time.Compare)
	for i, at := range times {
		// The API server notes when a request came in, and the first of them may have taken longer on its way.
		require.GreaterOrEqual(w, at.Sub(began), time.Duration(i)*turn-turn/2, "update %d of %d came before the rate limit allowed it", i+1, len(names))
	}
}

// An edit of a template changes the Workspaces of all its users, each once, ten per second.
func TestATemplateEditReachesAllUsersWithinTheRateLimit(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		names := w.many(30)
		began := time.Now()
		w.user(w.withSecret())
		for _, name := range names {
			w.awaitWorkspace(name, hasSecret)
			w.awaitReady(name, before)
			require.EqualValues(w, 2, w.workspace(name).GetGeneration())
			require.Len(w, w.writes(name), 2, "one to make it, and one to change it")
		}
		w.requireTurns(began, names)
		w.end(names...)
	})
}

// Who sees the first users fail takes the edit back. The next edit is made in turns again.
func TestARevertedTemplateEditLeavesNoQueue(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		names := w.many(30)
		w.user(w.withSecret())
		w.awaitFirst(hasSecret)
		w.user(w.template())
		w.insist(tick, func() string {
			for _, name := range names {
				if hasSecret(w.workspace(name)) == "" {
					return name + " still has the reverted change"
				}
			}
			return ""
		})
		w.awaitQuiet(time.Duration(len(names)+10) * turn)
		changed := 0
		for _, name := range names {
			if len(w.writes(name)) > 1 {
				changed++
			}
		}
		require.Less(w, changed, len(names), "the edit was reverted before all were changed")

		began := time.Now()
		w.user(w.withSecret())
		for _, name := range names {
			w.awaitWorkspace(name, hasSecret)
		}
		w.requireTurns(began, names)
		w.end(names...)
	})
}

// awaitFirst waits until any Workspace is as wanted. One request lists all of them: a request for each would come too late.
func (w *world) awaitFirst(wanted func(*unstructured.Unstructured) string) {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(w.scope.GroupVersionKind())
	w.insist(tick, func() string {
		require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.newWorkspace("any").GetNamespace())))
		if slices.ContainsFunc(list.Items, func(workspace unstructured.Unstructured) bool {
			return w.claimed(&workspace) && wanted(&workspace) == ""
		}) {
			return ""
		}
		return "none is as wanted"
	})
}

// claimed reports whether a Workspace is of this world: cluster-wide ones are in no namespace.
func (w *world) claimed(workspace *unstructured.Unstructured) bool {
	return strings.HasPrefix(workspace.GetAnnotations()[naming.ClaimAnnotation], w.namespace+"/")
}

// hasSecret waits until a Workspace has a connection Secret.
func hasSecret(workspace *unstructured.Unstructured) string {
	if _, found, _ := unstructured.NestedMap(workspace.Object, "spec", "writeConnectionSecretToRef"); found {
		return ""
	}
	return workspace.GetName() + " has no connection Secret"
}

// awaitQuiet waits until CAPT has written nothing for a while.
func (w *world) awaitQuiet(silence time.Duration) {
	w.Helper()
	w.insist(time.Second, func() string {
		if writes := w.allWrites(time.Now().Add(-silence)); len(writes) > 0 {
			return fmt.Sprintf("something was written a moment ago: %v", writes)
		}
		return ""
	})
}

func TestAtRestNothingIsWritten(t *testing.T) {
	const objects, rest = 20, 20 * time.Second
	withAnyProvider(t, func(w *world) {
		names := w.many(objects)
		w.awaitQuiet(2 * time.Second) // Events are written a moment after what they report.
		since := time.Now()
		require.Never(w, func() bool { return len(w.allWrites(since)) > 0 }, rest, rest/10)
		require.Empty(w, w.allWrites(since))
		w.end(names...)
	})
}
