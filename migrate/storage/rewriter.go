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
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

// conflicts is how often, and how far apart, a write is tried again because somebody else has written in between. Controllers
// write status in bursts.
var conflicts = wait.Backoff{Steps: 12, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.5, Cap: 2 * time.Second}

// Rewriter rewrites objects. It can be used by many at a time.
type Rewriter struct {
	client client.Client
}

// NewRewriter makes a Rewriter of a client without a cache: what it reads must be what is stored.
func NewRewriter(c client.Client) *Rewriter { return &Rewriter{client: c} }

// result is what became of an object.
type result int

const (
	// unchanged: what is stored was of today already, and the API server wrote nothing.
	unchanged result = iota
	// written: it is of today now.
	written
	// gone: there is no such object any more.
	gone
)

// Rewrite makes the API server store an object in today's version, with owner references and managedFields that speak of
// today's version only. changed tells whether anything was written: nothing is where everything is of today already. An object
// that is gone needs nothing. Another object of the same name is an error that is migrate.Stale.
//
// It takes one write, conditional on what was read. Where owner references move, a second one gives their ownership back to
// whoever had it (see ownership.Settle). Interrupted at any point, it can be done again, with the same end.
func (r *Rewriter) Rewrite(ctx context.Context, item migrate.StorageItem) (changed bool, err error) {
	outcome, err := r.rewrite(ctx, item.ObjectRef, ownership.Next)
	return outcome == written, err
}

// step says how an object is to be written next, and whether it has to be settled afterwards.
type step func(*unstructured.Unstructured) (next *unstructured.Unstructured, more bool, err error)

// asItIs writes an object without a change.
func asItIs(live *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	return live.DeepCopy(), false, nil
}

func (r *Rewriter) rewrite(ctx context.Context, ref migrate.ObjectRef, first step) (outcome result, err error) {
	err = retry.RetryOnConflict(conflicts, func() error {
		live, err := r.read(ctx, ref)
		if err != nil {
			return err
		}
		next, more, err := first(live)
		if err != nil {
			return err
		}
		differs := !reflect.DeepEqual(live.Object, next.Object) // A dry run keeps the resourceVersion.
		moved, err := r.put(ctx, live, next)
		if moved || differs && err == nil {
			outcome = written
		}
		if err != nil || !more {
			return err
		}
		return r.settle(ctx, next)
	})
	if apierrors.IsNotFound(err) {
		return gone, nil
	}
	if err != nil {
		return outcome, fmt.Errorf("rewriting %s: %w", ref, err)
	}
	return outcome, nil
}

// settle does the second write, to the object as the first one has left it.
func (r *Rewriter) settle(ctx context.Context, live *unstructured.Unstructured) error {
	next, err := ownership.Settle(live)
	if err != nil {
		return err
	}
	_, err = r.put(ctx, live, next)
	return err
}

// read returns an object, if it is the one that is meant.
func (r *Rewriter) read(ctx context.Context, ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: ref.Group, Version: migrate.Version, Kind: ref.Kind})
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return nil, err
	}
	if ref.UID != "" && object.GetUID() != ref.UID {
		return nil, migrate.Stale.Errorf("it is another object by now: its UID is %s, and was %s", object.GetUID(), ref.UID)
	}
	return object, nil
}

// put writes next, which was made of live, if live is still what is stored. next becomes what is stored then. It returns
// whether the API server has stored anything.
func (r *Rewriter) put(ctx context.Context, live, next *unstructured.Unstructured) (bool, error) {
	err := r.client.Update(ctx, next, client.FieldOwner(migrate.FieldManager))
	if apierrors.IsInvalid(err) {
		err = r.putOlder(ctx, live, next, err)
	}
	if err != nil {
		return false, err
	}
	if next.GetGeneration() != live.GetGeneration() {
		return true, migrate.NotVerified.Errorf("its generation was %d and is %d, though nothing was changed in it: something writes into what passes through the API server", live.GetGeneration(), next.GetGeneration())
	}
	return next.GetResourceVersion() != live.GetResourceVersion(), nil
}

// putOlder writes an object in the older version. There are objects that break the schema of today's version in a way that the
// API server holds against every write, even one that changes nothing: those without a spec, and some with two list elements
// of one name. The older version admits them, and what it admits is stored in today's.
func (r *Rewriter) putOlder(ctx context.Context, live, next *unstructured.Unstructured, refusal error) error {
	version := next.GroupVersionKind()
	older := &unstructured.Unstructured{}
	older.SetGroupVersionKind(version.GroupKind().WithVersion(migrate.LegacyVersion))
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(live), older); err != nil {
		return refusal
	}
	older.SetResourceVersion(live.GetResourceVersion())
	for _, name := range []string{"ownerReferences", "managedFields"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(next.Object, "metadata", name); found {
			if err := unstructured.SetNestedField(older.Object, value, "metadata", name); err != nil {
				return err
			}
		}
	}
	if err := r.client.Update(ctx, older, client.FieldOwner(migrate.FieldManager)); err != nil {
		if apierrors.IsInvalid(err) {
			return refusal
		}
		return err
	}
	now, err := r.read(ctx, migrate.ObjectRef{
		Group: version.Group, Kind: version.Kind, Namespace: next.GetNamespace(), Name: next.GetName(), UID: next.GetUID(),
	})
	if err != nil {
		return err
	}
	*next = *now
	return nil
}
