// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Variables are JSON values by name.
type Variables map[string]apiextensionsv1.JSON

// TextVariables returns variables whose values are strings.
func TextVariables(texts map[string]string) Variables {
	if texts == nil {
		return nil
	}
	variables := make(Variables, len(texts))
	for name, text := range texts {
		variables[name] = TextValue(text)
	}
	return variables
}

// TextValue returns a string as JSON.
func TextValue(text string) apiextensionsv1.JSON {
	if isPlain(text) {
		return apiextensionsv1.JSON{Raw: []byte(`"` + text + `"`)}
	}
	raw, _ := json.Marshal(text) // A string can always be encoded.
	return apiextensionsv1.JSON{Raw: raw}
}

// isPlain reports whether JSON has a text as it is. Conversion of many objects would spend most of its time in the encoder.
func isPlain[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// Has reports whether there is a variable of a name.
func (v Variables) Has(name string) bool {
	_, ok := v[name]
	return ok
}

// Text returns a variable as CAPT inserts it for a placeholder: a string as it is, any other value as JSON; empty if there is none.
func (v Variables) Text(name string) string { return textOf(v[name]) }

// Texts returns all variables, as Text does.
func (v Variables) Texts() map[string]string {
	texts := make(map[string]string, len(v))
	for name, value := range v {
		texts[name] = textOf(value)
	}
	return texts
}

func textOf(value apiextensionsv1.JSON) (text string) {
	if n := len(value.Raw); n > 1 && value.Raw[0] == '"' && isPlain(value.Raw[1:n-1]) {
		return string(value.Raw[1 : n-1])
	}
	if json.Unmarshal(value.Raw, &text) != nil {
		return string(value.Raw)
	}
	return text
}
