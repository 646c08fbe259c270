// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history has every version of the objects of some kinds. Versions of different kinds are in one order, because all of them are in one etcd, whose
// revisions are the resource versions.
type history struct {
	mutex    sync.Mutex
	versions []version
}

type version struct {
	*unstructured.Unstructured
	revision uint64
	deleted  bool
}

// record records until the end of the test.
func record(t *testing.T, api client.WithWatch, kinds ...schema.GroupVersionKind) *history {
	t.Helper()
	h := &history{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		watcher, err := api.Watch(t.Context(), list)
		require.NoError(t, err)
		t.Cleanup(watcher.Stop)
		go func() {
			for event := range watcher.ResultChan() {
				h.add(event)
			}
		}()
	}
	return h
}

func (h *history) add(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Bookmark {
		return
	}
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.versions = append(h.versions, version{object, revision, event.Type == watch.Deleted})
}

// early looks at each moment at which the Kustomization of the clusters became Ready. It returns the objects of CAPT that were not Ready then, and the
// number of these moments. Objects that are being deleted are left out: Flux does not wait for deletions.
func (h *history) early(flux, fleet string) (objects []string, moments int) {
	h.mutex.Lock()
	versions := slices.Clone(h.versions)
	h.mutex.Unlock()
	slices.SortStableFunc(versions, func(a, b version) int { return cmp.Compare(a.revision, b.revision) })
	kustomization, latest := version{}, map[string]version{}
	for _, v := range versions {
		switch {
		case v.GetKind() == kustomizationKind.Kind && v.GetNamespace() == flux && v.GetName() == clusters:
			became := isReady(v.Unstructured) && (kustomization.Unstructured == nil || !isReady(kustomization.Unstructured))
			if kustomization = v; !became {
				continue
			}
			moments++
			for name, other := range latest {
				if !other.deleted && other.GetDeletionTimestamp() == nil && !isReady(other.Unstructured) {
					objects = append(objects, fmt.Sprintf("Flux: %s, %s: %s", readyMessage(v.Unstructured), name, readyMessage(other.Unstructured)))
				}
			}
		case v.GetKind() != kustomizationKind.Kind && v.GetNamespace() == fleet:
			latest[v.GetKind()+" "+v.GetName()] = v
		}
	}
	return objects, moments
}

// isReady reports whether an object is Ready for its last generation.
func isReady(object *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return observed == object.GetGeneration() && condition(object, "Ready")["status"] == "True"
}

func readyMessage(object *unstructured.Unstructured) string {
	ready := condition(object, "Ready")
	return fmt.Sprintf("%v, %v: %v", ready["status"], ready["reason"], ready["message"])
}

func condition(object *unstructured.Unstructured, name string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		if entry, ok := entry.(map[string]any); ok && entry["type"] == name {
			return entry
		}
	}
	return nil
}

// An object that becomes Ready after the Kustomization is found, whatever the order in which the watches report them.
func TestTheHistoryFindsWhatFluxDidNotWaitFor(t *testing.T) {
	h := &history{}
	add := func(kind schema.GroupVersionKind, name, revision string, ready string) {
		object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
			"observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "Ready", "status": ready}},
		}}}
		object.SetGroupVersionKind(kind)
		object.SetNamespace("team")
		object.SetName(name)
		object.SetGeneration(1)
		object.SetResourceVersion(revision)
		h.add(watch.Event{Type: watch.Modified, Object: object})
	}
	add(kustomizationKind, clusters, "12", "True")
	add(kustomizationKind, clusters, "9", "Unknown")
	add(controlPlaneKind, "demo", "13", "True")
	add(controlPlaneKind, "demo", "8", "False")
	add(captClusterKind, "demo", "11", "True")
	early, moments := h.early("team", "team")
	require.Len(t, early, 1)
	require.Contains(t, early[0], "CAPTControlPlane demo")
	require.Equal(t, 1, moments)
	add(controlPlaneKind, "demo", "10", "True")
	early, _ = h.early("team", "team")
	require.Empty(t, early)
}
