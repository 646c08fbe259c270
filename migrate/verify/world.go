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

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// world is the live cluster. What several checks look at is read once.
type world struct {
	reader client.Reader
	plan   *migrate.Plan
	// applies are all WorkspaceTemplateApplies, in all namespaces, without managedFields.
	applies []infrav1.WorkspaceTemplateApply
	// templates are those that were read; nil for one that is not there.
	templates map[types.NamespacedName]*infrav1.WorkspaceTemplate
	labels    map[string]labels.Set
}

// versionOf is the version in which an object is read.
func versionOf(ref migrate.ObjectRef) schema.GroupVersionKind {
	for _, scope := range terraform.Scopes() {
		if kind := scope.GroupVersionKind(); kind.Group == ref.Group {
			return kind
		}
	}
	if ref.Group == apiextensionsv1.GroupName {
		return apiextensionsv1.SchemeGroupVersion.WithKind(ref.Kind)
	}
	return schema.GroupVersionKind{Group: ref.Group, Version: migrate.Version, Kind: ref.Kind}
}

// get reads an object; nil when there is none.
func (w *world) get(ctx context.Context, ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(versionOf(ref))
	err := w.reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return object, nil
}

// all calls take for each of the objects that are meant, once, a page of a kind at a time: a fleet has thousands, and to ask for
// each would take minutes. Of those that are gone, or others by now, the check is told.
func (w *world) all(ctx context.Context, refs []migrate.ObjectRef, c *Check, take func(*unstructured.Unstructured) error) error {
	var kinds []schema.GroupVersionKind // In the order of the plan, so that reports can be compared.
	wanted := map[schema.GroupVersionKind]map[types.NamespacedName]migrate.ObjectRef{}
	for _, ref := range refs {
		kind := versionOf(ref)
		if wanted[kind] == nil {
			kinds = append(kinds, kind)
			wanted[kind] = map[types.NamespacedName]migrate.ObjectRef{}
		}
		wanted[kind][types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] = ref
	}
	found := map[migrate.ObjectRef]types.UID{}
	for _, kind := range kinds {
		byName := wanted[kind]
		err := migrate.Each(ctx, w.reader, kind, "", func(object *unstructured.Unstructured) error {
			ref, ok := byName[client.ObjectKeyFromObject(object)]
			if !ok {
				return nil
			}
			if found[ref] = object.GetUID(); !is(ref, object.GetUID()) {
				return nil
			}
			return take(object)
		})
		if err != nil && !meta.IsNoMatchError(err) {
			return err
		}
	}
	told := map[migrate.ObjectRef]bool{}
	for _, ref := range refs {
		if uid, there := found[ref]; is(ref, uid) || told[ref] {
			continue
		} else if there {
			c.wrong(ref, "it was deleted and made again: its UID was %s, and is %s", ref.UID, uid)
		} else {
			c.wrong(ref, "it is gone")
		}
		told[ref] = true
	}
	return nil
}

// is reports whether an object that exists is the one that is meant. What the plan creates had no UID yet.
func is(ref migrate.ObjectRef, uid types.UID) bool {
	return uid != "" && (ref.UID == "" || ref.UID == uid)
}

// allApplies reads all WorkspaceTemplateApplies.
func (w *world) allApplies(ctx context.Context) ([]infrav1.WorkspaceTemplateApply, error) {
	if w.applies != nil {
		return w.applies, nil
	}
	w.applies = []infrav1.WorkspaceTemplateApply{}
	err := migrate.Each(ctx, w.reader, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), "", func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil)
		return decode(object, &w.applies)
	})
	return w.applies, err
}

func decode[T any](object *unstructured.Unstructured, list *[]T) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	*list = append(*list, typed)
	return nil
}

// template reads a WorkspaceTemplate; nil when there is none.
func (w *world) template(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	if known, ok := w.templates[key]; ok {
		return known, nil
	}
	object, err := w.get(ctx, migrate.ObjectRef{Group: infrav1.GroupVersion.Group, Kind: "WorkspaceTemplate", Namespace: key.Namespace, Name: key.Name})
	if err != nil {
		return nil, err
	}
	if w.templates == nil {
		w.templates = map[types.NamespacedName]*infrav1.WorkspaceTemplate{}
	}
	if w.templates[key] = nil; object != nil {
		template := &infrav1.WorkspaceTemplate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, template); err != nil {
			return nil, fmt.Errorf("decoding WorkspaceTemplate %s: %w", key, err)
		}
		w.templates[key] = template
	}
	return w.templates[key], nil
}

// namespaceLabels reads the labels of a namespace.
func (w *world) namespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	if known, ok := w.labels[name]; ok {
		return known, nil
	}
	namespace := &corev1.Namespace{}
	if err := w.reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	if w.labels == nil {
		w.labels = map[string]labels.Set{}
	}
	w.labels[name] = namespace.Labels
	return namespace.Labels, nil
}
