// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memorySpan is how long a write is remembered. A cache that lags more than that is no reason to stand still: versions also
// go back when etcd is restored from a backup.
const memorySpan = time.Minute

// Memory holds the resource version of each object after this process last wrote it. A reconcile that finds an older
// one in the cache would decide on what it has already changed. Nothing is lost with the memory: writes are refused by the
// API server when the cache was behind.
type Memory struct {
	versions sync.Map // client.ObjectKey to seen
	refused  sync.Map // client.ObjectKey to refusal
}

// refusal is the last answer of the API server that refused a write, and when it came first.
type refusal struct {
	why   string
	since time.Time
}

// Refusals are retried after a time that doubles between these. The longest must leave time to renew a token.
const (
	firstRefusedRetry = time.Second
	lastRefusedRetry  = 2 * time.Minute
)

type seen struct {
	version string
	at      time.Time
}

// Newer tells whether this process wrote the object after the state that the cache shows.
func (m *Memory) Newer(obj client.Object) bool {
	found, ok := m.versions.Load(client.ObjectKeyFromObject(obj))
	if !ok || time.Since(found.(seen).at) > memorySpan {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), found.(seen).version)
	return err == nil && order < 0
}

// Remember notes what this process has just written, or read.
func (m *Memory) Remember(obj client.Object) {
	m.versions.Store(client.ObjectKeyFromObject(obj), seen{version: obj.GetResourceVersion(), at: time.Now()})
}

// Forget drops what is known of an object that is gone.
func (m *Memory) Forget(key client.ObjectKey) {
	m.versions.Delete(key)
	m.refused.Delete(key)
}

// refusedAgain records a refusal, and returns when to retry one that is known; zero for a new one.
func (m *Memory) refusedAgain(key client.ObjectKey, why string) time.Duration {
	found, ok := m.refused.Load(key)
	if !ok || found.(refusal).why != why {
		m.refused.Store(key, refusal{why: why, since: time.Now()})
		return 0
	}
	return min(max(time.Since(found.(refusal).since), firstRefusedRetry), lastRefusedRetry)
}
