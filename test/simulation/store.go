// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capt-provider/capt/controllers/engine"
)

type watchEvent struct {
	object  client.Object
	deleted bool
}

type resource struct {
	gvk     schema.GroupVersionKind
	objects map[types.NamespacedName]client.Object
	// keys are those of the objects, sorted. They are replaced, and never changed.
	keys []types.NamespacedName
	log  []watchEvent
	// decoded are the generic objects that were read as typed ones last.
	decoded map[types.NamespacedName]decoded
}

// decoded is a typed object, and that from which it was decoded.
type decoded struct{ from, typed client.Object }

// decode returns an object as one of the type of another. It must not be changed.
func (r *resource) decode(object, like client.Object) client.Object {
	key := client.ObjectKeyFromObject(object)
	last := r.decoded[key]
	if last.from != object || reflect.TypeOf(last.typed) != reflect.TypeOf(like) {
		last = decoded{object, convert(object, reflect.New(reflect.TypeOf(like).Elem()).Interface().(client.Object))}
		r.decoded[key] = last
	}
	return last.typed
}

// store is the API server: it has what a client can observe of resource versions, generations, finalizers, the status subresource,
// preconditions and server-side apply.
type store struct {
	scheme    *runtime.Scheme
	resources map[schema.GroupKind]*resource
	order     []*resource
	version   int64
	created   int
	// admit is called for writes that are not of a status; nil admits all.
	admit func(w *write, old, object client.Object) (client.Object, error)
	// observe is called after each change. old is nil for a new object, and object has its last state when it is deleted.
	observe func(user string, old, object client.Object, deleted bool)
}

type write struct {
	user    string
	manager string
	verb    string
	status  bool
	dryRun  bool
}

func newStore(scheme *runtime.Scheme) *store {
	return &store{scheme: scheme, resources: map[schema.GroupKind]*resource{}, version: 100}
}

func (s *store) of(gvk schema.GroupVersionKind) *resource {
	r := s.resources[gvk.GroupKind()]
	if r == nil {
		r = &resource{gvk: gvk, objects: map[types.NamespacedName]client.Object{}, decoded: map[types.NamespacedName]decoded{}}
		s.resources[gvk.GroupKind()], s.order = r, append(s.order, r)
		slices.SortFunc(s.order, func(a, b *resource) int { return compare(a.gvk.String(), b.gvk.String()) })
	}
	return r
}

func (s *store) gvk(object runtime.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		gvk = object.GetObjectKind().GroupVersionKind()
	}
	return gvk
}

func (r *resource) notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, name)
}

func (r *resource) conflict(name, text string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, name, fmt.Errorf("%s", text))
}

// typed returns an object in the form in which it is stored. It may be the object itself, which the caller does not use any more.
func (s *store) typed(object client.Object) client.Object {
	gvk := s.gvk(object)
	if _, generic := object.(*unstructured.Unstructured); !generic && s.scheme.Recognizes(gvk) {
		object.GetObjectKind().SetGroupVersionKind(gvk)
		return object
	}
	created, err := s.scheme.New(gvk)
	if err != nil {
		content := convert(object, &unstructured.Unstructured{}).(*unstructured.Unstructured)
		content.SetGroupVersionKind(gvk)
		return content
	}
	typed := convert(object, created.(client.Object))
	typed.GetObjectKind().SetGroupVersionKind(gvk)
	return typed
}

// convert copies an object to one of another type.
func convert(from, to client.Object) client.Object {
	if generic, ok := to.(*unstructured.Unstructured); ok {
		if content, ok := from.(*unstructured.Unstructured); ok {
			generic.Object = runtime.DeepCopyJSON(content.Object)
			return to
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
		must(err)
		generic.Object = content
		return to
	}
	must(runtime.DefaultUnstructuredConverter.FromUnstructured(from.(*unstructured.Unstructured).Object, to))
	return to
}

func into(from, to client.Object) {
	switch {
	case reflect.TypeOf(from) == reflect.TypeOf(to):
		reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	default:
		if metadata, ok := to.(*metav1.PartialObjectMetadata); ok {
			*metadata = *metadataOf(from)
			return
		}
		reflect.ValueOf(to).Elem().SetZero()
		convert(from, to)
	}
}

func metadataOf(object client.Object) *metav1.PartialObjectMetadata {
	if already, ok := object.(*metav1.PartialObjectMetadata); ok {
		return already.DeepCopy()
	}
	metadata := &metav1.PartialObjectMetadata{}
	if generic, ok := object.(*unstructured.Unstructured); ok {
		content, _ := generic.Object["metadata"].(map[string]any)
		must(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &metadata.ObjectMeta))
	} else {
		meta := reflect.ValueOf(object).Elem().FieldByName("ObjectMeta").Interface().(metav1.ObjectMeta)
		metadata.ObjectMeta = *meta.DeepCopy()
	}
	metadata.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return metadata
}

func (s *store) get(gvk schema.GroupVersionKind, key types.NamespacedName) (client.Object, error) {
	r := s.of(gvk)
	if found := r.objects[key]; found != nil {
		return found, nil
	}
	return nil, r.notFound(key.Name)
}

func (s *store) create(w *write, object client.Object) (client.Object, error) {
	stored := s.typed(object)
	r, key := s.of(s.gvk(stored)), client.ObjectKeyFromObject(stored)
	if r.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, key.Name)
	}
	if err := s.checkNamespace(r, key); err != nil {
		return nil, err
	}
	if stored.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	s.created++
	stored.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.created)))
	stored.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	stored.SetDeletionTimestamp(nil)
	stored.SetGeneration(1)
	if hasStatus(stored) {
		setField(stored, "Status", nil)
	}
	stored, err := s.admitted(w, nil, stored)
	if err != nil {
		return nil, err
	}
	if stored, err = trackUpdate(w, nil, stored); err != nil {
		return nil, err
	}
	if w.dryRun {
		return stored, nil
	}
	return s.put(w.user, r, key, stored), nil
}

// admitted is an object with its defaults, after the webhooks.
func (s *store) admitted(w *write, old, object client.Object) (client.Object, error) {
	setDefaults(object)
	if s.admit == nil {
		return object, nil
	}
	return s.admit(w, old, object)
}

func (s *store) checkNamespace(r *resource, key types.NamespacedName) error {
	if key.Namespace == "" || r.gvk.Kind == "Namespace" {
		return nil
	}
	namespace := s.of(corev1.SchemeGroupVersion.WithKind("Namespace")).objects[types.NamespacedName{Name: key.Namespace}]
	switch {
	case namespace == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Namespace)
	case namespace.GetDeletionTimestamp() != nil:
		return apierrors.NewForbidden(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, key.Name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", key.Namespace))
	}
	return nil
}

func (s *store) put(user string, r *resource, key types.NamespacedName, object client.Object) client.Object {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	deleted := object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0
	if s.observe != nil {
		defer s.observe(user, r.objects[key], object, deleted)
	}
	if deleted {
		r.keys = without(r.keys, key)
		delete(r.objects, key)
		delete(r.decoded, key)
		r.log = append(r.log, watchEvent{object: object, deleted: true})
		return object
	}
	r.keys = with(r.keys, key)
	r.objects[key] = object
	r.log = append(r.log, watchEvent{object: object})
	return object
}

// update replaces an object: its status only, or everything else.
func (s *store) update(w *write, object client.Object) (client.Object, error) {
	wanted := s.typed(object)
	r, key := s.of(s.gvk(wanted)), client.ObjectKeyFromObject(wanted)
	old := r.objects[key]
	switch {
	case old == nil:
		return nil, r.notFound(key.Name)
	case wanted.GetUID() != "" && wanted.GetUID() != old.GetUID():
		return nil, r.conflict(key.Name, fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", wanted.GetUID(), old.GetUID()))
	case wanted.GetResourceVersion() != "" && wanted.GetResourceVersion() != old.GetResourceVersion():
		return nil, r.conflict(key.Name, "the object has been modified; please apply your changes to the latest version and try again")
	}
	return s.replace(w, r, old, wanted)
}

// replace stores wanted, with what a client cannot change taken from old.
func (s *store) replace(w *write, r *resource, old, wanted client.Object) (client.Object, error) {
	if w.status && hasStatus(old) {
		return s.replaceStatus(w, r, old, wanted)
	}
	if hasStatus(old) {
		setField(wanted, "Status", field(old, "Status"))
	}
	keepMetadata(old, wanted)
	err := r.checkFinalizers(old, wanted)
	if err != nil {
		return nil, err
	}
	if wanted, err = s.admitted(w, old, wanted); err != nil {
		return nil, err
	}
	if w.verb != "apply" && !isTracked(wanted) {
		keepManagedFields(old, wanted)
	}
	if engine.Equal(old, wanted) {
		return old, nil
	}
	if wanted, err = trackUpdate(w, old, wanted); err != nil {
		return nil, err
	}
	if specChanged(old, wanted) {
		wanted.SetGeneration(old.GetGeneration() + 1)
	}
	if w.dryRun {
		return wanted, nil
	}
	return s.put(w.user, r, client.ObjectKeyFromObject(old), wanted), nil
}

// replaceStatus stores the status of wanted, and nothing else. CAPT reads only which fields of the spec and of the metadata it has applied: the managedFields
// stay.
func (s *store) replaceStatus(w *write, r *resource, old, wanted client.Object) (client.Object, error) {
	status := field(wanted, "Status")
	if engine.Equal(field(old, "Status"), status) {
		return old, nil
	}
	changed := shared(old)
	setField(changed, "Status", status)
	return s.put(w.user, r, client.ObjectKeyFromObject(old), changed), nil
}

// shared returns a copy of an object whose metadata and status can be replaced. What is stored never changes, so that both share the rest.
func shared(object client.Object) client.Object {
	if generic, ok := object.(*unstructured.Unstructured); ok {
		content := maps.Clone(generic.Object)
		metadata, _ := content["metadata"].(map[string]any)
		content["metadata"] = maps.Clone(metadata)
		return &unstructured.Unstructured{Object: content}
	}
	copied := reflect.New(reflect.TypeOf(object).Elem())
	copied.Elem().Set(reflect.ValueOf(object).Elem())
	return copied.Interface().(client.Object)
}

func isTracked(object client.Object) bool {
	if generic, ok := object.(*unstructured.Unstructured); ok { // Without decoding them.
		metadata, _ := generic.Object["metadata"].(map[string]any)
		return metadata["managedFields"] != nil
	}
	return len(object.GetManagedFields()) > 0
}

func keepManagedFields(old, wanted client.Object) {
	generic, ok := old.(*unstructured.Unstructured)
	if !ok {
		wanted.SetManagedFields(old.GetManagedFields())
	} else if metadata, ok := generic.Object["metadata"].(map[string]any); ok && metadata["managedFields"] != nil {
		wanted.(*unstructured.Unstructured).Object["metadata"].(map[string]any)["managedFields"] = metadata["managedFields"]
	}
}

// keepMetadata keeps the metadata that a client cannot change.
func keepMetadata(old, wanted client.Object) {
	wanted.SetUID(old.GetUID())
	wanted.SetCreationTimestamp(old.GetCreationTimestamp())
	wanted.SetDeletionTimestamp(old.GetDeletionTimestamp())
	wanted.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	wanted.SetGeneration(old.GetGeneration())
	wanted.SetResourceVersion(old.GetResourceVersion())
}

// checkFinalizers refuses a new finalizer of an object that is being deleted.
func (r *resource) checkFinalizers(old, wanted client.Object) error {
	if old.GetDeletionTimestamp() == nil {
		return nil
	}
	for _, finalizer := range wanted.GetFinalizers() {
		if !slices.Contains(old.GetFinalizers(), finalizer) {
			return apierrors.NewForbidden(schema.GroupResource{Group: r.gvk.Group, Resource: r.gvk.Kind}, old.GetName(),
				fmt.Errorf("metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers %q", finalizer))
		}
	}
	return nil
}

// patch applies a JSON merge patch. Its resourceVersion and its uid are preconditions.
func (s *store) patch(w *write, gvk schema.GroupVersionKind, object client.Object, data []byte) (client.Object, error) {
	old, err := s.get(gvk, client.ObjectKeyFromObject(object))
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(old)
	must(err)
	result, err := jsonpatch.MergePatch(current, data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	wanted := reflect.New(reflect.TypeOf(old).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(result, wanted); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(w, wanted)
}

// patchedFrom returns the version of an object from which a client has made a patch of a typed object with a precondition for that version; nil for other patches. The
// patch leads to the object of the client, or is refused, so that it need not be computed.
func patchedFrom(patch client.Patch, object client.Object) client.Object {
	of := reflect.ValueOf(patch)
	if _, generic := object.(*unstructured.Unstructured); generic || of.Kind() != reflect.Pointer || of.Elem().Type().Name() != "mergeFromPatch" || !of.Elem().FieldByName("opts").FieldByName("OptimisticLock").Bool() {
		return nil
	}
	value := of.Elem().FieldByName("from").Elem() // It is not exported.
	from := reflect.NewAt(value.Type().Elem(), value.UnsafePointer()).Interface().(client.Object)
	if !engine.Equal(from.GetManagedFields(), object.GetManagedFields()) {
		return nil
	}
	return from
}

// patched stores the object of a client that has patched a version of it.
func (s *store) patched(w *write, gvk schema.GroupVersionKind, from, object client.Object) (client.Object, error) {
	old, err := s.get(gvk, client.ObjectKeyFromObject(object))
	if err != nil {
		return nil, err
	}
	object.SetManagedFields(old.GetManagedFields())
	object.SetResourceVersion(from.GetResourceVersion())
	return s.update(w, object)
}

// apply is server-side apply with force.
func (s *store) apply(w *write, config *unstructured.Unstructured) (client.Object, error) {
	w.verb = "apply"
	r, key := s.of(config.GroupVersionKind()), client.ObjectKeyFromObject(config)
	old := r.objects[key]
	if old != nil && config.GetUID() != "" && config.GetUID() != old.GetUID() {
		return nil, r.conflict(key.Name, "Precondition failed: UID in precondition does not match")
	}
	if old != nil && config.GetResourceVersion() != "" && config.GetResourceVersion() != old.GetResourceVersion() {
		return nil, r.conflict(key.Name, "the object has been modified")
	}
	if old == nil && config.GetUID() != "" {
		return nil, r.conflict(key.Name, "Precondition failed: UID in precondition: "+string(config.GetUID())+", UID in object meta: ")
	}
	config = config.DeepCopy()
	config.SetUID("")
	config.SetResourceVersion("")
	applied, err := trackApply(w, r.gvk, old, config)
	if err != nil {
		return nil, err
	}
	wanted := s.typed(applied)
	if old == nil {
		return s.create(w, wanted)
	}
	return s.replace(w, r, old, wanted)
}

// remove deletes an object, or starts its deletion if it has finalizers.
func (s *store) remove(user string, gvk schema.GroupVersionKind, key types.NamespacedName, preconditions *metav1.Preconditions) error {
	r := s.of(gvk)
	old := r.objects[key]
	if old == nil {
		return r.notFound(key.Name)
	}
	if preconditions != nil {
		if preconditions.UID != nil && *preconditions.UID != old.GetUID() || preconditions.ResourceVersion != nil && *preconditions.ResourceVersion != old.GetResourceVersion() {
			return r.conflict(key.Name, "Precondition failed: UID or resourceVersion does not match")
		}
	}
	if old.GetDeletionTimestamp() != nil && len(old.GetFinalizers()) > 0 {
		return nil
	}
	gone := shared(old)
	gone.SetDeletionTimestamp(ptr.To(metav1.NewTime(time.Now().Truncate(time.Second))))
	gone.SetDeletionGracePeriodSeconds(ptr.To(int64(0)))
	if len(gone.GetFinalizers()) > 0 && r.gvk.Group != "" {
		gone.SetGeneration(old.GetGeneration() + 1)
	}
	s.put(user, r, key, gone)
	return nil
}

func hasStatus(object client.Object) bool {
	switch object := object.(type) {
	case *unstructured.Unstructured:
		return object.GetKind() == "Workspace"
	case *corev1.Namespace, *corev1.Secret:
		return false
	}
	return reflect.ValueOf(object).Elem().FieldByName("Status").IsValid()
}

// field is a field of an object by its Go name. What is stored never changes, so that objects share it.
func field(object client.Object, name string) any {
	if generic, ok := object.(*unstructured.Unstructured); ok {
		return generic.Object["status"]
	}
	return reflect.ValueOf(object).Elem().FieldByName(name).Interface()
}

func setField(object client.Object, name string, value any) {
	if generic, ok := object.(*unstructured.Unstructured); ok {
		if value == nil {
			delete(generic.Object, "status")
		} else {
			generic.Object["status"] = value
		}
		return
	}
	of := reflect.ValueOf(object).Elem().FieldByName(name)
	if value == nil {
		of.SetZero()
		return
	}
	of.Set(reflect.ValueOf(value))
}

func specChanged(old, wanted client.Object) bool {
	if generic, ok := old.(*unstructured.Unstructured); ok {
		return !engine.Equal(generic.Object["spec"], wanted.(*unstructured.Unstructured).Object["spec"])
	}
	before, after := reflect.ValueOf(old).Elem(), reflect.ValueOf(wanted).Elem()
	for i := range before.NumField() {
		switch before.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !engine.Equal(before.Field(i).Interface(), after.Field(i).Interface()) {
			return true
		}
	}
	return false
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
