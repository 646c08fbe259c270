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

package crds

import (
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lag is how long the last events may take to arrive after the definition is gone.
const lag = 5 * time.Second

// watcher collects objects that are created or changed between the last look at them and the end of their definition.
type watcher struct {
	events watch.Interface
	// exported are the objects of that look. left are those of which the end was not seen yet.
	exported map[types.UID]*unstructured.Unstructured
	left     map[types.UID]bool
	found    map[types.UID]unstructured.Unstructured
	// gone is closed when the definition is gone, and ended when nothing more is to come.
	gone, ended chan struct{}
}

// watch begins right after a list. It has begun when this returns.
func (r *run) watch(ctx context.Context, list *unstructured.UnstructuredList) (*watcher, error) {
	events, err := r.templates.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	w := &watcher{
		events: events, exported: map[types.UID]*unstructured.Unstructured{}, left: map[types.UID]bool{},
		found: map[types.UID]unstructured.Unstructured{}, gone: make(chan struct{}), ended: make(chan struct{}),
	}
	for i := range list.Items {
		w.exported[list.Items[i].GetUID()] = &list.Items[i]
		w.left[list.Items[i].GetUID()] = true
	}
	go w.collect()
	return w, nil
}

func (w *watcher) collect() {
	defer close(w.ended)
	gone := w.gone
	for {
		select {
		case event, open := <-w.events.ResultChan():
			if !open {
				return
			}
			w.take(event)
		case <-gone:
			gone = nil // Once is enough.
		}
		if gone == nil && len(w.left) == 0 {
			return
		}
	}
}

func (w *watcher) take(event watch.Event) {
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || object.GetUID() == "" {
		return
	}
	uid := object.GetUID()
	switch {
	case event.Type == watch.Deleted:
		delete(w.left, uid)
	case object.GetDeletionTimestamp() == nil: // It goes because its definition does.
		w.left[uid] = true
		if was := w.exported[uid]; was == nil || !reflect.DeepEqual(given(was), given(object)) {
			w.found[uid] = *object
		}
	}
}

// given is what people have given to an object.
func given(object *unstructured.Unstructured) []any {
	return []any{object.Object["spec"], object.GetLabels(), object.GetAnnotations(), object.GetOwnerReferences()}
}

func (w *watcher) stop() {
	w.events.Stop()
	<-w.ended
}

// late are the objects that were found, when the definition is gone or nobody waits for that any longer.
func (w *watcher) late() []unstructured.Unstructured {
	close(w.gone)
	select {
	case <-w.ended:
	case <-time.After(lag):
	}
	w.stop()
	objects := make([]unstructured.Unstructured, 0, len(w.found))
	for _, object := range w.found {
		objects = append(objects, object)
	}
	return objects
}

// exportLate adds objects to the export that were not in it, or otherwise.
func (r *run) exportLate(late []unstructured.Unstructured) error {
	if len(late) == 0 {
		return nil
	}
	var names []string
	replaced := map[types.UID]bool{}
	for i := range late {
		replaced[late[i].GetUID()] = true
		names = append(names, client.ObjectKeyFromObject(&late[i]).String())
	}
	for _, item := range r.saved.items {
		if !replaced[item.GetUID()] {
			late = append(late, item)
		}
	}
	if err := writeExport(r.options.Backup, r.cluster, r.options.Clock.Now(), &r.saved.definition, late); err != nil {
		return err
	}
	saved, err := readExport(r.options.Backup)
	if err != nil {
		return err
	}
	r.saved = saved
	r.report.Next = r.nextRestore()
	r.tell(StepExport, true, names, "these were created or changed while the definition was being deleted, and are exported, too")
	return nil
}
