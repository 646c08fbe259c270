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
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
)

// Next returns an object, read in v1beta2, as it should be written next. Written once or twice, it speaks of v1beta2 only:
// owner references keep everything but their API version, and every manager keeps its fields. An object that has nothing to
// change is returned as it is.
//
// more tells that what the API server returns for it has to be settled.
func Next(live *unstructured.Unstructured) (next *unstructured.Unstructured, more bool, err error) {
	next = live.DeepCopy()
	entries, err := read(live)
	if err != nil {
		return nil, false, err
	}
	older := slices.ContainsFunc(entries, func(e entry) bool { return isOlder(e.ManagedFieldsEntry) })
	if older {
		if entries, err = moveEntries(live, entries); err != nil {
			return nil, false, err
		}
	}
	changed := setVersions(next, today)
	return finish(next, entries, older, changed)
}

// Back returns an object, read in v1beta2, with owner references as they were: those that moved have their older API version
// again. References that were added since are left alone. It is an error when one of them is gone, or names something else.
//
// more tells that what the API server returns for it has to be settled.
func Back(live *unstructured.Unstructured, were []metav1.OwnerReference) (next *unstructured.Unstructured, more bool, err error) {
	versions, err := older(live.GetOwnerReferences(), were)
	if err != nil {
		return nil, false, err
	}
	entries, err := read(live)
	if err != nil {
		return nil, false, err
	}
	next = live.DeepCopy()
	changed := setVersions(next, func(reference metav1.OwnerReference) string {
		if version, ok := versions[reference.UID]; ok {
			return version
		}
		return reference.APIVersion
	})
	return finish(next, entries, false, changed)
}

// Settle returns an object as it should be written after a write that has changed owner references: whoever owned them owns
// them again, and captctl does not. An object in which captctl was interrupted before that is settled by Next and Back, too.
func Settle(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	entries, err := read(live)
	if err != nil {
		return nil, err
	}
	next, _, err := finish(live.DeepCopy(), entries, false, nil)
	return next, err
}

// finish puts entries into an object whose references have changed, or not. rewritten says that they are not those of before.
func finish(next *unstructured.Unstructured, entries []entry, rewritten bool, changed []types.UID) (*unstructured.Unstructured, bool, error) {
	if len(changed) > 0 {
		if len(entries) == 0 {
			return next, false, nil // Nobody's ownership is tracked, and nothing begins to track it.
		}
		return next, true, write(next, takeNotes(entries, next.GetAPIVersion(), changed))
	}
	if slices.ContainsFunc(entries, func(e entry) bool { return len(e.notes()) > 0 }) {
		giveBack(entries)
		rewritten = true
	}
	if !rewritten {
		return next, false, nil
	}
	return next, false, write(next, entries)
}

// older are the API versions that references had, by the UID of the owner.
func older(are, were []metav1.OwnerReference) (map[types.UID]string, error) {
	versions := map[types.UID]string{}
	for _, was := range were {
		i := slices.IndexFunc(are, func(is metav1.OwnerReference) bool { return is.UID == was.UID })
		if i < 0 {
			return nil, migrate.Stale.Errorf("the owner reference to %s %s is gone", was.Kind, was.Name)
		}
		is := are[i]
		if is.APIVersion != was.APIVersion && is.APIVersion != today(was) || is.Kind != was.Kind || is.Name != was.Name ||
			!equalFlag(is.Controller, was.Controller) || !equalFlag(is.BlockOwnerDeletion, was.BlockOwnerDeletion) {
			return nil, migrate.Stale.Errorf("the owner reference to %s %s was changed", was.Kind, was.Name)
		}
		versions[was.UID] = was.APIVersion
	}
	return versions, nil
}

func equalFlag(a, b *bool) bool { return (a != nil && *a) == (b != nil && *b) }

// Speaks tells of which older versions an object still speaks, in words; empty when of none.
func Speaks(object metav1.Object) (found []string) {
	for _, reference := range object.GetOwnerReferences() {
		if migrate.IsOlder(reference.APIVersion) {
			found = append(found, fmt.Sprintf("owner reference to %s %s of %s", reference.Kind, reference.Name, reference.APIVersion))
		}
	}
	for _, managed := range object.GetManagedFields() {
		if isOlder(managed) {
			found = append(found, fmt.Sprintf("managed fields of %s, written in %s", managed.Manager, managed.APIVersion))
		}
	}
	return found
}
