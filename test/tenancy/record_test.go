// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/metrics"
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
func (env *environment) requireNotReported(secrets ...string) {
	env.Helper()
	env.awaitRecorded()
	entries := reports.of(env.a)
	logs, err := os.ReadFile(filepath.Join(shared.Dir(), "logs", sandbox.Manager+".log"))
	require.NoError(env, err)
	require.Contains(env, string(logs), env.a, "the log of the manager is elsewhere")
	measured := env.metrics()
	for _, secret := range secrets {
		for _, entry := range entries {
			require.Empty(env, find(entry.content, secret), "%s shows %q:\n%s", entry.name, secret, entry.content)
		}
		require.Empty(env, find(string(logs), secret), "the log of the manager shows %q", secret)
		require.Empty(env, find(measured, secret), "the metrics show %q", secret)
	}
	for _, entry := range entries {
		require.NotRegexp(env, packed, entry.content, "%s holds the compressed copy of Terraform's output", entry.name)
	}
	require.NotRegexp(env, packed, string(logs), "the log of the manager holds the compressed copy of Terraform's output")
}

func (env *environment) metrics() string {
	env.Helper()
	text, err := metrics.Text(env.Context(), shared.MetricsURL(sandbox.Manager))
	require.NoError(env, err)
	require.Contains(env, text, "controller_runtime_reconcile_total", "these are not metrics")
	return text
}

// awaitRecorded waits until the record has all that the tenant's objects say by now: a watch comes a little later than a
// read.
func (env *environment) awaitRecorded() {
	env.Helper()
	var missing []string
	for _, list := range []client.ObjectList{&infrav1.WorkspaceTemplateApplyList{}, &infrav1.CAPTClusterList{}, &controlplanev1.CAPTControlPlaneList{}} {
		require.NoError(env, env.List(env.Context(), list, client.InNamespace(env.a)))
		require.NoError(env, meta.EachListItem(list, func(item runtime.Object) error {
			missing = append(missing, item.(client.Object).GetResourceVersion())
			return nil
		}))
	}
	require.NotEmpty(env, missing, "no object could have reported anything")
	fixture.EventuallyTrue(env, 25*time.Millisecond, func() bool {
		for _, entry := range reports.of(env.a) {
			missing = slices.DeleteFunc(missing, func(number string) bool { return number == entry.number })
		}
		return len(missing) == 0
	}, "reports are missing: %v", missing)
}

// forms are the ways in which a value may be written: as it is, as a part of JSON, of HCL or of an address, and in base64,
// wherever in a longer text it begins.
func forms(value string) map[string]string {
	inJSON, err := json.Marshal(value)
	if err != nil {
		panic(err) // A string can be encoded as JSON.
	}
	inHCL := strconv.Quote(value)
	all := map[string]string{
		"as it is": value, "in JSON": string(inJSON[1 : len(inJSON)-1]), "in HCL": inHCL[1 : len(inHCL)-1],
		"in a query": url.QueryEscape(value), "in a path": url.PathEscape(value),
	}
	for before, first := range []int{0, 2, 3} { // Characters of base64 that hold bits of what comes before the value.
		text := append(make([]byte, before), value...)
		last := len(text) * 8 / 6 // The rest holds bits of what comes after it.
		all["in base64, "+strings.Repeat("x", before)] = base64.RawStdEncoding.EncodeToString(text)[first:last]
		all["in base64 for addresses, "+strings.Repeat("x", before)] = base64.RawURLEncoding.EncodeToString(text)[first:last]
	}
	return all
}

// packed is the compressed copy of Terraform's output at the end of the provider's errors.
var packed = regexp.MustCompile(`H4sI[A-Za-z0-9+/]+=*`)

// unpack returns what the compressed parts of a text say.
func unpack(text string) string {
	var all strings.Builder
	for _, match := range packed.FindAllString(text, -1) {
		data, err := base64.StdEncoding.DecodeString(match)
		if err != nil {
			continue
		}
		reader, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			continue
		}
		_, _ = io.Copy(&all, reader)
	}
	return all.String()
}

// find says in which form a text holds a value; nothing when it does not. The text itself may be JSON, in which every form
// is written once more as a part of JSON.
func find(text, value string) string {
	unpacked := unpack(text)
	for form, written := range forms(value) {
		again, _ := json.Marshal(written)
		if strings.Contains(text, written) || strings.Contains(text, string(again[1:len(again)-1])) {
			return form
		}
		if strings.Contains(unpacked, written) {
			return "compressed, " + form
		}
	}
	return ""
}

// everything lists all objects of a namespace, of every kind that is served, and all Workspaces without a namespace. It
// returns their JSON by kind and name.
func (env *environment) everything(namespace string) map[string]string {
	env.Helper()
	clients, err := discovery.NewDiscoveryClientForConfig(shared.Config())
	require.NoError(env, err)
	objects, err := dynamic.NewForConfig(shared.Config())
	require.NoError(env, err)
	groups, err := clients.ServerPreferredResources()
	require.NoError(env, err)

	found := map[string]string{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		require.NoError(env, err)
		for _, resource := range group.APIResources {
			clusterWide := !resource.Namespaced && resource.Kind == "Workspace"
			if !slices.Contains(resource.Verbs, "list") || !resource.Namespaced && !clusterWide {
				continue
			}
			reader := dynamic.ResourceInterface(objects.Resource(version.WithResource(resource.Name)))
			if resource.Namespaced {
				reader = objects.Resource(version.WithResource(resource.Name)).Namespace(namespace)
			}
			list, err := reader.List(env.Context(), metav1.ListOptions{})
			require.NoError(env, err, resource.Name)
			for _, item := range list.Items {
				data, err := item.MarshalJSON()
				require.NoError(env, err)
				found[resource.Kind+"."+version.Group+" "+item.GetName()] = string(data)
			}
		}
	}
	require.Contains(env, found, "Secret. canary", "the scan finds nothing at all")
	return found
}

// whereIs names the objects that hold a value.
func whereIs(objects map[string]string, value string) []string {
	var where []string
	for name, content := range objects {
		if form := find(content, value); form != "" {
			where = append(where, name+" ("+form+")")
		}
	}
	slices.Sort(where)
	return where
}

// requireNothingLeaked checks that no object of the tenant, and no Workspace, holds what the other namespace keeps secret.
func (env *environment) requireNothingLeaked() {
	env.Helper()
	require.Empty(env, whereIs(env.everything(env.a), env.canary))
	for _, workspace := range fixture.Workspaces(env, env, "") {
		data, err := workspace.MarshalJSON()
		require.NoError(env, err)
		require.Empty(env, find(string(data), env.canary), "Workspace %s/%s", workspace.GetNamespace(), workspace.GetName())
	}
}
