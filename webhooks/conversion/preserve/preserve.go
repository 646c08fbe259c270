// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package preserve makes conversion between two versions of a kind lossless.
//
// Each kind has plain rules, which convert the fields that both versions have. Plain rules lose fields that only one version has. So after
// a conversion, the reverse rules are applied to the result, and each field that they do not restore (a lost field) is stored in the result.
// The next conversion in the reverse direction restores these fields, except those that were changed since.
//
// Lost fields of spec are stored in Cluster API's conversion-data annotation: whoever can write it can write spec, too. Lost fields of status
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
	for _, f := range stored {
		f.restore(c.to, reflect.ValueOf(dst).Elem())
	}
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
