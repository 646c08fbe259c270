// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// updatesPerSecond is how many Workspaces are changed in a second. Each change makes the provider plan, and an edit of a
// template changes the Workspaces of all its users: a person who sees the first of them fail should still have the time to
// take the edit back.
const updatesPerSecond = 10

// Turns paces updates of Workspaces, whatever caused them: an edit of a template, another version of CAPT, or both while no
// manager ran. The zero value is not ready, NewTurns makes one. Safe for concurrent use.
type Turns struct {
	limiter *rate.Limiter
	mu      sync.Mutex
	at      map[client.ObjectKey]*rate.Reservation
}

// NewTurns paces updates at CAPT's default rate.
func NewTurns() *Turns {
	return &Turns{limiter: rate.NewLimiter(updatesPerSecond, 1), at: map[client.ObjectKey]*rate.Reservation{}}
}

// wait returns how long an object has to wait for its turn; zero means that it is now, and over. An object that comes back
// early or late does not lose its place.
func (t *Turns) wait(key client.ObjectKey, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, waiting := t.at[key]
	if !waiting {
		turn = t.limiter.ReserveN(now, 1)
		t.at[key] = turn
	}
	if left := turn.DelayFrom(now); left > 0 {
		return left
	}
	delete(t.at, key)
	return 0
}

// giveUp gives the turn of an object back that has nothing to update any more.
func (t *Turns) giveUp(key client.ObjectKey, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn, waiting := t.at[key]; waiting {
		turn.CancelAt(now)
		delete(t.at, key)
	}
}
