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

package engine

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get reads an object into obj and returns it, or nil when it does not exist. An error means that we could not look,
// which is something else than that it is not there.
func Get[O client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, obj O) (O, error) {
	var none O
	if err := reader.Get(ctx, key, obj); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return obj, nil
}

// Absent tells whether an error says that an object does not exist.
func Absent(err error) bool { return apierrors.IsNotFound(err) }

// NamespaceLabels reads the labels of a namespace; nil when it does not exist.
func NamespaceLabels(ctx context.Context, reader client.Reader, name string) (labels.Set, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	found, err := Get(ctx, reader, client.ObjectKey{Name: name}, object)
	if err != nil || found == nil {
		return nil, err
	}
	return labels.Merge(nil, found.Labels), nil
}
