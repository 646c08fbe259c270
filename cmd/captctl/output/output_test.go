// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

func printed(format Format, in colors) string {
	var out bytes.Buffer
	p := &Printer{Palette: Palette{in}, Format: format, to: &out}
	p.Table(columns, rows)
	return out.String()
}

func TestATableLooksLikeKubectls(t *testing.T) {
	assert.Equal(t, "NAMESPACE   STATE     NAME\ndefault     Blocked   demo\nteam-ü      Ready     a-longer-name\n", printed(Table, none))
	assert.Equal(t, "NAMESPACE   STATE     EVIDENCE   NAME\ndefault     Blocked   UID        demo\nteam-ü      Ready     -          a-longer-name\n", printed(Wide, none))
}

// narrow is a table on a terminal.
func narrow(width int, columns []Column, rows Rows) string {
	screen := &Screen{Columns: width}
	p := NewPrinter(screen, Table, false)
	p.Palette = Palette{}
	p.Table(columns, rows)
	return screen.String()
}

func TestANarrowTerminalShortensTheWidestColumn(t *testing.T) {
	assert.Equal(t, "NAMESPACE   STATE     NAME\ndefault     Blocked   demo\nteam-ü      Ready     a-longe…er-name\n", narrow(37, columns, Rows{rows[0], {"team-ü", "Ready", "", "a-longer-and-longer-name"}}))
	assert.Equal(t, "NAMESPACE   STATE     NAME\ndefault     Blocked   demo\nteam-ü      Ready     a-longer-name\n", narrow(35, columns, rows))
	assert.Equal(t, "NAMESPACE   STATE     NAME\ndefault     Blocked   demo\nteam-ü      Ready     a-lon…\n", narrow(28, columns, rows), "cells keep 12 characters")
}

func TestATableThatCannotBeShortenedLosesItsLastColumns(t *testing.T) {
	columns := []Column{{Name: "Namespace"}, {Name: "Name"}, {Name: "State"}, {Name: "Progress"}, {Name: "Age"}, {Name: "Message", Prose: 4}}
	assert.Equal(t, strings.TrimLeft(`
NAMESPACE   NAME   STATE      PROGRESS
default     demo   Degraded   -
    AccessDenied
`, "\n"), narrow(40, columns, Rows{{"default", "demo", "Degraded", "-", "5m", "AccessDenied"}}), "instead of a column that is cut")
}

func TestANarrowTerminalBreaksProseIntoLines(t *testing.T) {
	columns := []Column{{Name: "Name"}, {Name: "State", Style: states}, {Name: "Message", Prose: 4}}
	rows := Rows{
		{"demo", "Blocked", "AccessDenied: the role may not create a VPC in this account, and the quota of VPCs is reached"},
		{"other", "Ready", ""},
	}
	assert.Equal(t, strings.TrimLeft(`
NAME    STATE     MESSAGE
demo    Blocked   AccessDenied: the role may not
                  create a VPC in this account,
                  and the quota of VPCs is
                  reached
other   Ready     -
`, "\n"), narrow(50, columns, rows), "in its column")
	assert.Equal(t, strings.TrimLeft(`
NAME    STATE
demo    Blocked
    AccessDenied: the role may not
    create a VPC in this account,
    and the quota of VPCs is reached
other   Ready
`, "\n"), narrow(38, columns, rows), "below the row, if its column would be too narrow")
	long := narrow(80, columns, Rows{{"demo", "Blocked", strings.Repeat("word ", 100)}})
	assert.Equal(t, 5, strings.Count(long, "\n"))
	assert.True(t, strings.HasSuffix(long, "word …\n"), long)
	for line := range strings.Lines(narrow(80, columns, Rows{{"demo", "Blocked", strings.Repeat(strings.Repeat("x", 62)+" ", 10)}})) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
	}
}

// The values of a state are known: half of one is not.
func TestWholeColumnsAreNotShortened(t *testing.T) {
	columns := []Column{{Name: "Namespace"}, {Name: "Name"}, {Name: "State", Whole: true}, {Name: "Version", Whole: true}, {Name: "Nodes"}}
	rows := Rows{{"team-a", "a-cluster-with-a-long-name", "WaitingForApproval", "v1.35.0->v1.36.0", "3/3"}}
	assert.Equal(t, "NAMESPACE   NAME                    STATE\nteam-a      a-cluster-…-long-name   WaitingForApproval\n", narrow(54, columns, rows))
	assert.Equal(t, "NAMESPACE   NAME               STATE                VERSION\nteam-a      a-cluste…ng-name   WaitingForApproval   v1.35.0->v1.36.0\n", narrow(68, columns, rows))
}

// What is below a row that needs no action is of less interest.
func TestProseBelowARowHasItsStyle(t *testing.T) {
	screen := &Screen{Columns: 30}
	faint := func(row int) Style { return map[int]Style{1: Faint}[row] }
	NewPrinter(screen, Table, false).Table([]Column{{Name: "Name"}, {Name: "State", RowStyle: RowsThat(func(int) bool { return true })}, {Name: "Message", Prose: 4, RowStyle: faint}},
		Rows{{"demo", "", "the role may not create a VPC"}, {"other", "Ready", "waiting for Terraform to end"}})
	assert.Contains(t, screen.String(), "demo    -\n    the role may not create\n    a VPC\n", "an empty cell is no problem")
	assert.Contains(t, screen.String(), "\x1b[38;5;196mReady\x1b[0m\n    \x1b[38;5;243mwaiting for Terraform to\x1b[0m\n    \x1b[38;5;243mend\x1b[0m\n")
}

func TestShortProseStaysInItsColumn(t *testing.T) {
	columns := []Column{{Name: "Name"}, {Name: "Message", Prose: 4}}
	assert.Equal(t, "NAME              MESSAGE\na-name-in-full    adopted already\nanother-of-them   the manager adopts\n                  it\n",
		narrow(38, columns, Rows{{"a-name-in-full", "adopted already"}, {"another-of-them", "the manager adopts it"}}))
}

func TestOfKindAndNameTheKindIsShortenedFirst(t *testing.T) {
	const text = "└── WorkspaceTemplateApply/demo-eks-controlplane-apply"
	assert.Equal(t, "└── Worksp…eApply/demo-eks-controlplane-apply", shortened(text, 45))
	assert.Equal(t, "└── Worksp…Apply/demo-eks-…ane-apply", shortened(text, 36))
	assert.Equal(t, "└── Workspace…ne-apply", shortened(text, 22), "too narrow for both")
}

func TestTextIsBrokenBetweenWords(t *testing.T) {
	screen := &Screen{Columns: 24}
	p := NewPrinter(screen, Table, true)
	p.Palette = Palette{}
	p.Title("Next step:", Plain, "correct the template, and look again")
	p.Text("  ", Plain, "one\n  two and three and four")
	assert.Equal(t, "Next step: correct the\n  template, and look\n  again\n  one\n    two and three and\n  four\n", screen.String())
	screen.Reset()
	p.Item("~ Workspace team-a/demo-vpc", "~ Workspace team-a/demo-vpc", "    ", Plain, "of Cluster demo")
	assert.Equal(t, "~ Workspace team-a/demo-vpc\n    of Cluster demo\n", screen.String(), "a label that is too long is not broken")
	var out bytes.Buffer
	NewPrinter(&out, Table, true).Title("Next step:", Plain, "correct the template, and look again")
	assert.Equal(t, "Next step: correct the template, and look again\n", out.String(), "not in a pipe")
}

func TestColorsDoNotMoveColumns(t *testing.T) {
	for in, bad := range map[colors]string{eight: "\x1b[31m", manyColors: "\x1b[38;5;196m"} {
		for _, format := range []Format{Table, Wide} {
			colored := printed(format, in)
			assert.Contains(t, colored, bad+"Blocked\x1b[0m ")
			for _, sequence := range []string{bad, "\x1b[1m", "\x1b[0m"} {
				colored = strings.ReplaceAll(colored, sequence, "")
			}
			assert.Equal(t, printed(format, none), colored)
		}
	}
}

// Colors of themes are not known; those of the 256-color palette are.
func TestColorsCanBeReadOnBlackAndOnWhite(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	p := newPalette(true)
	for _, style := range []Style{Good, Bad, Attention, Faint} {
		var number int
		_, err := fmt.Sscanf(p.sequence(style), "38;5;%d", &number)
		require.NoError(t, err)
		light := luminance(number)
		assert.Greater(t, 1.05/(light+0.05), 3.9, "%d on white", number)
		assert.Greater(t, (light+0.05)/0.05, 3.8, "%d on black", number)
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("COLORTERM", "")
	assert.Equal(t, Palette{eight}, newPalette(true))
	assert.Equal(t, Palette{}, newPalette(false))
}

// luminance of a color of the 256-color palette, as WCAG defines it.
func luminance(number int) float64 {
	red, green, blue := 8+10*(number-232), 8+10*(number-232), 8+10*(number-232)
	if number < 232 {
		levels := [6]int{0, 95, 135, 175, 215, 255}
		red, green, blue = levels[(number-16)/36], levels[(number-16)/6%6], levels[(number-16)%6]
	}
	linear := func(value int) float64 {
		part := float64(value) / 255
		if part <= 0.03928 {
			return part / 12.92
		}
		return math.Pow((part+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(red) + 0.7152*linear(green) + 0.0722*linear(blue)
}

func TestAPipeHasNoColors(t *testing.T) {
	var out bytes.Buffer
	p := NewPrinter(&out, Table, false)
	assert.Equal(t, "Blocked", p.Paint(Bad, "Blocked"))
}

func TestTextOfObjectsDoesNotControlTheTerminal(t *testing.T) {
	p := &Printer{Palette: Palette{eight}}
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

func TestKindsInReasonsAreNotShortened(t *testing.T) {
	columns := []Column{{Name: "Object"}, {Name: "Reason"}}
	assert.Equal(t, "OBJECT                         REASON\nwta/demo-eks-controlplane-ap   WaitingForWorkspaceTemplateApplyDeletion\n",
		narrow(71, columns, Rows{{"WorkspaceTemplateApply/demo-eks-controlplane-ap", "WaitingForWorkspaceTemplateApplyDeletion"}}))
}

func TestANarrowTerminalShowsShortKinds(t *testing.T) {
	columns := []Column{{Name: "Object"}, {Name: "Ready"}, {Name: "Reason"}, {Name: "Age"}}
	rows := Rows{{"WorkspaceTemplateApply/demo-eks-controlplane", "False", "ApplyFailed", "60m"}, {"CAPTCluster/demo", "True", "Ready", "60m"}}
	assert.Equal(t, strings.TrimLeft(`
OBJECT                      READY   REASON        AGE
wta/demo-eks-controlplane   False   ApplyFailed   60m
captc/demo                  True    Ready         60m
`, "\n"), narrow(60, columns, rows))
}

func TestATextIsCroppedToTheScreen(t *testing.T) {
	assert.Equal(t, "1\n2\n3\n", Cropped("1\n2\n3\n", 24))
	assert.Equal(t, "1\n2\n… 3 more lines\n6\n", Cropped("1\n2\n3\n4\n5\n6\n", 5), "the last line names what needs an action")
	assert.Equal(t, "1\n2\n3\n4\n", Cropped("1\n2\n3\n4\n", 5))
	assert.Equal(t, "1\n2\n3\n", Cropped("1\n2\n3\n", 0), "the height is not known")
}
