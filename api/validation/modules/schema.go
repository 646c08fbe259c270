// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

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
		return schemaOfObject(ty)
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

func schemaOfObject(ty cty.Type) map[string]any {
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
