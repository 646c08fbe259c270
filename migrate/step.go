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

package migrate

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is what a step does, and what takes it back, in the order of doing.
type change struct {
	patch, inverse []Operation
}

// add gives a field that is not there a value.
func (c *change) add(path string, value any) {
	c.patch = append(c.patch, operation("add", path, value))
	c.inverse = append([]Operation{operation("test", path, value), {Op: "remove", Path: path}}, c.inverse...)
}

// replace gives a field another value.
func (c *change) replace(path string, before, after any) {
	c.patch = append(c.patch, operation("test", path, before), operation("replace", path, after))
	c.inverse = append([]Operation{operation("test", path, after), operation("replace", path, before)}, c.inverse...)
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
	c.inverse = append([]Operation{operation("test", path, owner), {Op: "remove", Path: path}}, c.inverse...)
}

func operation(op, path string, value any) Operation {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // Strings, lists and API types of ours can be encoded.
	}
	return Operation{Op: op, Path: path, Value: data}
}

// step makes the step of a change of an object's spec or metadata; none when nothing changes.
func (s *Snapshot) step(kind string, object client.Object, why string, c change) ([]Step, error) {
	if len(c.patch) == 0 {
		return nil, nil
	}
	document, found := s.Raw[object.GetUID()]
	if !found {
		return nil, fmt.Errorf("%s %s/%s is not in the snapshot", kind, object.GetNamespace(), object.GetName())
	}
	before, err := document.Object()
	if err != nil {
		return nil, err
	}
	hash, err := ContentHash(before)
	if err != nil {
		return nil, err
	}
	after, err := document.patched(c.patch)
	if err != nil {
		return nil, fmt.Errorf("patching %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	hashAfter, err := ContentHash(after)
	if err != nil {
		return nil, err
	}
	return []Step{{
		Object: Ref(kind, object), Why: why, Patch: c.patch, Inverse: c.inverse,
		Precondition: Precondition{UID: object.GetUID(), Generation: object.GetGeneration(), Hash: hash, After: hashAfter},
	}}, nil
}

// statusStep makes the step of a change of an object's status; none when nothing changes.
func statusStep(kind string, object client.Object, why string, c change) []Step {
	if len(c.patch) == 0 {
		return nil
	}
	return []Step{{
		Object: Ref(kind, object), Subresource: "status", Why: why, Patch: c.patch, Inverse: c.inverse,
		Precondition: Precondition{UID: object.GetUID()},
	}}
}

// Patched is an object with a JSON Patch applied. It fails when a test of the patch does.
func Patched(object *unstructured.Unstructured, operations []Operation) (*unstructured.Unstructured, error) {
	document, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	patched, err := Document(document).patched(operations)
	if err != nil {
		return nil, fmt.Errorf("patching %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return patched, nil
}

func (d Document) patched(operations []Operation) (*unstructured.Unstructured, error) {
	operationsJSON, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(operationsJSON)
	if err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	document, err := patch.Apply(d)
	if err != nil {
		return nil, err
	}
	return Document(document).Object()
}

// Ref refers to an object of one of CAPT's kinds.
func Ref(kind string, object metav1.Object) ObjectRef {
	ref := ObjectRef{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	for _, known := range Kinds() {
		if known.Kind == kind {
			ref.Group = known.Group
		}
	}
	return ref
}

func workspaceRef(workspace *unstructured.Unstructured) *ObjectRef {
	return &ObjectRef{
		Group: workspace.GroupVersionKind().Group, Kind: workspace.GetKind(),
		Namespace: workspace.GetNamespace(), Name: workspace.GetName(), UID: workspace.GetUID(),
	}
}
