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
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation is the annotation for lost fields of spec. It has the same name as util/conversion.DataAnnotation of Cluster API, which cannot be
// imported without Cluster API's test framework; a test compares the two.
const Annotation = "cluster.x-k8s.io/conversion-data"

// Converter converts objects of one version of a kind to another. Create it once per process, because it analyzes the types by reflection.
// It is safe for concurrent use.
type Converter[From, To client.Object] struct {
	// convert are the plain rules, reverse the plain rules of the other direction.
	convert func(From, To)
	reverse func(To, From)
	// correct corrects the destination, see WithCorrection.
	correct  func(From, To)
	from, to *shape
	// results is a pool of objects for the results of the reverse rules. Without the pool, they would be most of the allocations.
	results sync.Pool
}

// New returns a converter with the plain rules in both directions. Rules set spec and status of the second object from the first. They must
// not modify the first object or share memory with it. Metadata is copied before the rules run.
func New[From, To client.Object](convert func(From, To), reverse func(To, From)) *Converter[From, To] {
	from, to := reflect.TypeFor[From]().Elem(), reflect.TypeFor[To]().Elem()
	return &Converter[From, To]{
		convert: convert, reverse: reverse, correct: func(From, To) {},
		from: shapeOf(from), to: shapeOf(to),
		results: sync.Pool{New: func() any { return reflect.New(from).Interface() }},
	}
}

// WithCorrection sets a function that corrects the destination after lost fields were restored.
func (c *Converter[From, To]) WithCorrection(correct func(From, To)) *Converter[From, To] {
	c.correct = correct
	return c
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
	c.correct(src, dst)

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

// takeAnnotation removes the annotation from an object and returns it.
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

// store stores lost fields in an object.
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
	return encode(&data[loss]{fields}, func(text []byte) string { return string(text) })
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

// indexed is a list with the positions of its elements, by key.
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

// indexOf returns the index of a list.
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
