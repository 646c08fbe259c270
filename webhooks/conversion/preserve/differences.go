// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// differences returns the fields of spec and status in which have, the result of the reverse rules, differs from want, the source.
func (s *shape) differences(have, want reflect.Value) ([]loss, error) {
	var c comparison
	err := c.compareMembers(nil, s, have, want)
	return c.lost, err
}

// comparison compares two objects and collects the lost fields. It is optimized for objects that are nearly equal.
type comparison struct {
	lost []loss
}

// compare collects the lost fields of two values that are not equal.
func (c *comparison) compare(at *place, s *shape, have, want reflect.Value) error {
	switch {
	case s.members != nil:
		return c.compareMembers(at, s, have, want)
	case have.Kind() == reflect.Pointer && s.elem.members != nil && !have.IsNil() && !want.IsNil():
		return c.compareMembers(at, s.elem, have.Elem(), want.Elem())
	case have.Kind() == reflect.Slice:
		return c.compareLists(at, s, have, want)
	default:
		return c.recordLoss(at, have, want)
	}
}

// compareMembers compares two structs member by member.
func (c *comparison) compareMembers(at *place, s *shape, have, want reflect.Value) error {
	for i := range s.members {
		m := &s.members[i]
		h, w := have.Field(m.index), want.Field(m.index)
		if m.equal(h, w) {
			continue
		}
		if err := c.compare(&place{at, m.name}, m.shape, h, w); err != nil {
			return err
		}
	}
	return nil
}

// compareLists compares lists element by element, if all elements have unique keys and the elements of want are a subset of those of have
// in the same order. Any other list is one lost field.
func (c *comparison) compareLists(at *place, s *shape, have, want reflect.Value) error {
	haveKeys, ok := s.elem.keys(have)
	wantKeys, alsoOK := s.elem.keys(want)
	if !ok || !alsoOK || have.IsNil() != want.IsNil() || !isSubsequence(wantKeys, haveKeys) {
		return c.recordLoss(at, have, want)
	}
	next := 0
	for i, k := range haveKeys {
		if next == len(wantKeys) || wantKeys[next] != k {
			if err := c.recordExtraElement(&place{at, k}, have.Index(i)); err != nil {
				return err
			}
			continue
		}
		h, w := have.Index(i), want.Index(next)
		next++
		if s.elem.equal(h, w) {
			continue
		}
		if err := c.compare(&place{at, k}, s.elem, h, w); err != nil {
			return err
		}
	}
	return nil
}

// recordLoss adds want, as a whole, to the lost fields.
func (c *comparison) recordLoss(at *place, have, want reflect.Value) error {
	was, err := fingerprint(have)
	c.lost = append(c.lost, loss{field: field{Path: at.path(), Was: was}, Is: want.Addr().Interface()})
	return err
}

// recordExtraElement records that the list must not have an element.
func (c *comparison) recordExtraElement(at *place, element reflect.Value) error {
	was, err := fingerprint(element)
	c.lost = append(c.lost, loss{field: field{Path: at.path(), Was: was}})
	return err
}

// place is the current position of a comparison.
type place struct {
	parent *place
	name   string
}

// path returns the path of the place as a JSON pointer. Embedded structs have no name and are not part of it.
func (p *place) path() string {
	switch {
	case p == nil:
		return ""
	case p.name == "":
		return p.parent.path()
	default:
		return p.parent.path() + "/" + escaper.Replace(p.name)
	}
}

// keys returns the keys of the elements of a list; ok is false when two are the same, or one is empty.
func (s *shape) keys(list reflect.Value) (found []string, ok bool) {
	found = make([]string, 0, list.Len())
	known := make(map[string]struct{}, list.Len())
	for i := range list.Len() {
		k := s.key(list.Index(i))
		if _, again := known[k]; k == "" || again {
			return nil, false
		}
		found, known[k] = append(found, k), struct{}{}
	}
	return found, true
}

// isSubsequence reports whether all has the elements of part in the same order.
func isSubsequence(part, all []string) bool {
	for _, k := range all {
		if len(part) > 0 && part[0] == k {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// equality reports whether two values of one type are equal. It returns the same result as reflect.DeepEqual, except that times are equal
// if they are the same instant.
type equality func(have, want reflect.Value) bool

var (
	// leaves are the structs that are compared and stored as a whole, with their equality.
	leaves = map[reflect.Type]equality{
		reflect.TypeFor[metav1.Time]():          compareAddressable((*metav1.Time).Equal),
		reflect.TypeFor[metav1.Duration]():      compareAddressable(sameDuration),
		reflect.TypeFor[runtime.RawExtension](): compareAddressable(sameExtension),
		reflect.TypeFor[apiextensionsv1.JSON](): compareAddressable(sameJSON),
	}
	// plain has the equality of basic types, and of types that are defined from them.
	plain = map[reflect.Kind]equality{
		reflect.String: func(have, want reflect.Value) bool { return have.String() == want.String() },
		reflect.Bool:   func(have, want reflect.Value) bool { return have.Bool() == want.Bool() },
		reflect.Int:    sameNumbers,
		reflect.Int32:  sameNumbers,
		reflect.Int64:  sameNumbers,
	}
)

// equalityOf returns the equality for a type. All other fields of its shape must be set.
func equalityOf(t reflect.Type, s *shape) equality {
	if leaf, ok := leaves[t]; ok {
		return leaf
	}
	switch kind := t.Kind(); {
	case plain[kind] != nil:
		return plain[kind]
	case kind == reflect.Struct:
		return sameMembers(s.members)
	case kind == reflect.Pointer:
		return samePointers(s.elem.equal)
	case kind == reflect.Slice:
		return sameLists(s.elem.equal)
	case t == reflect.TypeFor[map[string]string]():
		return compareAddressable(sameStringMaps)
	default:
		return func(have, want reflect.Value) bool { return reflect.DeepEqual(have.Interface(), want.Interface()) }
	}
}

func sameNumbers(have, want reflect.Value) bool { return have.Int() == want.Int() }

func sameMembers(members []member) equality {
	return func(have, want reflect.Value) bool {
		for i := range members {
			m := &members[i]
			if !m.equal(have.Field(m.index), want.Field(m.index)) {
				return false
			}
		}
		return true
	}
}

func samePointers(equal equality) equality {
	return func(have, want reflect.Value) bool {
		if have.IsNil() || want.IsNil() {
			return have.IsNil() == want.IsNil()
		}
		return equal(have.Elem(), want.Elem())
	}
}

func sameLists(equal equality) equality {
	return func(have, want reflect.Value) bool {
		if have.Len() != want.Len() || have.IsNil() != want.IsNil() {
			return false
		}
		for i := range have.Len() {
			if !equal(have.Index(i), want.Index(i)) {
				return false
			}
		}
		return true
	}
}

// compareAddressable returns an equality that compares addressable values without copying them. All parts of an object are addressable.
func compareAddressable[T any](equal func(have, want *T) bool) equality {
	return func(have, want reflect.Value) bool {
		return equal(have.Addr().Interface().(*T), want.Addr().Interface().(*T))
	}
}

func sameDuration(have, want *metav1.Duration) bool { return *have == *want }

func sameStringMaps(have, want *map[string]string) bool {
	return maps.Equal(*have, *want) && (*have == nil) == (*want == nil)
}

func sameJSON(have, want *apiextensionsv1.JSON) bool { return sameBytes(have.Raw, want.Raw) }

func sameExtension(have, want *runtime.RawExtension) bool {
	return sameBytes(have.Raw, want.Raw) && reflect.DeepEqual(have.Object, want.Object)
}

func sameBytes(have, want []byte) bool {
	return bytes.Equal(have, want) && (have == nil) == (want == nil)
}

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

// shape is the information about a type that this package needs. It is computed once per type, because reflection is slow. API types are
// not recursive, so the computation ends.
type shape struct {
	// equal compares two values of the type.
	equal equality
	// members are the members of a struct that is compared and stored member by member; nil for all other types.
	members []member
	// elem is the shape of the target of a pointer, or of the elements of a list; nil for all other types.
	elem *shape
	// key returns what identifies an element of a list; empty when there is nothing.
	key func(element reflect.Value) string
}

// member is a member of a struct, with its index.
type member struct {
	*shape
	index int
	// name is the JSON name of the member; empty for an embedded struct, whose members are part of the outer struct.
	name string
}

var (
	// shapes caches the shapes by type.
	shapes sync.Map

	// copied are the embedded structs that are the same in every version, so that conversion copies them.
	copied = []reflect.Type{reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[metav1.ObjectMeta]()}
)

// shapeOf returns the shape of a type, from the cache if it was computed before.
func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	found := newShape(t)
	shapes.Store(t, found)
	return found
}

// newShape computes the shape of a type.
func newShape(t reflect.Type) *shape {
	s := &shape{key: func(reflect.Value) string { return "" }}
	if _, leaf := leaves[t]; !leaf {
		switch t.Kind() {
		case reflect.Struct:
			s.members, s.key = membersOf(t), keyOf(t)
		case reflect.Pointer, reflect.Slice:
			s.elem = shapeOf(t.Elem())
		default:
		}
	}
	s.equal = equalityOf(t, s)
	return s
}

// conversionData is the member of status that has lost fields. It is part of no comparison.
const conversionData = "ConversionData"

// membersOf returns the members of a struct, without those that conversion copies or sets itself.
func membersOf(t reflect.Type) []member {
	var found []member
	for i := range t.NumField() {
		if f := t.Field(i); !slices.Contains(copied, f.Type) && f.Name != conversionData {
			found = append(found, member{shape: shapeOf(f.Type), index: i, name: nameOf(f)})
		}
	}
	return found
}

// nameOf returns the JSON name of a member; empty for an embedded struct.
func nameOf(f reflect.StructField) string {
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

// keyOf returns the function for the key of a struct: the field that identifies it in a list.
func keyOf(t reflect.Type) func(element reflect.Value) string {
	for _, candidate := range []string{"Type", "Name"} {
		if f, ok := t.FieldByName(candidate); ok && f.Type.Kind() == reflect.String {
			return func(element reflect.Value) string { return element.FieldByIndex(f.Index).String() }
		}
	}
	return func(reflect.Value) string { return "" }
}
