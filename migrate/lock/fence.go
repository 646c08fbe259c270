// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errDelete: a migration deletes nothing.
var errDelete = errors.New("captctl migrate deletes nothing")

// Fence is a client that calls check before each write, and deletes nothing.
func Fence(c client.Client, check func() error) client.Client {
	return fence{Client: c, check: check}
}

type fence struct {
	client.Client
	check gate
}

// gate is a check that comes before a write.
type gate func() error

func (g gate) pass(write func() error) error {
	if err := g(); err != nil {
		return err
	}
	return write()
}

func (f fence) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return f.check.pass(func() error { return f.Client.Create(ctx, object, options...) })
}

func (f fence) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return f.check.pass(func() error { return f.Client.Update(ctx, object, options...) })
}

func (f fence) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return f.check.pass(func() error { return f.Client.Patch(ctx, object, patch, options...) })
}

func (f fence) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return f.check.pass(func() error { return f.Client.Apply(ctx, object, options...) })
}

func (f fence) Delete(context.Context, client.Object, ...client.DeleteOption) error { return errDelete }

func (f fence) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errDelete
}

func (f fence) Status() client.SubResourceWriter { return f.SubResource("status") }

func (f fence) SubResource(name string) client.SubResourceClient {
	return subresourceFence{SubResourceClient: f.Client.SubResource(name), check: f.check}
}

type subresourceFence struct {
	client.SubResourceClient
	check gate
}

func (f subresourceFence) Create(ctx context.Context, object, subresource client.Object, options ...client.SubResourceCreateOption) error {
	return f.check.pass(func() error { return f.SubResourceClient.Create(ctx, object, subresource, options...) })
}

func (f subresourceFence) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return f.check.pass(func() error { return f.SubResourceClient.Update(ctx, object, options...) })
}

func (f subresourceFence) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return f.check.pass(func() error { return f.SubResourceClient.Patch(ctx, object, patch, options...) })
}

func (f subresourceFence) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return f.check.pass(func() error { return f.SubResourceClient.Apply(ctx, object, options...) })
}
