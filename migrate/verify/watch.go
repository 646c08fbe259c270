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

package verify

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// Watch verifies a migration, and then watches the Workspaces for a while. It returns as soon as one of them changes, with what
// has changed, or after the duration, with what it then verifies once more. Something that changes Workspaces does so within
// minutes, and is best stopped within seconds.
//
// It watches, and lists again when a watch is lost. A Workspace that is new makes it verify everything at once: it may be the
// second one for somebody. The error is as that of Run; it is the context's when that ends first.
func Watch(ctx context.Context, c client.WithWatch, plan *migrate.Plan, o Options, duration time.Duration) (Report, error) {
	report, err := Run(ctx, c, plan, o)
	if err != nil {
		return report, err
	}
	watching, stop := context.WithTimeout(ctx, duration)
	defer stop()
	seen := make(chan event)
	for _, scope := range terraform.Scopes() {
		kind := scope.GroupVersionKind()
		if _, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
			continue
		} else if err != nil {
			return report, fmt.Errorf("looking for Workspaces of %s: %w", kind.Group, err)
		}
		watcher := newWatcher(watching, plan, kind, seen)
		go cache.NewReflectorWithOptions(listWatch(c, kind), typed(kind), watcher, cache.ReflectorOptions{Name: kind.String()}).
			RunWithContext(watching)
	}
	for {
		select {
		case <-watching.Done():
			if ctx.Err() != nil {
				return report, context.Cause(ctx)
			}
			return Run(ctx, c, plan, o)
		case e := <-seen:
			if e.wrong == nil {
				if report, err = Run(ctx, c, plan, o); err != nil {
					return report, err
				}
				continue
			}
			return report.failing(*e.wrong)
		}
	}
}

// failing is the report with a Workspace that was just seen to change.
func (r Report) failing(found Deviation) (Report, error) {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "WorkspacesUntouched" })
	if i < 0 {
		r.Checks, i = append(r.Checks, Check{Name: "WorkspacesUntouched"}), len(r.Checks)
	}
	r.Checks[i].OK, r.Checks[i].Objects = false, []Deviation{found}
	r.Checks[i].Message = "a Workspace changed a moment ago. Stop the manager and whatever else writes it, and look at what provider-terraform does"
	return r.conclude()
}

// event is something that a watcher has seen: a Workspace that is not what it was, or, without one, a new one.
type event struct {
	wrong *Deviation
}

// watcher is told by a reflector of the Workspaces of a kind. It keeps what the migration must not change of those that the plan
// knows, to tell what did.
type watcher struct {
	context  context.Context
	baseline map[types.NamespacedName]*migrate.BaselineItem
	known    map[types.NamespacedName]map[string]any
	listed   bool
	seen     chan<- event
}

var _ cache.ReflectorStore = &watcher{}

func newWatcher(ctx context.Context, plan *migrate.Plan, kind schema.GroupVersionKind, seen chan<- event) *watcher {
	w := &watcher{
		context: ctx, seen: seen,
		baseline: map[types.NamespacedName]*migrate.BaselineItem{}, known: map[types.NamespacedName]map[string]any{},
	}
	for i := range plan.Baseline.Workspaces {
		if item := &plan.Baseline.Workspaces[i]; item.Group == kind.Group {
			w.baseline[types.NamespacedName{Namespace: item.Namespace, Name: item.Name}] = item
		}
	}
	return w
}

// Add implements cache.ReflectorStore.
func (w *watcher) Add(object any) error {
	workspace := object.(*unstructured.Unstructured)
	key := client.ObjectKeyFromObject(workspace)
	item, planned := w.baseline[key]
	if !planned {
		if _, old := w.known[key]; !old && w.listed {
			w.tell(event{})
		}
		w.known[key] = nil
		return nil
	}
	changes, err := touched(item, workspace)
	if err != nil {
		return err
	}
	now := promised(workspace)
	if len(changes) > 0 {
		if before, ok := w.known[key]; ok {
			changes = append(changes, "changed are "+strings.Join(differences("", before, now), ", "))
		}
		w.tell(event{&Deviation{item.ObjectRef, strings.Join(changes, "; ")}})
	}
	w.known[key] = now
	return nil
}

// Update implements cache.ReflectorStore.
func (w *watcher) Update(object any) error { return w.Add(object) }

// Delete implements cache.ReflectorStore.
func (w *watcher) Delete(object any) error {
	key := client.ObjectKeyFromObject(object.(client.Object))
	delete(w.known, key)
	if item, planned := w.baseline[key]; planned {
		w.tell(event{&Deviation{item.ObjectRef, "it was deleted"}})
	}
	return nil
}

// Replace implements cache.ReflectorStore: it is told what there is, at first and after a watch was lost.
func (w *watcher) Replace(objects []any, _ string) error {
	left := maps.Clone(w.baseline)
	for _, object := range objects {
		delete(left, client.ObjectKeyFromObject(object.(client.Object)))
		if err := w.Add(object); err != nil {
			return err
		}
	}
	w.listed = true
	for _, item := range left {
		w.tell(event{&Deviation{item.ObjectRef, "it is gone"}})
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (w *watcher) Resync() error { return nil }

func (w *watcher) tell(e event) {
	select {
	case w.seen <- e:
	case <-w.context.Done():
	}
}

// promised is what must stay of a Workspace.
func promised(workspace *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{}
	for _, name := range []string{"labels", "annotations", "finalizers"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(workspace.Object, "metadata", name); found {
			metadata[name] = value
		}
	}
	return map[string]any{"metadata": metadata, "spec": workspace.Object["spec"]}
}

// differences are the names of the fields that are not the same. Values are not told: they may be secret.
func differences(path string, a, b any) (found []string) {
	before, ok := a.(map[string]any)
	after, also := b.(map[string]any)
	if !ok || !also {
		if reflect.DeepEqual(a, b) {
			return nil
		}
		return []string{strings.TrimPrefix(path, ".")}
	}
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		found = append(found, differences(path+"."+name, before[name], after[name])...)
	}
	return found
}

// listWatch lists and watches the Workspaces of a kind.
func listWatch(c client.WithWatch, kind schema.GroupVersionKind) *cache.ListWatch {
	list := func() *unstructured.UnstructuredList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found := list()
			return found, c.List(ctx, found, &client.ListOptions{Raw: &options, Limit: options.Limit, Continue: options.Continue})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list(), &client.ListOptions{Raw: &options})
		},
	}
}

func typed(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}
