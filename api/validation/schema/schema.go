// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema checks objects against the definitions of their kinds (CRDs) outside an API server, with the libraries of
// the API server itself.
//
// An API server validates an object only against the schema of the version in which it is written. CAPT's rules are in the schema of
// v1beta2, so objects that are written in v1beta1 are converted without them, and objects that captctl creates offline are validated only
// when they are applied. This package validates both against the same CRD, so that no rule is written twice.
package schema

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// ErrUnknownKind means that no CustomResourceDefinition has the kind in the version.
var ErrUnknownKind = errors.New("no CustomResourceDefinition has this kind and version")

// Schemas are the schemas of all kinds, in all their versions. They never change, so they can be used concurrently.
type Schemas struct {
	kinds map[runtimeschema.GroupVersionKind]*Schema
}

// Schema is the schema of one kind in one version. It never changes, so it can be used concurrently.
type Schema struct {
	kind       runtimeschema.GroupVersionKind
	structural *schema.Structural
	fields     validation.SchemaValidator
	// rules compiles the CEL rules when they are needed for the first time. That takes milliseconds and a megabyte, and most
	// programs check few kinds or none. It returns nil for a schema without rules.
	rules func() *cel.Validator
}

// New reads the definitions from all YAML files of the file systems, in any directory. Each file must have exactly one
// CustomResourceDefinition. It is an error if there is none, or if two have the same kind and version.
func New(definitions ...fs.FS) (*Schemas, error) {
	s := &Schemas{kinds: map[runtimeschema.GroupVersionKind]*Schema{}}
	for _, files := range definitions {
		err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
				return err
			}
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			if err := s.add(data); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(s.kinds) == 0 {
		return nil, errors.New("no CustomResourceDefinitions found")
	}
	return s, nil
}

// Of returns the schema of a kind, or ErrUnknownKind.
func (s *Schemas) Of(kind runtimeschema.GroupVersionKind) (*Schema, error) {
	found, ok := s.kinds[kind]
	if !ok {
		return nil, fmt.Errorf("%s: %w", kind, ErrUnknownKind)
	}
	return found, nil
}

// Kinds returns "KIND of GROUP/VERSION" for each kind, sorted.
func (s *Schemas) Kinds() (kinds []string) {
	for kind := range s.kinds {
		kinds = append(kinds, kind.Kind+" of "+kind.GroupVersion().String())
	}
	slices.Sort(kinds)
	return kinds
}

// Structural returns the schema in the form that pruning and defaulting use. It must not be modified.
func (s *Schema) Structural() *schema.Structural { return s.structural }

func (s *Schemas) add(data []byte) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, definition); err != nil {
		return err
	}
	if definition.Kind != "CustomResourceDefinition" {
		return fmt.Errorf("it contains a %q, not a CustomResourceDefinition", definition.Kind)
	}
	for _, version := range definition.Spec.Versions {
		kind := runtimeschema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
		if _, ok := s.kinds[kind]; ok {
			return fmt.Errorf("%s has two CustomResourceDefinitions", kind)
		}
		compiled, err := compile(kind, version.Schema)
		if err != nil {
			return fmt.Errorf("the schema of %s: %w", kind, err)
		}
		s.kinds[kind] = compiled
	}
	return nil
}

func compile(kind runtimeschema.GroupVersionKind, source *apiextensionsv1.CustomResourceValidation) (*Schema, error) {
	if source == nil || source.OpenAPIV3Schema == nil {
		return nil, errors.New("it is missing")
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(source.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	// The structural schema shares its defaults with props, and the next step changes them.
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	fields, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &Schema{
		kind:       kind,
		structural: structural,
		fields:     fields,
		rules: sync.OnceValue(func() *cel.Validator {
			return cel.NewValidator(structural, true, celconfig.PerCallLimit)
		}),
	}, nil
}
