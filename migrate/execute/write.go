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

package execute

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/retry"
)

// changedSince is why an object is not written.
type changedSince struct{ why string }

func (e changedSince) Error() string { return e.why + "; it was left as it is" }

// write makes one change, unless it is made already, and tells whether it wrote. It reads the object before each try, so that a
// conflict, or an answer that was lost, ends in the same way as a first try.
func (r *run) write(ctx context.Context, c *change) (wrote bool, err error) {
	sent := false
	err = retry.Do(ctx, func(ctx context.Context) error {
		live, err := r.read(ctx, c.object)
		if err != nil {
			return err
		}
		verdict, why, err := c.judge(live)
		if err != nil {
			return err
		}
		switch verdict {
		case made:
			wrote = sent
			return nil
		case early:
			if r.DryRun { // Nothing came first, since nothing is kept.
				return nil
			}
			return changedSince{"another step of it comes first, and was taken back"}
		case stale:
			return changedSince{why}
		case due:
		}
		version, send := "", r.create
		if live != nil {
			version, send = live.GetResourceVersion(), r.patch
		}
		if err := r.record.intend(c, version); err != nil {
			return err
		}
		sent = true
		if err := send(ctx, c, live); err != nil {
			return err
		}
		wrote = true
		return nil
	})
	return wrote, err
}

// read is an object in today's version; nil when it is gone.
func (r *run) read(ctx context.Context, ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	live, err := empty(ref)
	if err != nil {
		return nil, err
	}
	err = r.Reader.Get(ctx, client.ObjectKeyFromObject(live), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}

func empty(ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	kind, err := kindOf(ref)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(ref.Namespace)
	object.SetName(ref.Name)
	return object, nil
}

// create creates the object of a change. Another run may have been faster: then it is looked at again.
func (r *run) create(ctx context.Context, c *change, _ *unstructured.Unstructured) error {
	created := &unstructured.Unstructured{}
	if err := created.UnmarshalJSON(c.create); err != nil {
		return fmt.Errorf("decoding %s: %w", c.object, err)
	}
	err := r.writes.Create(ctx, created, client.FieldOwner(migrate.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		return retry.Again(err)
	}
	if err != nil {
		return err
	}
	return c.arrived(created)
}

// patch sends a change.
func (r *run) patch(ctx context.Context, c *change, live *unstructured.Unstructured) error {
	data, err := c.guarded(live)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	written, err := empty(c.object)
	if err != nil {
		return err
	}
	body, owner := client.RawPatch(types.JSONPatchType, data), client.FieldOwner(migrate.FieldManager)
	if c.subresource == "" {
		err = r.writes.Patch(ctx, written, body, owner)
	} else {
		err = r.writes.SubResource(c.subresource).Patch(ctx, written, body, owner)
	}
	switch {
	case apierrors.IsConflict(err):
		return retry.Again(err)
	case apierrors.IsInvalid(err) && r.moved(ctx, c, live):
		return retry.Again(err)
	case err != nil:
		return err
	}
	return c.arrived(written)
}

// moved tells whether an object changed since it was read. A test of a patch that fails is answered in the same way as a patch
// that makes the object invalid.
func (r *run) moved(ctx context.Context, c *change, live *unstructured.Unstructured) bool {
	now, err := r.read(ctx, c.object)
	return err == nil && (now == nil || now.GetUID() != live.GetUID() || now.GetResourceVersion() != live.GetResourceVersion())
}

// arrived proves that the object became what was planned. Admission may have made something else of it, which would be stale
// for every later run.
func (c *change) arrived(written *unstructured.Unstructured) error {
	if !c.ofContent() && c.create == nil {
		return nil
	}
	hash, err := migrate.ContentHash(written)
	if err == nil && hash != c.to {
		err = fmt.Errorf("it was written, but admission made something else of it than planned (%s, not %s); compare it with the plan", hash, c.to)
	}
	return err
}
