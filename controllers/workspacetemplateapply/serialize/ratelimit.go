// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package serialize

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// updatesPerSecond limits updates of Workspaces. Each update makes the provider plan, and an edit of a template updates the Workspaces of
// all its users: a user who sees the first failures has time to revert the edit.
const updatesPerSecond = 10

// RateLimiter limits the rate of updates of Workspaces, regardless of their cause. Create it with NewRateLimiter. It is safe for concurrent use.
type RateLimiter struct {
	limiter *rate.Limiter
	mu      sync.Mutex
	waiting map[client.ObjectKey]*rate.Reservation
}

// NewRateLimiter returns a RateLimiter with the default rate.
func NewRateLimiter() *RateLimiter {
	return &RateLimiter{limiter: rate.NewLimiter(updatesPerSecond, 1), waiting: map[client.ObjectKey]*rate.Reservation{}}
}

// Reserve returns how long an object has to wait; zero means that it may update now, and ends its reservation. An object that is
// reconciled early or late keeps its reservation.
func (l *RateLimiter) Reserve(key client.ObjectKey, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	reservation, waiting := l.waiting[key]
	if !waiting {
		reservation = l.limiter.ReserveN(now, 1)
		l.waiting[key] = reservation
	}
	if left := reservation.DelayFrom(now); left > 0 {
		return left
	}
	delete(l.waiting, key)
	return 0
}

// Cancel cancels the reservation of an object that has nothing to update any more.
func (l *RateLimiter) Cancel(key client.ObjectKey, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reservation, waiting := l.waiting[key]; waiting {
		reservation.CancelAt(now)
		delete(l.waiting, key)
	}
}
