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
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/migrate"
)

// change is a write of one object: a step of a plan, forth or back.
type change struct {
	object      migrate.ObjectRef
	subresource string
	why         string
	uid         types.UID
	// create is the object that is created; there is no patch then, and no UID.
	create []byte
	// patch is what is sent, and opposite takes it back.
	patch, opposite []migrate.Operation
	// from and to are ContentHash before and after; there are none of a change of status.
	from, to string
	// generation is that of from, as far as it is known.
	generation int64
	// earlier are the hashes that the object has before changes of the same run that come before this one, and later those that
	// it has after changes that follow.
	earlier, later []string
}

// forth is a step as it is planned, and back takes it back.
func forth(step *migrate.Step) *change {
	return &change{
		object: step.Object, subresource: step.Subresource, why: step.Why, uid: step.Precondition.UID, generation: step.Precondition.Generation,
		create: step.Create, patch: step.Patch, opposite: step.Inverse, from: step.Precondition.Hash, to: step.Precondition.After,
	}
}

func back(step *migrate.Step) *change {
	return &change{
		object: step.Object, subresource: step.Subresource, why: "takes back: " + step.Why, uid: step.Precondition.UID,
		patch: step.Inverse, opposite: step.Patch, from: step.Precondition.After, to: step.Precondition.Hash,
	}
}

// ofContent tells whether the content of the object decides. Of status, only the patch itself can tell.
func (c *change) ofContent() bool { return c.subresource == "" && c.from != "" && c.to != "" }

// chain tells changes of the same object of each other. They are in the order in which they are made.
func chain(changes []*change) {
	previous := map[types.UID][]*change{}
	for _, c := range changes {
		if !c.ofContent() {
			continue
		}
		for _, before := range previous[c.uid] {
			before.later = append(before.later, c.to)
			c.earlier = append(c.earlier, before.from)
		}
		previous[c.uid] = append(previous[c.uid], c)
	}
}

// verdict is what a live object says about a change.
type verdict int

const (
	// due: the object is as it was when the plan was made.
	due verdict = iota
	// early: it is, but another change of it comes first.
	early
	// made: the change was made already.
	made
	// stale: the object is neither.
	stale
)

// judge compares a live object, nil when it is gone, with what it should be before and after. Words are for stale only.
func (c *change) judge(live *unstructured.Unstructured) (verdict, string, error) {
	switch {
	case c.create != nil:
		return c.judgeCreated(live)
	case live == nil:
		return stale, "it is gone", nil
	case live.GetUID() != c.uid:
		return stale, fmt.Sprintf("it was deleted and made anew: its UID is %s and was %s", live.GetUID(), c.uid), nil
	case !c.ofContent():
		return c.judgePatch(live)
	}
	return c.judgeContent(live)
}

// judgeContent compares the hash of a live object with those before and after the change.
func (c *change) judgeContent(live *unstructured.Unstructured) (verdict, string, error) {
	hash, err := migrate.ContentHash(live)
	if err != nil {
		return stale, "", err
	}
	switch {
	case hash == c.to || slices.Contains(c.later, hash):
		return made, "", nil
	case hash == c.from:
		return due, "", nil
	case slices.Contains(c.earlier, hash):
		return early, "", nil
	case live.GetDeletionTimestamp() != nil:
		return stale, "it is being deleted", nil
	case c.generation != 0 && live.GetGeneration() != c.generation:
		return stale, fmt.Sprintf("its spec or its owners changed: its generation is %d and was %d", live.GetGeneration(), c.generation), nil
	}
	return stale, "its spec or its owners changed", nil
}

// judgeCreated compares what has the name of an object that is created. After a rollback it is there already.
func (c *change) judgeCreated(live *unstructured.Unstructured) (verdict, string, error) {
	if live == nil {
		return due, "", nil
	}
	hash, err := migrate.ContentHash(live)
	if err != nil || hash != c.to {
		return stale, "it exists, and its spec is not the one that the plan creates", err
	}
	return made, "", nil
}

// judgePatch tries the patch. One that changes nothing was made already; so was one that can not be applied, if taking it back
// and making it again gives the object as it is. One is due if taking it back gives the object as it is: otherwise it would
// overwrite what somebody else has written.
func (c *change) judgePatch(live *unstructured.Unstructured) (verdict, string, error) {
	document, err := live.MarshalJSON()
	if err != nil {
		return stale, "", fmt.Errorf("encoding %s: %w", c.object, err)
	}
	after, err := apply(document, c.patch)
	switch {
	case err == nil && jsonpatch.Equal(document, after):
		return made, "", nil
	case err == nil && gives(document, after, c.opposite):
		return due, "", nil
	case err == nil:
		return stale, "its status changed", nil
	}
	if before, inverse := apply(document, c.opposite); inverse == nil && gives(document, before, c.patch) {
		return made, "", nil
	}
	return stale, fmt.Sprintf("its status changed: %v", err), nil
}

// gives tells whether a patch of a document gives another one.
func gives(wanted, document []byte, operations []migrate.Operation) bool {
	patched, err := apply(document, operations)
	return err == nil && jsonpatch.Equal(wanted, patched)
}

func apply(document []byte, operations []migrate.Operation) ([]byte, error) {
	data, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	return patch.Apply(document)
}

// guarded is the patch behind tests that the object is the one that was read.
func (c *change) guarded(live *unstructured.Unstructured) ([]byte, error) {
	tests := make([]migrate.Operation, 0, 2+len(c.patch))
	for _, test := range [][2]string{{"/metadata/uid", string(live.GetUID())}, {"/metadata/resourceVersion", live.GetResourceVersion()}} {
		value, err := json.Marshal(test[1])
		if err != nil {
			return nil, err
		}
		tests = append(tests, migrate.Operation{Op: "test", Path: test[0], Value: value})
	}
	return json.Marshal(append(tests, c.patch...))
}

// kindOf is the kind of an object in the version in which captctl reads and writes it.
func kindOf(ref migrate.ObjectRef) (schema.GroupVersionKind, error) {
	for _, kind := range migrate.Kinds() {
		if kind.Group == ref.Group && kind.Kind == ref.Kind {
			return kind.GroupVersionKind, nil
		}
	}
	if cluster := clusterv1.GroupVersion.WithKind("Cluster"); cluster.Group == ref.Group && cluster.Kind == ref.Kind {
		return cluster, nil
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%s of group %q is nothing that a migration writes", ref, ref.Group)
}
