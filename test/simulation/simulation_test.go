// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	value, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, variable)
	return value
}

func TestNoScheduleBreaksAnInvariant(t *testing.T) {
	first, count := number(t, "SEED", 1), number(t, "SCHEDULES", 20)
	if os.Getenv("SEED") != "" && os.Getenv("SCHEDULES") == "" {
		count = 1
	}
	began, steps := time.Now(), 0
	for seed := first; seed < first+count; seed++ {
		result := Run(t, NewSchedule(seed), count == 1)
		steps += result.Steps
		if count == 1 {
			t.Log(result.Trace)
		}
		if result.Violation == "" {
			continue
		}
		if os.Getenv("KEEP") != "" {
			t.Errorf("seed %d: %s", seed, result.Violation)
			continue
		}
		short := Shrink(t, NewSchedule(seed), result.Violation)
		again := Run(t, short, true)
		t.Fatalf("seed %d: %s\nShortest schedule that fails (%s):\n%s\n%s", seed, result.Violation, again.Violation, short, tail(again.Trace, 120000))
	}
	t.Logf("%d schedules from seed %d, %d steps, %s", count, first, steps, time.Since(began).Round(time.Millisecond))
}

func tail(text string, size int) string { return text[max(0, len(text)-size):] }

func TestASeedDeterminesEverything(t *testing.T) {
	for seed := range uint64(3) {
		once, again := Run(t, NewSchedule(seed), true), Run(t, NewSchedule(seed), true)
		assert.Equal(t, once.Trace, again.Trace)
		assert.NotEmpty(t, once.Trace)
	}
}
