// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/clock"

	"github.com/capt-provider/capt/migrate"
)

const (
	// redraw is the shortest time between two drawings of a bar.
	redraw = 100 * time.Millisecond
	// Without a terminal, a line is printed for every tenth of the work: at least minBetweenLines apart, not to fill a log, and at the latest
	// after maxBetweenLines, so that a long run does not look dead.
	minBetweenLines, maxBetweenLines = 2 * time.Second, 30 * time.Second
	// barWidth is how many characters a full bar has, and defaultWidth those of a terminal of unknown width.
	barWidth, defaultWidth = 24, 80
)

// Progress shows how far work has come: a bar on a terminal, lines elsewhere.
type Progress struct {
	to    io.Writer
	clock clock.PassiveClock
	// width of the terminal; nil if it is none.
	width func() int

	mutex              sync.Mutex
	name               string
	total, done, shown int
	began, last        time.Time
}

var _ migrate.Progress = &Progress{}

// NewProgress shows a bar if the writer is a terminal, and lines if it is not. Nothing is shown if it is nil.
func NewProgress(to io.Writer, now clock.PassiveClock) *Progress {
	if to == nil {
		to = io.Discard
	}
	p := &Progress{to: to, clock: now}
	if file, ok := to.(interface{ Fd() uintptr }); ok && printers.IsTerminal(to) {
		p.width = func() int { return terminalWidth(int(file.Fd())) }
	}
	return p
}

func terminalWidth(descriptor int) int {
	width, _, err := term.GetSize(descriptor)
	if err != nil || width <= 0 {
		return defaultWidth
	}
	return width
}

// Phase implements migrate.Progress.
func (p *Progress) Phase(name string, total int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.finish()
	p.name, p.total, p.done, p.shown = name, total, 0, 0
	p.began = p.clock.Now()
	p.last = p.began
	p.show()
}

// Add implements migrate.Progress.
func (p *Progress) Add(count int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.done += count
	since := p.clock.Since(p.last)
	if p.width != nil && since >= redraw || p.width == nil && (since >= maxBetweenLines || since >= minBetweenLines && p.total > 0 && (p.done-p.shown)*10 >= p.total) {
		p.show()
	}
}

// Stop ends the last phase. What is printed next begins on a line of its own.
func (p *Progress) Stop() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.finish()
	p.name = ""
}

// finish shows the end of a phase, which may be an early one.
func (p *Progress) finish() {
	switch {
	case p.name == "":
	case p.width != nil:
		p.write("\r\x1b[K" + p.line() + ", " + p.took() + "\n")
	case p.done != p.shown || p.done == 0 && p.clock.Since(p.began) >= minBetweenLines:
		p.write(p.line() + ", " + p.took() + "\n")
	}
}

func (p *Progress) show() {
	p.last, p.shown = p.clock.Now(), p.done
	if p.width == nil {
		p.write(p.line() + "\n")
		return
	}
	line := []rune(p.bar())
	p.write("\r\x1b[K" + string(line[:min(len(line), p.width()-1)]))
}

// line is "name: 3 of 10 (30 %)"; the name alone where nothing is counted.
func (p *Progress) line() string {
	switch {
	case p.total == 0 && p.done == 0:
		return p.name
	case p.total == 0:
		return fmt.Sprintf("%s: %d", p.name, p.done)
	}
	return fmt.Sprintf("%s: %d of %d (%d %%)", p.name, p.done, p.total, 100*min(p.done, p.total)/p.total)
}

// bar is the line with a bar before it, and with an estimate of the time that is left.
func (p *Progress) bar() string {
	if p.total == 0 {
		return p.line()
	}
	full := barWidth * min(p.done, p.total) / p.total
	bar := "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "] " + p.line()
	if p.done > 0 && p.done < p.total {
		left := time.Duration(float64(p.clock.Since(p.began)) / float64(p.done) * float64(p.total-p.done))
		bar += ", " + left.Round(time.Second).String() + " left"
	}
	return bar
}

func (p *Progress) took() string { return p.clock.Since(p.began).Round(time.Second).String() }

// write ignores errors: the command continues when its progress cannot be shown.
func (p *Progress) write(text string) { fmt.Fprint(p.to, text) }
