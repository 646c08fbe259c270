// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capt-provider/capt/controllers"
)

// transform is what the cache of the manager keeps of an object.
var transform = sync.OnceValue(func() toolscache.TransformFunc { return controllers.CacheOptions().DefaultTransform })

type viewKey struct {
	gvk      schema.GroupVersionKind
	metadata bool
}

// view is the informer of one kind in one process. It lags behind the API server until the scheduler delivers events.
type view struct {
	resource *resource
	metadata bool
	// kind is an empty object of the type that this process has of the kind; nil for generic objects.
	kind      client.Object
	delivered int
	// frozen is the step until which no event arrives.
	frozen   int
	objects  map[types.NamespacedName]*cached
	keys     []types.NamespacedName
	indexers map[string]client.IndexerFunc
	handlers []toolscache.ResourceEventHandler
}

type cached struct {
	object client.Object
	keys   map[string][]string
}

type views struct {
	cache.Cache
	api    *store
	scheme *runtime.Scheme
	mu     sync.Mutex
	views  map[viewKey]*view
	order  []*view
	// indexers are registered before the informers exist.
	indexers map[schema.GroupVersionKind]map[string]client.IndexerFunc
}

func newViews(api *store, scheme *runtime.Scheme) *views {
	return &views{api: api, scheme: scheme, views: map[viewKey]*view{}, indexers: map[schema.GroupVersionKind]map[string]client.IndexerFunc{}}
}

func (v *views) of(gvk schema.GroupVersionKind, metadata bool) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := viewKey{gvk, metadata}
	found := v.views[key]
	if found == nil {
		found = &view{resource: v.api.of(gvk), metadata: metadata, objects: map[types.NamespacedName]*cached{}, indexers: v.indexers[gvk]}
		if kind, err := v.scheme.New(gvk); err == nil && !v.api.scheme.Recognizes(gvk) {
			found.kind = kind.(client.Object)
		}
		found.delivered = len(found.resource.log)
		for key, object := range found.resource.objects {
			found.keep(key, object)
		}
		v.views[key], v.order = found, append(v.order, found)
		slices.SortFunc(v.order, func(a, b *view) int { return compare(a.String(), b.String()) })
	}
	return found
}

// String names the view in traces.
func (v *view) String() string {
	return fmt.Sprintf("%s.%s/%t", v.resource.gvk.Kind, v.resource.gvk.Group, v.metadata)
}

func (v *view) keep(key types.NamespacedName, object client.Object) client.Object {
	entry := &cached{object: object}
	switch {
	case v.kind != nil && !v.metadata:
		entry.object = v.resource.decode(object, v.kind)
	case v.metadata: // Of others, the transform changes nothing that a controller reads.
		kept, err := transform()(metadataOf(object))
		must(err)
		entry.object = kept.(client.Object)
	}
	if !v.metadata {
		entry.keys = make(map[string][]string, len(v.indexers))
		for field, keys := range v.indexers {
			entry.keys[field] = keys(object)
		}
	}
	v.objects[key], v.keys = entry, with(v.keys, key)
	return entry.object
}

func (v *view) forget(key types.NamespacedName) {
	delete(v.objects, key)
	v.keys = without(v.keys, key)
}

func (v *view) pending() int { return len(v.resource.log) - v.delivered }

// deliver gives the next event to the handlers.
func (v *view) deliver() {
	event := v.resource.log[v.delivered]
	v.delivered++
	v.handle(client.ObjectKeyFromObject(event.object), event.object, event.deleted)
}

// handle updates the view before its handlers see an event, as informers do.
func (v *view) handle(key types.NamespacedName, object client.Object, deleted bool) {
	old := v.objects[key]
	switch {
	case deleted && old == nil:
		return
	case deleted:
		v.forget(key)
		last := old.object
		if object.GetUID() == last.GetUID() {
			last = (&view{resource: v.resource, metadata: v.metadata, kind: v.kind, objects: map[types.NamespacedName]*cached{}}).keep(key, object)
		}
		for _, handler := range v.handlers {
			handler.OnDelete(last)
		}
	case old == nil:
		kept := v.keep(key, object)
		for _, handler := range v.handlers {
			handler.OnAdd(kept, false)
		}
	default:
		kept := v.keep(key, object)
		for _, handler := range v.handlers {
			handler.OnUpdate(old.object, kept)
		}
	}
}

// relist replaces the view by what the API server has now: states between are never seen.
func (v *view) relist() {
	v.delivered = len(v.resource.log)
	for _, key := range v.keys {
		if v.resource.objects[key] == nil {
			old := v.objects[key]
			v.forget(key)
			for _, handler := range v.handlers {
				handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: old.object})
			}
		}
	}
	for _, key := range v.resource.keys {
		object := v.resource.objects[key]
		if old := v.objects[key]; old == nil || old.object.GetResourceVersion() != object.GetResourceVersion() {
			v.handle(key, object, false)
		}
	}
}

// IndexField implements client.FieldIndexer.
func (v *views) IndexField(_ context.Context, object client.Object, field string, keys client.IndexerFunc) error {
	gvk, err := apiutil.GVKForObject(object, v.scheme)
	if err != nil {
		return err
	}
	if v.indexers[gvk] == nil {
		v.indexers[gvk] = map[string]client.IndexerFunc{}
	}
	if v.indexers[gvk][field] != nil {
		return fmt.Errorf("index %s of %s exists", field, gvk.Kind)
	}
	v.indexers[gvk][field] = keys
	return nil
}

func (v *views) gvk(object client.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(object, v.scheme)
	must(err)
	return gvk
}

// GetInformer implements cache.Cache.
func (v *views) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	_, metadata := object.(*metav1.PartialObjectMetadata)
	return informer{v: v, view: v.of(v.gvk(object), metadata)}, nil
}

// WaitForCacheSync implements cache.Cache.
func (v *views) WaitForCacheSync(context.Context) bool { return true }

type informer struct {
	cache.Informer
	v    *views
	view *view
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (informer) HasSynced() bool { return true }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (informer) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

type synced struct{}

func (synced) Name() string { return "view" }

func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.v.mu.Lock()
	i.view.handlers = append(i.view.handlers, handler)
	keys := i.view.keys
	i.v.mu.Unlock()
	for _, key := range keys {
		handler.OnAdd(i.view.objects[key].object, true)
	}
	return i, nil
}

// AddEventHandler implements cache.Informer.
func (i informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// Get implements client.Reader.
func (v *views) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	_, metadata := object.(*metav1.PartialObjectMetadata)
	gvk := v.gvk(object)
	in := v.of(gvk, metadata)
	found := in.objects[key]
	if found == nil {
		return in.resource.notFound(key.Name)
	}
	into(found.object, object)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	return nil
}

// List implements client.Reader.
func (v *views) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	_, metadata := list.(*metav1.PartialObjectMetadataList)
	gvk, err := apiutil.GVKForObject(list, v.scheme)
	if err != nil {
		return err
	}
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	in := v.of(gvk, metadata)
	var found []client.Object
	for _, key := range in.keys {
		entry := in.objects[key]
		if matches(&o, entry.object) && in.matchesFields(&o, entry) {
			found = append(found, entry.object)
		}
	}
	return setItems(list, found, o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy)
}

func matches(o *client.ListOptions, object client.Object) bool {
	return (o.Namespace == "" || object.GetNamespace() == o.Namespace) && (o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(object.GetLabels())))
}

func (v *view) matchesFields(o *client.ListOptions, entry *cached) bool {
	if o.FieldSelector == nil {
		return true
	}
	for _, requirement := range o.FieldSelector.Requirements() {
		if _, ok := v.indexers[requirement.Field]; !ok {
			panic(fmt.Sprintf("%s has no index %s", v, requirement.Field))
		}
		if !slices.Contains(entry.keys[requirement.Field], requirement.Value) {
			return false
		}
	}
	return true
}

func setItems(list client.ObjectList, found []client.Object, shared bool) error {
	if generic, ok := list.(*unstructured.UnstructuredList); ok {
		generic.Items = nil
		for _, object := range found {
			generic.Items = append(generic.Items, *convert(object, &unstructured.Unstructured{}).(*unstructured.Unstructured))
		}
		return nil
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	slice := reflect.MakeSlice(items.Type(), len(found), len(found))
	for i, object := range found {
		item := slice.Index(i)
		switch {
		case reflect.TypeOf(object).Elem() == item.Type() && shared:
			item.Set(reflect.ValueOf(object).Elem())
		default:
			into(object, item.Addr().Interface().(client.Object))
		}
	}
	items.Set(slice)
	return nil
}
