// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package modules has the rules for Terraform modules and for their variables.
package modules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

const (
	// maxDiagnostics is the maximum number of diagnostics that are reported per module: invalid input can have a million.
	maxDiagnostics = 10
	// cacheSize is the maximum number of modules whose declarations are cached.
	cacheSize = 1024
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

// Parsed is an inline module. It is parsed when that is needed: its declarations are cached.
type Parsed struct {
	text   string
	format terraform.FileFormat
	parse  func() syntax
	// placeholderLines are the lines with placeholders, counted from 1.
	placeholderLines sets.Set[int]
}

// syntax is the result of parsing a module.
type syntax struct {
	// exceededLimit is why the module is too complex to be parsed; empty if it is not.
	exceededLimit string
	file          *hcl.File
	diags         hcl.Diagnostics
}

// ValidateModule checks that an inline module is valid HCL, in native syntax or JSON. Errors have line and column. Modules with other
// sources are not checked.
func ValidateModule(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	if params.Source != terraform.SourceInline {
		return nil
	}
	module := Parse(params)
	if module.Declarations() != nil {
		return nil
	}
	errs, _ := module.Check(path.Child("module"))
	return errs
}

// ValidateComplexity rejects an inline module for which an HCL parser could overflow the stack, or take very long. Call it before a module
// is parsed, because a Go program cannot recover from a stack overflow.
func ValidateComplexity(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	if params.Source != terraform.SourceInline {
		return nil
	}
	errs, _ := (&Parsed{parse: func() syntax { return syntax{exceededLimit: exceededLimit(params)} }}).Check(path.Child("module"))
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
	return &Parsed{text: params.Module, format: params.InlineFormat, parse: sync.OnceValue(func() (s syntax) {
		if s.exceededLimit = exceededLimit(params); s.exceededLimit != "" {
			return s
		}
		parser := hclparse.NewParser()
		if params.InlineFormat == terraform.FormatJSON {
			s.file, s.diags = parser.ParseJSON([]byte(params.Module), "main.tf.json")
		} else {
			s.file, s.diags = parser.ParseHCL([]byte(params.Module), "main.tf")
		}
		return s
	})}
}

// Check returns the syntax errors of a module, at most maxDiagnostics. An error in a line with a placeholder is a warning, because the value of the
// variable may complete the line.
func (r *Parsed) Check(path *field.Path) (errs field.ErrorList, warnings []string) {
	const correct = "Correct the module in the WorkspaceTemplate"
	parsed := r.parse()
	if parsed.exceededLimit != "" {
		return field.ErrorList{invalid(path, "%s. %s", parsed.exceededLimit, correct)}, nil
	}
	var moreErrors, moreWarnings int
	for _, diag := range parsed.diags {
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
	parsed := r.parse()
	return parsed.exceededLimit == "" && !parsed.diags.HasErrors() && parsed.file != nil
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
	if content, _, _ := r.parse().file.Body.PartialContent(creates); len(content.Blocks) > 0 {
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

// VarMap returns the Terraform variables of forProvider.varmap, as JSON.
func VarMap(params terraform.WorkspaceParameters) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	if params.VarMap == nil || json.Unmarshal(params.VarMap.Raw, &values) != nil {
		return nil // The schema of the CRD accepts only JSON objects.
	}
	return values
}

// Types of backends.
const (
	LocalBackend      = "local"      // LocalBackend keeps the state in a directory.
	KubernetesBackend = "kubernetes" // KubernetesBackend keeps the state in a Secret.
	cloudBackend      = "cloud"      // cloudBackend has a block of its own.
)

// Backend is where Terraform keeps the state.
type Backend struct {
	Type string
	body hcl.Body
}

var backendSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "backend", LabelNames: []string{"type"}}, {Type: cloudBackend}}}

// BackendOf returns the backend that a file of a module sets; nil if it sets none.
func BackendOf(name string, text []byte) (found *Backend, err error) {
	body, err := parseFile(name, text)
	for _, block := range blocksOf(body, &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}}) {
		for _, inner := range blocksOf(block.Body, backendSchema) {
			if found = (&Backend{inner.Type, inner.Body}); len(inner.Labels) > 0 {
				found.Type = inner.Labels[0]
			}
		}
	}
	return found, err
}

// parseFile returns an empty body for a file that is not valid.
func parseFile(name string, text []byte) (hcl.Body, error) {
	parse := func() (*hcl.File, hcl.Diagnostics) { return hclsyntax.ParseConfig(text, name, hcl.InitialPos) }
	if strings.HasSuffix(name, ".json") {
		parse = func() (*hcl.File, hcl.Diagnostics) { return hcljson.Parse(text, name) }
	}
	file, diagnostics := parse()
	if diagnostics.HasErrors() {
		return hcl.EmptyBody(), diagnostics
	}
	return file.Body, nil
}

// blocksOf returns the blocks of a schema. What is not valid, Terraform reports.
func blocksOf(body hcl.Body, schema *hcl.BodySchema) hcl.Blocks {
	content, _, _ := body.PartialContent(schema)
	return content.Blocks
}

// Arguments are the arguments of the backend that are constant, as text. file has further ones, which take precedence.
func (b *Backend) Arguments(file string) map[string]string {
	found := map[string]string{}
	further, _ := parseFile("backend", []byte(file)) // Terraform reports what is not valid.
	for _, body := range []hcl.Body{b.body, further} {
		attributes, _ := body.JustAttributes() // Others are nested blocks.
		for name, attribute := range attributes {
			value, _ := attribute.Expr.Value(nil)
			if text, err := convert.Convert(value, cty.String); err == nil && !text.IsNull() && text.IsWhollyKnown() {
				found[name] = text.AsString()
			}
		}
	}
	return found
}
