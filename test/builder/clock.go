// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock is a clock for tests. Like that of a machine it has a time of day, which can be set, and a monotonic clock,
// which only goes on.
type Clock struct {
	mu        sync.Mutex
	monotonic time.Duration
	offset    time.Duration
	// readings are the readings of the monotonic clock at which the times of day were returned.
	readings map[time.Time]time.Duration
}

var _ clock.PassiveClock = &Clock{}

// NewClock begins a minute after Created.
func NewClock() *Clock { return &Clock{offset: time.Minute, readings: map[time.Time]time.Duration{}} }

// Now is the time of day.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Created.Add(c.offset + c.monotonic)
	c.readings[now] = c.monotonic
	return now
}

// Since is how much the monotonic clock advanced since a time that this clock returned.
func (c *Clock) Since(readings time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.monotonic - c.readings[readings]
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.monotonic += d
}

// Jump sets the time of day to another one.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}
