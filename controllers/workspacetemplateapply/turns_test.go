// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestFiveHundredUsersOfATemplateTakeTurns(t *testing.T) {
	turns, now := NewTurns(), time.Unix(1_800_000_000, 0)
	var last time.Duration
	for i := range 500 {
		wait := turns.wait(client.ObjectKey{Name: strconv.Itoa(i)}, now)
		require.GreaterOrEqual(t, wait, last)
		last = wait
	}
	assert.InDelta(t, 499*time.Second/updatesPerSecond, last, float64(time.Second))
}

func TestASingleUpdateDoesNotWait(t *testing.T) {
	turns, now := NewTurns(), time.Unix(1_800_000_000, 0)
	assert.Zero(t, turns.wait(client.ObjectKey{Name: "a"}, now))
	assert.Zero(t, turns.wait(client.ObjectKey{Name: "a"}, now.Add(time.Second)), "the next one is long after")
}

func TestATurnIsKeptUntilItIsTaken(t *testing.T) {
	turns, now := NewTurns(), time.Unix(1_800_000_000, 0)
	assert.Zero(t, turns.wait(client.ObjectKey{Name: "a"}, now))
	wait := turns.wait(client.ObjectKey{Name: "b"}, now)
	require.Equal(t, time.Second/updatesPerSecond, wait)
	assert.Equal(t, wait/2, turns.wait(client.ObjectKey{Name: "b"}, now.Add(wait/2)), "an event woke it early")
	assert.Zero(t, turns.wait(client.ObjectKey{Name: "b"}, now.Add(wait)))
}

func TestATurnThatIsGivenUpIsSomebodyElses(t *testing.T) {
	turns, now := NewTurns(), time.Unix(1_800_000_000, 0)
	for i := range 500 {
		turns.wait(client.ObjectKey{Name: strconv.Itoa(i)}, now)
	}
	for i := range 500 {
		turns.giveUp(client.ObjectKey{Name: strconv.Itoa(i)}, now.Add(time.Second))
	}
	require.Empty(t, turns.at)
	later := now.Add(time.Hour)
	var immediate int
	for i := range 500 {
		if turns.wait(client.ObjectKey{Name: strconv.Itoa(i)}, later) == 0 {
			immediate++
		}
	}
	assert.Equal(t, 1, immediate, "the next edit is paced again")
}
