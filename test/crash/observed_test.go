// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"slices"
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

	"github.com/capt-provider/capt/api/terraform"
)

// observed records every Workspace that ever existed, in both scopes, whether it still exists or not.
type observed struct {
	lock sync.Mutex
	seen []string
	left map[string]bool
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
		within := scopeNamespace(scope, namespace)
		informer := dynamicinformer.NewFilteredDynamicInformer(clients, resource, within, 0, cache.Indexers{}, nil).Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { s.see(object, true) },
			UpdateFunc: func(before, after any) {
				if before.(client.Object).GetUID() != after.(client.Object).GetUID() { // It was recreated between two events.
					s.see(before, false)
					s.see(after, true)
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

// scopeNamespace is the namespace of a Workspace: only one of the two kinds has one.
func scopeNamespace(scope terraform.Scope, namespace string) string {
	if scope == terraform.ScopeCluster {
		return ""
	}
	return namespace
}
