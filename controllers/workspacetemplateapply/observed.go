// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

// lastSeen is what the controller last observed of a WorkspaceTemplateApply, see engine.StateOf. It is lost when the manager restarts; at worst, an
// event or a request is repeated.
type lastSeen struct {
	unreconciled firstSeen
	rejected     *rejection
	failure      explained
}

type firstSeen struct {
	workspace types.UID
	at        time.Time
}

type explained struct {
	errorHash string
	failure.Report
}

// writeRequest identifies a write to the API server: a revision, for a generation of a Workspace. A user repeats it with captctl reconcile, which
// changes the annotation reconcile-at.
type writeRequest struct {
	Revision    string
	Workspace   types.UID
	Generation  int64
	ReconcileAt string
}

type rejection struct {
	request writeRequest
	why     string
	at      time.Time
}

// Failure returns the report of the error with a hash; an empty hash means no error. While the hash is unchanged, the cached report is returned:
// Secrets that the error quotes may have changed since, and their old values would not be redacted. explain returns a report, and whether to
// cache it.
func (s *lastSeen) Failure(errorHash string, explain func() (failure.Report, bool)) failure.Report {
	if errorHash == "" {
		s.failure = explained{}
		return failure.Report{}
	}
	if s.failure.errorHash == errorHash {
		return s.failure.Report
	}
	report, complete := explain()
	if complete {
		s.failure = explained{errorHash, report}
	}
	return report
}

// UnreconciledFor returns for how long this process has seen a Workspace without a sign of the provider; an empty UID means that there is none.
func (s *lastSeen) UnreconciledFor(workspace types.UID, now time.Time) time.Duration {
	if workspace == "" || s.unreconciled.workspace != workspace {
		s.unreconciled = firstSeen{workspace: workspace, at: now}
		return 0
	}
	return now.Sub(s.unreconciled.at)
}

// Reject records that the API server rejected a request, and reports whether the same was not rejected before.
func (s *lastSeen) Reject(request writeRequest, why string, now time.Time) (first bool) {
	first = s.rejected == nil || s.rejected.request != request || s.rejected.why != why
	s.rejected = &rejection{request, why, now}
	return first
}

// Rejected returns why the API server rejected the same request, and when to send it again; empty when it did not, or when that time has
// come. A nil request means that there is none.
func (s *lastSeen) Rejected(request *writeRequest, now time.Time) (why string, next time.Time) {
	if s.rejected == nil {
		return "", time.Time{}
	}
	if request == nil || s.rejected.request != *request {
		s.rejected = nil
		return "", time.Time{}
	}
	if next = s.rejected.at.Add(previews.RejectedInterval); !now.Before(next) {
		return "", time.Time{} // The rejection stays recorded, so that a repetition is not logged again.
	}
	return s.rejected.why, next
}

// failedInputs has the objects that failed runs of Terraform used, so that a change of one causes a reconcile.
type failedInputs struct {
	lock sync.Mutex
	// of has the inputs of a WorkspaceTemplateApply, as from workspace.InputKey.
	of map[types.NamespacedName][]string
}

// Set replaces the inputs of a WorkspaceTemplateApply; none removes it.
func (i *failedInputs) Set(apply types.NamespacedName, inputs []string) {
	i.lock.Lock()
	defer i.lock.Unlock()
	if len(inputs) == 0 {
		delete(i.of, apply)
		return
	}
	if i.of == nil {
		i.of = map[types.NamespacedName][]string{}
	}
	i.of[apply] = inputs
}

// Users lists the WorkspaceTemplateApplies whose failed runs used an object.
func (i *failedInputs) Users(input string) (users []types.NamespacedName) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for apply, inputs := range i.of {
		if slices.Contains(inputs, input) {
			users = append(users, apply)
		}
	}
	return users
}
