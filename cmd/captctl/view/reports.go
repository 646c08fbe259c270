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
	"strconv"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/crds"
	"github.com/capt-provider/capt/migrate/preflight"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/verify"
)

func checkStyle(status string) output.Style {
	switch preflight.Status(status) {
	case preflight.OK:
		return output.Good
	case preflight.Warning:
		return output.Attention
	case preflight.Failed:
		return output.Bad
	default:
		return output.Plain
	}
}

// Preflight shows each check, and the objects that those are about which did not pass.
func Preflight(p *output.Printer, report *preflight.Report) {
	var phases []string
	for _, phase := range report.Phases {
		phases = append(phases, string(phase))
	}
	p.Linef("Preflight for %s", strings.Join(phases, ", "))
	for _, check := range report.Checks {
		p.Linef("  %s  %s: %s", p.Paint(checkStyle(string(check.Status)), pad(string(check.Status), 7)), p.Paint(output.Strong, check.Name), p.Paint(output.Plain, oneLine(check.Message)))
		if check.Status == preflight.OK && !p.Wide() {
			continue
		}
		objects(p, "             ", output.Plain, check.Objects)
	}
}

// Verification shows each promise, and what is not as it should be.
func Verification(p *output.Printer, report verify.Report) {
	p.Linef("Plan %s", p.Paint(output.Strong, report.Plan))
	for _, check := range report.Checks {
		status, style := "OK", output.Good
		if !check.OK {
			status, style = "Failed", output.Bad
		}
		p.Linef("  %s  %s: %s", p.Paint(style, pad(status, 6)), p.Paint(output.Strong, check.Name), p.Paint(output.Plain, oneLine(check.Message)))
		objects(p, "            ", output.Bad, texts("", check.Objects))
		objects(p, "            ", output.Faint, texts("note: ", check.Notes))
	}
}

// Definitions shows what was done with the definition whose kind has changed.
func Definitions(p *output.Printer, report *crds.Report) {
	p.Linef("The definition is: %s", report.Found)
	for _, step := range report.Steps {
		status, style := "to do", output.Attention
		if step.Done {
			status, style = "done", output.Good
		}
		p.Linef("  %s  %s: %s", p.Paint(style, pad(status, 5)), p.Paint(output.Strong, step.Name), p.Paint(output.Plain, oneLine(step.Message)))
		objects(p, "           ", output.Plain, step.Objects)
	}
	if report.Next != "" {
		p.Linef("Next: %s", p.Paint(output.Plain, report.Next))
	}
}

// Finalized shows what finalize has proved and done, kind by kind.
func Finalized(p *output.Printer, report storage.Report) {
	var rows output.Rows
	for _, kind := range report.Kinds {
		rows = append(rows, []string{
			kind.Kind, strconv.Itoa(kind.Objects), strconv.Itoa(kind.Written), strings.Join(kind.Before, ","), strings.Join(kind.After, ","), kind.Note, strconv.Itoa(kind.Passes),
		})
	}
	p.Table([]output.Column{
		{Name: "Kind"}, {Name: "Objects"}, {Name: "Written"}, {Name: "Stored-Versions-Before"}, {Name: "Stored-Versions-Now"}, {Name: "Note"}, {Name: "Passes", Wide: true},
	}, rows)
	p.Blank()
	p.Linef("No object is stored in v1beta1 any more. captctl migrate rollback refuses from now on.")
}

// Backup shows whether a backup is as it was written.
func Backup(p *output.Printer, dir string, about *backup.About, problems []backup.Problem) {
	total := 0
	for _, n := range about.Files {
		total += n
	}
	p.Linef("Backup %s of %s, for plan %s: %s in %s", p.Paint(output.Plain, dir), moment(about.Taken.Time), about.PlanID, count(total, "object"), count(len(about.Files), "file"))
	if len(problems) == 0 {
		p.Linef("%s: every file is there, as it was written, and no other", p.Paint(output.Good, "OK"))
	}
	for _, problem := range problems {
		p.Linef("%s: %s", p.Paint(output.Bad, problem.Problem), p.Paint(output.Plain, problem.File))
	}
}

// objects are lines about objects.
func objects(p *output.Printer, indent string, style output.Style, lines []string) {
	for i, line := range lines {
		if i == shown && !p.Wide() {
			more(p, len(lines)-shown)
			return
		}
		p.Linef("%s%s", indent, p.Paint(style, line))
	}
}

func texts(before string, deviations []verify.Deviation) (lines []string) {
	for _, deviation := range deviations {
		lines = append(lines, before+oneLine(deviation.String()))
	}
	return lines
}

func pad(text string, width int) string { return text + strings.Repeat(" ", max(0, width-len(text))) }
