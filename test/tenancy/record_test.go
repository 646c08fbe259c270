// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// record keeps what CAPT reports: every version of its objects and of Clusters, without spec, and all Events, in both
// APIs. What was reported only briefly counts, too.
type record struct {
	lock    sync.Mutex
	entries []version
}

// version is one version of an object.
type version struct {
	// name of the object, with its kind and namespace.
	name string
	// api is the group and version in which it was reported, namespace is that of the object.
	api, namespace string
	// number is that of the version, content is its JSON.
	number, content string
}

// watched are the kinds in which something is reported.
var watched = []schema.GroupVersionKind{
	infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplate"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
	controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), clusterv1.GroupVersion.WithKind("Cluster"),
	corev1.SchemeGroupVersion.WithKind("Event"), eventsv1.SchemeGroupVersion.WithKind("Event"),
}

// listen begins to keep a record. It ends with the context.
func listen(ctx context.Context, t *testing.T) *record {
	t.Helper()
	r := &record{}
	for _, kind := range watched {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		watcher, err := shared.API.Watch(ctx, list)
		require.NoError(t, err)
		go r.follow(ctx, list, watcher)
	}
	return r
}

// follow keeps what a watch reports, and watches again when the API server ends it.
func (r *record) follow(ctx context.Context, list *unstructured.UnstructuredList, watcher watch.Interface) {
	for ctx.Err() == nil {
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				r.add(object)
			}
		}
		again, err := shared.API.Watch(ctx, list)
		if err != nil {
			<-time.After(time.Second) // The API server may be stopping; there is nothing to wait for but time.
			continue
		}
		watcher = again
	}
}

func (r *record) add(object *unstructured.Unstructured) {
	content := object.DeepCopy()
	unstructured.RemoveNestedField(content.Object, "spec")
	content.SetManagedFields(nil)
	data, err := content.MarshalJSON()
	if err != nil {
		data = []byte(err.Error())
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.entries = append(r.entries, version{
		name: object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName(),
		api:  object.GetAPIVersion(), namespace: object.GetNamespace(), number: object.GetResourceVersion(), content: string(data),
	})
}

// of returns what was reported in a namespace so far.
func (r *record) of(namespace string) []version {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(r.entries), func(entry version) bool { return entry.namespace != namespace })
}

// requireNotReported checks that CAPT has not reported a value: in no version of the status of any of its objects, in no
// Event, not in its logs and not in its metrics.
func (w *world) requireNotReported(secrets ...string) {
	w.Helper()
	w.awaitRecorded()
	entries := reports.of(w.a)
	logs, err := os.ReadFile(filepath.Join(shared.Dir(), "logs", sandbox.Manager+".log"))
	require.NoError(w, err)
	require.Contains(w, string(logs), w.a, "the log of the manager is elsewhere")
	metrics := w.metrics()
	for _, secret := range secrets {
		for _, entry := range entries {
			require.Empty(w, find(entry.content, secret), "%s shows %q:\n%s", entry.name, secret, entry.content)
		}
		require.Empty(w, find(string(logs), secret), "the log of the manager shows %q", secret)
		require.Empty(w, find(metrics, secret), "the metrics show %q", secret)
	}
	for _, entry := range entries {
		require.NotRegexp(w, packed, entry.content, "%s holds the compressed copy of Terraform's output", entry.name)
	}
	require.NotRegexp(w, packed, string(logs), "the log of the manager holds the compressed copy of Terraform's output")
}

func (w *world) metrics() string {
	w.Helper()
	address, err := shared.MetricsURL(sandbox.Manager)
	require.NoError(w, err)
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, address, nil)
	require.NoError(w, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	require.Contains(w, string(data), "controller_runtime_reconcile_total", "these are not metrics")
	return string(data)
}

// awaitRecorded waits until the record has all that the tenant's objects say by now: a watch comes a little later than a
// read.
func (w *world) awaitRecorded() {
	w.Helper()
	var missing []string
	for _, list := range []client.ObjectList{&infrav1.WorkspaceTemplateApplyList{}, &infrav1.CAPTClusterList{}, &controlplanev1.CAPTControlPlaneList{}} {
		require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.a)))
		require.NoError(w, meta.EachListItem(list, func(item runtime.Object) error {
			missing = append(missing, item.(client.Object).GetResourceVersion())
			return nil
		}))
	}
	require.NotEmpty(w, missing, "no object could have reported anything")
	fixture.Eventually(w, 25*time.Millisecond, func() bool {
		for _, entry := range reports.of(w.a) {
			missing = slices.DeleteFunc(missing, func(number string) bool { return number == entry.number })
		}
		return len(missing) == 0
	}, "reports are missing: %v", missing)
}
