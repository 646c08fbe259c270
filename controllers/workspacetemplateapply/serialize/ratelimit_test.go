// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package serialize

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestUpdatesOfAFleetAreLimited(t *testing.T) {
	limiter, now := NewRateLimiter(), time.Unix(1_800_000_000, 0)
	var last time.Duration
	for i := range 500 {
		wait := limiter.Reserve(client.ObjectKey{Name: strconv.Itoa(i)}, now)
		require.GreaterOrEqual(t, wait, last)
		last = wait
	}
	assert.InDelta(t, 499*time.Second/updatesPerSecond, last, float64(time.Second))
}

func TestASingleUpdateDoesNotWait(t *testing.T) {
	limiter, now := NewRateLimiter(), time.Unix(1_800_000_000, 0)
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "a"}, now))
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "a"}, now.Add(time.Second)), "the next one is long after")
}

func TestAReservationIsKeptUntilItIsUsed(t *testing.T) {
	limiter, now := NewRateLimiter(), time.Unix(1_800_000_000, 0)
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "a"}, now))
	wait := limiter.Reserve(client.ObjectKey{Name: "b"}, now)
	require.Equal(t, time.Second/updatesPerSecond, wait)
	assert.Equal(t, wait/2, limiter.Reserve(client.ObjectKey{Name: "b"}, now.Add(wait/2)), "an event woke it early")
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "b"}, now.Add(wait)))
}

func TestACanceledReservationIsFree(t *testing.T) {
	limiter, now := NewRateLimiter(), time.Unix(1_800_000_000, 0)
	for i := range 500 {
		limiter.Reserve(client.ObjectKey{Name: strconv.Itoa(i)}, now)
	}
	for i := range 500 {
		limiter.Cancel(client.ObjectKey{Name: strconv.Itoa(i)}, now.Add(time.Second))
	}
	require.Empty(t, limiter.waiting)
	later := now.Add(time.Hour)
	var immediate int
	for i := range 500 {
		if limiter.Reserve(client.ObjectKey{Name: strconv.Itoa(i)}, later) == 0 {
			immediate++
		}
	}
	assert.Equal(t, 1, immediate, "the next edit is rate limited again")
}
