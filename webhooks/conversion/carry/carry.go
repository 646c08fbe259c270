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
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation is the one that Cluster API's providers use (util/conversion.DataAnnotation, which can not be imported
// without its test framework; a test holds the two together).
const Annotation = "cluster.x-k8s.io/conversion-data"

// Rules are the plain rules between two versions of a kind. They get and fill spec and status, may share memory between
// the two objects, and must not change the object they read. Metadata is copied before.
type Rules[From, To client.Object] struct {
	// There fills the destination.
	There func(From, To)
	// Back is the same in the other direction.
	Back func(To, From)
	// Settle, if any, mends the destination after carried fields were put in.
	Settle func(From, To)
}

// data is what the annotation holds.
type data struct {
	Fields []field `json:"fields"`
}

// Convert fills dst from src, of which it changes and keeps nothing. An error means that src can not be written as JSON,
// which an API server never sends.
func Convert[From, To client.Object](src From, dst To, rules Rules[From, To]) error {
	shared := src.DeepCopyObject().(From)
	*metadata(dst) = *metadata(shared)
	carried := take(dst)

	rules.There(shared, dst)
	for _, f := range carried.Fields {
		f.restore(dst)
	}
	if rules.Settle != nil {
		rules.Settle(src, dst)
	}

	echo := reflect.New(reflect.TypeOf(src).Elem()).Interface().(From)
	*metadata(echo) = *metadata(src)
	rules.Back(dst, echo)
	lost, err := differences(echo, src)
	if err != nil || len(lost) == 0 {
		return err
	}
	return put(dst, data{Fields: lost})
}

// metadata of an object, which has to embed metav1.ObjectMeta.
func metadata(o client.Object) *metav1.ObjectMeta {
	return o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// take removes the annotation from an object and returns what it held. What can not be read, because somebody else wrote
// it, is as good as nothing: an object that can not be converted could not even be deleted.
func take(o client.Object) data {
	var held data
	text, ok := o.GetAnnotations()[Annotation]
	if !ok {
		return held
	}
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, Annotation)
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return data{}
	}
	return held
}

// put adds the annotation to an object.
func put(o client.Object, held data) error {
	text, err := encode(held)
	if err != nil {
		return err
	}
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = string(text)
	o.SetAnnotations(annotations)
	return nil
}
