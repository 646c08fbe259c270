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

package ownership

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	controllerconversion "sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	validationschema "github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// known is what never changes: converters and schemas. Reading the definitions takes a moment.
var known = sync.OnceValue(func() *world {
	schemas, err := validationschema.New(crd.Definitions)
	utilruntime.Must(err)
	w := &world{schemas: schemas}
	w.scheme, w.converters = conversion.NewRegistry()
	return w
})

type world struct {
	scheme     *runtime.Scheme
	converters controllerconversion.Registry
	schemas    *validationschema.Schemas
}

func (w *world) structural(kind runtimeschema.GroupKind) (*schema.Structural, error) {
	found, err := w.schemas.Of(kind.WithVersion(migrate.Version))
	if err != nil {
		return nil, err
	}
	return found.Structural(), nil
}

// convert makes another version of an object, as the webhook does. False means that the kind has one version only.
func (w *world) convert(object map[string]any, kind runtimeschema.GroupKind, version string) (map[string]any, bool, error) {
	converter, ok := w.converters.GetConverter(kind)
	if !ok {
		return nil, false, nil
	}
	source := &unstructured.Unstructured{Object: object}
	from, err := w.scheme.New(source.GroupVersionKind())
	if err != nil {
		return nil, false, err
	}
	to, err := w.scheme.New(kind.WithVersion(version))
	if err != nil {
		return nil, false, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, from); err != nil {
		return nil, false, fmt.Errorf("reading %s %s: %w", source.GetKind(), source.GetName(), err)
	}
	to.GetObjectKind().SetGroupVersionKind(kind.WithVersion(version))
	if err := converter.ConvertObject(context.Background(), from, to); err != nil {
		return nil, false, fmt.Errorf("converting %s %s to %s: %w", source.GetKind(), source.GetName(), version, err)
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(to)
	return converted, true, err
}

// content of an object that conversion looks at: all but managedFields, of which it is the largest part.
func content(object *unstructured.Unstructured) map[string]any {
	shallow := map[string]any{}
	for name, value := range object.Object {
		shallow[name] = value
	}
	if metadata, ok := object.Object["metadata"].(map[string]any); ok {
		kept := map[string]any{}
		for name, value := range metadata {
			if name != "managedFields" {
				kept[name] = value
			}
		}
		shallow["metadata"] = kept
	}
	return shallow
}

// isOlder tells whether an entry of managedFields is of an older version of CAPT.
func isOlder(entry metav1.ManagedFieldsEntry) bool { return migrate.IsOlder(entry.APIVersion) }
