// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition of provider-terraform, and its reason while the Workspace is paused.
const (
	ConditionSynced = "Synced"
	ReasonPaused    = "ReconcilePaused"
)

// Failure returns condition Synced if it is an error, of any generation; nil if the Workspace has no error.
func (w *Workspace) Failure() *metav1.Condition {
	synced := meta.FindStatusCondition(w.Status.Conditions, ConditionSynced)
	if synced == nil || synced.Status != metav1.ConditionFalse || synced.Reason == ReasonPaused {
		return nil
	}
	return synced
}

// LastStatus is when the provider last changed the status; zero if unknown.
func (w *Workspace) LastStatus() time.Time {
	return LatestWrite(w, func(entry metav1.ManagedFieldsEntry) bool { return entry.Subresource == "status" })
}

// LatestWrite is the time of the latest matching write of an object; zero if there is none.
func LatestWrite(object metav1.Object, matches func(metav1.ManagedFieldsEntry) bool) (last time.Time) {
	for _, entry := range object.GetManagedFields() {
		if entry.Time != nil && entry.Time.After(last) && matches(entry) {
			last = entry.Time.Time
		}
	}
	return last
}
