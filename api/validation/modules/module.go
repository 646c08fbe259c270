// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package modules has the rules for Terraform modules and for their variables.
package modules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

const (
	// maxDiagnostics is the maximum number of diagnostics that are reported per module: invalid input can have a million.
	maxDiagnostics = 10
	// validCacheSize is the maximum number of modules in the cache of valid modules.
	validCacheSize = 1024
	// placeholderMark replaces "${" and "}" around the name of a placeholder before parsing, and later identifies names that contain a
	// placeholder. It is as long as the characters that it replaces, so that columns stay correct, and is a valid identifier in HCL.
	placeholderMark = "QQQ"
)

var (
	// quoted matches a Go string literal.
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	digit  = regexp.MustCompile(`[0-9]`)
)

// PlaceholderNote ends the messages about lines that values of variables may complete.
const PlaceholderNote = "The line has a placeholder: it is checked again with the values of the variables"

// Parsed is the result of parsing an inline module.
type Parsed struct {
	// text is the text that was parsed.
	text string
	// exceededLimit is why the module is too complex to be parsed; empty if it is not.
	exceededLimit string
	file          *hcl.File
	diags         hcl.Diagnostics
	// placeholderLines are the lines with placeholders, counted from 1.
	placeholderLines sets.Set[int]
}

// ValidateModule checks that an inline module is valid HCL, in native syntax or JSON. Errors have line and column. Modules with other
// sources are not checked.
func ValidateModule(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	if params.Source != terraform.SourceInline {
		return nil
	}
	key := sha256.Sum256([]byte(string(params.InlineFormat) + "\x00" + params.Module))
	if _, known := validModules.Get(key); known {
		return nil
	}
	errs, _ := Parse(params).Check(path.Child("module"))
	if len(errs) == 0 {
		validModules.Add(key, nil)
	}
	return errs
}

// validModules is the cache of valid modules, by hash. A fleet has few modules, and each is checked for every Workspace; without the cache,
// this takes a fifth of the time of captctl migrate plan.
var validModules = lru.New(validCacheSize)

// ValidateComplexity rejects an inline module for which an HCL parser could overflow the stack, or take very long. Call it before a module
// is parsed, because a Go program cannot recover from a stack overflow.
func ValidateComplexity(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	if params.Source != terraform.SourceInline {
		return nil
	}
	errs, _ := (&Parsed{exceededLimit: exceededLimit(params)}).Check(path.Child("module"))
	return errs
}

// ParseTemplate parses a module before its placeholders are replaced.
func ParseTemplate(spec *infrav1.WorkspaceTemplateSpec) *Parsed {
	params := spec.Template.Spec.ForProvider
	if spec.HasLiteralModule() {
		return Parse(params)
	}
	lines := linesWithPlaceholders(params.Module)
	// A placeholder may be where HCL does not allow an expression, for example outside of quotes. An identifier in its place keeps the
	// text parseable.
	params.Module = terraform.ReplacePlaceholders(params.Module, terraform.EscapeKept, func(name string) string {
		if params.InlineFormat == terraform.FormatJSON { // A JSON keyword has no digits.
			name = digit.ReplaceAllString(name, placeholderMark[:1])
		}
		return placeholderMark + name
	})
	module := Parse(params)
	module.placeholderLines = lines
	return module
}

// Parse parses a module without placeholders, unless it exceeds a limit.
func Parse(params terraform.WorkspaceParameters) *Parsed {
	r := &Parsed{text: params.Module, exceededLimit: exceededLimit(params)}
	if r.exceededLimit != "" {
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

// Check returns the syntax errors of a module, at most maxDiagnostics. An error in a line with a placeholder is a warning, because the value of the
// variable may complete the line.
func (r *Parsed) Check(path *field.Path) (errs field.ErrorList, warnings []string) {
	const correct = "Correct the module in the WorkspaceTemplate"
	if r.exceededLimit != "" {
		return field.ErrorList{invalid(path, "%s. %s", r.exceededLimit, correct)}, nil
	}
	var moreErrors, moreWarnings int
	for _, diag := range r.diags {
		inPlaceholderLine := diag.Subject != nil && r.placeholderLines.Has(diag.Subject.Start.Line)
		switch {
		case diag.Severity != hcl.DiagError:
		case inPlaceholderLine && len(warnings) == maxDiagnostics:
			moreWarnings++
		case inPlaceholderLine:
			warnings = append(warnings, r.describe(diag)+" "+PlaceholderNote)
		case len(errs) == maxDiagnostics:
			moreErrors++
		default:
			errs = append(errs, invalid(path, "%s %s", r.describe(diag), correct))
		}
	}
	if moreErrors > 0 {
		errs = append(errs, invalid(path, "and %d more errors. %s", moreErrors, correct))
	}
	if moreWarnings > 0 {
		warnings = append(warnings, fmt.Sprintf("and %d more lines like these", moreWarnings))
	}
	return errs, warnings
}

// IsValid reports whether the module could be parsed.
func (r *Parsed) IsValid() bool {
	return r.exceededLimit == "" && !r.diags.HasErrors() && r.file != nil
}

// Text is the text that was parsed: a name replaces each placeholder.
func (r *Parsed) Text() string { return r.text }

// HasPlaceholder reports whether a line, counted from 1, has a placeholder.
func (r *Parsed) HasPlaceholder(line int) bool { return r.placeholderLines.Has(line) }

// describe returns position, summary and detail of a diagnostic.
func (r *Parsed) describe(diag *hcl.Diagnostic) string {
	where := ""
	if diag.Subject != nil {
		where = fmt.Sprintf("line %d, column %d: ", diag.Subject.Start.Line, diag.Subject.Start.Column)
	}
	return fmt.Sprintf("%s%s: %s", where, diag.Summary, withoutQuotations(diag.Detail, r.text))
}

// invalid returns an error about a value without the value, which may be a secret or the text of a whole module.
func invalid(path *field.Path, format string, args ...any) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...))
}

// withoutQuotations removes quotations of the module from the detail of a diagnostic, so that the message cannot reveal the value of a
// variable that became part of the text. Quotations of one character are kept, because without them the message is not understandable.
func withoutQuotations(detail, module string) string {
	return quoted.ReplaceAllStringFunc(detail, func(quote string) string {
		if text, err := strconv.Unquote(quote); err == nil && (len(text) < 2 || !strings.Contains(module, text)) {
			return quote
		}
		return "…"
	})
}

// linesWithPlaceholders returns the lines with placeholders, counted from 1.
func linesWithPlaceholders(text string) sets.Set[int] {
	lines, number := sets.New[int](), 0
	for line := range strings.Lines(text) {
		if number++; terraform.HasPlaceholder(line) {
			lines.Insert(number)
		}
	}
	return lines
}

// Declarations are the variables and outputs that an inline module declares.
type Declarations struct {
	// Variables has the names of the variables; the value is true if the variable has a default.
	Variables map[string]bool
	// Outputs has the names of the outputs; the value is true if the output has the literal sensitive = true.
	Outputs map[string]bool
	// Incomplete is true when a placeholder is part of a name, so that not every name is known.
	Incomplete bool
}

// literalSize is the maximum size, in bytes, of an expression that is evaluated. A literal true is shorter; the evaluation of a large
// expression can take very long.
const literalSize = 1000

var (
	blocks = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
	}}
	attributes = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "default"}, {Name: "sensitive"}}}
)

// Declarations returns the declarations of a module; nil when the module could not be parsed.
func (r *Parsed) Declarations() *Declarations {
	if !r.IsValid() {
		return nil
	}
	content, _, _ := r.file.Body.PartialContent(blocks) // Terraform reports invalid blocks.
	d := &Declarations{Variables: map[string]bool{}, Outputs: map[string]bool{}}
	for _, block := range content.Blocks {
		inner, _, _ := block.Body.PartialContent(attributes)
		name := block.Labels[0]
		d.Incomplete = d.Incomplete || strings.Contains(name, placeholderMark)
		if block.Type == "output" {
			d.Outputs[name] = isLiteralTrue(inner.Attributes["sensitive"])
			continue
		}
		_, d.Variables[name] = inner.Attributes["default"]
	}
	return d
}

// creates are the blocks of which Terraform records something in the state.
var creates = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "resource", LabelNames: []string{"type", "name"}}, {Type: "data", LabelNames: []string{"type", "name"}},
	{Type: "module", LabelNames: []string{"name"}}, {Type: "output", LabelNames: []string{"name"}},
}}

// Nothing returns a warning about a valid module that has nothing to create and no output.
func (r *Parsed) Nothing() string {
	if !r.IsValid() {
		return ""
	}
	if content, _, _ := r.file.Body.PartialContent(creates); len(content.Blocks) > 0 {
		return ""
	}
	return "the module has no resource, data source, module or output, so that provider-terraform applies it again and again, and never reports it Ready. Add an output"
}

// OutputsOf returns the outputs that the inline module of a template declares; nil if not all are known.
func OutputsOf(template *infrav1.WorkspaceTemplate) map[string]bool {
	params := template.Spec.Template.Spec.ForProvider
	if params.Source != terraform.SourceInline {
		return nil
	}
	module := ParseTemplate(&template.Spec).Declarations()
	if module == nil || module.Incomplete {
		return nil
	}
	return module.Outputs
}

// isLiteralTrue reports whether an attribute, which may be nil, has the literal value true.
func isLiteralTrue(attribute *hcl.Attribute) bool {
	if attribute == nil {
		return false
	}
	where := attribute.Expr.Range()
	var value bool
	return where.End.Byte-where.Start.Byte <= literalSize && !gohcl.DecodeExpression(attribute.Expr, nil, &value).HasErrors() && value
}

// VarMap returns the Terraform variables of forProvider.varmap, as JSON.
func VarMap(params terraform.WorkspaceParameters) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	if params.VarMap == nil || json.Unmarshal(params.VarMap.Raw, &values) != nil {
		return nil // The schema of the CRD accepts only JSON objects.
	}
	return values
}
