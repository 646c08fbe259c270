// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"io/fs"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/config/crd"
	providercrd "github.com/capt-provider/capt/test/provider/config/crd"
)

// definitions are the CustomResourceDefinitions of CAPT and of provider-terraform, by kind.
var definitions = sync.OnceValue(func() map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition {
	found := map[schema.GroupKind]*apiextensionsv1.CustomResourceDefinition{}
	for _, files := range []fs.FS{crd.Definitions, providercrd.FS} {
		must(fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := fs.ReadFile(files, path)
			must(err)
			definition := &apiextensionsv1.CustomResourceDefinition{}
			must(yaml.Unmarshal(data, definition))
			found[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = definition
			return nil
		}))
	}
	return found
})

var defaults = sync.OnceValue(func() map[schema.GroupVersionKind]*structural.Structural {
	found := map[schema.GroupVersionKind]*structural.Structural{}
	for kind, definition := range definitions() {
		for _, version := range definition.Spec.Versions {
			internal := &apiextensions.JSONSchemaProps{}
			must(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil))
			s, err := structural.NewStructural(internal)
			must(err)
			if hasDefaults(s) {
				found[kind.WithVersion(version.Name)] = s
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
