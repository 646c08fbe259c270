/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
)

// shown is how many lines about objects of one kind people are shown before the rest is counted; -o wide shows all.
const shown = 20

func more(p *output.Printer, count int) { p.Linef("  and %d more, which -o wide shows", count) }

func outcomeStyle(outcome string) output.Style {
	switch journal.Outcome(outcome) {
	case journal.Done:
		return output.Good
	case journal.Partly:
		return output.Attention
	default:
		return output.Plain
	}
}

// Result shows what a run did.
func Result(p *output.Printer, result *execute.Result) {
	kept := ""
	if result.DryRun {
		kept = " (dry run: nothing was kept)"
	}
	p.Linef("Plan %s, %s%s: %s", p.Paint(output.Strong, result.PlanID), result.Command, kept, p.Paint(outcomeStyle(string(result.Outcome)), outcome(result.Outcome)))
	p.Table([]output.Column{{Name: "Phase"}, {Name: "Total"}, {Name: "Written"}, {Name: "Already"}, {Name: "Failed"}, {Name: "Not-Tried"}}, output.Rows{
		append([]string{"adoption"}, numbers(result.Steps)...),
		append([]string{"storage"}, numbers(result.Storage)...),
	})
	if len(result.Failures) > 0 {
		p.Blank()
		p.Linef("Not written:")
	}
	for i, failure := range result.Failures {
		if i == shown && !p.Wide() {
			more(p, len(result.Failures)-shown)
			break
		}
		p.Linef("  %s: %s", p.Paint(output.Bad, failure.Object.String()), p.Paint(output.Plain, oneLine(failure.Error)))
		if failure.Why != "" {
			p.Linef("    %s", p.Paint(output.Faint, failure.Why))
		}
	}
	if len(result.Left) > 0 {
		p.Blank()
		p.Linef("Created by the plan, no longer used, and left in place (captctl deletes nothing):")
	}
	for _, left := range result.Left {
		p.Linef("  %s", p.Paint(output.Plain, left.String()))
	}
	if result.Backup != nil {
		p.Blank()
		p.Linef("The backup is in %s on %s; its checksum is %s.", p.Paint(output.Plain, result.Backup.Dir), p.Paint(output.Plain, result.Backup.Host), result.Backup.Sum)
	}
	next(p, result)
}

// next says which command comes now.
func next(p *output.Printer, result *execute.Result) {
	switch {
	case result.DryRun:
	case result.Outcome == journal.Partly && result.Command == journal.Apply:
		p.Blank()
		p.Linef("Go on with: captctl migrate resume %s", result.PlanID)
		p.Linef("Or go back with: captctl migrate rollback %s", result.PlanID)
	case result.Outcome == journal.Done && result.Command == journal.Apply:
		p.Blank()
		p.Linef("Prove that nothing else has changed with: captctl migrate verify PLAN_FILE")
	}
}

func outcome(outcome journal.Outcome) string {
	if outcome == "" {
		return "under way, or killed"
	}
	return string(outcome)
}

func numbers(c journal.Counts) []string {
	return []string{strconv.Itoa(c.Total), strconv.Itoa(c.Written), strconv.Itoa(c.Already), strconv.Itoa(c.Failed), strconv.Itoa(c.Left())}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Migrations shows how far migrations have come, and who has the lock.
func Migrations(p *output.Printer, states []journal.State, holder *lock.Holder, now time.Time) {
	if len(states) == 0 {
		p.Linef("No plan was begun in this cluster.")
	} else {
		var rows output.Rows
		for i := range states {
			s := &states[i]
			rows = append(rows, []string{
				s.PlanID, string(s.Command), string(s.Phase), outcome(s.Outcome), done(s.Steps), done(s.Storage), ago(now, s.Updated.Time), s.Object,
				strconv.Itoa(s.Runs), s.Run,
			})
		}
		p.Table([]output.Column{
			{Name: "Plan"}, {Name: "Command"}, {Name: "Phase"}, {Name: "Outcome", Style: outcomeStyle}, {Name: "Adoption"}, {Name: "Storage"}, {Name: "Updated"},
			{Name: "Object", Wide: true}, {Name: "Runs", Wide: true}, {Name: "Last-Run", Wide: true},
		}, rows)
	}
	for i := range states {
		if s := &states[i]; s.Message != "" {
			p.Blank()
			p.Linef("%s: %s", s.PlanID, p.Paint(output.Plain, oneLine(s.Message)))
		}
	}
	p.Blank()
	if holder == nil {
		p.Linef("Nobody has the lock.")
		return
	}
	p.Linef("%s took the lock %s.", p.Paint(output.Strong, holder.Identity), ago(now, holder.Since))
}

// done is "3/10", or "3/10, 1 failed".
func done(c journal.Counts) string {
	text := fmt.Sprintf("%d/%d", c.Written+c.Already, c.Total)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	return text
}

func ago(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at)) + " ago"
}
