// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func compare(a, b string) int { return cmp.Compare(a, b) }

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// with returns sorted keys and another one. The list itself is not changed: it may be iterated over.
func with(keys []types.NamespacedName, key types.NamespacedName) []types.NamespacedName {
	at, found := slices.BinarySearchFunc(keys, key, compareKeys)
	if found {
		return keys
	}
	return slices.Concat(keys[:at], []types.NamespacedName{key}, keys[at:])
}

// without returns sorted keys except one.
func without(keys []types.NamespacedName, key types.NamespacedName) []types.NamespacedName {
	at, found := slices.BinarySearchFunc(keys, key, compareKeys)
	if !found {
		return keys
	}
	return slices.Concat(keys[:at], keys[at+1:])
}

// queue is the work queue of a controller. Its only worker gets a request when the scheduler gives it one.
type queue struct {
	name    string
	limiter workqueue.TypedRateLimiter[reconcile.Request]

	mu       sync.Mutex // The watches of a controller start concurrently.
	ready    map[reconcile.Request]bool
	delayed  map[reconcile.Request]time.Time
	active   *reconcile.Request
	shutDown bool
	give     chan reconcile.Request
	stop     chan struct{}
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &queue{}

func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) *queue {
	return &queue{
		name: name, limiter: limiter, ready: map[reconcile.Request]bool{}, delayed: map[reconcile.Request]time.Time{},
		give: make(chan reconcile.Request), stop: make(chan struct{}),
	}
}

// runnable returns the requests that the worker can get now, sorted.
func (q *queue) runnable() []reconcile.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.active != nil || q.shutDown {
		return nil
	}
	now := time.Now()
	for request, at := range q.delayed {
		if !at.After(now) {
			delete(q.delayed, request)
			q.ready[request] = true
		}
	}
	if len(q.ready) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(q.ready), func(a, b reconcile.Request) int { return compareKeys(a.NamespacedName, b.NamespacedName) })
}

// next is when the next delayed request becomes ready.
func (q *queue) next() (at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, due := range q.delayed {
		if at.IsZero() || due.Before(at) {
			at = due
		}
	}
	return at
}

// hand gives a request to the worker, which runs until it ends or waits in a request to the API server.
func (q *queue) hand(request reconcile.Request) {
	q.mu.Lock()
	delete(q.ready, request)
	q.active = &request
	q.mu.Unlock()
	q.give <- request
}

// GetWithPriority implements PriorityQueue.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	select {
	case request := <-q.give:
		return request, 0, false
	case <-q.stop:
		return reconcile.Request{}, 0, true
	}
}

// Get implements PriorityQueue.
func (q *queue) Get() (reconcile.Request, bool) {
	request, _, shutDown := q.GetWithPriority()
	return request, shutDown
}

// AddWithOpts implements PriorityQueue.
func (q *queue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	for _, request := range requests {
		switch {
		case o.RateLimited:
			q.AddRateLimited(request)
		case o.After > 0:
			q.AddAfter(request, o.After)
		default:
			q.Add(request)
		}
	}
}

// Add implements PriorityQueue.
func (q *queue) Add(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shutDown {
		q.ready[request] = true
		delete(q.delayed, request)
	}
}

// AddAfter implements PriorityQueue.
func (q *queue) AddAfter(request reconcile.Request, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(after)
	if known, ok := q.delayed[request]; !q.shutDown && !q.ready[request] && (!ok || at.Before(known)) {
		q.delayed[request] = at
	}
}

// AddRateLimited implements PriorityQueue.
func (q *queue) AddRateLimited(request reconcile.Request) {
	q.AddAfter(request, q.limiter.When(request))
}

// Forget implements PriorityQueue.
func (q *queue) Forget(request reconcile.Request) { q.limiter.Forget(request) }

// NumRequeues implements PriorityQueue.
func (q *queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }

// Done implements PriorityQueue.
func (q *queue) Done(reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active = nil
}

// Len implements PriorityQueue.
func (q *queue) Len() int { return len(q.ready) }

// ShutDown implements PriorityQueue.
func (q *queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shutDown {
		q.shutDown = true
		close(q.stop)
	}
}

// ShutDownWithDrain implements PriorityQueue.
func (q *queue) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown implements PriorityQueue.
func (q *queue) ShuttingDown() bool { return q.shutDown }
