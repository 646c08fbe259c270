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
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/agext/levenshtein"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
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

// Definitions reads all YAML files of file systems, in any directory. Each file must have exactly one CustomResourceDefinition.
func Definitions(systems ...fs.FS) (found []*apiextensionsv1.CustomResourceDefinition, err error) {
	for _, files := range systems {
		err = errors.Join(err, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
				return err
			}
			data, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.UnmarshalStrict(data, definition); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if definition.Kind != "CustomResourceDefinition" {
				return fmt.Errorf("%s: it contains a %q, not a CustomResourceDefinition", name, definition.Kind)
			}
			found = append(found, definition)
			return nil
		}))
	}
	return found, err
}

// New compiles the definitions of file systems. It is an error if there is none, or if two have the same kind and version.
func New(systems ...fs.FS) (*Schemas, error) {
	definitions, err := Definitions(systems...)
	if err != nil {
		return nil, err
	}
	s := &Schemas{kinds: map[runtimeschema.GroupVersionKind]*Schema{}}
	for _, definition := range definitions {
		if err := s.add(definition); err != nil {
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

func (s *Schemas) add(definition *apiextensionsv1.CustomResourceDefinition) error {
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

// unchecked is the last error of a list when the CEL rules could not be evaluated because of the other errors.
const unchecked = "further rules could not be evaluated. Correct the other errors first"

// Similar returns the name of a field that is probably meant by one that does not exist, or "". The path has the names of fields, and indexes of lists.
func (s *Schema) Similar(path []string) string {
	at, last := s.structural, path[len(path)-1]
	for _, name := range path[:len(path)-1] {
		next, known := at.Properties[name]
		switch {
		case known:
			at = &next
		case at.Items != nil:
			at = at.Items
		default:
			return ""
		}
	}
	const most = 2 // As for commands of captctl.
	best, distance := "", most+1
	for _, name := range slices.Sorted(maps.Keys(at.Properties)) {
		if d := levenshtein.Distance(strings.ToLower(last), strings.ToLower(name), nil); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// Validate checks a new object as the API server does when the object is created in this version: unknown fields are pruned and defaults
// set, then the fields are validated, and finally the CEL rules are evaluated. Only the spec is checked.
//
// Typed and unstructured objects are accepted, with or without apiVersion and kind, and are not changed. Whole numbers in unstructured
// objects must be int64, as apimachinery decodes them: CEL does not accept a float64 as an integer.
//
// The errors are those of the API server, with one exception: the error that CEL rules could not be evaluated has the path spec, instead of
// none. An object of another kind is an internal error.
func (s *Schema) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	content, err := s.read(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := validation.ValidateCustomResource(nil, content, s.fields)
	errs = append(errs, objectmeta.Validate(nil, content, s.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, content)...)
	return s.evaluate(ctx, errs, content, nil)
}

// ValidateUpdate checks an updated object as the API server does: transition rules compare it with the old object, and values that did not
// change are not validated (ratcheting). So an object that was stored before a rule existed can still be updated. Everything else is as
// in Validate.
func (s *Schema) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	content, err := s.read(object)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	oldContent, err := s.read(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("the old object: %w", err))}
	}
	unchanged := common.NewCorrelatedObject(content, oldContent, &model.Structural{Structural: s.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, content, oldContent, s.fields, validation.WithRatcheting(unchanged))
	errs = append(errs, objectmeta.Validate(nil, content, s.structural, false)...)
	// Ratcheting works on single values. Duplicates in lists involve several, so all are tolerated if the old object had any.
	if len(listtype.ValidateListSetsAndMaps(nil, s.structural, oldContent)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, content)...)
	}
	return s.evaluate(ctx, errs, content, oldContent, cel.WithRatcheting(unchanged))
}

// evaluate adds the errors of the CEL rules, unless the errors so far mean that the rules cannot be evaluated. old is nil on creation.
func (s *Schema) evaluate(ctx context.Context, errs field.ErrorList, content map[string]any, old any, options ...cel.Option) field.ErrorList {
	rules := s.rules()
	if rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeRequired, field.ErrorTypeTypeInvalid, field.ErrorTypeNotSupported, field.ErrorTypeTooLong, field.ErrorTypeTooMany:
			// The rules assume that fields exist and have the right type; their cost limit assumes that lengths are limited.
			return append(errs, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, unchecked))
		default:
		}
	}
	found, _ := rules.Validate(ctx, nil, s.structural, content, old, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, found...)
}

// read returns a copy of the checked part of an object, pruned and with defaults, as the API server does before validation. Typed objects
// have null for empty lists without omitempty; these nulls are dropped, like nulls in manifests.
func (s *Schema) read(object runtime.Object) (map[string]any, error) {
	source, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	written := unstructured.Unstructured{Object: source}
	if kind := written.GroupVersionKind(); !kind.Empty() && kind != s.kind {
		return nil, fmt.Errorf("%s cannot be checked with the schema of %s", kind, s.kind)
	}
	content := map[string]any{
		"apiVersion": s.kind.GroupVersion().String(),
		"kind":       s.kind.Kind,
		// CEL rules can access only these two fields of metadata.
		"metadata": map[string]any{"name": written.GetName(), "generateName": written.GetGenerateName()},
	}
	if spec, ok := source["spec"]; ok {
		content["spec"] = runtime.DeepCopyJSONValue(spec)
	}
	pruning.Prune(content, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, s.structural)
	defaulting.Default(content, s.structural)
	return content, nil
}
