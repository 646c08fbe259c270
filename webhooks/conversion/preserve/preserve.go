// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package preserve makes conversion between two versions of a kind lossless.
//
// Each kind has plain rules, which convert the fields that both versions have. Plain rules lose fields that only one version has. So after
// a conversion, the reverse rules are applied to the result, and each field that they do not restore (a lost field) is stored in Cluster
// API's conversion-data annotation. The next conversion in the reverse direction restores these fields, except those that were changed
// since.
//
// Cluster API stores the whole hub object in that annotation. This package stores only lost fields, in both directions: a second copy of a
// large WorkspaceTemplate would exceed the size limit of annotations, and most objects have no lost fields.
package preserve

import (
	"encoding/json"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation is the annotation for lost fields. It has the same name as util/conversion.DataAnnotation of Cluster API, which cannot be
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

// data is the value of the annotation: with elements of type field when it is read, and of type loss when it is written.
type data[Field field | loss] struct {
	Fields []Field `json:"fields"`
}

// Convert sets dst from src. It does not modify src, and dst does not share memory with it. An error means that src cannot be encoded as
// JSON, which is impossible for an object from an API server.
func (c *Converter[From, To]) Convert(src From, dst To) error {
	metadata(src).DeepCopyInto(metadata(dst))
	stored := takeAnnotation(dst)
	c.convert(src, dst)
	restoreAll(stored, c.to, reflect.ValueOf(dst).Elem())
	c.correct(src, dst)

	lost, err := c.lost(src, dst)
	if err != nil || len(lost) == 0 {
		return err
	}
	return putAnnotation(dst, lost)
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

// takeAnnotation removes the annotation from an object and returns its fields. An annotation that cannot be decoded, because another client
// wrote it, is ignored: otherwise the object could not be converted, and not even deleted.
func takeAnnotation(o client.Object) []field {
	annotations := o.GetAnnotations()
	text, ok := annotations[Annotation]
	if !ok {
		return nil
	}
	delete(annotations, Annotation)
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
	var stored data[field]
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil
	}
	return stored.Fields
}

// putAnnotation adds the annotation to an object.
func putAnnotation(o client.Object, fields []loss) error {
	text, err := encode(&data[loss]{fields}, func(text []byte) string { return string(text) })
	if err != nil {
		return err
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
		o.SetAnnotations(annotations)
	}
	annotations[Annotation] = text
	return nil
}
