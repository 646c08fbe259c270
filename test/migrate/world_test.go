// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// tick is how often a test checks what it waits for. Many of these checks list the whole fleet, through the conversion webhook.
const tick = 200 * time.Millisecond

// world is a management cluster and a host with captctl.
type world struct {
	*testing.T
	*legacy.World
	host *host.Host
	// metrics of the provider; empty without one.
	metrics string
}

func newWorld(t *testing.T, options sandbox.Options) *world {
	t.Helper()
	metrics := ""
	if options.Provider {
		port, err := process.FreePort()
		require.NoError(t, err)
		options.ProviderArgs = []string{"--metrics-addr=" + process.Loopback(port), "--max-reconcile-rate=4"}
		metrics = "http://" + process.Loopback(port) + "/metrics"
	}
	w := legacy.New(t, options)
	return &world{T: t, World: w, host: host.New(t, w.Sandbox), metrics: metrics}
}

// runs counts the Terraform commands that changed or destroyed something, by operation and Workspace. Plans are not counted: the provider
// goes on to observe.
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
		series, value, found := strings.Cut(lines.Text(), "} ")
		if found && strings.HasPrefix(series, "capt_test_provider_runs_total{") && (strings.Contains(series, `"apply"`) || strings.Contains(series, `"destroy"`)) {
			runs[series] = value
		}
	}
	require.NoError(w, lines.Err())
	require.NotEmpty(w, runs)
	return runs
}

// workspaces by name.
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

// identities of Workspaces are everything but what the provider reports.
func identities(workspaces map[string]*unstructured.Unstructured) map[string]any {
	found := map[string]any{}
	for name, workspace := range workspaces {
		found[name] = []any{
			workspace.GetUID(), workspace.GetGeneration(), workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers(), workspace.Object["spec"],
		}
	}
	return found
}

// applies are the UIDs of the WorkspaceTemplateApplies. They are read in v1beta1, which is served before the upgrade and after it.
func (w *world) applies() map[types.NamespacedName]types.UID {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApplyList"))
	require.NoError(w, w.Admin.List(w.Context(), list))
	applies := map[types.NamespacedName]types.UID{}
	for i := range list.Items {
		applies[client.ObjectKeyFromObject(&list.Items[i])] = list.Items[i].GetUID()
	}
	return applies
}

// untouched is what a migration must not change, and how to require that it did not.
type untouched struct {
	*world
	since      time.Time
	workspaces map[string]any
	applies    map[types.NamespacedName]types.UID
	runs       map[string]string
}

func (w *world) untouched() *untouched {
	w.Helper()
	u := &untouched{world: w, since: time.Now(), workspaces: identities(w.workspaces()), applies: w.applies()}
	if w.metrics != "" {
		u.runs = w.runs()
	}
	return u
}

func (u *untouched) require(t *testing.T) {
	t.Helper()
	require.Equal(t, u.workspaces, identities(u.world.workspaces()))
	require.Equal(t, u.applies, u.world.applies())
	require.Empty(t, u.writesTo("tf.upbound.io", "workspaces", u.since))
	require.Empty(t, u.writesTo("tf.upbound.io", "providerconfigs", u.since))
	if u.runs != nil {
		require.Equal(t, u.runs, u.world.runs())
	}
}

// questions about users and their permissions are sent like objects, and not stored.
var questions = []string{"selfsubjectaccessreviews", "selfsubjectreviews"}

// requireHarmless requires that captctl created nothing but its Lease, its journal and Events, wrote nothing of Terraform, and deleted nothing.
func (w *world) requireHarmless() {
	w.Helper()
	for _, user := range []string{sandbox.CaptctlUser, sandbox.ReaderUser} {
		events, err := w.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes})
		require.NoError(w, err)
		for _, event := range events {
			switch event.Verb {
			case "create":
				assert.Contains(w, append([]string{"leases", "configmaps", "events"}, questions...), event.ObjectRef.Resource, event.RequestURI)
			case "update", "patch":
				assert.NotContains(w, []string{"workspaces", "providerconfigs", "secrets"}, event.ObjectRef.Resource, event.RequestURI)
			default:
				assert.Fail(w, "captctl deletes nothing", "%s %s", event.Verb, event.RequestURI)
			}
		}
	}
}

// writesOf a user that the API server was asked for, permitted or not. Dry runs and questions about permissions are left out.
func (w *world) writesOf(user string, since time.Time) (writes []string) {
	w.Helper()
	events, err := w.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes, Since: since})
	require.NoError(w, err)
	for _, event := range events {
		if !slices.Contains(questions, event.ObjectRef.Resource) && !strings.Contains(event.RequestURI, "dryRun=All") {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

// writesTo a resource by everything but the provider.
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
	fixture.Insist(w.T, tick, lack)
}

// awaitTrue waits until conditions of an object are True for its current generation.
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
	fixture.InsistGone(w.T, tick, w.Admin, key, object)
}

// names of a map, sorted.
func names[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
