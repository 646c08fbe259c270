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

// errGone ends a reconcile whose object disappeared in the meantime: nothing may be done for it any more.
var errGone = errors.New("the object is gone")

// Patch writes metadata and spec of the reconciled object, if change changes them. The API server refuses the write when our
// cache was behind. After an error the object is as it was, so that status does not tell of what was not written.
func Patch[O client.Object](ctx context.Context, c client.Client, obj O, change func()) error {
	original := obj.DeepCopyObject().(O)
	if change(); equality.Semantic.DeepEqual(original, obj) {
		return nil
	}
	wanted := obj.DeepCopyObject().(O)
	restore(obj, original)
	if err := c.Patch(ctx, wanted, client.MergeFromWithOptions(original, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsNotFound(err) {
			return errGone
		}
		return fmt.Errorf("writing metadata or spec: %w", stale(err))
	}
	restore(obj, wanted)
	return nil
}

// restore makes an object what another one of its type is.
func restore[O client.Object](obj, state O) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(state).Elem())
}
