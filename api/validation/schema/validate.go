// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// unchecked is what ends a list of errors because of which the CEL rules were not evaluated.
const unchecked = "further rules could not be evaluated. Correct the other errors first"

// Validate checks a new object as the API server does when it is created in this version: first it is read (fields that
// the schema does not know are left out, defaults set), then checked field by field, and in the end the CEL rules are
// evaluated. Only the spec is checked.
//
// Typed and unstructured objects are both accepted, with or without apiVersion and kind, and never changed. In unstructured
// ones whole numbers are int64, as API machinery decodes them: CEL does not accept a float64 as an integer.
//
// The errors are those of the API server, with one exception: where it adds that rules remained unchecked because of the
// errors before, it names no field. Here that error is about spec. Should the object be of another kind, that is an internal
// error.
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

// ValidateUpdate checks a changed object as the API server does: with the rules that compare it to the old object, and
// without complaints about values that the old object had already. So an object that was stored before a rule existed can
// be changed elsewhere. Everything else is as with Validate.
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
	// Duplicates in a list are not a matter of a single value, so all of them are forgiven where there were any before.
	if len(listtype.ValidateListSetsAndMaps(nil, s.structural, oldContent)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, content)...)
	}
	return s.evaluate(ctx, errs, content, oldContent, cel.WithRatcheting(unchanged))
}

// evaluate adds what the CEL rules say, unless the errors so far mean that they cannot be evaluated. A nil old object is
// that of a creation.
func (s *Schema) evaluate(ctx context.Context, errs field.ErrorList, content map[string]any, old any, options ...cel.Option) field.ErrorList {
	rules := s.rules()
	if rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeRequired, field.ErrorTypeTypeInvalid, field.ErrorTypeNotSupported, field.ErrorTypeTooLong, field.ErrorTypeTooMany:
			// Rules count on fields being there and of their type, and their costs on lengths being limited.
			return append(errs, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, unchecked))
		default:
		}
	}
	found, _ := rules.Validate(ctx, nil, s.structural, content, old, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, found...)
}

// read returns a copy of the part of an object that is checked, in the form in which the API server checks it. Typed
// objects have nulls where an empty list is not left out; they are dropped like those that users write.
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
		// Rules may look at these two fields of metadata, and at no others.
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
