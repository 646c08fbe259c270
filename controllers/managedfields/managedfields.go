// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package managedfields detects and restores lost managedFields, without which server-side apply removes no fields.
package managedfields

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// beforeFirstApply is the manager to which the API server gives all fields of an object without managedFields at the first
// apply. Later applies keep the fields that it owns.
const beforeFirstApply = "before-first-apply"

// Lost reports whether the managedFields of an object that the manager applied were lost, so that an apply would no longer
// remove fields. API servers before 1.37 drop all managedFields when a conversion webhook is down (kubernetes#136919), and record
// nothing before the next apply. An object that the manager never applied has the managedFields of other managers.
func Lost(live metav1.Object, manager string) bool {
	entries := live.GetManagedFields()
	own, earlier := appliedFields(entries, manager), indexOf(entries, beforeFirstApply)
	if own == nil {
		return len(entries) == 0 || earlier >= 0
	}
	if earlier < 0 {
		return false
	}
	fields := fieldsOf(entries[earlier])
	return fields != nil && !fields.Intersection(withParents(own)).Empty()
}

// Restore removes the fields that the manager has applied from those of beforeFirstApply. It changes managedFields alone:
// neither the generation nor other metadata.
func Restore(ctx context.Context, c client.Client, live client.Object, manager string) error {
	entries := slices.Clone(live.GetManagedFields())
	own, earlier := appliedFields(entries, manager), indexOf(entries, beforeFirstApply)
	if own == nil || earlier < 0 || !Lost(live, manager) {
		return nil
	}
	rest := fieldsOf(entries[earlier]).Difference(withParents(own))
	if rest.Empty() {
		entries = slices.Delete(entries, earlier, earlier+1)
	} else {
		data, err := rest.ToJSON()
		if err != nil {
			return fmt.Errorf("encoding managedFields: %w", err)
		}
		entries[earlier].FieldsV1 = metav1.NewFieldsV1(string(data))
	}
	before := live.DeepCopyObject().(client.Object)
	live.SetManagedFields(entries)
	if err := c.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("restoring managedFields of %s: %w", live.GetName(), err)
	}
	return nil
}

// appliedFields are the fields that the manager applied; nil when it applied none.
func appliedFields(entries []metav1.ManagedFieldsEntry, manager string) *fieldpath.Set {
	for _, entry := range entries {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return fieldsOf(entry)
		}
	}
	return nil
}

func indexOf(entries []metav1.ManagedFieldsEntry, manager string) int {
	return slices.IndexFunc(entries, func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == manager })
}

// fieldsOf decodes an entry; nil when it cannot be decoded.
func fieldsOf(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	fields := &fieldpath.Set{}
	if entry.FieldsV1 == nil || fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) != nil {
		return nil
	}
	return fields
}

// withParents adds the maps and items that hold the fields of a set. Otherwise they would stay, empty, when their last field is
// removed.
func withParents(fields *fieldpath.Set) *fieldpath.Set {
	out := &fieldpath.Set{}
	for path := range fields.All() {
		for i := range path {
			out.Insert(path[:i+1])
		}
	}
	return out
}
