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

// unchecked is the last error of a list when the CEL rules could not be evaluated because of the other errors.
const unchecked = "further rules could not be evaluated. Correct the other errors first"

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
