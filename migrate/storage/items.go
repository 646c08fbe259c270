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
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

// pageSize is how many objects are read at a time. What is kept of an object is its name and UID.
const pageSize = 500

// Items lists all objects of a kind, in a namespace or, with an empty one, in all of them. Metadata is read, in pages; of
// 5,000 objects less than a megabyte is kept.
func Items(ctx context.Context, reader client.Reader, kind migrate.Kind, namespace string) ([]migrate.StorageItem, error) {
	var items []migrate.StorageItem
	more := ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(more))
		if token, expired := expiredToken(err); expired {
			// Reading took so long that the API server has forgotten the moment at which it began. It goes on from here, at this
			// moment: what was made in between, and is missing, was stored in today's version.
			more = token
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			items = append(items, migrate.StorageItem{ObjectRef: migrate.ObjectRef{
				Group: kind.Group, Kind: kind.Kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
			}})
		}
		if more = list.Continue; more == "" {
			return items, nil
		}
	}
}

// expiredToken returns the token with which a list goes on that was interrupted for too long.
func expiredToken(err error) (string, bool) {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return "", false
	}
	return status.Status().Continue, status.Status().Continue != ""
}

// Older tells of which older versions an object still speaks, in words; empty when of none. Metadata is enough.
func Older(object metav1.Object) []string { return ownership.Speaks(object) }
