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

package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/capt-provider/capt/migrate"
)

// setVersions gives owner references other API versions, and nothing else, by the UIDs of the owners. It returns the UIDs of
// those that had another one.
func setVersions(object *unstructured.Unstructured, version func(metav1.OwnerReference) string) (changed []types.UID) {
	parsed := object.GetOwnerReferences()
	references, _, _ := unstructured.NestedFieldNoCopy(object.Object, "metadata", "ownerReferences")
	list, _ := references.([]any)
	for i, element := range list {
		reference, ok := element.(map[string]any)
		if !ok || i >= len(parsed) {
			continue
		}
		if want := version(parsed[i]); want != parsed[i].APIVersion {
			reference["apiVersion"] = want
			changed = append(changed, parsed[i].UID)
		}
	}
	return changed
}

// today is the API version of a reference in which an older one of CAPT is today's.
func today(reference metav1.OwnerReference) string {
	if !migrate.IsOlder(reference.APIVersion) {
		return reference.APIVersion
	}
	version, _ := schema.ParseGroupVersion(reference.APIVersion) // IsOlder has parsed it.
	return schema.GroupVersion{Group: version.Group, Version: migrate.Version}.String()
}

// Whoever changes an owner reference owns it from then on: the API server takes it away from all others. So captctl would own
// the references that it moves, and GitOps tools would be refused what they always wrote. A second write, of managedFields
// alone, gives them back. Between the two writes captctl may be killed, or another one may go on elsewhere, so the first one
// takes a note of who owned what, where the API server keeps it and nothing else reads it: in the managedFields of those who
// owned it, as an element of the list in a form that can not occur there.

var references = fieldpath.MakePathOrDie("metadata", "ownerReferences")

// reference is the field of a reference to an owner.
func reference(owner types.UID) fieldpath.Path {
	return append(references.Copy(), fieldpath.PathElement{Key: fieldpath.KeyByFields("uid", string(owner))})
}

// note says that a reference to an owner is to be given back. The list is one with keys; this is an element by its value.
func note(owner types.UID) fieldpath.Path {
	v := value.NewValueInterface(string(owner))
	return append(references.Copy(), fieldpath.PathElement{Value: &v})
}

// takeNotes notes in all entries who owns references that are about to change.
func takeNotes(entries []entry, apiVersion string, changed []types.UID) []entry {
	own := indexOf(entries, writer())
	if own < 0 {
		entries, own = append(entries, entry{ManagedFieldsEntry: writer(), set: fieldpath.NewSet()}), len(entries)
		entries[own].APIVersion = apiVersion
	}
	for _, owner := range changed {
		for i := range entries {
			if i == own || entries[i].set.Has(reference(owner)) {
				entries[i].set.Insert(note(owner))
			}
		}
	}
	return entries
}

// writer is the entry of captctl itself.
func writer() metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: migrate.FieldManager, Operation: metav1.ManagedFieldsOperationUpdate}
}

// owners of which an entry has a note.
func (e entry) notes() (owners []types.UID) {
	below := e.set
	for _, element := range references {
		children, ok := below.Children.Get(element)
		if !ok {
			return nil
		}
		below = children
	}
	below.Members.Iterate(func(element fieldpath.PathElement) {
		if element.Value != nil && (*element.Value).IsString() {
			owners = append(owners, types.UID((*element.Value).AsString()))
		}
	})
	return owners
}

// giveBack does what the notes say, and removes them: others own what they owned, and captctl does not.
func giveBack(entries []entry) {
	for i := range entries {
		for _, owner := range entries[i].notes() {
			entries[i].set = entries[i].set.Difference(fieldpath.NewSet(note(owner), reference(owner)))
			if !same(entries[i].ManagedFieldsEntry, writer()) {
				entries[i].set.Insert(reference(owner))
			}
		}
	}
}
