// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
)

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func states(cell string) Style {
	if cell == "Blocked" {
		return Bad
	}
	return Plain
}

var (
	columns = []Column{{Name: "Namespace"}, {Name: "State", Style: states}, {Name: "Evidence", Wide: true}, {Name: "Name"}}
	rows    = Rows{{"default", "Blocked", "UID", "demo"}, {"team-ü", "Ready", "", "a-longer-name"}}
)

func table(format Format, on bool) string {
	var out bytes.Buffer
	p := &Printer{Palette: Palette{on: on}, Format: format, to: &out}
	p.Table(columns, rows)
	return out.String()
}

func TestATableLooksLikeKubectls(t *testing.T) {
	assert.Equal(t, "NAMESPACE   STATE     NAME\ndefault     Blocked   demo\nteam-ü      Ready     a-longer-name\n", table(Table, false))
	assert.Equal(t, "NAMESPACE   STATE     EVIDENCE   NAME\ndefault     Blocked   UID        demo\nteam-ü      Ready     -          a-longer-name\n", table(Wide, false))
}

func TestANarrowTerminalCutsLines(t *testing.T) {
	var out bytes.Buffer
	p := &Printer{Format: Table, to: &out, width: 30}
	p.Table(columns, rows)
	assert.Equal(t, "NAMESPACE   STATE     NAME\ndefault     Blocked   demo\nteam-ü      Ready     a-longe…\n", out.String())
}

func TestColorsDoNotMoveColumns(t *testing.T) {
	for _, format := range []Format{Table, Wide} {
		colored := table(format, true)
		assert.Contains(t, colored, "\x1b[31mBlocked\x1b[0m ")
		for _, sequence := range []string{"\x1b[31m", "\x1b[1m", "\x1b[0m"} {
			colored = strings.ReplaceAll(colored, sequence, "")
		}
		assert.Equal(t, table(format, false), colored)
	}
}

func TestAPipeHasNoColors(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, Table, false)
	assert.Equal(t, "Blocked", p.Paint(Bad, "Blocked"))
}

func TestTextOfObjectsDoesNotControlTheTerminal(t *testing.T) {
	p := &Printer{Palette: Palette{on: true}}
	assert.Equal(t, "\x1b[31mx^[[2Jy\x1b[0m", p.Paint(Bad, "x\x1b[2Jy"))
	var out bytes.Buffer
	q := &Printer{Format: Table, to: &out}
	q.Table([]Column{{Name: "Name"}}, Rows{{"x\x1b[2Jy"}})
	assert.NotContains(t, out.String(), "\x1b")
}

func TestMachinesGetTheDocument(t *testing.T) {
	document := map[string]any{"kind": "Plan", "message": "a < b"}
	for format, expected := range map[Format]string{
		JSON:  "{\n  \"kind\": \"Plan\",\n  \"message\": \"a < b\"\n}\n",
		YAML:  "kind: Plan\nmessage: a < b\n",
		Table: "for users\n",
		Wide:  "for users\n",
	} {
		var out bytes.Buffer
		require.NoError(t, NewPrinter(&out, format, false).Document(document, func(p *Printer) { p.Linef("for users") }))
		assert.Equal(t, expected, out.String())
	}
}

func TestAnErrorOfTheWriterIsReported(t *testing.T) {
	for _, format := range []Format{JSON, YAML, Table} {
		err := NewPrinter(failing{}, format, false).Document(map[string]string{}, func(p *Printer) {
			p.Table(columns, rows)
			p.Linef("and more")
		})
		assert.ErrorContains(t, err, "the disk is full")
	}
}

func TestAFormatThatIsNotThereIsRefused(t *testing.T) {
	flag := NewFlag()
	require.NoError(t, flag.Validate())
	flag.value = "mermaid"
	assert.EqualError(t, flag.Validate(), `there is no output format "mermaid"; use one of table, wide, json, yaml`)
}

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
