// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
)

// asIs is what the API server has for custom resources: no conversion, no defaults.
type asIs struct{}

func (asIs) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (asIs) Convert(_, _, _ any) error { return errors.New("not converted") }
func (asIs) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (asIs) Default(runtime.Object) {}
func (asIs) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	return object, nil
}

// tracked has the field managers of the kinds that CAPT writes by server-side apply. managedFields of other kinds are not tracked: nothing
// reads them.
var tracked = sync.OnceValue(func() map[schema.GroupVersionKind]*managedfields.FieldManager {
	found := map[schema.GroupVersionKind]*managedfields.FieldManager{}
	add := func(gvk schema.GroupVersionKind, converter managedfields.TypeConverter) {
		manager, err := managedfields.NewDefaultCRDFieldManager(converter, asIs{}, asIs{}, asIs{}, gvk, gvk.GroupVersion(), "", nil)
		must(err)
		found[gvk] = manager
	}
	add(corev1.SchemeGroupVersion.WithKind("Secret"), applyconfigurations.NewTypeConverter(clientgoscheme.Scheme))
	for _, gvk := range []schema.GroupVersionKind{applyKind, workspaceKind, terraform.ScopeCluster.GroupVersionKind()} {
		api, err := builder.BuildOpenAPIV3(definitions()[gvk.GroupKind()], gvk.Version, builder.Options{})
		must(err)
		converter, err := managedfields.NewTypeConverter(api.Components.Schemas, false)
		must(err)
		add(gvk, converter)
	}
	return found
})

// trackUpdate records which fields a write that is not an apply changed. CAPT reads only which fields it has applied.
func trackUpdate(w *write, old, wanted client.Object) (client.Object, error) {
	gvk := wanted.GetObjectKind().GroupVersionKind()
	manager, ok := tracked()[gvk]
	if !ok || w.verb == "apply" || w.user == "provider" && keepsApplied(old, wanted) {
		return wanted, nil
	}
	if old == nil {
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(gvk)
		old = empty
	}
	result, err := manager.Update(old, wanted, w.manager)
	if err != nil {
		return nil, err
	}
	return result.(client.Object), nil
}

// keepsApplied reports whether a write of the provider changes no field that CAPT applies.
func keepsApplied(old, wanted client.Object) bool {
	if _, isWorkspace := wanted.(*unstructured.Unstructured); !isWorkspace {
		return true // A connection Secret.
	}
	return old != nil && !specChanged(old, wanted) && old.GetAnnotations()[externalName] == wanted.GetAnnotations()[externalName]
}

// trackApply returns the object after a server-side apply.
func trackApply(w *write, gvk schema.GroupVersionKind, old client.Object, config *unstructured.Unstructured) (client.Object, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	if old != nil {
		convert(old, live)
	}
	result, err := tracked()[gvk].Apply(live, config, w.manager, true)
	if err != nil {
		return nil, err
	}
	return result.(client.Object), nil
}
