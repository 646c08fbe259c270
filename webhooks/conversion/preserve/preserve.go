// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package preserve makes conversion between two versions of a kind lossless.
//
// Each kind has plain rules, which convert the fields that both versions have. Plain rules lose fields that only one version has. So after
// a conversion, the reverse rules are applied to the result, and each field that they do not restore (a lost field) is stored in the result.
// The next conversion in the reverse direction restores these fields, except those that were changed since.
//
// Lost fields of spec are stored in Cluster API's conversion-data annotation: every client that can write it can write spec, too. Lost fields of status
// are stored in status.conversionData, because users can write annotations, but not status: the API server keeps the status of the stored
// object in each write of another part of an object, in the version of the request. So an annotation never becomes status.
//
// Cluster API stores the whole hub object in its annotation. This package stores only lost fields, in both directions: a second copy of a
// large WorkspaceTemplate would exceed the size limit of annotations, and most objects have no lost fields.
package preserve

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Annotation is the annotation for lost fields of spec. It has the same name as util/conversion.DataAnnotation of Cluster API, which cannot be
// imported without Cluster API's test framework; a test compares the two.
const Annotation = "cluster.x-k8s.io/conversion-data"

// Converter converts objects of one version of a kind to another. Create it once per process, because it analyzes the types by reflection.
// It is safe for concurrent use.
type Converter[From, To client.Object] struct {
	// convert are the plain rules, reverse the plain rules of the other direction.
	convert  func(From, To)
	reverse  func(To, From)
	from, to *shape
	// results is a pool of objects for the results of the reverse rules. Without the pool, they would be most of the allocations.
	results sync.Pool
}

// New returns a converter with the plain rules in both directions. Rules set spec and status of the second object from the first. They must
// not modify the first object or share memory with it. Metadata is copied before the rules run.
func New[From, To client.Object](convert func(From, To), reverse func(To, From)) *Converter[From, To] {
	return &Converter[From, To]{
		convert: convert, reverse: reverse,
		from: shapeOf(reflect.TypeFor[From]().Elem()), to: shapeOf(reflect.TypeFor[To]().Elem()),
		results: sync.Pool{New: func() any { return reflect.New(reflect.TypeFor[From]().Elem()).Interface() }},
	}
}

// data is what is stored: with elements of type field when it is read, and of type loss when it is written.
type data[Field field | loss] struct {
	Fields []Field `json:"fields"`
}

// Convert sets dst from src. It does not modify src, and dst does not share memory with it. An error means that src cannot be encoded as
// JSON, which is impossible for an object from an API server.
func (c *Converter[From, To]) Convert(src From, dst To) error {
	metadata(src).DeepCopyInto(metadata(dst))
	stored := append(parse(takeAnnotation(dst), specPath), parse(statusData(src).String(), statusPath)...)
	c.convert(src, dst)
	restoreAll(stored, c.to, reflect.ValueOf(dst).Elem())

	lost, err := c.lost(src, dst)
	if err != nil {
		return err
	}
	return store(dst, lost)
}

// lost returns the fields of src that the reverse rules do not restore from dst.
func (c *Converter[From, To]) lost(src From, dst To) ([]loss, error) {
	result := c.results.Get().(From)
	restored := reflect.ValueOf(result).Elem()
	defer func() {
		restored.SetZero()
		c.results.Put(result)
	}()
	*metadata(result) = *metadata(src)
	c.reverse(dst, result)
	return c.from.differences(restored, reflect.ValueOf(src).Elem())
}

// metadata returns the metadata of an object, which must embed metav1.ObjectMeta.
func metadata(o client.Object) *metav1.ObjectMeta {
	return o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// specPath and statusPath are the beginnings of the paths of fields of spec and of status.
const specPath, statusPath = "/spec/", "/status/"

// statusData returns status.conversionData of an object; a new string for a kind without status.
func statusData(o client.Object) reflect.Value {
	if status := reflect.ValueOf(o).Elem().FieldByName("Status"); status.IsValid() {
		return status.FieldByName(conversionData)
	}
	return reflect.New(reflect.TypeFor[string]()).Elem()
}

func takeAnnotation(o client.Object) string {
	annotations := o.GetAnnotations()
	text := annotations[Annotation]
	delete(annotations, Annotation)
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
	return text
}

// parse returns the fields in a text whose paths have a beginning. A text that cannot be decoded is ignored: otherwise the object could not be
// converted, and not even deleted.
func parse(text, beginning string) []field {
	var stored data[field]
	if text == "" || json.Unmarshal([]byte(text), &stored) != nil {
		return nil
	}
	return slices.DeleteFunc(stored.Fields, func(f field) bool { return !strings.HasPrefix(f.Path, beginning) })
}

func store(o client.Object, lost []loss) error {
	var spec, status []loss
	for _, f := range lost {
		if strings.HasPrefix(f.Path, statusPath) {
			status = append(status, f)
		} else {
			spec = append(spec, f)
		}
	}
	annotation, err := textOf(spec)
	if annotation != "" {
		metav1.SetMetaDataAnnotation(metadata(o), Annotation, annotation)
	}
	text, statusErr := textOf(status)
	statusData(o).SetString(text)
	return errors.Join(err, statusErr)
}

// textOf returns the text that stores fields; empty for none.
func textOf(fields []loss) (string, error) {
	if len(fields) == 0 {
		return "", nil
	}
	text, err := encode(&data[loss]{fields})
	return string(text), err
}

// restoreAll sets the lost fields in an object, if the plain rules returned the same value as when the field was stored. Otherwise a client
// changed the field since, and the stored value is dropped. A value that does not match the type is dropped, too: every client can write
// the annotation, and a wrong one must not make the object unreadable.
func restoreAll(fields []field, s *shape, object reflect.Value) {
	var l lists
	for _, f := range fields {
		f.restoreIn(s, object, names(f.Path), &l)
	}
	l.sweep()
}

// restoreIn restores the field in a value; path is the rest of the path within the value.
func (f field) restoreIn(s *shape, v reflect.Value, path []string, l *lists) {
	switch {
	case len(path) == 0:
		f.set(v)
	case s.members != nil:
		if m, in, ok := s.find(v, path[0]); ok {
			f.restoreIn(m, in, path[1:], l)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		f.restoreIn(s.elem, v.Elem(), path, l)
	case v.Kind() == reflect.Slice:
		f.restoreInList(s, v, path, l)
	}
}

// restoreInList restores the field in an element of a list, or removes the element.
func (f field) restoreInList(s *shape, v reflect.Value, path []string, l *lists) {
	list := l.indexOf(s, v)
	i, ok := list.positions[path[0]]
	if !ok {
		return
	}
	if element := v.Index(i); len(path) > 1 || f.Is != nil {
		f.restoreIn(s.elem, element, path[1:], l)
	} else if f.unchanged(element) {
		list.removed[i] = true
	}
}

// lists are the lists with lost fields. Each is indexed once, and its elements are removed at the end: both for each field would take
// quadratic time, and every client can write an annotation with thousands of fields.
type lists struct {
	byAddress map[any]*indexed
	visited   []*indexed
}

type indexed struct {
	list      reflect.Value
	content   content
	positions map[string]int
	removed   map[int]bool
}

// content identifies the elements of a list, which a lost field may replace.
type content struct {
	first  any
	length int
}

func contentOf(list reflect.Value) content {
	if list.Len() == 0 {
		return content{}
	}
	return content{list.Index(0).Addr().Interface(), list.Len()}
}

func (l *lists) indexOf(s *shape, list reflect.Value) *indexed {
	address := list.Addr().Interface()
	found := l.byAddress[address]
	if found != nil && found.content == contentOf(list) {
		return found
	}
	found = &indexed{list: list, content: contentOf(list), positions: make(map[string]int, list.Len()), removed: map[int]bool{}}
	for i := range list.Len() {
		k := s.elem.key(list.Index(i))
		if _, known := found.positions[k]; k != "" && !known {
			found.positions[k] = i
		}
	}
	if l.byAddress == nil {
		l.byAddress = map[any]*indexed{}
	}
	l.byAddress[address] = found
	l.visited = append(l.visited, found)
	return found
}

// sweep removes the elements that are to be removed: those of inner lists first, because the others move them.
func (l *lists) sweep() {
	for _, in := range slices.Backward(l.visited) {
		if len(in.removed) == 0 || in.content != contentOf(in.list) {
			continue
		}
		kept := 0
		for i := range in.list.Len() {
			if in.removed[i] {
				continue
			}
			if kept < i {
				in.list.Index(kept).Set(in.list.Index(i))
			}
			kept++
		}
		in.list.Set(in.list.Slice(0, kept))
	}
}

// find returns the member with a name, also of embedded structs; false if there is none.
func (s *shape) find(v reflect.Value, name string) (*shape, reflect.Value, bool) {
	for _, m := range s.members {
		if m.name == name && name != "" {
			return m.shape, v.Field(m.index), true
		}
		if m.name == "" && m.members != nil {
			if found, in, ok := m.find(v.Field(m.index), name); ok {
				return found, in, true
			}
		}
	}
	return nil, reflect.Value{}, false
}

// set sets a value to the lost field, if the value did not change.
func (f field) set(v reflect.Value) {
	if f.Is == nil || !v.CanSet() || !f.unchanged(v) {
		return
	}
	value := reflect.New(v.Type()).Elem()
	if err := decode(f.Is, value); err == nil {
		v.Set(value)
	}
}

// decode is json.Unmarshal without the check of the syntax, for a part of a text that was decoded before.
func decode(text json.RawMessage, v reflect.Value) error {
	if v.Kind() == reflect.Pointer && string(text) != "null" {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if own, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		return own.UnmarshalJSON(text)
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// unchanged reports whether a value is the same as when the field was stored.
func (f field) unchanged(v reflect.Value) bool {
	is, err := fingerprint(v)
	return err == nil && is == f.Was
}

// names splits a path into its names.
func names(path string) []string {
	found := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if strings.Contains(path, "~") {
		for i := range found {
			found[i] = unescaper.Replace(found[i])
		}
	}
	return found
}

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

// equal returns the same result as reflect.DeepEqual, but does not compare what is part of no comparison, and is faster for objects that are nearly
// equal. All parts of an object are addressable.
func (s *shape) equal(have, want reflect.Value) bool {
	switch kind := have.Kind(); {
	case kind == reflect.String:
		return have.String() == want.String()
	case s.members != nil:
		return !slices.ContainsFunc(s.members, func(m member) bool { return !m.equal(have.Field(m.index), want.Field(m.index)) })
	case kind == reflect.Pointer && !have.IsNil() && !want.IsNil():
		return s.elem.equal(have.Elem(), want.Elem())
	case kind == reflect.Slice && have.Len() == want.Len() && have.Len() > 0:
		for i := range have.Len() {
			if !s.elem.equal(have.Index(i), want.Index(i)) {
				return false
			}
		}
		return true
	}
	return isEqual(have, want)
}

// isEqual compares values that have no parts.
func isEqual(have, want reflect.Value) bool {
	switch {
	case have.CanInt():
		return have.Int() == want.Int()
	case have.Kind() == reflect.Bool, have.Kind() == reflect.Pointer:
		return have.Equal(want)
	}
	switch want := want.Addr().Interface().(type) {
	case *metav1.Time:
		return have.Addr().Interface().(*metav1.Time).Equal(want)
	case *map[string]string:
		have := *have.Addr().Interface().(*map[string]string)
		return maps.Equal(have, *want) && (have == nil) == (*want == nil)
	case *infrav1.Variables:
		have := *have.Addr().Interface().(*infrav1.Variables)
		same := func(a, b apiextensionsv1.JSON) bool {
			return bytes.Equal(a.Raw, b.Raw) && (a.Raw == nil) == (b.Raw == nil)
		}
		return maps.EqualFunc(have, *want, same) && (have == nil) == (*want == nil)
	}
	return reflect.DeepEqual(have.Addr().Interface(), want.Addr().Interface())
}

// leaves are the structs that are compared and stored as a whole.
var leaves = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[apiextensionsv1.JSON](),
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

// encode returns the JSON of a value, without HTML escapes, which need six bytes for one character.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
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
	text, err := encode(v.Addr().Interface())
	return hash(text), err
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

func newShape(t reflect.Type) *shape {
	s := &shape{key: func(reflect.Value) string { return "" }}
	switch kind := t.Kind(); {
	case slices.Contains(leaves, t):
	case kind == reflect.Struct:
		s.members, s.key = membersOf(t), keyOf(t)
	case kind == reflect.Pointer, kind == reflect.Slice:
		s.elem = shapeOf(t.Elem())
	}
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
