// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package observed has what the controller last observed of a WorkspaceTemplateApply. It is lost when the manager restarts; at worst, an event
// or a request is repeated.
package observed

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform/failure"
)

// RejectedInterval is how often a Workspace that the API server rejected is sent again without a change: the CRD, or an admission rule of
// the cluster, may have changed.
const RejectedInterval = 10 * time.Minute

// State of one WorkspaceTemplateApply, see engine.StateOf.
type State struct {
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

// Request identifies a write to the API server: a revision, for a generation of a Workspace. A user repeats it with captctl reconcile, which
// changes the annotation reconcile-at.
type Request struct {
	Revision    string
	Workspace   types.UID
	Generation  int64
	ReconcileAt string
}

type rejection struct {
	request Request
	why     string
	at      time.Time
}

// Failure returns the report of the error with a hash; an empty hash means no error. While the hash is unchanged, the cached report is returned:
// Secrets that the error quotes may have changed since, and their old values would not be redacted. explain returns a report, and whether to
// cache it.
func (s *State) Failure(errorHash string, explain func() (failure.Report, bool)) failure.Report {
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
func (s *State) UnreconciledFor(workspace types.UID, now time.Time) time.Duration {
	if workspace == "" || s.unreconciled.workspace != workspace {
		s.unreconciled = firstSeen{workspace: workspace, at: now}
		return 0
	}
	return now.Sub(s.unreconciled.at)
}

// Reject records that the API server rejected a request, and reports whether the same was not rejected before.
func (s *State) Reject(request Request, why string, now time.Time) (first bool) {
	first = s.rejected == nil || s.rejected.request != request || s.rejected.why != why
	s.rejected = &rejection{request, why, now}
	return first
}

// Rejected returns why the API server rejected the same request, and when to send it again; empty when it did not, or when that time has
// come. A nil request means that there is none.
func (s *State) Rejected(request *Request, now time.Time) (why string, next time.Time) {
	if s.rejected == nil {
		return "", time.Time{}
	}
	if request == nil || s.rejected.request != *request {
		s.rejected = nil
		return "", time.Time{}
	}
	if next = s.rejected.at.Add(RejectedInterval); !now.Before(next) {
		return "", time.Time{} // The rejection stays recorded, so that a repetition is not logged again.
	}
	return s.rejected.why, next
}
