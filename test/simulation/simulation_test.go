// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One goroutine runs at a time, none must be preempted, and there is memory enough: this saves a third of the CPU time.
func TestMain(m *testing.M) {
	if program, err := os.Executable(); err == nil && os.Getenv("GODEBUG") == "" { // Only the environment can set this.
		must(syscall.Exec(program, os.Args, append(os.Environ(), "GODEBUG=asyncpreemptoff=1")))
	}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

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

// TestNoScheduleBreaksAnInvariant runs SCHEDULES schedules, the first with SEED. With SEED alone it runs one and prints its trace; EVENTS are the steps
// that it prints of a schedule that fails.
func TestNoScheduleBreaksAnInvariant(t *testing.T) {
	first, count := number(t, "SEED", 1), number(t, "SCHEDULES", 1000)
	single := os.Getenv("SEED") != "" && os.Getenv("SCHEDULES") == ""
	if single {
		count = 1
	}
	began, steps := time.Now(), 0
	for seed := first; seed < first+count; seed++ {
		schedule := scheduleOf(t, seed)
		result := Run(t, schedule, single)
		steps += result.Steps
		switch {
		case single:
			t.Log(result.Trace)
		case result.Violation != "" && os.Getenv("KEEP_GOING") != "":
			t.Errorf("seed %d: %s", seed, result.Violation)
		case result.Violation != "":
			report(t, schedule, result.Violation)
		}
	}
	t.Logf("%d schedules from seed %d, %d steps, %s", count, first, steps, time.Since(began).Round(time.Millisecond))
}

func scheduleOf(t *testing.T, seed uint64) Schedule {
	t.Helper()
	schedule := NewSchedule(seed)
	if text := os.Getenv("EVENTS"); text != "" {
		events, err := ParseEvents(text)
		require.NoError(t, err)
		schedule.Events = events
	}
	return schedule
}

// report prints the shortest schedule that fails, and what happens in it.
func report(t *testing.T, schedule Schedule, violation string) {
	t.Helper()
	if os.Getenv("SHRINK") == "false" {
		t.Fatalf("seed %d: %s", schedule.Seed, violation)
	}
	short := Shrink(t, schedule, violation)
	again := Run(t, short, true)
	t.Fatalf("seed %d: %s\nShortest schedule that fails: SEED=%d EVENTS=%q (%s)\n%s", schedule.Seed, violation, short.Seed, short, again.Violation, tail(again.Trace, 120000))
}

func tail(text string, size int) string { return text[max(0, len(text)-size):] }

func TestASeedDeterminesEverything(t *testing.T) {
	for seed := range uint64(3) {
		once, again := Run(t, NewSchedule(seed), true), Run(t, NewSchedule(seed), true)
		assert.Equal(t, once.Trace, again.Trace)
		assert.NotEmpty(t, once.Trace)
	}
}
