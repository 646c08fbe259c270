// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// observed records every Workspace that ever existed, in both scopes, whether it still exists or not. Previews have a record of their own.
type observed struct {
	lock     sync.Mutex
	seen     []string
	left     map[string]bool
	previews previewRecord
}

// previewRecord is what was observed of previews.
type previewRecord struct {
	lock sync.Mutex
	// seen are the UIDs.
	seen []string
	// wrong are the previews that could do more than observe, or wrote a Secret, at any time.
	wrong []string
}

func (r *previewRecord) see(preview *unstructured.Unstructured) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if uid := string(preview.GetUID()); !slices.Contains(r.seen, uid) {
		r.seen = append(r.seen, uid)
	}
	if _, writes, _ := unstructured.NestedMap(preview.Object, "spec", "writeConnectionSecretToRef"); writes || !render.OnlyObserves(preview) {
		r.wrong = append(r.wrong, preview.GetName())
	}
}

// take returns the UIDs, and starts with an empty record.
func (r *previewRecord) take() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	seen := r.seen
	r.seen = nil
	return seen
}

// mayDoMore returns the previews that could do more than they may.
func (r *previewRecord) mayDoMore() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.wrong
}

// watchWorkspaces begins to look. It sees the Workspaces of the test's namespace and those without one.
func watchWorkspaces(t *testing.T, config *rest.Config, namespace string) *observed {
	t.Helper()
	clients, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	s := &observed{left: map[string]bool{}}
	for _, scope := range terraform.Scopes() {
		gvk := scope.GroupVersionKind()
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		within := fixture.ScopeNamespace(scope, namespace)
		informer := dynamicinformer.NewFilteredDynamicInformer(clients, resource, within, 0, cache.Indexers{}, nil).Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { s.see(object, true) },
			UpdateFunc: func(before, after any) {
				if before.(client.Object).GetUID() != after.(client.Object).GetUID() { // It was recreated between two events.
					s.see(before, false)
					s.see(after, true)
				} else if preview := after.(*unstructured.Unstructured); naming.IsPreview(preview) {
					s.previews.see(preview)
				}
			},
			DeleteFunc: func(object any) { s.see(object, false) },
		})
		require.NoError(t, err)
		go informer.RunWithContext(t.Context())
		require.True(t, cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced))
	}
	return s
}

func (s *observed) see(object any, there bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	workspace := object.(*unstructured.Unstructured)
	identity := fmt.Sprintf("%s %s/%s %s", workspace.GroupVersionKind().Group, workspace.GetNamespace(), workspace.GetName(), workspace.GetUID())
	s.lock.Lock()
	defer s.lock.Unlock()
	if there {
		s.left[identity] = true
		if naming.IsPreview(workspace) {
			s.previews.see(workspace)
			return
		}
		s.seen = append(s.seen, identity)
		return
	}
	delete(s.left, identity)
}

// gone reports whether nothing is left of what was seen.
func (s *observed) gone() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return len(s.left) == 0
}

// take returns what was observed, and starts with an empty record.
func (s *observed) take() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	seen := slices.Clone(s.seen)
	s.seen = nil
	return seen
}

// snapshot is everything that is there, without what differs from one life to the next in any case: times, UIDs and
// versions.
func (env *environment) snapshot() string {
	env.Helper()
	objects := fixture.Workspaces(env, env, env.namespace)
	for _, kind := range []string{"WorkspaceTemplate", "WorkspaceTemplateApply"} {
		objects = append(objects, fixture.List(env, env, infrav1.GroupVersion.WithKind(kind), client.InNamespace(env.namespace))...)
	}
	var text strings.Builder
	for _, object := range objects {
		data, err := yaml.Marshal(timeless(object.Object))
		require.NoError(env, err)
		text.WriteString("---\n")
		text.Write(data)
	}
	return text.String()
}

// timeless replaces what is new in each life by a word, so that its absence still shows.
func timeless(node any) any {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			switch {
			case key == "uid", key == "resourceVersion", key == "creationTimestamp", strings.HasSuffix(key, "Time"), key == "time",
				strings.HasPrefix(key, "crossplane.io/external-create-"), key == naming.ExternalNameUIDAnnotation, key == naming.AdoptWorkspaceAnnotation:
				node[key] = "(some)"
			default:
				node[key] = timeless(value)
			}
		}
	case []any:
		for i, value := range node {
			node[i] = timeless(value)
		}
	}
	return node
}
