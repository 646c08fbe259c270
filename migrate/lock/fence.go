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

package lock

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errDelete: a migration takes nothing away.
var errDelete = errors.New("captctl migrate deletes nothing")

// Fence is a client that asks check before each write, and deletes nothing.
func Fence(c client.Client, check func() error) client.Client {
	return fence{Client: c, check: check}
}

type fence struct {
	client.Client
	check func() error
}

func (f fence) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.Client.Create(ctx, object, options...)
}

func (f fence) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.Client.Update(ctx, object, options...)
}

func (f fence) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.Client.Patch(ctx, object, patch, options...)
}

func (f fence) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.Client.Apply(ctx, object, options...)
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
	check func() error
}

func (f subresourceFence) Create(ctx context.Context, object, subresource client.Object, options ...client.SubResourceCreateOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.SubResourceClient.Create(ctx, object, subresource, options...)
}

func (f subresourceFence) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.SubResourceClient.Update(ctx, object, options...)
}

func (f subresourceFence) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.SubResourceClient.Patch(ctx, object, patch, options...)
}

func (f subresourceFence) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.SubResourceClient.Apply(ctx, object, options...)
}
