// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// Writer sends the writes of a run, each only if check succeeds. It has no method for requests that a migration must not send, such as DELETE.
type Writer struct {
	client client.Client
	check  func() error
}

// Fence returns a writer that calls check before each write.
func Fence(c client.Client, check func() error) *Writer {
	return &Writer{client: client.WithFieldOwner(c, migrate.FieldManager), check: check}
}

// Create creates an object.
func (w *Writer) Create(ctx context.Context, object client.Object) error {
	if err := w.check(); err != nil {
		return err
	}
	return w.client.Create(ctx, object)
}

// Update replaces an object.
func (w *Writer) Update(ctx context.Context, object client.Object) error {
	if err := w.check(); err != nil {
		return err
	}
	return w.client.Update(ctx, object)
}

// Patch patches an object, or its subresource if that is not empty.
func (w *Writer) Patch(ctx context.Context, object client.Object, subresource string, patch client.Patch) error {
	if err := w.check(); err != nil {
		return err
	}
	if subresource == "" {
		return w.client.Patch(ctx, object, patch)
	}
	return w.client.SubResource(subresource).Patch(ctx, object, patch)
}
