// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

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

// loss is a field on its way into the annotation, where all are encoded at once.
type loss struct {
	field
	// Is points to the field in the source; it takes the place of the JSON.
	Is any `json:"is,omitempty"`
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// encoder writes JSON without the escapes for HTML, which would make six characters of one.
type encoder struct {
	*json.Encoder
	text bytes.Buffer
}

// encoders that are not in use at the moment.
var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.Encoder = json.NewEncoder(&e.text)
	e.SetEscapeHTML(false)
	return e
}}

// encode gives the JSON of a value to a function, which must not keep it, and returns what that made of it.
func encode(v any, use func([]byte) string) (string, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.text.Reset()
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return use(bytes.TrimSuffix(e.text.Bytes(), []byte("\n"))), nil
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
		return hash([]byte(v.String())), nil
	}
	return encode(v.Addr().Interface(), hash)
}

// hash is FNV-1a: short, and the same in every version.
func hash(text []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// blank reports whether a value is what a field that is left out of JSON reads as.
func blank(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}
