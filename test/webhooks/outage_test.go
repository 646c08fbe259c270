// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// hold is a finalizer that only a test removes.
	hold = "test.capt.cluster.x-k8s.io/hold"
	// limit is how long the API server waits for a webhook of CAPT's.
	limit = 5 * time.Second
)

// released removes all finalizers.
var released = mergePatch(`{"metadata":{"finalizers":null}}`)

// TestOutage shows what still works while no replica serves the webhooks, and what does not. docs/install.md documents the
// same.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	other := newWorld(t).Namespace
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "owner"}}
	require.NoError(t, w.Create(t.Context(), owner))
	w.make(w.Namespace, "kept-")
	w.make(w.Namespace, "free-")
	w.make(w.Namespace, "held-", func(o *unstructured.Unstructured) { o.SetFinalizers([]string{hold}) })
	w.make(w.Namespace, "owned-", func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}})
	})
	w.make(other, "free-")

	require.NoError(t, shared.StopComponent(t.Context(), sandbox.Manager))
	back := func(ctx context.Context) { require.NoError(t, shared.StartComponent(ctx, sandbox.Manager)) }
	t.Cleanup(func() {
		if back != nil {
			back(context.Background())
		}
	})

	w.story("what has no finalizers is deleted", (*world).freeObjectsAreDeleted)
	w.story("what has finalizers is marked, and gone when they are removed", (*world).heldObjectsAreReleased)
	w.story("garbage is collected", func(w *world) { w.garbageIsCollected(owner) })
	w.story("a namespace is deleted with what is in it", func(w *world) { w.namespaceIsDeleted(other) })
	w.story("v1beta2 is read and watched", (*world).storedVersionIsRead)
	w.story("status is written", (*world).statusIsWritten)
	w.story("what CAPT writes itself is written", (*world).ownWritesPass)
	w.story("other groups are not touched", (*world).othersAreNotTouched)
	w.story("creates fail in time and name the webhook", (*world).createsFail)
	w.story("changes fail in time and name the webhook", (*world).changesFail)
	w.story("v1beta1 is not converted", (*world).conversionFails)

	back(t.Context())
	back = nil
	w.story("everything works again when the manager is back", (*world).everythingWorks)
}

func (w *world) freeObjectsAreDeleted() {
	w.each(w.Namespace, "free-", func(_ kind, object *unstructured.Unstructured) {
		require.NoError(w, w.Delete(w.Context(), object), object.GetKind())
		w.release(object)
		require.True(w, w.gone(object), "%s %s is still there", object.GetKind(), object.GetName())
	})
}

// release deletes what CAPT itself holds: templates, until it has seen that they are unused.
func (w *world) release(object *unstructured.Unstructured) {
	if object.GetKind() != "WorkspaceTemplate" {
		return
	}
	require.NoError(w, client.IgnoreNotFound(w.Delete(w.Context(), object)), object.GetName())
	require.NoError(w, client.IgnoreNotFound(w.Patch(w.Context(), object, released)), object.GetName())
}

func (w *world) heldObjectsAreReleased() {
	w.each(w.Namespace, "held-", func(k kind, object *unstructured.Unstructured) {
		require.NoError(w, w.Delete(w.Context(), object), object.GetKind())
		marked := empty(k.current)
		require.NoError(w, w.Get(w.Context(), client.ObjectKeyFromObject(object), marked))
		require.NotNil(w, marked.GetDeletionTimestamp(), object.GetKind())

		// A controller patches, a user may replace.
		if object.GetName() == "held-"+k.current.Version {
			require.NoError(w, w.Patch(w.Context(), marked, released), object.GetKind())
		} else {
			marked.SetFinalizers(nil)
			require.NoError(w, w.Update(w.Context(), marked), object.GetKind())
		}
		require.True(w, w.gone(object), "%s %s is still there", object.GetKind(), object.GetName())
	})
}

func (w *world) garbageIsCollected(owner *corev1.ConfigMap) {
	require.NoError(w, w.Delete(w.Context(), owner))
	for _, k := range kinds() {
		for _, version := range k.versions() {
			w.awaitGone(k.object(k.current, w.Namespace, "owned-"+version.Version))
		}
	}
}

// awaitGone waits until another client has deleted an object.
func (w *world) awaitGone(object *unstructured.Unstructured) {
	w.Helper()
	eventually(w.T, func() error {
		if w.gone(object) {
			return nil
		}
		now := empty(object.GroupVersionKind())
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), now); err == nil && now.GetDeletionTimestamp() != nil {
			w.release(now)
		}
		return fmt.Errorf("%s %s is still there", object.GetKind(), object.GetName())
	})
}

func (w *world) namespaceIsDeleted(name string) {
	w.each(name, "free-", func(_ kind, object *unstructured.Unstructured) { w.release(object) })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(w, sandbox.AllowDelete(w.Context(), w, namespace))
	require.NoError(w, w.Delete(w.Context(), namespace))
	w.AwaitGone(namespace, name)
}

func (w *world) storedVersionIsRead() {
	for _, k := range kinds() {
		objects := list(k.current)
		require.NoError(w, w.List(w.Context(), objects, client.InNamespace(w.Namespace)), k.current.Kind)
		require.Len(w, objects.Items, len(k.versions()), k.current.Kind)

		watcher, err := w.API.Watch(w.Context(), objects, client.InNamespace(w.Namespace))
		require.NoError(w, err, k.current.Kind)
		select {
		case event := <-watcher.ResultChan():
			require.Equal(w, watch.Added, event.Type, "%s: %v", k.current.Kind, event.Object)
		case <-time.After(fixture.Patience):
			require.Fail(w, "the watch reports nothing", k.current.Kind)
		}
		watcher.Stop()
	}
}

func (w *world) statusIsWritten() {
	w.each(w.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		if !k.hasStatus() {
			return
		}
		status := mergePatch(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		require.NoError(w, w.Status().Patch(w.Context(), object, status), "%s %s", k.current.Kind, object.GetName())
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		require.NoError(w, err)
		require.Len(w, conditions, 1, k.current.Kind)
	})
}

// ownWritesPass writes with the name of the manager, as one would that cannot reach its own webhooks.
func (w *world) ownWritesPass() {
	config, err := shared.ConfigOf(sandbox.Manager)
	require.NoError(w, err)
	capt, err := client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	require.NoError(w, err)
	w.each(w.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		if k.hasStatus() { // The others have no controller.
			require.NoError(w, capt.Patch(w.Context(), object, k.changed("own")), k.current.Kind)
		}
	})
}

func (w *world) othersAreNotTouched() {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "settings"}}
	require.NoError(w, w.Create(w.Context(), settings))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "demo"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: kinds()[0].current.Group, Kind: kinds()[0].current.Kind, Name: "kept-v1beta2",
	}
	require.NoError(w, w.Create(w.Context(), cluster))
	require.NoError(w, w.Patch(w.Context(), cluster, mergePatch(`{"spec":{"paused":true}}`)))
	require.NoError(w, w.Delete(w.Context(), cluster))
}

// failsInTime shows that a write is refused for now, soon enough, and says what is to blame.
func (w *world) failsInTime(k kind, write func() error) {
	w.Helper()
	began := time.Now()
	err := write()
	require.True(w, apierrors.IsInternalError(err), "%s: %v", k.current.Kind, err)
	require.ErrorContains(w, err, `failed calling webhook "`, k.current.Kind)
	require.ErrorContains(w, err, "."+strings.ToLower(k.current.Kind)+"."+k.current.Group, k.current.Kind)
	require.Less(w, time.Since(began), limit, k.current.Kind)
}

func (w *world) createsFail() {
	for _, k := range kinds() {
		object := k.object(k.current, w.Namespace, "new")
		w.failsInTime(k, func() error { return w.Create(w.Context(), object) })
		require.True(w, w.gone(object), k.current.Kind)
	}
}

func (w *world) changesFail() {
	w.each(w.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		w.failsInTime(k, func() error { return w.Patch(w.Context(), object.DeepCopy(), k.changed("outage")) })
		now := empty(k.current)
		require.NoError(w, w.Get(w.Context(), client.ObjectKeyFromObject(object), now))
		require.Equal(w, object.GetGeneration(), now.GetGeneration(), k.current.Kind)
	})
}

// readLegacy reads a list or an object in v1beta1, once: the API server asks to be asked later, and clients that obey wait
// for minutes.
func (w *world) readLegacy(k kind, name ...string) error {
	w.Helper()
	clients, err := kubernetes.NewForConfig(shared.Config())
	require.NoError(w, err)
	path := append([]string{"apis", k.legacy.Group, k.legacy.Version, "namespaces", w.Namespace, w.resource(k)}, name...)
	return clients.Discovery().RESTClient().Get().AbsPath(path...).MaxRetries(0).Do(w.Context()).Error()
}

func failsToConvert(err error, k kind) bool {
	return err != nil && strings.Contains(err.Error(), "conversion webhook for "+k.current.Group)
}

func (w *world) conversionFails() {
	for _, k := range kinds() {
		if k.legacy.Empty() {
			continue
		}
		err := w.readLegacy(k, "kept-v1beta2")
		require.True(w, failsToConvert(err, k), "reading a %s: %v", k.legacy.Kind, err)
		err = w.Create(w.Context(), k.object(k.legacy, w.Namespace, "new"))
		require.True(w, failsToConvert(err, k), "creating a %s: %v", k.legacy.Kind, err)
	}
	// A list comes from the API server's memory until something of the kind has changed.
	k := kinds()[0]
	eventually(w.T, func() error {
		if err := w.readLegacy(k); !failsToConvert(err, k) {
			return fmt.Errorf("the list is not refused: %w", err)
		}
		return nil
	})
}

func (w *world) everythingWorks() {
	require.NoError(w, w.Create(w.Context(), kinds()[0].object(kinds()[0].current, w.Namespace, "first")))
	w.make(w.Namespace, "again-")
	w.each(w.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		require.NoError(w, w.Patch(w.Context(), object, k.changed("after")), k.current.Kind)
		if k.legacy.Empty() {
			return
		}
		require.NoError(w, w.Get(w.Context(), client.ObjectKeyFromObject(object), empty(k.legacy)), k.current.Kind)
	})
	// The API server's memory in v1beta1 is filled again, with longer and longer pauses between the attempts.
	eventually(w.T, func() error { return w.readLegacy(kinds()[0]) })
}
