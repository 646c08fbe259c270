// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

var measured = client.ObjectKey{Namespace: "default", Name: "demo"}

func TestElapsedIgnoresClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{
		"ahead": 10 * time.Minute, "back": -10 * time.Minute, "a year ahead": 365 * 24 * time.Hour, "a year back": -365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			clock := builder.NewClock()
			watch := &engine.StateCache{Clock: clock}
			began := clock.Now()
			assert.Zero(t, watch.Elapsed(measured, "vpc", began, 0))
			clock.Pass(4 * time.Minute)
			clock.Jump(jump)
			assert.Equal(t, 4*time.Minute, watch.Elapsed(measured, "vpc", began, 0))
		})
	}
}

func TestElapsedAfterARestart(t *testing.T) {
	clock := builder.NewClock()
	began := clock.Now()
	for name, row := range map[string]struct{ passed, jump, want time.Duration }{
		"soon":                         {passed: 3 * time.Minute},
		"with a clock that is ahead":   {passed: 3 * time.Minute, jump: 7 * time.Minute},
		"with a clock that is behind":  {passed: 3 * time.Minute, jump: -10 * time.Minute},
		"late":                         {passed: 30 * time.Minute, want: 20 * time.Minute},
		"late, with a clock behind":    {passed: 30 * time.Minute, jump: -10 * time.Minute, want: 10 * time.Minute},
		"late, with a clock far ahead": {passed: 30 * time.Minute, jump: 10 * time.Minute, want: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock := builder.NewClock()
			clock.Pass(row.passed)
			clock.Jump(row.jump)
			watch := &engine.StateCache{Clock: clock}
			assert.Equal(t, row.want, watch.Elapsed(measured, "vpc", began, 0), "it restarted")
			clock.Pass(time.Minute)
			assert.Equal(t, row.want+time.Minute, watch.Elapsed(measured, "vpc", began, 0))
		})
	}
}

func TestElapsedRestarts(t *testing.T) {
	clock := builder.NewClock()
	watch := &engine.StateCache{Clock: clock}
	began := clock.Now()
	watch.Elapsed(measured, "vpc", began, 0)
	clock.Pass(5 * time.Minute)
	assert.Equal(t, 5*time.Minute, watch.Elapsed(measured, "vpc", began, 0))
	assert.Zero(t, watch.Elapsed(measured, "secret", began, 0), "another step")
	assert.Zero(t, watch.Elapsed(client.ObjectKey{Name: "other"}, "vpc", began, 0), "another object")
	assert.Zero(t, watch.Elapsed(measured, "vpc", clock.Now(), 0), "another beginning")
	clock.Pass(time.Minute)
	watch.Forget(measured)
	assert.Zero(t, watch.Elapsed(measured, "vpc", began, 0), "another object of the same name")
}
