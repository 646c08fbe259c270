// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// diagnostic is an error as Terraform and OpenTofu print it:
//
//	Error: SUMMARY
//
//	  with ADDRESS,
//	  on FILE line N, in BLOCK:
//	   N: excerpt of the file
//	    ├────────────────
//	    │ values in the excerpt
//
//	DETAIL
type diagnostic struct {
	summary, detail string
	// file is "FILE line N".
	file string
	// subject is an address such as aws_vpc.this, or a block such as variable "zones".
	subject string
}

var (
	withLine = regexp.MustCompile(`^  with (.+),$`)
	onLine   = regexp.MustCompile(`^  on (.+? line \d+)(?:, in (.+))?:$`)
	excerpt  = regexp.MustCompile(`^\s*\d+: `)
	// declaration is an excerpt that declares a variable. Terraform does not name its block.
	declaration = regexp.MustCompile(`^\s*\d+: (variable "[^"]+")`)
	// noise of the AWS SDKs. Classes are matched before it is removed.
	noise = regexp.MustCompile(`(?:https response error )?StatusCode: \d+, (?:RequestID: [^,]*, )?(?:HostID: [^,]*, )?(?:api error )?|\s+status code: \d+, request id: \S+|\s*\{ RespMetadata: .*\}`)
	// boilerplate are paragraphs and sentences that do not depend on the error.
	boilerplate = regexp.MustCompile(`(?s)(?:Terraform|OpenTofu) acquires a state lock.*|This was checked by the validation rule at \S+|Use a -var or -var-file.*|Stack trace from.*|To see which modules are currently depending.*|\nPlease see https://registry\..*`)
)

// summarize returns the error of an output that determines its class, together with the first error if that is another one; empty without
// errors.
func summarize(output string) string {
	var found []string
	decided, total := false, 0
	for _, text := range diagnostics(output) {
		if !strings.HasPrefix(text, errorHeading) {
			continue
		}
		total++
		class, vague := classOf(text)
		decides := class != ClassUnknown && !vague
		if len(found) == 0 || decides && !decided {
			if line := parse(text).String(); !slices.Contains(found, line) {
				found = append(found, line)
			}
		}
		decided = decided || decides
	}
	shown := strings.Join(found, "; ")
	if total > len(found) {
		return fmt.Sprintf("%s (%d of %d errors)", strings.TrimRight(shown, "."), len(found), total)
	}
	return shown
}

const errorHeading = "Error: "

func parse(text string) diagnostic {
	var d diagnostic
	var summary, detail []string
	inSummary, inValues := true, false
	for _, line := range strings.Split(strings.TrimPrefix(text, errorHeading), "\n") {
		line = strings.TrimRight(strings.TrimPrefix(strings.TrimPrefix(line, "│ "), "│"), " ")
		with, on := withLine.FindStringSubmatch(line), onLine.FindStringSubmatch(line)
		switch {
		case line == "":
			inSummary, inValues = false, false
			detail = append(detail, "")
		case with != nil:
			d.subject = with[1]
		case on != nil && d.file == "":
			inSummary, inValues = false, true
			d.file, d.subject = on[1], cmp.Or(d.subject, on[2])
		case inSummary:
			summary = append(summary, line)
		case inValues:
			if match := declaration.FindStringSubmatch(line); match != nil {
				d.subject = cmp.Or(d.subject, match[1])
			}
		case !excerpt.MatchString(line) && strings.Trim(line, "╷╵") != "":
			detail = append(detail, line)
		}
	}
	d.summary = strings.TrimRight(oneLine(strings.Join(summary, "\n")), ".")
	d.detail = oneLine(boilerplate.ReplaceAllString(strings.Join(detail, "\n"), ""))
	return d
}

// String is the diagnostic on one line: `variable "zones" (main.tf line 5): SUMMARY: DETAIL`.
func (d diagnostic) String() string {
	where := d.subject
	switch {
	case where != "" && d.file != "":
		where += " (" + d.file + ")"
	case where == "":
		where = d.file
	}
	parts := slices.DeleteFunc([]string{where, d.summary, d.detail}, func(part string) bool { return part == "" })
	return noise.ReplaceAllString(strings.Join(parts, ": "), "")
}
