// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// change is what a step does, and what takes it back, in the order of doing.
type change struct {
	patch, inverse []migrate.Operation
}

// add gives a field that is not there a value.
func (c *change) add(path string, value any) {
	c.patch = append(c.patch, operation("add", path, value))
	c.inverse = append([]migrate.Operation{operation("test", path, value), {Op: "remove", Path: path}}, c.inverse...)
}

// replace gives a field another value.
func (c *change) replace(path string, before, after any) {
	c.patch = append(c.patch, operation("test", path, before), operation("replace", path, after))
	c.inverse = append([]migrate.Operation{operation("test", path, after), operation("replace", path, before)}, c.inverse...)
}

// own adds an owner reference behind those that are there, or takes the place of one of the same owner: two of one UID are not
// permitted to whoever applies.
func (c *change) own(object metav1.Object, owner metav1.OwnerReference) {
	for i, before := range object.GetOwnerReferences() {
		if before.UID == owner.UID {
			c.replace(fmt.Sprintf("/metadata/ownerReferences/%d", i), before, owner)
			return
		}
	}
	there := len(object.GetOwnerReferences())
	if there == 0 {
		c.add("/metadata/ownerReferences", []metav1.OwnerReference{owner})
		return
	}
	path := fmt.Sprintf("/metadata/ownerReferences/%d", there)
	c.patch = append(c.patch, operation("add", path, owner))
	c.inverse = append([]migrate.Operation{operation("test", path, owner), {Op: "remove", Path: path}}, c.inverse...)
}

func operation(op, path string, value any) migrate.Operation {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // Strings, lists and API types of ours can be encoded.
	}
	return migrate.Operation{Op: op, Path: path, Value: data}
}

// step makes the step of a change of an object's spec or metadata; none when nothing changes.
func (f *fleet) step(kind string, object client.Object, why string, c change) ([]migrate.Step, error) {
	if len(c.patch) == 0 {
		return nil, nil
	}
	document, found := f.Raw[object.GetUID()]
	if !found {
		return nil, fmt.Errorf("%s %s/%s is not in the snapshot", kind, object.GetNamespace(), object.GetName())
	}
	before, err := document.Object()
	if err != nil {
		return nil, err
	}
	hash, err := migrate.ContentHash(before)
	if err != nil {
		return nil, err
	}
	after, err := document.Patched(c.patch)
	if err != nil {
		return nil, fmt.Errorf("patching %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	hashAfter, err := migrate.ContentHash(after)
	if err != nil {
		return nil, err
	}
	return []migrate.Step{{
		Object: migrate.Ref(kind, object), Why: why, Patch: c.patch, Inverse: c.inverse,
		Precondition: migrate.Precondition{UID: object.GetUID(), Generation: object.GetGeneration(), Hash: hash, After: hashAfter},
	}}, nil
}

// statusStep makes the step of a change of an object's status; none when nothing changes.
func statusStep(kind string, object client.Object, why string, c change) []migrate.Step {
	if len(c.patch) == 0 {
		return nil
	}
	return []migrate.Step{{
		Object: migrate.Ref(kind, object), Subresource: "status", Why: why, Patch: c.patch, Inverse: c.inverse,
		Precondition: migrate.Precondition{UID: object.GetUID()},
	}}
}

func workspaceRef(workspace *unstructured.Unstructured) *migrate.ObjectRef {
	return &migrate.ObjectRef{
		Group: workspace.GroupVersionKind().Group, Kind: workspace.GetKind(),
		Namespace: workspace.GetNamespace(), Name: workspace.GetName(), UID: workspace.GetUID(),
	}
}
