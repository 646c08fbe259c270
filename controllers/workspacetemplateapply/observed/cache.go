// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package observed caches what this process last observed of each WorkspaceTemplateApply. After a restart the cache is empty; at worst an event
// or a request is repeated.
package observed

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// RejectedInterval is how often a Workspace that the API server rejected is sent again without a change: the CRD, or an admission rule of
// the cluster, may have changed.
const RejectedInterval = 10 * time.Minute

// Cache of observations. The zero value is ready. Safe for concurrent use.
type Cache struct {
	unclaimed sync.Map // client.ObjectKey to firstSeen
	rejected  sync.Map // client.ObjectKey to rejection
	failures  sync.Map // client.ObjectKey to explained
}

type firstSeen struct {
	workspace types.UID
	at        time.Time
}

type explained struct {
	errorHash string
	failure.Report
}

// Request identifies a write to the API server: a revision, for a generation of a Workspace.
type Request struct {
	Revision   string
	Workspace  types.UID
	Generation int64
}

type rejection struct {
	request Request
	why     string
	at      time.Time
}

// Failure returns the report of the error with a hash; an empty hash means no error. While the hash is unchanged, the cached report is returned:
// Secrets that the error quotes may have changed since, and their old values would not be redacted. explain returns a report, and whether to
// cache it.
func (c *Cache) Failure(key client.ObjectKey, errorHash string, explain func() (failure.Report, bool)) failure.Report {
	if errorHash == "" {
		c.failures.Delete(key)
		return failure.Report{}
	}
	if before, ok := c.failures.Load(key); ok && before.(explained).errorHash == errorHash {
		return before.(explained).Report
	}
	report, complete := explain()
	if complete {
		c.failures.Store(key, explained{errorHash, report})
	}
	return report
}

// UnclaimedFor returns for how long this process has seen a Workspace without a sign of the provider; an empty UID means that there is none.
func (c *Cache) UnclaimedFor(key client.ObjectKey, workspace types.UID, now time.Time) time.Duration {
	if workspace == "" {
		c.unclaimed.Delete(key)
		return 0
	}
	current := firstSeen{workspace: workspace, at: now}
	first, _ := c.unclaimed.LoadOrStore(key, current)
	if first.(firstSeen).workspace != workspace {
		c.unclaimed.Store(key, current)
		return 0
	}
	return now.Sub(first.(firstSeen).at)
}

// Reject records that the API server rejected a request, and reports whether the same was not rejected before.
func (c *Cache) Reject(key client.ObjectKey, request Request, why string, now time.Time) (first bool) {
	before, ok := c.rejected.Swap(key, rejection{request, why, now})
	return !ok || before.(rejection).request != request || before.(rejection).why != why
}

// Rejected returns why the API server rejected the same request, and when to send it again; empty when it did not, or when that time has
// come. A nil request means that there is none.
func (c *Cache) Rejected(key client.ObjectKey, request *Request, now time.Time) (why string, next time.Time) {
	found, ok := c.rejected.Load(key)
	if !ok {
		return "", time.Time{}
	}
	before := found.(rejection)
	if request == nil || before.request != *request {
		c.rejected.Delete(key)
		return "", time.Time{}
	}
	if next = before.at.Add(RejectedInterval); !now.Before(next) {
		return "", time.Time{} // The rejection stays recorded, so that a repetition is not logged again.
	}
	return before.why, next
}

// Forget drops an object that no longer exists.
func (c *Cache) Forget(key client.ObjectKey) {
	c.failures.Delete(key)
	c.unclaimed.Delete(key)
	c.rejected.Delete(key)
}
