// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// statusIsCurrent reports whether the status is of the current generation. Ready cannot show this, because it stays True while an update is
// applied. provider-terraform v1 sets observedGeneration of Synced. Before v1, a successful update changes neither condition, but any status
// that was written after the change is about that change: the API server rejects a status write of a provider that has not read the change.
func (l *Live) statusIsCurrent(last *infrav1.WorkspaceUpdate) bool {
	generation := l.GetGeneration()
	if synced := l.condition(conditionSynced); synced != nil && synced.ObservedGeneration != 0 {
		return synced.ObservedGeneration == generation
	}
	if generation <= 1 {
		return true // Not changed since its creation.
	}
	if last != nil && last.Generation == generation {
		return last.StatusHash == "" || last.StatusHash != l.statusHash()
	}
	// Another client changed the Workspace, or the record is lost, so compare the times in managedFields. They have whole seconds: a status of
	// the same second may be older than the change. managedFields do not record removed fields, so this can be late by one poll interval of
	// the provider, ten minutes.
	changed := lastChange(l)
	return changed.IsZero() || l.typed.LastStatus().After(changed)
}

// UpdateRecord returns the record of a change of the Workspace, for the status of the WorkspaceTemplateApply.
func (l *Live) UpdateRecord() *infrav1.WorkspaceUpdate {
	return &infrav1.WorkspaceUpdate{Generation: l.GetGeneration(), StatusHash: l.statusHash()}
}

// RefreshRecord returns the record of the last change for the next reconcile. Once the provider has reported the change, the record keeps that
// result. It is nil if the provider reports the generation, which needs no record.
func (l *Live) RefreshRecord(last *infrav1.WorkspaceUpdate) *infrav1.WorkspaceUpdate {
	synced := l.condition(conditionSynced)
	switch {
	case !l.statusIsCurrent(last):
		return last
	case synced == nil || synced.ObservedGeneration != 0 || l.GetGeneration() <= 1:
		return nil
	}
	return &infrav1.WorkspaceUpdate{Generation: l.GetGeneration()}
}

// statusHash is a hash of the status of the Workspace.
func (l *Live) statusHash() string {
	data, err := json.Marshal(l.Unstructured.Object["status"])
	if err != nil {
		return "" // Cannot happen: it was decoded from JSON.
	}
	return hash(data)
}

// createPending is the annotation in which the provider records when the first apply starts.
const createPending = "crossplane.io/external-create-pending"

// Started returns when Terraform started to apply the current spec; zero if it has not. For a Workspace that was applied before, that is the
// time of its last change, because the provider does not record the start. known is the result of the last call: the provider updates the
// annotation at each retry, but the operation is the same until the Workspace changes.
func (l *Live) Started(known time.Time) time.Time {
	changed := lastChange(l)
	began, _ := time.Parse(time.RFC3339, l.GetAnnotations()[createPending]) // Missing or invalid means not started.
	switch {
	case l.unreported(): // The annotation is of before a move.
		return time.Time{}
	case !known.IsZero() && !known.Before(changed):
		return known
	case began.IsZero() && l.condition(conditionReady) == nil:
		return time.Time{}
	case began.After(changed):
		return began
	}
	return changed
}

// lastChange is when the spec of the Workspace was last changed; zero if unknown.
func lastChange(live *Live) (changed time.Time) {
	return terraform.LatestWrite(live.Unstructured, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.FieldsV1 != nil && strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:spec"`)
	})
}

// InProgress reports whether Terraform is creating, changing or destroying the resources of a Workspace, or is about to. last is the change
// that status records; class is the class of the current error.
//
// A transient error does not end the operation: the provider retries, and AWS may continue. Any other error ends the operation although the
// provider retries, and so does any error before apply or destroy: otherwise a module that cannot be downloaded would block the queued
// Workspaces forever. A repair of drift is not detected.
func InProgress(live *Live, last *infrav1.WorkspaceUpdate, class failure.Class) bool {
	ready, synced := live.condition(conditionReady), live.condition(conditionSynced)
	switch {
	case synced != nil && synced.Reason == reasonPaused:
		return false
	case live.failed() && isCurrent(live, synced) && (!live.Deleting() || !isApplyError(synced)):
		return class.IsTransient() && !isPlanError(synced)
	}
	done := isTrue(ready) && isTrue(synced) || live.unreported()
	return live.Deleting() || !done || !live.statusIsCurrent(last)
}

// isPlanError reports whether a condition is an error before terraform apply or destroy.
func isPlanError(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "connect failed") || strings.HasPrefix(synced.Message, "observe failed")
}
