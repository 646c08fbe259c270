// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// IsText reports whether the type is string.
func (v *Variable) IsText() bool { return v.constraint == cty.String }

// IsDocument reports whether the type is a list, set, tuple, map or object.
func (v *Variable) IsDocument() bool {
	return v.constraint.IsCollectionType() || v.constraint.IsTupleType() || v.constraint.IsObjectType()
}

// Check returns what is wrong with a JSON value, for example "element 2: is not a string", or the error_message of a validation; empty if nothing
// is, or if it cannot be known. It never quotes the value, which may be a secret.
func (v *Variable) Check(value json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) != nil {
		return "is not valid JSON"
	}
	switch {
	case decoded == nil && !v.Nullable && v.HasDefault:
		return "" // Terraform uses the default.
	case decoded == nil && !v.Nullable:
		return "must not be null"
	}
	if problem := v.mismatch(v.constraint, decoded); problem != "" {
		return problem
	}
	return v.violation(decoded)
}

// mismatch returns why a decoded JSON value cannot be converted to a type; empty if it can. The rules are those of Terraform.
func (v *Variable) mismatch(ty cty.Type, value any) string {
	switch {
	case value == nil || ty == cty.DynamicPseudoType:
		return ""
	case ty.IsPrimitiveType():
		if !isPrimitive(ty, value) {
			return "is not a " + ty.FriendlyName()
		}
	case ty.IsListType() || ty.IsSetType() || ty.IsTupleType():
		return v.mismatchOfList(ty, value)
	case ty.IsMapType():
		attributes, ok := value.(map[string]any)
		if !ok {
			return "is not a map"
		}
		for _, key := range slices.Sorted(maps.Keys(attributes)) {
			if problem := v.mismatch(ty.ElementType(), attributes[key]); problem != "" && (v.Sensitive || !VariableName.MatchString(key)) {
				return "an element: " + problem
			} else if problem != "" {
				return fmt.Sprintf("element %q: %s", key, problem)
			}
		}
	case ty.IsObjectType():
		attributes, ok := value.(map[string]any)
		if !ok {
			return "is not an object"
		}
		for _, name := range slices.Sorted(maps.Keys(ty.AttributeTypes())) { // Terraform ignores other attributes.
			if attribute, ok := attributes[name]; !ok && !ty.AttributeOptional(name) {
				return fmt.Sprintf("attribute %q is missing", name)
			} else if problem := v.mismatch(ty.AttributeType(name), attribute); problem != "" {
				return fmt.Sprintf("attribute %q: %s", name, problem)
			}
		}
	}
	return ""
}

func (v *Variable) mismatchOfList(ty cty.Type, value any) string {
	elements, ok := value.([]any)
	switch {
	case !ok:
		return "is not a list"
	case ty.IsTupleType() && len(elements) != ty.Length():
		return fmt.Sprintf("must have %d elements", ty.Length())
	}
	for i, element := range elements {
		of := ty
		if ty.IsTupleType() {
			of = ty.TupleElementType(i)
		} else {
			of = ty.ElementType()
		}
		if problem := v.mismatch(of, element); problem != "" {
			return fmt.Sprintf("element %d: %s", i, problem)
		}
	}
	return ""
}

// isPrimitive reports whether a value can be converted to a primitive type.
func isPrimitive(ty cty.Type, value any) bool {
	var given cty.Value
	switch value := value.(type) {
	case bool:
		given = cty.BoolVal(value)
	case json.Number:
		return ty != cty.Bool
	case string:
		given = cty.StringVal(value)
	default:
		return false
	}
	_, err := convert.Convert(given, ty)
	return err == nil
}

const (
	// maxWork is the maximum work for the validations of a variable, in steps that take less than a microsecond each.
	maxWork = 4 << 20
	// maxDepthOfValue is the maximum depth of a value for which validations are evaluated.
	maxDepthOfValue = 10
)

// violation returns the error_message of the first validation that a value violates; empty if none is known to be.
func (v *Variable) violation(decoded any) (message string) {
	value, err := json.Marshal(decoded) // All values with the same content have the same text.
	n := len(value)
	if err != nil || len(v.conditions) == 0 || n*(1+len(v.TypeText)) > maxWork*8 || hugeNumber.Match(value) || depthOf(decoded) > maxDepthOfValue {
		return ""
	}
	// go-cty panics on values that no function expects. Nothing is known about them.
	defer func() {
		if recover() != nil {
			message = ""
		}
	}()
	typed, err := v.convert(value)
	if err != nil {
		return ""
	}
	work := 0
	if v.constraint.HasDynamicTypes() { // go-cty searches a type that all elements can have.
		work = n * n
	}
	for _, c := range v.conditions {
		if work += c.work(n); work > maxWork {
			return ""
		}
		if c.isViolated(v.Name, typed) {
			return c.message
		}
	}
	return ""
}

// depthOf returns the depth of a decoded JSON value.
func depthOf(value any) (depth int) {
	var inner []any
	switch value := value.(type) {
	case []any:
		inner = value
	case map[string]any:
		inner = slices.Collect(maps.Values(value))
	}
	for _, element := range inner {
		depth = max(depth, 1+depthOf(element))
	}
	return depth
}

// convert converts a JSON value to the type of the variable, as Terraform does.
func (v *Variable) convert(value []byte) (cty.Value, error) {
	ty, err := ctyjson.ImpliedType(value)
	if err != nil {
		return cty.NilVal, err
	}
	given, err := ctyjson.Unmarshal(value, ty)
	if err != nil {
		return cty.NilVal, err
	}
	if v.optional != nil && !given.IsNull() {
		given = v.optional.Apply(given)
	}
	return convert.Convert(given, v.constraint)
}
