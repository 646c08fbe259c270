// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"reflect"
	"strings"
	"sync"
)

// field is a lost field, as it is read.
type field struct {
	// Path of the field: JSON names, and the identifying field of list elements, as in a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// Was is the fingerprint of the value that the plain rules return instead; empty when they do not set the field.
	Was string `json:"was,omitempty"`
	// Is is the value of the field; absent when the path is the path of a list element that must be removed.
	Is json.RawMessage `json:"is,omitempty"`
}

// loss is a lost field before it is encoded: all fields of an object are encoded together.
type loss struct {
	field
	// Is points to the value in the source; it replaces the encoded value.
	Is any `json:"is,omitempty"`
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// encoder writes JSON without HTML escapes, which need six bytes for one character.
type encoder struct {
	*json.Encoder
	text bytes.Buffer
}

// encoders is a pool of encoders.
var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.Encoder = json.NewEncoder(&e.text)
	e.SetEscapeHTML(false)
	return e
}}

// encode calls use with the JSON of a value and returns the result. use must not keep the slice.
func encode(v any, use func([]byte) string) (string, error) {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.text.Reset()
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return use(bytes.TrimSuffix(e.text.Bytes(), []byte("\n"))), nil
}

// fingerprint returns a hash of a value, to detect changes by other clients. It need not be a cryptographic hash: a client that can write
// the annotation can also write the field.
func fingerprint(v reflect.Value) (string, error) {
	if isBlank(v) {
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

// hash returns an FNV-1a hash, which is short and the same in all releases.
func hash(text []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// isBlank reports whether a value is what JSON decoding yields for a missing field.
func isBlank(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}
