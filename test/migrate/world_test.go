/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package migrate_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/process"
)

const (
	// patience is how long a story waits for one of its steps.
	patience = 5 * time.Minute
	tick     = 50 * time.Millisecond
)

// world is a management cluster with a provider that runs OpenTofu.
type world struct {
	*testing.T
	*legacy.World
	metrics string
}

func newWorld(t *testing.T, options sandbox.Options) *world {
	t.Helper()
	port, err := process.FreePort()
	require.NoError(t, err)
	metrics := process.Loopback(port)
	options.ProviderArgs = []string{"--metrics-addr=" + metrics, "--max-reconcile-rate=4"}
	w, err := legacy.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.Logs(sandbox.Manager, 40))
		}
		require.NoError(t, w.Stop(context.Background()))
	})
	return &world{T: t, World: w, metrics: "http://" + metrics + "/metrics"}
}

// runs are how many commands of Terraform the provider has started, by operation and Workspace.
func (w *world) runs() map[string]string {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.metrics, nil)
	require.NoError(w, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer func() { _ = response.Body.Close() }()
	runs := map[string]string{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if series, value, found := strings.Cut(lines.Text(), "} "); found && strings.HasPrefix(series, "capt_test_provider_runs_total{") {
			runs[series] = value
		}
	}
	require.NoError(w, lines.Err())
	require.NotEmpty(w, runs)
	return runs
}

// workspaces as they are, by name.
func (w *world) workspaces() map[string]*unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	require.NoError(w, w.Admin.List(w.Context(), list))
	workspaces := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		workspaces[list.Items[i].GetName()] = &list.Items[i]
	}
	return workspaces
}

// identities of Workspaces are everything of them that is not the provider's to tell.
func identities(workspaces map[string]*unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	for name, workspace := range workspaces {
		found[name] = []any{
			workspace.GetUID(), workspace.GetGeneration(), workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers(), workspace.Object["spec"],
		}
	}
	return found
}

// applies are the WorkspaceTemplateApplies, by namespace and name.
func (w *world) applies() map[types.NamespacedName]types.UID {
	w.Helper()
	var list infrav1.WorkspaceTemplateApplyList
	require.NoError(w, w.Admin.List(w.Context(), &list))
	applies := map[types.NamespacedName]types.UID{}
	for i := range list.Items {
		applies[client.ObjectKeyFromObject(&list.Items[i])] = list.Items[i].UID
	}
	return applies
}

// writesTo a resource since a time, by all but the provider.
func (w *world) writesTo(group, resource string, since time.Time) []string {
	w.Helper()
	events, err := w.AuditEvents(audit.Filter{Group: group, Resource: resource, Verbs: audit.Writes, Since: since})
	require.NoError(w, err)
	var writes []string
	for _, event := range events {
		if event.User.Username != sandbox.ProviderUser {
			writes = append(writes, fmt.Sprintf("%s %s %s %s", event.User.Username, event.Verb, event.ObjectRef.Name, event.ObjectRef.Subresource))
		}
	}
	return writes
}

// await waits until lack returns "": what is still missing.
func (w *world) await(lack func() string) {
	w.Helper()
	missing := "it was not looked at"
	err := wait.PollUntilContextTimeout(w.Context(), tick, patience, true, func(context.Context) (bool, error) {
		missing = lack()
		return missing == "", nil
	})
	require.NoError(w, err, missing)
}

// awaitTrue waits until conditions of an object are True, of its present generation.
func (w *world) awaitTrue(object engine.Object, key types.NamespacedName, conditions ...string) {
	w.Helper()
	w.await(func() string {
		if err := w.Admin.Get(w.Context(), key, object); err != nil {
			return err.Error()
		}
		for _, name := range conditions {
			c := meta.FindStatusCondition(object.GetConditions(), name)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != object.GetGeneration() {
				return fmt.Sprintf("%T %s: %s is %+v", object, key, name, c)
			}
		}
		return ""
	})
}

func (w *world) awaitGone(object client.Object, key types.NamespacedName) {
	w.Helper()
	w.await(func() string {
		if err := w.Admin.Get(w.Context(), key, object); !engine.Absent(err) {
			return fmt.Sprintf("%T %s is still there: %v", object, key, err)
		}
		return ""
	})
}
