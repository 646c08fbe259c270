// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// history records every version of every WorkspaceTemplateApply and Workspace.
type history struct {
	lock       sync.Mutex
	applies    map[types.NamespacedName][]*infrav1.WorkspaceTemplateApply
	workspaces map[string][]*unstructured.Unstructured // by workspaceID
	gone       map[types.UID]bool
}

func newHistory() *history {
	return &history{
		applies:    map[types.NamespacedName][]*infrav1.WorkspaceTemplateApply{},
		workspaces: map[string][]*unstructured.Unstructured{},
		gone:       map[types.UID]bool{},
	}
}

// workspaceID names a Workspace; those of both scopes can have the same namespace and name.
func workspaceID(group, namespace, name string) string { return group + " " + namespace + "/" + name }

// watch adds objects of some kinds to the history, from now on.
func (c *control) watch(kinds ...schema.GroupVersionKind) error {
	clients, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		informer := dynamicinformer.NewFilteredDynamicInformer(clients, resource, "", 0, cache.Indexers{}, nil).Informer()
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { c.history.note(object, false) },
			UpdateFunc: func(_, object any) { c.history.note(object, false) },
			DeleteFunc: func(object any) { c.history.note(object, true) },
		})
		if err != nil {
			return err
		}
		go informer.RunWithContext(c.watching)
		if !cache.WaitForCacheSync(c.watching.Done(), informer.HasSynced) {
			return errors.New("the watch for " + kind.Kind + " did not begin")
		}
	}
	return nil
}

func (c *history) note(object any, gone bool) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	version := object.(*unstructured.Unstructured)
	c.lock.Lock()
	defer c.lock.Unlock()
	if gone {
		c.gone[version.GetUID()] = true
		return
	}
	if version.GetKind() == terraform.WorkspaceKind {
		id := workspaceID(version.GroupVersionKind().Group, version.GetNamespace(), version.GetName())
		c.workspaces[id] = append(c.workspaces[id], version)
		return
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(version.Object, apply); err != nil {
		panic(fmt.Sprintf("decoding a WorkspaceTemplateApply: %v", err))
	}
	key := types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name}
	c.applies[key] = append(c.applies[key], apply)
}

// applyVersions are all versions of a WorkspaceTemplateApply, the latest last.
func (c *history) applyVersions(key types.NamespacedName) []*infrav1.WorkspaceTemplateApply {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.applies[key]
}

// apply is the WorkspaceTemplateApply as it is, to be read only; nil when it is not there.
func (c *history) apply(key types.NamespacedName) *infrav1.WorkspaceTemplateApply {
	c.lock.Lock()
	defer c.lock.Unlock()
	if versions := c.applies[key]; len(versions) > 0 {
		if latest := versions[len(versions)-1]; !c.gone[latest.UID] {
			return latest
		}
	}
	return nil
}

// workspaceUIDs are those of every Workspace that a namespace ever had, by workspaceID. Those without a namespace have its
// name in their own.
func (c *history) workspaceUIDs(namespace string) map[string][]types.UID {
	c.lock.Lock()
	defer c.lock.Unlock()
	uids := map[string][]types.UID{}
	for id, versions := range c.workspaces {
		if !strings.Contains(id, namespace) {
			continue
		}
		for _, version := range versions {
			if seen := uids[id]; len(seen) == 0 || seen[len(seen)-1] != version.GetUID() {
				uids[id] = append(seen, version.GetUID())
			}
		}
	}
	return uids
}
