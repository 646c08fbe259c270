// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"fmt"
	"io"
	"time"
)

// coldStart is how long it takes to build everything when no compiled package is cached.
const coldStart = "about 14 minutes on two cores"

const (
	// reportInterval is the time between two reports of the same step. The API server takes minutes to build.
	reportInterval = 15 * time.Second
	// quietFor is how long CAPT's own programs are built without a report: they are usually up to date.
	quietFor = 3 * time.Second
)

// progress reports which step of a build runs, for how long, and how many steps follow.
type progress struct {
	out     io.Writer
	total   int
	index   int
	started time.Time
	// quiet is set when nothing but CAPT's own programs is built.
	quiet bool
}

func newProgress(out io.Writer, steps []step) *progress {
	p := &progress{out: out, total: len(steps), started: time.Now(), quiet: len(steps) == 1 && steps[0].pin() == ""}
	if !p.quiet && len(steps) > 0 {
		fmt.Fprintf(out, "Building from source what is missing in bin/. Building everything takes %s, and is done once.\n", coldStart)
	}
	return p
}

// begin reports the start of a step, and regularly that it still runs. The returned function reports its end.
func (p *progress) begin(what, names string) (done func()) {
	p.index++
	label := fmt.Sprintf("[%d/%d] %s: ", p.index, p.total, what)
	began := time.Now()
	announced := !p.quiet
	if announced {
		fmt.Fprintf(p.out, "%sbuilding %s\n", label, names)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		next := reportInterval
		if p.quiet {
			next = quietFor
		}
		for {
			select {
			case <-stop:
				return
			case <-time.After(next):
				fmt.Fprintf(p.out, "%sbuilding %s, %s so far\n", label, names, time.Since(began).Round(time.Second))
				announced, next = true, reportInterval
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		if announced {
			fmt.Fprintf(p.out, "%sbuilt in %s (%s in total)\n", label,
				time.Since(began).Round(time.Second), time.Since(p.started).Round(time.Second))
		}
	}
}
