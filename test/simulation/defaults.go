// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	schemas "github.com/capt-provider/capt/api/validation/schema"
	"github.com/capt-provider/capt/config/crd"
	providercrd "github.com/capt-provider/capt/test/provider/config/crd"
)

// definitions are the CustomResourceDefinitions of CAPT and of provider-terraform, by kind.
var definitions = sync.OnceValue(func() map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition {
	all, err := schemas.Definitions(crd.Definitions, providercrd.FS)
	must(err)
	found := map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}
	for _, definition := range all {
		found[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = definition
	}
	return found
})

var defaults = sync.OnceValue(func() map[schema.GroupVersionKind]*structural.Structural {
	all, err := schemas.New(crd.Definitions, providercrd.FS)
	must(err)
	found := map[schema.GroupVersionKind]*structural.Structural{}
	for kind, definition := range definitions() {
		for _, version := range definition.Spec.Versions {
			s, err := all.Of(kind.WithVersion(version.Name))
			must(err)
			if hasDefaults(s.Structural()) {
				found[kind.WithVersion(version.Name)] = s.Structural()
			}
		}
	}
	return found
})

func hasDefaults(s *structural.Structural) bool {
	if s == nil {
		return false
	}
	for name := range s.Properties {
		if property := s.Properties[name]; hasDefaults(&property) {
			return true
		}
	}
	return s.Default.Object != nil || hasDefaults(s.Items) || s.AdditionalProperties != nil && hasDefaults(s.AdditionalProperties.Structural)
}

// setDefaults sets the defaults of a CustomResourceDefinition.
func setDefaults(object client.Object) {
	s := defaults()[object.GetObjectKind().GroupVersionKind()]
	if s == nil {
		return
	}
	if generic, ok := object.(*unstructured.Unstructured); ok {
		defaulting.Default(generic.Object, s)
		return
	}
	generic := convert(object, &unstructured.Unstructured{}).(*unstructured.Unstructured)
	defaulting.Default(generic.Object, s)
	convert(generic, object)
}
