// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	testclock "k8s.io/utils/clock/testing"
)

func TestInAPipeProgressIsALineForEachTenth(t *testing.T) {
	var out bytes.Buffer
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	p := NewProgress(&out, clock)
	p.Phase("adopt", 1000)
	for range 1000 {
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
		p.Add(1)
	}
	p.Stop()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	assert.Len(t, lines, 11, "none, and ten tenths")
	assert.Equal(t, "adopt: 100 of 1000 (10 %)", lines[1])
	assert.Equal(t, "adopt: 1000 of 1000 (100 %)", lines[10])
}

func TestFastWorkIsABeginningAndAnEnd(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, testclock.NewFakePassiveClock(time.Unix(0, 0)))
	p.Phase("backup", 50)
	for range 50 {
		p.Add(1)
	}
	p.Stop()
	p.Stop()
	assert.Equal(t, "backup: 0 of 50 (0 %)\nbackup: 50 of 50 (100 %), 0s\n", out.String())
}

func TestSlowWorkIsALineEachHalfMinute(t *testing.T) {
	var out bytes.Buffer
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	p := NewProgress(&out, clock)
	p.Phase("storage", 0)
	for range 90 {
		clock.SetTime(clock.Now().Add(time.Second))
		p.Add(1)
	}
	p.Stop()
	assert.Equal(t, "storage\nstorage: 30\nstorage: 60\nstorage: 90\n", out.String())
}

func TestOnATerminalProgressIsABarOfOneLine(t *testing.T) {
	var out bytes.Buffer
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	p := NewProgress(&out, clock)
	p.width = func() int { return 60 }
	p.Phase("adopt", 4)
	for range 2 {
		clock.SetTime(clock.Now().Add(time.Second))
		p.Add(1)
		p.Add(0) // Too soon to draw again.
	}
	p.Stop()
	assert.Equal(t, strings.Join([]string{
		"\r\x1b[K[                        ] adopt: 0 of 4 (0 %)",
		"\r\x1b[K[======                  ] adopt: 1 of 4 (25 %), 3s left",
		"\r\x1b[K[============            ] adopt: 2 of 4 (50 %), 2s left",
		"\r\x1b[Kadopt: 2 of 4 (50 %), 2s\n",
	}, ""), out.String())
	out.Reset()
	p.width = func() int { return 20 }
	p.Phase("adopt", 4)
	assert.Len(t, strings.TrimPrefix(out.String(), "\r\x1b[K"), 19, "never wider than the terminal")
}
