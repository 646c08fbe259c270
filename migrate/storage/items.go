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

package storage

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

// Items lists all objects of a kind, in a namespace or, with an empty one, in all of them. Metadata is read, in pages; of
// 5,000 objects less than a megabyte is kept.
func Items(ctx context.Context, reader client.Reader, kind migrate.Kind, namespace string) ([]migrate.StorageItem, error) {
	var items []migrate.StorageItem
	err := migrate.EachMetadata(ctx, reader, kind.GroupVersionKind, func(object *metav1.PartialObjectMetadata) error {
		items = append(items, migrate.StorageItem{ObjectRef: migrate.ObjectRef{
			Group: kind.Group, Kind: kind.Kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		}})
		return nil
	}, client.InNamespace(namespace))
	return items, err
}

// Older tells of which older versions an object still speaks, in words; empty when of none. Metadata is enough.
func Older(object metav1.Object) []string { return ownership.Speaks(object) }
