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
	"k8s.io/utils/ptr"
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

// TestOutage shows what still works while no replica serves the webhooks, and what does not. docs/install-reference.md documents the
// same.
func TestOutage(t *testing.T) {
	env := newEnvironment(t)
	other := newEnvironment(t).Namespace
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "owner"}}
	require.NoError(t, env.Create(t.Context(), owner))
	env.make(env.Namespace, "kept-")
	env.make(env.Namespace, "free-")
	env.make(env.Namespace, "held-", func(o *unstructured.Unstructured) { o.SetFinalizers([]string{hold}) })
	env.make(env.Namespace, "owned-", func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}})
	})
	env.make(other, "free-")

	require.NoError(t, shared.StopComponent(t.Context(), sandbox.Manager))
	back := func(ctx context.Context) { require.NoError(t, shared.StartComponent(ctx, sandbox.Manager)) }
	t.Cleanup(func() {
		if back != nil {
			back(context.Background())
		}
	})

	env.subtest("what has no finalizers is deleted", (*environment).freeObjectsAreDeleted)
	env.subtest("what has finalizers is marked, and gone when they are removed", (*environment).heldObjectsAreReleased)
	env.subtest("garbage is collected", func(env *environment) { env.garbageIsCollected(owner) })
	env.subtest("a namespace is deleted with what is in it", func(env *environment) { env.namespaceIsDeleted(other) })
	env.subtest("v1beta2 is read and watched", (*environment).storedVersionIsRead)
	env.subtest("status is written", (*environment).statusIsWritten)
	env.subtest("what CAPT writes itself is written", (*environment).ownWritesPass)
	env.subtest("other groups are not touched", (*environment).othersAreNotTouched)
	env.subtest("creates fail in time and name the webhook", (*environment).createsFail)
	env.subtest("changes fail in time and name the webhook", (*environment).changesFail)
	env.subtest("v1beta1 is not converted", (*environment).conversionFails)

	back(t.Context())
	back = nil
	env.subtest("everything works again when the manager is back", (*environment).everythingWorks)
}

func (env *environment) freeObjectsAreDeleted() {
	env.each(env.Namespace, "free-", func(_ kind, object *unstructured.Unstructured) {
		require.NoError(env, env.Delete(env.Context(), object), object.GetKind())
		env.release(object)
		require.True(env, env.gone(object), "%s %s is still there", object.GetKind(), object.GetName())
	})
}

// release deletes what CAPT itself holds: templates, until it has seen that they are unused.
func (env *environment) release(object *unstructured.Unstructured) {
	if object.GetKind() != "WorkspaceTemplate" {
		return
	}
	require.NoError(env, client.IgnoreNotFound(env.Delete(env.Context(), object)), object.GetName())
	require.NoError(env, client.IgnoreNotFound(env.Patch(env.Context(), object, released)), object.GetName())
}

func (env *environment) heldObjectsAreReleased() {
	env.each(env.Namespace, "held-", func(k kind, object *unstructured.Unstructured) {
		require.NoError(env, env.Delete(env.Context(), object), object.GetKind())
		marked := empty(k.current)
		require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(object), marked))
		require.NotNil(env, marked.GetDeletionTimestamp(), object.GetKind())

		// A controller patches, a user may replace.
		if object.GetName() == "held-"+k.current.Version {
			require.NoError(env, env.Patch(env.Context(), marked, released), object.GetKind())
		} else {
			marked.SetFinalizers(nil)
			require.NoError(env, env.Update(env.Context(), marked), object.GetKind())
		}
		require.True(env, env.gone(object), "%s %s is still there", object.GetKind(), object.GetName())
	})
}

func (env *environment) garbageIsCollected(owner *corev1.ConfigMap) {
	require.NoError(env, env.Delete(env.Context(), owner))
	for _, k := range kinds() {
		for _, version := range k.versions() {
			env.awaitGone(k.object(k.current, env.Namespace, "owned-"+version.Version))
		}
	}
}

// awaitGone waits until another client has deleted an object.
func (env *environment) awaitGone(object *unstructured.Unstructured) {
	env.Helper()
	eventually(env.T, func() error {
		if env.gone(object) {
			return nil
		}
		now := empty(object.GroupVersionKind())
		if err := env.Get(env.Context(), client.ObjectKeyFromObject(object), now); err == nil && now.GetDeletionTimestamp() != nil {
			env.release(now)
		}
		return fmt.Errorf("%s %s is still there", object.GetKind(), object.GetName())
	})
}

func (env *environment) namespaceIsDeleted(name string) {
	env.each(name, "free-", func(_ kind, object *unstructured.Unstructured) { env.release(object) })
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(env, sandbox.AllowDelete(env.Context(), env, namespace))
	require.NoError(env, env.Delete(env.Context(), namespace))
	env.AwaitGone(namespace, name)
}

func (env *environment) storedVersionIsRead() {
	for _, k := range kinds() {
		objects := list(k.current)
		require.NoError(env, env.List(env.Context(), objects, client.InNamespace(env.Namespace)), k.current.Kind)
		require.Len(env, objects.Items, len(k.versions()), k.current.Kind)

		watcher, err := env.API.Watch(env.Context(), objects, client.InNamespace(env.Namespace))
		require.NoError(env, err, k.current.Kind)
		select {
		case event := <-watcher.ResultChan():
			require.Equal(env, watch.Added, event.Type, "%s: %v", k.current.Kind, event.Object)
		case <-time.After(fixture.Timeout):
			require.Fail(env, "the watch reports nothing", k.current.Kind)
		}
		watcher.Stop()
	}
}

func (env *environment) statusIsWritten() {
	env.each(env.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		if !k.hasStatus() {
			return
		}
		status := mergePatch(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		require.NoError(env, env.Status().Patch(env.Context(), object, status), "%s %s", k.current.Kind, object.GetName())
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		require.NoError(env, err)
		require.Len(env, conditions, 1, k.current.Kind)
	})
}

// ownWritesPass writes with the name of the manager, as one would that cannot reach its own webhooks.
func (env *environment) ownWritesPass() {
	config, err := shared.ConfigOf(sandbox.Manager)
	require.NoError(env, err)
	capt, err := client.New(config, client.Options{Scheme: env.Scheme(), Mapper: env.RESTMapper()})
	require.NoError(env, err)
	env.each(env.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		if k.hasStatus() { // The others have no controller.
			require.NoError(env, capt.Patch(env.Context(), object, k.changed("own")), k.current.Kind)
		}
	})
}

func (env *environment) othersAreNotTouched() {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "settings"}}
	require.NoError(env, env.Create(env.Context(), settings))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "demo"}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: kinds()[0].current.Group, Kind: kinds()[0].current.Kind, Name: "kept-v1beta2",
	}
	require.NoError(env, env.Create(env.Context(), cluster))
	require.NoError(env, env.Patch(env.Context(), cluster, mergePatch(`{"spec":{"paused":true}}`)))
	require.NoError(env, env.Delete(env.Context(), cluster))

	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "demo"}} // CAPT checks it, if it can.
	pool.Spec.ClusterName, pool.Spec.Template.Spec.ClusterName, pool.Spec.Template.Spec.Bootstrap.DataSecretName = "demo", "demo", ptr.To("")
	pool.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: kinds()[0].current.Group, Kind: "CAPTMachinePool", Name: "kept-v1beta2"}
	require.NoError(env, env.Create(env.Context(), pool))
	require.NoError(env, env.Patch(env.Context(), pool, mergePatch(`{"spec":{"replicas":2}}`)))
	require.NoError(env, env.Delete(env.Context(), pool))
}

// failsInTime shows that a write is refused for now, soon enough, and says what is to blame.
func (env *environment) failsInTime(k kind, write func() error) {
	env.Helper()
	began := time.Now()
	err := write()
	require.True(env, apierrors.IsInternalError(err), "%s: %v", k.current.Kind, err)
	require.ErrorContains(env, err, `failed calling webhook "`, k.current.Kind)
	require.ErrorContains(env, err, "."+strings.ToLower(k.current.Kind)+"."+k.current.Group, k.current.Kind)
	require.Less(env, time.Since(began), 3*limit, k.current.Kind)
}

func (env *environment) createsFail() {
	for _, k := range kinds() {
		object := k.object(k.current, env.Namespace, "new")
		env.failsInTime(k, func() error { return env.Create(env.Context(), object) })
		require.True(env, env.gone(object), k.current.Kind)
	}
}

func (env *environment) changesFail() {
	env.each(env.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		env.failsInTime(k, func() error { return env.Patch(env.Context(), object.DeepCopy(), k.changed("outage")) })
		now := empty(k.current)
		require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(object), now))
		require.Equal(env, object.GetGeneration(), now.GetGeneration(), k.current.Kind)
	})
}

// readLegacy reads a list or an object in v1beta1, once: the API server asks to be asked later, and clients that obey wait
// for minutes.
func (env *environment) readLegacy(k kind, name ...string) error {
	env.Helper()
	clients, err := kubernetes.NewForConfig(shared.Config())
	require.NoError(env, err)
	path := append([]string{"apis", k.legacy.Group, k.legacy.Version, "namespaces", env.Namespace, env.resource(k)}, name...)
	return clients.Discovery().RESTClient().Get().AbsPath(path...).MaxRetries(0).Do(env.Context()).Error()
}

func failsToConvert(err error, k kind) bool {
	return err != nil && strings.Contains(err.Error(), "conversion webhook for "+k.current.Group)
}

func (env *environment) conversionFails() {
	for _, k := range kinds() {
		if k.legacy.Empty() {
			continue
		}
		err := env.readLegacy(k, "kept-v1beta2")
		require.True(env, failsToConvert(err, k), "reading a %s: %v", k.legacy.Kind, err)
		err = env.Create(env.Context(), k.object(k.legacy, env.Namespace, "new"))
		require.True(env, failsToConvert(err, k), "creating a %s: %v", k.legacy.Kind, err)
	}
	// A list comes from the API server's memory until something of the kind has changed.
	k := kinds()[0]
	eventually(env.T, func() error {
		if err := env.readLegacy(k); !failsToConvert(err, k) {
			return fmt.Errorf("the list is not refused: %w", err)
		}
		return nil
	})
}

func (env *environment) everythingWorks() {
	require.NoError(env, env.Create(env.Context(), kinds()[0].object(kinds()[0].current, env.Namespace, "first")))
	env.make(env.Namespace, "again-")
	env.each(env.Namespace, "kept-", func(k kind, object *unstructured.Unstructured) {
		require.NoError(env, env.Patch(env.Context(), object, k.changed("after")), k.current.Kind)
		if k.legacy.Empty() {
			return
		}
		require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(object), empty(k.legacy)), k.current.Kind)
	})
	// The API server's memory in v1beta1 is filled again, with longer and longer pauses between the attempts.
	eventually(env.T, func() error { return env.readLegacy(kinds()[0]) })
}
