// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package modules holds the rules for Terraform modules and for the variables that they are given.
package modules

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

const (
	// mostDiagnostics limits the diagnostics that are reported per module: invalid input can have a million.
	mostDiagnostics = 10
	// mostFine are how many modules are not parsed a second time.
	mostFine = 1024
	// placeholderMark takes the place of "${" and "}" around a name, and is found again in the names that a placeholder
	// is part of. It is as long as they are, so that columns stay right, and made of what is a word in HCL and in JSON.
	placeholderMark = "QQQ"
)

var (
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	digit  = regexp.MustCompile(`[0-9]`)
)

// Reading is what became of parsing an inline module.
type Reading struct {
	// text is what was parsed.
	text string
	// excess is why the module is too complex to be parsed; empty if it is not.
	excess string
	file   *hcl.File
	diags  hcl.Diagnostics
	// open are the lines that variables become part of.
	open sets.Set[int]
}

// Module checks that an inline module is HCL (or its JSON form). Errors name line and column. Modules from elsewhere
// cannot be checked here.
func Module(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	if params.Source != terraform.SourceInline {
		return nil
	}
	key := sha256.Sum256([]byte(string(params.InlineFormat) + "\x00" + params.Module))
	if _, known := fine.Get(key); known {
		return nil
	}
	errs := read(params).Findings(path.Child("module")).Errors
	if len(errs) == 0 {
		fine.Add(key, nil)
	}
	return errs
}

// fine are the hashes of modules in which nothing was wrong. A fleet has few, and each is checked for every Workspace, again and
// again, which would be a fifth of what captctl migrate plan has to do.
var fine = lru.New(mostFine)

// Parseable refuses an inline module that a parser of HCL would overflow the stack with, or not finish in time: what
// parses one must ask first, since no program survives that.
func Parseable(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	if params.Source != terraform.SourceInline {
		return nil
	}
	return (&Reading{excess: excess(params)}).Findings(path.Child("module")).Errors
}

// ReadTemplate parses a module in which placeholders still stand.
func ReadTemplate(params terraform.WorkspaceParameters) *Reading {
	open := linesWithPlaceholders(params.Module)
	// Placeholders may stand where HCL allows none, for example outside of quotes. A bare name in their place keeps the
	// text parseable.
	params.Module = terraform.Placeholder.ReplaceAllStringFunc(params.Module, func(match string) string {
		name := match[2 : len(match)-1]
		if params.InlineFormat == terraform.FormatJSON { // There, a word has no digits.
			name = digit.ReplaceAllString(name, placeholderMark[:1])
		}
		return placeholderMark + name
	})
	module := read(params)
	module.open = open
	return module
}

func read(params terraform.WorkspaceParameters) *Reading {
	r := &Reading{text: params.Module, excess: excess(params)}
	if r.excess != "" {
		return r
	}
	parser := hclparse.NewParser()
	if params.InlineFormat == terraform.FormatJSON {
		r.file, r.diags = parser.ParseJSON([]byte(params.Module), "main.tf.json")
	} else {
		r.file, r.diags = parser.ParseHCL([]byte(params.Module), "main.tf")
	}
	return r
}

// Findings are what is wrong with a module. What a line with a placeholder lacks, the value may bring, so that is a
// warning.
func (r *Reading) Findings(path *field.Path) validation.Findings {
	const correct = "Correct the module in the WorkspaceTemplate"
	var findings validation.Findings
	if r.excess != "" {
		findings.Refuse(validation.Invalid(path, "%s. %s", r.excess, correct))
		return findings
	}
	var errors, warnings int
	for _, diag := range r.diags {
		switch {
		case diag.Severity != hcl.DiagError:
		case diag.Subject != nil && r.open.Has(diag.Subject.Start.Line):
			if warnings++; warnings <= mostDiagnostics {
				findings.Warn(path, "%s The line has a placeholder: it is checked again with the values of the variables", r.describe(diag))
			}
		default:
			if errors++; errors <= mostDiagnostics {
				findings.Refuse(validation.Invalid(path, "%s %s", r.describe(diag), correct))
			}
		}
	}
	if more := errors - mostDiagnostics; more > 0 {
		findings.Refuse(validation.Invalid(path, "and %d more errors. %s", more, correct))
	}
	if more := warnings - mostDiagnostics; more > 0 {
		findings.Warn(path, "and %d more lines like these", more)
	}
	return findings
}

func (r *Reading) describe(diag *hcl.Diagnostic) string {
	where := ""
	if diag.Subject != nil {
		where = fmt.Sprintf("line %d, column %d: ", diag.Subject.Start.Line, diag.Subject.Start.Column)
	}
	return fmt.Sprintf("%s%s: %s", where, diag.Summary, withoutQuotes(diag.Detail, r.text))
}

// withoutQuotes takes what the detail of a diagnostic quotes from the module out of it, so that the message cannot leak
// the value of a variable that became part of the text. Single characters stay: they say what is wrong.
func withoutQuotes(detail, module string) string {
	return quoted.ReplaceAllStringFunc(detail, func(quote string) string {
		if text, err := strconv.Unquote(quote); err == nil && (len(text) < 2 || !strings.Contains(module, text)) {
			return quote
		}
		return "…"
	})
}

// linesWithPlaceholders counts from 1.
func linesWithPlaceholders(text string) sets.Set[int] {
	lines := sets.New[int]()
	line, from := 1, 0
	for _, match := range terraform.Placeholder.FindAllStringIndex(text, -1) {
		line += strings.Count(text[from:match[0]], "\n")
		from = match[0]
		lines.Insert(line)
	}
	return lines
}
