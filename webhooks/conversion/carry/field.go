/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package carry

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"reflect"
	"strings"
	"sync"
)

// field is one field that the plain rules do not return as it was.
type field struct {
	// Path of the field: JSON names, and the identifying field of list elements, as in a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// Was is the fingerprint of what the plain rules return instead; empty when that is nothing.
	Was string `json:"was,omitempty"`
	// Is is the field as it was; absent when it is an element of a list that was not there.
	Is json.RawMessage `json:"is,omitempty"`
}

// in returns the field as seen from the parent of that name.
func (f field) in(name string) field {
	f.Path = "/" + escaper.Replace(name) + f.Path
	return f
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// encode is json.Marshal without the escapes for HTML, which would make six characters of one.
func encode(v any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

// fingerprint of a value. It guards against changes by others, not against an adversary: who can write the annotation
// can as well write the field.
func fingerprint(v reflect.Value) (string, error) {
	if blank(v) {
		return "", nil
	}
	if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.String {
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return hash(v.String()), nil
	}
	text, err := encode(v.Interface())
	return hash(string(text)), err
}

// hash is FNV-1a: short, and the same in every version.
func hash(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// blank tells whether a value is what a field that is left out of JSON reads as.
func blank(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// name of a struct field in a path; empty when it is embedded, so that its own fields appear in its place.
func name(f reflect.StructField) string {
	tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case tag == "-":
		return f.Name
	case tag == "" && (f.Anonymous || strings.Contains(options, "inline")):
		return ""
	case tag == "":
		return f.Name
	default:
		return tag
	}
}

// allNames holds the names of the fields of every struct that was met, by its type: tags are slow to read.
var allNames sync.Map

// names of the fields of a struct type.
func names(t reflect.Type) []string {
	if known, ok := allNames.Load(t); ok {
		return known.([]string)
	}
	found := make([]string, t.NumField())
	for i := range found {
		found[i] = name(t.Field(i))
	}
	allNames.Store(t, found)
	return found
}

// key identifies an element of a list; ok is false for elements that nothing identifies.
func key(element reflect.Value) (_ string, ok bool) {
	if element.Kind() != reflect.Struct {
		return "", false
	}
	for _, candidate := range []string{"Type", "Name"} {
		if f := element.FieldByName(candidate); f.IsValid() && f.Kind() == reflect.String {
			return f.String(), true
		}
	}
	return "", false
}
