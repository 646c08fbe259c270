// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

var now = time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string, at time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at)}
}

func TestARunThatCannotStartIsRefused(t *testing.T) {
	for want, change := range map[string]func(*infrav1.WorkspaceTemplateApply){
		"": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition("Ready", "False", infrav1.ApplyFailedReason, "denied", now)}
		},
		"it is being deleted, and no attempt of Terraform to destroy it has failed": func(a *infrav1.WorkspaceTemplateApply) { a.DeletionTimestamp = &metav1.Time{Time: now} },
		"it has no Workspace yet": func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef = nil },
		"Paused: by the Cluster": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition(clusterv1.PausedCondition, "True", "Paused", "by the Cluster", now)}
		},
		"VariableMissing: zones": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition("Rendered", "False", "VariableMissing", "zones", now)}
		},
		"WaitingForDependencies": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition("DependenciesReady", "False", "WaitingForDependencies", "", now)}
		},
		"WaitingForRollout: approve it": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition(infrav1.RenderedCondition, "False", infrav1.WaitingForRolloutReason, "approve it", now)}
		},
		"NotProven: differs": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition(infrav1.WorkspaceConflictCondition, "True", infrav1.NotProvenReason, "differs", now)}
		},
		"StateNotSaved: see there": func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{condition("Ready", "False", infrav1.StateNotSavedReason, "see there", now)}
		},
	} {
		apply := &infrav1.WorkspaceTemplateApply{}
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "one"}
		change(apply)
		assert.Equal(t, want, Refused(apply))
	}
}

func TestHowARunStands(t *testing.T) {
	const success, failure, since = "True", "False", time.Minute
	request := Request(Action, "one", now)
	assert.Equal(t, "Run/one/1792663200", request)
	before := condition("Synced", failure, "ReconcileError", "denied", now.Add(-time.Hour))
	for name, row := range map[string]struct {
		want            Result
		request         string
		checksum        string
		synced          metav1.Condition
		seen            time.Time
		paused, deleted bool
	}{
		"not forwarded":                    {want: Requested, checksum: "old", synced: condition("Synced", success, "", "", now)},
		"not forwarded, because paused":    {want: NotStarted, paused: true},
		"forwarded":                        {want: Running, request: request, checksum: request, synced: condition("Synced", success, "", "", now)},
		"planned, nothing to change":       {want: NothingToChange, request: request, checksum: "new", synced: condition("Synced", success, "", "", now)},
		"applied":                          {want: Applied, request: request, synced: condition("Synced", success, "", "", now)},
		"failed before the plan":           {want: Failed, request: request, checksum: request, synced: condition("Synced", failure, "ReconcileError", "no such module", now)},
		"failed again, at another time":    {want: Failed, request: request, checksum: request, synced: condition("Synced", failure, "ReconcileError", "denied", now)},
		"the error is that of before":      {want: Running, request: request, checksum: request, synced: before, seen: now.Add(-since)},
		"it is for two minutes":            {want: Failed, request: request, checksum: request, synced: before, seen: now.Add(-2 * time.Minute)},
		"the apply failed as before":       {want: Failed, request: request, checksum: "new", synced: before},
		"the Workspace was paused by hand": {want: NotStarted, request: request, checksum: request, synced: condition("Synced", failure, terraform.ReasonPaused, "", now)},
		"the Workspace is deleted":         {want: NotStarted, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			apply, workspace := &infrav1.WorkspaceTemplateApply{}, &terraform.Workspace{}
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{UID: "one"}
			if row.paused {
				apply.Status.Conditions = []metav1.Condition{condition(clusterv1.PausedCondition, "True", "Paused", "", now)}
			}
			workspace.UID, workspace.Annotations = "one", map[string]string{naming.RecoveryAnnotation: row.request}
			workspace.Status = terraform.WorkspaceStatus{Conditions: []metav1.Condition{row.synced}, AtProvider: terraform.WorkspaceObservation{Checksum: row.checksum}}
			if row.deleted {
				workspace = nil
			}
			run := Run{Request: request, Before: &before, Seen: row.seen}
			got, _ := run.Observe(apply, workspace, now)
			assert.Equal(t, row.want, got)
			assert.Equal(t, row.want != Requested && row.want != Running, got.IsFinal())
		})
	}
	another, _ := (&Run{Request: Request(Action, "two", now)}).Observe(&infrav1.WorkspaceTemplateApply{}, &terraform.Workspace{ObjectMeta: metav1.ObjectMeta{UID: "one"}}, now)
	assert.Equal(t, NotStarted, another, "it was recreated")
}

func TestAnAttemptToDestroyIsStartedAgainIfOneHasFailed(t *testing.T) {
	apply, failed := &infrav1.WorkspaceTemplateApply{}, condition("Synced", "False", "ReconcileError", "in use", now)
	apply.DeletionTimestamp = &metav1.Time{Time: now}
	apply.Status.Conditions = []metav1.Condition{condition(infrav1.DeletingCondition, "True", infrav1.DestroyFailedReason, "in use", now)}
	assert.Empty(t, Refused(apply))
	run, workspace := Run{Request: Request(Action, "one", now), Destroys: true, Before: &failed}, &terraform.Workspace{}
	workspace.UID, workspace.DeletionTimestamp, workspace.Status.Conditions = "one", apply.DeletionTimestamp, []metav1.Condition{failed}
	stands := func(at time.Time) Result {
		got, _ := run.Observe(apply, workspace, at)
		return got
	}
	assert.Equal(t, Requested, stands(now))
	workspace.Annotations = map[string]string{naming.RecoveryAnnotation: run.Request}
	workspace.Status.AtProvider.Checksum = run.Request
	assert.Equal(t, Running, stands(now))
	assert.Equal(t, Failed, stands(now.Add(2*time.Minute)))
	workspace.Status = terraform.WorkspaceStatus{}
	assert.Equal(t, Running, stands(now), "the provider has a status without a checksum while it destroys")
	workspace = nil
	assert.Equal(t, Applied, stands(now))
	run.Destroys = false
	assert.Equal(t, NotStarted, stands(now))
}
