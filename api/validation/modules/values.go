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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// IsText reports whether the type is string.
func (v *Variable) IsText() bool { return v.constraint == cty.String }

// IsDocument reports whether the type is a list, set, tuple, map or object.
func (v *Variable) IsDocument() bool {
	return v.constraint.IsCollectionType() || v.constraint.IsTupleType() || v.constraint.IsObjectType()
}

// Check returns what is wrong with a JSON value, for example "element 2: string required", or the error_message of a validation; empty if nothing
// is, or if it cannot be known. It never quotes the value, which may be a secret; only keys of maps that are not sensitive.
func (v *Variable) Check(value json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if decoder.Decode(&decoded) != nil {
		return "is not valid JSON"
	}
	if decoded == nil && !v.Nullable {
		if v.HasDefault { // Terraform uses it.
			return ""
		}
		return "must not be null"
	}
	if problem := v.mismatch(v.constraint, decoded); problem != "" {
		return problem
	}
	return v.violation(decoded)
}

// mismatch returns why Terraform cannot convert a decoded JSON value to a type; empty if it can. Messages of go-cty depend on the order of a map, and
// take exponential time for deep types.
func (v *Variable) mismatch(ty cty.Type, value any) string {
	attributes, isObject := value.(map[string]any)
	elements, isList := value.([]any)
	switch {
	case value == nil || ty == cty.DynamicPseudoType || isPrimitive(ty, value):
		return ""
	case isObject && ty.IsMapType():
		return v.mismatchOfMap(ty, attributes)
	case isObject && ty.IsObjectType():
		return v.mismatchOfObject(ty, attributes)
	case isList && (ty.IsListType() || ty.IsSetType() || ty.IsTupleType()):
		return v.mismatchOfList(ty, elements)
	}
	return ty.FriendlyNameForConstraint() + " required"
}

func (v *Variable) mismatchOfMap(ty cty.Type, attributes map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		if problem := v.mismatch(ty.ElementType(), attributes[key]); problem != "" && !v.Sensitive && VariableName.MatchString(key) {
			return fmt.Sprintf("element %q: %s", key, problem)
		} else if problem != "" {
			return "an element: " + problem
		}
	}
	return ""
}

func (v *Variable) mismatchOfObject(ty cty.Type, attributes map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(ty.AttributeTypes())) { // Terraform ignores other attributes.
		if attribute, ok := attributes[name]; !ok && !ty.AttributeOptional(name) {
			return fmt.Sprintf("attribute %q required", name)
		} else if problem := v.mismatch(ty.AttributeType(name), attribute); problem != "" {
			return fmt.Sprintf("attribute %q: %s", name, problem)
		}
	}
	return ""
}

func (v *Variable) mismatchOfList(ty cty.Type, elements []any) string {
	if ty.IsTupleType() && len(elements) != ty.Length() {
		return fmt.Sprintf("%d elements required", ty.Length())
	}
	for i, element := range elements {
		if problem := v.mismatch(elementType(ty, i), element); problem != "" {
			return fmt.Sprintf("element %d: %s", i, problem)
		}
	}
	return ""
}

func elementType(ty cty.Type, i int) cty.Type {
	if ty.IsTupleType() {
		return ty.TupleElementType(i)
	}
	return ty.ElementType()
}

func isPrimitive(ty cty.Type, value any) bool {
	if !ty.IsPrimitiveType() {
		return false
	}
	switch value := value.(type) {
	case string:
		_, err := convert.Convert(cty.StringVal(value), ty)
		return err == nil
	case json.Number:
		return ty != cty.Bool
	case bool:
		return ty != cty.Number
	}
	return false
}

// maxWork is the maximum work for the validations of a variable, in steps that take less than a microsecond each.
const maxWork = 4 << 20

// violation returns the error_message of the first validation that a value violates; empty if none is known to be.
func (v *Variable) violation(decoded any) (message string) {
	text, err := json.Marshal(decoded) // All values with the same content have the same text.
	if err != nil || len(v.conditions) == 0 || len(text)*(1+len(v.TypeText)) > maxWork || hugeNumber.Match(text) {
		return ""
	}
	// go-cty panics on values that no function expects. Nothing is known about them.
	defer func() {
		if recover() != nil {
			message = ""
		}
	}()
	value, ok := v.convert(text)
	if !ok {
		return ""
	}
	work := 0
	for _, c := range v.conditions {
		if work += c.work(len(text)); work > maxWork {
			return ""
		}
		if c.isViolated(v.Name, value) {
			return c.message
		}
	}
	return ""
}

// convert converts a JSON value to the type of the variable.
func (v *Variable) convert(text []byte) (cty.Value, bool) {
	ty, err := ctyjson.ImpliedType(text)
	if err != nil || v.constraint.HasDynamicTypes() && !ty.IsPrimitiveType() { // go-cty would search a type that all elements can have.
		return cty.NilVal, false
	}
	value, err := ctyjson.Unmarshal(text, ty)
	if err == nil {
		value, err = convert.Convert(value, v.constraint)
	}
	return value, err == nil
}

// Schema returns the type as a schema of spec.inputs; nil if a schema cannot have it.
func (v *Variable) Schema() *apiextensionsv1.JSON {
	schema := schemaOfType(v.constraint)
	if schema == nil {
		return nil
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil // Cannot happen: a schema is maps and strings.
	}
	return &apiextensionsv1.JSON{Raw: raw}
}

func schemaOfType(ty cty.Type) map[string]any {
	switch {
	case ty == cty.String:
		return map[string]any{"type": "string"}
	case ty == cty.Number:
		return map[string]any{"type": "number"}
	case ty == cty.Bool:
		return map[string]any{"type": "boolean"}
	case ty.IsListType(), ty.IsSetType():
		return containing("array", "items", ty.ElementType())
	case ty.IsMapType():
		return containing("object", "additionalProperties", ty.ElementType())
	case ty.IsObjectType():
		properties, required := map[string]any{}, []string{}
		for _, name := range slices.Sorted(maps.Keys(ty.AttributeTypes())) {
			schema := schemaOfType(ty.AttributeType(name))
			if schema == nil {
				return nil
			}
			if properties[name] = schema; !ty.AttributeOptional(name) {
				required = append(required, name)
			}
		}
		object := map[string]any{"type": "object", "properties": properties}
		if len(required) > 0 {
			object["required"] = required
		}
		return object
	}
	return nil
}

func containing(kind, field string, element cty.Type) map[string]any {
	schema := schemaOfType(element)
	if schema == nil {
		return nil
	}
	return map[string]any{"type": kind, field: schema}
}
