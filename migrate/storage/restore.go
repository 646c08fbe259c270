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
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

// Restore gives an object the owner references back that it had before Rewrite, for a rollback: those of item. References that
// were added since are left to whoever added them. It writes nothing where they are as they were, and is an error that is
// migrate.Stale when one of them was changed or removed since, or the object is another one or gone. What is stored remains of
// today's version, and managedFields speak of it: that is the same ownership.
// It tells whether it wrote.
func (r *Rewriter) Restore(ctx context.Context, item migrate.StorageItem) (wrote bool, err error) {
	if len(item.OwnerReferences) == 0 {
		return false, nil
	}
	err = retry.RetryOnConflict(conflicts, func() error {
		live, err := r.read(ctx, item.ObjectRef)
		if apierrors.IsNotFound(err) {
			return migrate.Stale.Errorf("it is gone")
		}
		if err != nil {
			return err
		}
		next, more, err := ownership.Back(live, item.OwnerReferences)
		if err != nil {
			return err
		}
		sent, err := r.patch(ctx, live, next)
		wrote = wrote || sent
		if err != nil || !more {
			return err
		}
		if live, err = r.read(ctx, item.ObjectRef); err != nil {
			return err
		}
		if next, err = ownership.Settle(live); err != nil {
			return err
		}
		_, err = r.patch(ctx, live, next)
		return err
	})
	if err != nil {
		return wrote, fmt.Errorf("restoring the owner references of %s: %w", item.ObjectRef, err)
	}
	return wrote, nil
}

// patch writes the owner references and managedFields of next, if live is still what is stored, and they differ.
func (r *Rewriter) patch(ctx context.Context, live, next *unstructured.Unstructured) (wrote bool, err error) {
	operations, err := same(live)
	if err != nil {
		return false, err
	}
	conditions := len(operations)
	for _, name := range []string{"ownerReferences", "managedFields"} {
		was, err := member(live, name)
		if err != nil {
			return false, err
		}
		is, err := member(next, name)
		if err != nil {
			return false, err
		}
		if string(was) == string(is) {
			continue
		}
		if name == "ownerReferences" {
			operations = append(operations, migrate.Operation{Op: "test", Path: "/metadata/" + name, Value: was})
		}
		operations = append(operations, migrate.Operation{Op: "replace", Path: "/metadata/" + name, Value: is})
	}
	if len(operations) == conditions {
		return false, nil
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return false, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(live.GroupVersionKind())
	object.SetNamespace(live.GetNamespace())
	object.SetName(live.GetName())
	err = r.client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(migrate.FieldManager))
	if apierrors.IsInvalid(err) { // So is a patch of which a test fails, since somebody has written in between.
		err = r.outdated(ctx, live, err)
	}
	return err == nil, err
}

// same are the tests that an object is still what was read.
func same(object *unstructured.Unstructured) (tests []migrate.Operation, err error) {
	for _, name := range []string{"uid", "resourceVersion"} {
		value, err := member(object, name)
		if err != nil {
			return nil, err
		}
		tests = append(tests, migrate.Operation{Op: "test", Path: "/metadata/" + name, Value: value})
	}
	return tests, nil
}

// outdated is a conflict when an object is no longer what it was, and else the error.
func (r *Rewriter) outdated(ctx context.Context, was *unstructured.Unstructured, refusal error) error {
	kind := was.GroupVersionKind()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(kind)
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(was), now); err != nil {
		return err
	}
	if now.GetResourceVersion() == was.GetResourceVersion() {
		return refusal
	}
	return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, was.GetName(), refusal)
}

func member(object *unstructured.Unstructured, name string) (json.RawMessage, error) {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}
