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
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// errChanged says that the objects are no longer as they were exported.
var errChanged = errors.New("objects were created, changed or deleted meanwhile")

// remove exports the objects of the older definition and deletes it.
func (r *run) remove(ctx context.Context) error {
	if r.saved != nil && r.saved.Definition.UID != r.definition.UID {
		return fmt.Errorf("the export in %s is of an earlier definition, and would be replaced by another one: name another folder, "+
			"or create its objects again with --restore", r.options.Backup)
	}
	list, err := r.live(ctx)
	if err != nil {
		return err
	}
	if err := r.unblocked(ctx, list.Items); err != nil {
		return err
	}
	if r.options.DryRun {
		return r.foretell(list.Items)
	}
	for range attempts {
		err = r.removeOnce(ctx)
		if !errors.Is(err, errChanged) {
			break
		}
	}
	if errors.Is(err, errChanged) {
		return fmt.Errorf("the definition is still there: %w, %d times; is the older manager off, and GitOps suspended?", err, attempts)
	}
	return err
}

// unblocked looks for what would break, or would keep the definition from going. Nothing was changed before.
func (r *run) unblocked(ctx context.Context, objects []unstructured.Unstructured) error {
	dependents, err := r.dependents(ctx)
	if err != nil {
		return err
	}
	if len(dependents) > 0 {
		r.tell(StepBlocked, false, dependents, "these depend on the older kind, from which Cluster API could never make a control plane: delete the Clusters and the ClusterClasses, "+
			"and make the ClusterClasses anew with kind %s when it is installed; the kind in a ClusterClass can not be changed", Kind)
	}
	foreign := r.foreignFinalizers(objects)
	if len(foreign) > 0 {
		r.tell(StepBlocked, false, foreign, "these have finalizers that are not CAPT's, and would hold the deletion for ever if nobody removes them: "+
			"remove them, or name those that may be removed with --remove-finalizer")
	}
	if len(dependents)+len(foreign) == 0 {
		return nil
	}
	return migrate.NotPermitted.Errorf("%s can not be removed yet: %s", definitionName, strings.Join(append(dependents, foreign...), "; "))
}

// foretell is what a dry run says.
func (r *run) foretell(objects []unstructured.Unstructured) error {
	names, finalizers := describe(objects)
	r.tell(StepExport, false, names, "%d objects would be exported to %s", len(objects), r.options.Backup)
	if len(finalizers) > 0 {
		r.tell(StepFinalizers, false, finalizers, "finalizers would be removed from %d objects", len(finalizers))
	}
	r.tell(StepDelete, false, []string{definitionName}, "the definition would be deleted, and its %d objects with it", len(objects))
	return migrate.Pending.Errorf("%s is the older CAPT's and has to be removed", definitionName)
}

// describe lists objects, and those with finalizers.
func describe(objects []unstructured.Unstructured) (names, finalizers []string) {
	for i := range objects {
		name := client.ObjectKeyFromObject(&objects[i]).String()
		names = append(names, name)
		if has := objects[i].GetFinalizers(); len(has) > 0 {
			finalizers = append(finalizers, name+": "+strings.Join(has, ", "))
		}
	}
	return names, finalizers
}

// removeOnce is errChanged if it has to be done again; the definition is still there then.
func (r *run) removeOnce(ctx context.Context) error {
	objects, err := r.exportVerified(ctx)
	if err != nil {
		return err
	}
	if err := r.unblocked(ctx, objects); err != nil { // Others may have come.
		return err
	}
	names, finalizers := describe(objects)
	if err := r.removeFinalizers(ctx, objects); err != nil {
		return err
	}
	last, err := r.live(ctx)
	if err != nil {
		return err
	}
	if !r.saved.holds(last.Items) {
		return errChanged
	}
	// No API can delete a definition on the condition that nothing was created since that look. So what comes is watched.
	w, err := r.watch(ctx, last)
	if err != nil {
		return err
	}
	if err := r.deleteDefinition(ctx); err != nil {
		w.stop()
		return err
	}
	r.tell(StepExport, true, names, "%d objects are exported to %s", len(names), r.options.Backup)
	if len(finalizers) > 0 {
		r.tell(StepFinalizers, true, finalizers, "finalizers were removed from %d objects", len(finalizers))
	}
	gone := r.awaitRemoval(ctx)
	return errors.Join(r.exportLate(w.late()), gone)
}

// live lists the objects of the definition, in every namespace, as they are stored, with the resource version of the list.
func (r *run) live(ctx context.Context) (*unstructured.UnstructuredList, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return r.templates.List(ctx, options)
	})
	found, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	list, err := meta.ListAccessor(found)
	if err != nil {
		return nil, err
	}
	all := &unstructured.UnstructuredList{}
	all.SetResourceVersion(list.GetResourceVersion())
	return all, meta.EachListItem(found, func(object runtime.Object) error {
		all.Items = append(all.Items, *object.(*unstructured.Unstructured))
		return nil
	})
}

// exportVerified exports what is there, reads the files again and compares them with what is there then.
func (r *run) exportVerified(ctx context.Context) ([]unstructured.Unstructured, error) {
	list, err := r.live(ctx)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.definition)
	if err != nil {
		return nil, fmt.Errorf("encoding the definition: %w", err)
	}
	definition := &unstructured.Unstructured{Object: content}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := writeExport(r.options.Backup, r.cluster, r.options.Clock.Now(), definition, list.Items); err != nil {
		return nil, err
	}
	if r.saved, err = readExport(r.options.Backup); err != nil {
		return nil, err
	}
	if list, err = r.live(ctx); err != nil {
		return nil, err
	}
	objects := list.Items
	versions := map[types.UID]string{}
	for _, object := range r.saved.Objects {
		versions[object.UID] = object.ResourceVersion
	}
	for i := range objects {
		if versions[objects[i].GetUID()] != objects[i].GetResourceVersion() {
			return nil, errChanged
		}
	}
	if len(objects) != len(versions) {
		return nil, errChanged
	}
	return objects, nil
}

// removeFinalizers removes them from objects that are still as they were exported.
func (r *run) removeFinalizers(ctx context.Context, objects []unstructured.Unstructured) error {
	for i := range objects {
		object := &objects[i]
		if len(object.GetFinalizers()) == 0 {
			continue
		}
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/uid", "value": object.GetUID()},
			{"op": "test", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
			{"op": "remove", "path": "/metadata/finalizers"},
		})
		if err != nil {
			return err
		}
		_, err = r.templates.Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.JSONPatchType, patch,
			metav1.PatchOptions{FieldManager: migrate.FieldManager})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err): // A test that fails is "invalid".
			return fmt.Errorf("removing the finalizers of %s: %w (%w)", client.ObjectKeyFromObject(object), errChanged, err)
		case err != nil:
			return fmt.Errorf("removing the finalizers of %s: %w", client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}

// holds tells whether an export holds objects as they are now, and no others. Finalizers are not compared: they were just
// removed, which changed what the API server keeps of an object, too.
func (e *export) holds(objects []unstructured.Unstructured) bool {
	if len(objects) != len(e.items) {
		return false
	}
	saved := map[types.UID]*unstructured.Unstructured{}
	for i := range e.items {
		saved[e.items[i].GetUID()] = &e.items[i]
	}
	for i := range objects {
		was := saved[objects[i].GetUID()]
		if was == nil || !equality.Semantic.DeepEqual(lasting(was), lasting(&objects[i])) {
			return false
		}
	}
	return true
}

// lasting is an object without what a removal of finalizers changes.
func lasting(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	for _, field := range []string{"finalizers", "resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object.Object
}

// deleteDefinition sends the only DELETE of captctl.
func (r *run) deleteDefinition(ctx context.Context) error {
	definition, state, err := r.read(ctx)
	switch {
	case err != nil:
		return err
	case state == Absent || state == Leaving && definition.UID == r.definition.UID:
		return nil // The answer to an earlier request was lost.
	case definition.UID != r.definition.UID || state != Older:
		return fmt.Errorf("%s was replaced meanwhile; run the command again", definitionName)
	}
	err = r.client.Delete(ctx, definition, client.Preconditions{UID: &definition.UID, ResourceVersion: &definition.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("deleting %s: %w (%w)", definitionName, errChanged, err)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("deleting %s: %w", definitionName, err)
	}
	return nil
}

// finishRemoval waits for a deletion that is under way, if all that it takes is exported.
func (r *run) finishRemoval(ctx context.Context) error {
	list, err := r.live(ctx)
	if apierrors.IsNotFound(err) { // It went since it was read, and all objects with it.
		return r.awaitRemoval(ctx)
	}
	if err != nil {
		return err
	}
	objects := list.Items
	if unknown := r.notExported(objects); len(unknown) > 0 {
		r.tell(StepBlocked, false, unknown, "the definition is being deleted, and %s holds no export of these: save them with kubectl get -o yaml", r.options.Backup)
		return fmt.Errorf("%s is being deleted, and these of its objects are not exported to %s: %s", definitionName, r.options.Backup, strings.Join(unknown, ", "))
	}
	if foreign := r.foreignFinalizers(objects); len(foreign) > 0 {
		r.tell(StepBlocked, false, foreign, "these have finalizers that are not CAPT's, and hold the deletion: remove them, or name those that may be removed with --remove-finalizer")
		return migrate.Partly.Errorf("%s is being deleted, and held by finalizers: %s", definitionName, strings.Join(foreign, "; "))
	}
	if r.options.DryRun {
		r.tell(StepDelete, false, []string{definitionName}, "the definition is being deleted; nothing but to wait is left")
		return migrate.Pending.Errorf("%s is being deleted", definitionName)
	}
	if err := r.removeFinalizers(ctx, objects); err != nil && !errors.Is(err, errChanged) { // What has gone meanwhile has none.
		return err
	}
	return r.awaitRemoval(ctx)
}

// notExported lists objects that are not in the export.
func (r *run) notExported(objects []unstructured.Unstructured) (unknown []string) {
	known := map[types.UID]bool{}
	if r.saved != nil && r.saved.Definition.UID == r.definition.UID {
		for _, object := range r.saved.Objects {
			known[object.UID] = true
		}
	}
	for i := range objects {
		if !known[objects[i].GetUID()] {
			unknown = append(unknown, client.ObjectKeyFromObject(&objects[i]).String())
		}
	}
	return unknown
}

// awaitRemoval returns when the definition is gone.
func (r *run) awaitRemoval(ctx context.Context) error {
	r.options.Progress.Phase("waiting until the definition is gone", 0)
	err := wait.PollUntilContextTimeout(ctx, tick, r.options.Patience, true, func(ctx context.Context) (bool, error) {
		definition, _, err := r.read(ctx)
		if err != nil {
			return false, err
		}
		return definition == nil || definition.UID != r.definition.UID, nil
	})
	if err != nil {
		return migrate.Partly.Errorf("waiting until %s is gone: %w; run the command again", definitionName, err)
	}
	r.tell(StepDelete, true, []string{definitionName}, "the definition was deleted")
	r.report.Next = nextInstall
	if r.saved != nil && len(r.saved.Objects) > 0 {
		r.report.Next = r.nextRestore()
	}
	return nil
}
