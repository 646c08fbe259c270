// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// api is a client of the API server. What is not simulated, such as deleting all of a kind, panics.
type api struct {
	client.Client
	world *World
	// process is nil for clients outside of a process, whose requests have no faults.
	process *process
	user    string
	scheme  *runtime.Scheme
	status  bool
	// uncached are the kinds that are read from the API server although the client has a cache; nil reads all from it.
	uncached func(object runtime.Object) bool
}

func (a *api) store() *store { return a.world.store }

// Get implements client.Reader.
func (a *api) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if a.uncached != nil && !a.uncached(object) {
		return a.process.views.Get(ctx, key, object)
	}
	return a.request("get", object, key.Name, func() error {
		found, err := a.store().get(a.gvk(object), key)
		if err != nil {
			return err
		}
		a.answer(found, object)
		return nil
	})
}

// List implements client.Reader.
func (a *api) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if a.uncached != nil {
		return a.process.views.List(ctx, list, options...)
	}
	return a.request("list", list, "", func() error {
		o := client.ListOptions{}
		o.ApplyOptions(options)
		gvk := a.gvk(list)
		gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
		if o.FieldSelector != nil {
			return fmt.Errorf("the API server has no field %s of %s", o.FieldSelector, gvk.Kind)
		}
		var found []client.Object
		r := a.store().of(gvk)
		for _, key := range r.keys {
			if matches(&o, r.objects[key]) {
				found = append(found, r.objects[key])
			}
		}
		return setItems(list, found, false)
	})
}

// answer copies what the API server returns. Decoders of typed clients drop the type.
func (a *api) answer(stored, object client.Object) {
	switch object.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		into(stored, object)
	default:
		if _, generic := stored.(*unstructured.Unstructured); generic {
			stored = a.store().of(stored.GetObjectKind().GroupVersionKind()).decode(stored, object)
		}
		into(stored, object)
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
}

func (a *api) gvk(object runtime.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(object, a.scheme)
	must(err)
	return gvk
}

func (a *api) write(verb string, owner string, dryRun []string) *write {
	if owner == "" {
		owner = a.user
	}
	return &write{user: a.user, manager: owner, verb: verb, status: a.status, dryRun: len(dryRun) > 0}
}

// Create implements client.Writer.
func (a *api) Create(_ context.Context, object client.Object, options ...client.CreateOption) error {
	o := client.CreateOptions{}
	o.ApplyOptions(options)
	return a.request("create", object, object.GetName(), func() error {
		sent := object.DeepCopyObject().(client.Object)
		sent.GetObjectKind().SetGroupVersionKind(a.gvk(object))
		stored, err := a.store().create(a.write("create", o.FieldManager, o.DryRun), sent)
		if err == nil {
			a.answer(stored, object)
		}
		return err
	})
}

// Update implements client.Writer.
func (a *api) Update(_ context.Context, object client.Object, options ...client.UpdateOption) error {
	o := client.UpdateOptions{}
	o.ApplyOptions(options)
	return a.update("update", object, o.FieldManager)
}

func (a *api) update(verb string, object client.Object, owner string) error {
	return a.request(verb, object, object.GetName(), func() error {
		sent := object.DeepCopyObject().(client.Object)
		sent.GetObjectKind().SetGroupVersionKind(a.gvk(object))
		stored, err := a.store().update(a.write("update", owner, nil), sent)
		if err == nil {
			a.answer(stored, object)
		}
		return err
	})
}

// Patch implements client.Writer.
func (a *api) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	o := client.PatchOptions{}
	o.ApplyOptions(options)
	return a.patch("patch", object, patch, o.FieldManager, o.DryRun)
}

func (a *api) patch(verb string, object client.Object, patch client.Patch, owner string, dryRun []string) error {
	from, data, err := patchedFrom(patch, object), []byte(nil), error(nil)
	if from == nil {
		data, err = patch.Data(object)
	}
	if err != nil {
		return err
	}
	if patch.Type() != types.MergePatchType {
		return fmt.Errorf("patches of type %s are not simulated", patch.Type())
	}
	return a.request(verb, object, object.GetName(), func() error {
		w, stored := a.write("patch", owner, dryRun), client.Object(nil)
		if from != nil {
			stored, err = a.store().patched(w, a.gvk(object), from, object.DeepCopyObject().(client.Object))
		} else {
			stored, err = a.store().patch(w, a.gvk(object), object, data)
		}
		if err == nil {
			a.answer(stored, object)
		}
		return err
	})
}

// Apply implements client.Writer.
func (a *api) Apply(_ context.Context, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	o := client.ApplyOptions{}
	o.ApplyOptions(options)
	content, ok := config.(runtime.Unstructured)
	if !ok {
		return fmt.Errorf("%T cannot be applied", config)
	}
	object, verb := &unstructured.Unstructured{Object: content.UnstructuredContent()}, "apply"
	if object.GetUID() == "" && a.store().of(object.GroupVersionKind()).objects[client.ObjectKeyFromObject(object)] == nil {
		verb = "create"
	}
	return a.request(verb, object, object.GetName(), func() error {
		stored, err := a.store().apply(a.write("apply", o.FieldManager, o.DryRun), object)
		if err == nil {
			answer := &unstructured.Unstructured{}
			into(stored, answer)
			content.SetUnstructuredContent(answer.Object)
		}
		return err
	})
}

// Delete implements client.Writer.
func (a *api) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	o.ApplyOptions(options)
	return a.request("delete", object, object.GetName(), func() error {
		return a.store().remove(a.user, a.gvk(object), client.ObjectKeyFromObject(object), o.Preconditions)
	})
}

// Status implements client.StatusClient.
func (a *api) Status() client.SubResourceWriter {
	of := *a
	of.status = true
	return statusWriter{api: &of}
}

// Scheme implements client.Client.
func (a *api) Scheme() *runtime.Scheme { return a.scheme }

// RESTMapper implements client.Client.
func (a *api) RESTMapper() meta.RESTMapper { return mapper() }

// GroupVersionKindFor implements client.Client.
func (a *api) GroupVersionKindFor(object runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(object, a.scheme)
}

// IsObjectNamespaced implements client.Client.
func (a *api) IsObjectNamespaced(object runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(object, a.scheme, mapper())
}

type statusWriter struct {
	client.SubResourceWriter
	api *api
}

// Update implements client.SubResourceWriter.
func (s statusWriter) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.api.update("update status", object, "")
}

// Patch implements client.SubResourceWriter.
func (s statusWriter) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	o := client.SubResourcePatchOptions{}
	o.ApplyOptions(options)
	return s.api.patch("patch status", object, patch, o.FieldManager, nil)
}

// request runs a request to the API server, with the faults that the world has for it.
func (a *api) request(verb string, object any, name string, do func() error) error {
	if a.process == nil || a.world.inline() {
		return do()
	}
	kind, _, _ := strings.Cut(reflect.TypeOf(object).Elem().Name(), "[")
	if generic, ok := object.(*unstructured.Unstructured); ok {
		kind = generic.GetKind()
	}
	return a.world.request(a.process, verb, kind+"/"+name, do)
}
