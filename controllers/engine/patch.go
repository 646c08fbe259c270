// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errDeleted ends a reconcile whose object was deleted after it was read: nothing may be created for it.
var errDeleted = errors.New("the object no longer exists")

// Patch writes metadata and spec of the reconciled object, if change modifies them. The API server rejects the write if the cache was stale.
// After an error, obj is restored, so that status does not report what was not written.
func Patch[O client.Object](ctx context.Context, c client.Client, obj O, change func()) error {
	original := obj.DeepCopyObject().(O)
	if change(); equality.Semantic.DeepEqual(original, obj) {
		return nil
	}
	wanted := obj.DeepCopyObject().(O)
	overwrite(obj, original)
	if err := c.Patch(ctx, wanted, client.MergeFromWithOptions(original, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsNotFound(err) {
			return errDeleted
		}
		return fmt.Errorf("writing metadata or spec: %w", markStale(err))
	}
	overwrite(obj, wanted)
	return nil
}

// overwrite copies the content of one object to another.
func overwrite[O client.Object](obj, state O) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(state).Elem())
}
