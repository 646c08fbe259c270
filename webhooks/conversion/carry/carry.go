// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package carry makes conversion between two versions of a kind lossless.
//
// A kind has plain rules: what each version's fields mean in the other. Plain rules lose something, since neither version
// can say all that the other can. So after a conversion the rules are applied backwards, and whatever the way back does
// not return as it was is carried along, field by field, in Cluster API's conversion-data annotation. The way back puts
// it in again, unless the field was changed in the meantime: then the change wins.
//
// Cluster API carries the whole hub in that annotation. Here it is only what is lost, in both directions: a
// WorkspaceTemplate can be so large that a second copy of it would not fit into the annotations of an object, and most
// objects carry nothing at all.
package carry

import (
	"encoding/json"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation is the one that Cluster API's providers use (util/conversion.DataAnnotation, which cannot be imported
// without its test framework; a test holds the two together).
const Annotation = "cluster.x-k8s.io/conversion-data"

// Converter converts objects of one version of a kind to another. It is made once per process, since it learns what the
// types look like, and can be used by many at a time.
type Converter[From, To client.Object] struct {
	there    func(From, To)
	back     func(To, From)
	settle   func(From, To)
	from, to *shape
	// echoes are empty objects for what comes back. They are used again: they would be much of what a conversion allocates.
	echoes sync.Pool
}

// New makes a converter out of the plain rules in both directions. They fill spec and status of the second object from
// the first, of which they change and keep nothing: whatever can be changed is copied. Metadata was copied before.
func New[From, To client.Object](there func(From, To), back func(To, From)) *Converter[From, To] {
	from, to := reflect.TypeFor[From]().Elem(), reflect.TypeFor[To]().Elem()
	return &Converter[From, To]{
		there: there, back: back, settle: func(From, To) {},
		from: shapeOf(from), to: shapeOf(to),
		echoes: sync.Pool{New: func() any { return reflect.New(from).Interface() }},
	}
}

// Settled adds a function that corrects the destination after carried fields were put in.
func (c *Converter[From, To]) Settled(settle func(From, To)) *Converter[From, To] {
	c.settle = settle
	return c
}

// data is what the annotation holds: fields when it is read, losses when it is written.
type data[Field field | loss] struct {
	Fields []Field `json:"fields"`
}

// Convert fills dst from src, of which it changes and keeps nothing. An error means that src cannot be written as JSON,
// which an API server never sends.
func (c *Converter[From, To]) Convert(src From, dst To) error {
	metadata(src).DeepCopyInto(metadata(dst))
	carried := take(dst)
	c.there(src, dst)
	for _, f := range carried {
		f.restore(c.to, reflect.ValueOf(dst).Elem())
	}
	c.settle(src, dst)

	lost, err := c.lost(src, dst)
	if err != nil || len(lost) == 0 {
		return err
	}
	return put(dst, lost)
}

// lost are the fields of src that the rules would not return from dst as they are.
func (c *Converter[From, To]) lost(src From, dst To) ([]loss, error) {
	echo := c.echoes.Get().(From)
	back := reflect.ValueOf(echo).Elem()
	defer func() {
		back.SetZero()
		c.echoes.Put(echo)
	}()
	*metadata(echo) = *metadata(src)
	c.back(dst, echo)
	return c.from.differences(back, reflect.ValueOf(src).Elem())
}

// metadata of an object, which has to embed metav1.ObjectMeta.
func metadata(o client.Object) *metav1.ObjectMeta {
	return o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// take removes the annotation from an object and returns what it held. What cannot be read, because another client wrote
// it, is as good as nothing: an object that cannot be converted could not even be deleted.
func take(o client.Object) []field {
	annotations := o.GetAnnotations()
	text, ok := annotations[Annotation]
	if !ok {
		return nil
	}
	delete(annotations, Annotation)
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
	var held data[field]
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return nil
	}
	return held.Fields
}

// put adds the annotation to an object.
func put(o client.Object, fields []loss) error {
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
