// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"k8s.io/apimachinery/pkg/util/sets"
)

// NotDeclaredNote ends the messages about what a module refers to and does not declare.
const NotDeclaredNote = "Declare it, or correct the spelling"

// scan finds what Terraform rejects in a module that is valid HCL: what is newer than BundledTerraform, and references to what the module does
// not have. It takes linear time, and its depth is that of the parser.
type scan struct {
	found []problem
	// language is true if what is newer than BundledTerraform is reported.
	language bool
	// declared are the addresses that expressions can refer to, for example var.region, local.name, data.aws_vpc.this, aws_vpc.this. It is nil if
	// references are not checked.
	declared sets.Set[string]
	// incomplete is true when a placeholder is part of an address, so that not every address is known.
	incomplete bool
	// variables is true if only references to variables are checked.
	variables bool
	// more counts problems that are not in found, because there are too many.
	more int
}

// problem is a problem at a position of a module.
type problem struct {
	at   hcl.Pos
	text string
}

func (s *scan) add(at hcl.Range, format string, args ...any) {
	const maxProblems = 1000 // The maximum number of problems that are kept and sorted: a module can have a hundred thousand.
	if len(s.found) == maxProblems {
		s.more++
		return
	}
	s.found = append(s.found, problem{at.Start, fmt.Sprintf(format, args...)})
}

// Language returns warnings about what BundledTerraform does not have, and about modules of other directories; none for a module that is not
// valid HCL. In JSON, only blocks are checked.
func (r *Parsed) Language() []string {
	return r.scan(&scan{language: true})
}

// Variables returns warnings about references to variables that the module does not declare; none for a module in JSON. Besides the module, a
// ProviderConfig can have declarations, which the webhooks do not know, so they check no other references.
func (r *Parsed) Variables() []string {
	return r.scan(&scan{declared: sets.New[string](), variables: true})
}

// References returns warnings about references to what neither the module nor the others declare; none for a module in JSON.
func (r *Parsed) References(others ...*Parsed) []string {
	s := &scan{declared: sets.New[string]()}
	for _, other := range others {
		if body := other.native(); body != nil {
			s.declareAll(body)
		}
	}
	return r.scan(s)
}

// native returns the content of a valid module in native syntax; nil for others.
func (r *Parsed) native() *hclsyntax.Body {
	if !r.IsValid() {
		return nil
	}
	body, _ := r.parse().file.Body.(*hclsyntax.Body)
	return body
}

func (r *Parsed) scan(s *scan) (warnings []string) {
	switch body := r.native(); {
	case body != nil:
		s.module(body)
	case r.IsValid() && s.language:
		blocks, _ := r.parse().file.Body.JustAttributes() // In JSON, blocks and arguments have the same syntax.
		for name, block := range blocks {
			if name != "//" { // A comment.
				s.blockType(name, block.NameRange)
			}
		}
	}
	slices.SortStableFunc(s.found, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.at.Byte, b.at.Byte), strings.Compare(a.text, b.text))
	})
	for i, found := range s.found {
		if i == maxDiagnostics {
			return append(warnings, fmt.Sprintf("and %d more problems", len(s.found)-i+s.more))
		}
		warnings = append(warnings, fmt.Sprintf("line %d, column %d: %s", found.at.Line, found.at.Column, found.text))
	}
	return warnings
}

func (s *scan) module(body *hclsyntax.Body) {
	s.declareAll(body)
	for _, block := range body.Blocks {
		s.blockType(block.Type, block.TypeRange)
		s.block(block, block.Type == "resource", nil)
	}
}

// declareAll adds the addresses of all blocks of a module.
func (s *scan) declareAll(body *hclsyntax.Body) {
	if s.declared == nil {
		return // References are not checked.
	}
	for _, block := range body.Blocks {
		s.declare(block)
	}
}

// declare adds the addresses of a block.
func (s *scan) declare(block *hclsyntax.Block) {
	prefixes := map[string]string{"variable": "var.", "module": "module.", "data": "data.", "ephemeral": "ephemeral.", "resource": ""}
	names := []string{strings.Join(block.Labels, ".")}
	prefix, addressable := prefixes[block.Type]
	switch block.Type {
	case "locals":
		prefix, addressable, names = "local.", true, slices.Collect(maps.Keys(block.Body.Attributes))
	case "check": // It may have a data source.
		for _, inner := range block.Body.Blocks {
			s.declare(inner)
		}
	}
	if !addressable {
		return
	}
	for _, name := range names {
		s.declared.Insert(prefix + name)
		s.incomplete = s.incomplete || strings.Contains(name, placeholderMark)
	}
}

// block checks a block. iterators are the names that dynamic blocks around it define.
func (s *scan) block(block *hclsyntax.Block, resource bool, iterators []string) {
	for name, attribute := range block.Body.Attributes {
		s.argument(block.Type, name, resource, attribute)
		if !isSymbolic(block.Type, name) {
			s.expression(attribute.Expr, iterators)
		}
	}
	switch {
	case !s.language:
	case block.Type == "variable":
		s.validations(block)
	case block.Type == "module":
		s.moduleSource(block)
	}
	for _, inner := range block.Body.Blocks {
		s.newerArgument(block.Type, inner.Type, inner.TypeRange)
		if block.Type != "terraform" { // Its blocks have names of providers and settings, not references.
			s.block(inner, resource, append(slices.Clip(iterators), iteratorOf(inner)...))
		}
	}
}

// iteratorOf returns the name that a dynamic block defines; none for other blocks.
func iteratorOf(block *hclsyntax.Block) []string {
	if block.Type != "dynamic" || len(block.Labels) == 0 {
		return nil
	}
	if attribute := block.Body.Attributes["iterator"]; attribute != nil {
		return []string{hcl.ExprAsKeyword(attribute.Expr)}
	}
	return block.Labels
}

// isSymbolic reports whether the value of an argument has names of types, arguments or providers in place of references.
func isSymbolic(block, name string) bool {
	switch name {
	case "provider", "providers", "ignore_changes", "iterator":
		return true
	}
	return block == "variable" && name == "type" || block == "moved" || block == "removed" || block == "terraform"
}

// validations checks that the conditions of a variable refer to this variable only.
func (s *scan) validations(variable *hclsyntax.Block) {
	if len(variable.Labels) == 0 {
		return
	}
	for _, inner := range variable.Body.Blocks {
		condition := inner.Body.Attributes["condition"]
		if inner.Type != "validation" || condition == nil {
			continue
		}
		for _, reference := range hclsyntax.Variables(condition.Expr) {
			if address := addressOf(reference, 2); address != "var."+variable.Labels[0] && address != "path."+step(reference, 1) {
				s.newer("a validation that refers to "+address, "Terraform 1.9", reference.SourceRange())
			}
		}
	}
}

// moduleSource checks that the address of a module is not a directory below this one: an inline module is a single file.
func (s *scan) moduleSource(module *hclsyntax.Block) {
	attribute := module.Body.Attributes["source"]
	if attribute == nil {
		return
	}
	literal, isTemplate := attribute.Expr.(*hclsyntax.TemplateExpr)
	if !isTemplate || !literal.IsStringLiteral() {
		return
	}
	if value, _ := literal.Value(nil); strings.HasPrefix(value.AsString(), "./") || strings.HasPrefix(value.AsString(), "../") {
		s.add(attribute.Expr.Range(), "the source is a directory, and an inline module is a single file. Use the address of a registry or of a repository")
	}
}

// expression checks the functions and the references of an expression.
func (s *scan) expression(expression hclsyntax.Expression, iterators []string) {
	if s.language {
		_ = hclsyntax.VisitAll(expression, func(node hclsyntax.Node) hcl.Diagnostics {
			if call, ok := node.(*hclsyntax.FunctionCallExpr); ok {
				s.function(call)
			}
			return nil
		})
	}
	if s.declared == nil {
		return
	}
	for _, reference := range hclsyntax.Variables(expression) {
		if address := s.unknown(reference); address != "" && !slices.Contains(iterators, reference.RootName()) {
			s.add(reference.SourceRange(), "the module has no %s. "+NotDeclaredNote, address)
		}
	}
}

// unknown returns the address of a reference if the module does not have it; empty if it has, or if the reference is not to a block.
func (s *scan) unknown(reference hcl.Traversal) string {
	steps := 2
	if s.variables && reference.RootName() != "var" {
		return ""
	}
	switch reference.RootName() {
	case "each", "count", "self", "path", "terraform":
		return ""
	case "data", "ephemeral":
		steps = 3
	}
	address := addressOf(reference, steps)
	if address == "" || s.incomplete || strings.Contains(address, placeholderMark) || s.declared.Has(address) {
		return ""
	}
	return address
}

// addressOf returns the first steps of a reference; empty if it has fewer names.
func addressOf(reference hcl.Traversal, steps int) string {
	names := []string{reference.RootName()}
	for i := 1; i < steps; i++ {
		name := step(reference, i)
		if name == "" {
			return ""
		}
		names = append(names, name)
	}
	return strings.Join(names, ".")
}

// step returns the name at an index of a reference; empty if there is none.
func step(reference hcl.Traversal, i int) string {
	if i < len(reference) {
		if attribute, ok := reference[i].(hcl.TraverseAttr); ok {
			return attribute.Name
		}
	}
	return ""
}

// BundledTerraform is the version of Terraform that provider-terraform bundles: the last one with a license that permits it. Another image of the
// provider may have OpenTofu, so what is newer is a warning only.
const BundledTerraform = "1.5.7"

// The values of what BundledTerraform does not have are where it exists.
var (
	// blockTypes are the blocks of a module.
	blockTypes = map[string]string{
		"terraform": "", "provider": "", "variable": "", "locals": "", "output": "", "resource": "", "data": "", "module": "", "moved": "", "import": "", "check": "",
		"removed": "Terraform 1.7", "ephemeral": "Terraform 1.10", "action": "Terraform 1.14",
	}
	newerFunctions = map[string]string{"issensitive": "Terraform 1.8", "templatestring": "Terraform 1.9", "ephemeralasnull": "Terraform 1.10"}
	// newerArguments are by block and argument.
	newerArguments = map[string]string{
		"import for_each": "Terraform 1.7", "import identity": "Terraform 1.12",
		"variable ephemeral": "Terraform 1.10", "output ephemeral": "Terraform 1.10", "variable deprecated": "OpenTofu 1.10", "output deprecated": "OpenTofu 1.10",
		"provider for_each": "OpenTofu 1.9", "lifecycle enabled": "OpenTofu 1.11", "lifecycle destroy": "OpenTofu 1.12",
		"lifecycle action_trigger": "Terraform 1.14", "terraform encryption": "OpenTofu 1.7",
	}
)

// functions are those of BundledTerraform.
var functions = sets.New(strings.Fields(`abs abspath alltrue anytrue base64decode base64encode base64gzip base64sha256 base64sha512 basename bcrypt can ceil chomp chunklist
cidrhost cidrnetmask cidrsubnet cidrsubnets coalesce coalescelist compact concat contains csvdecode dirname distinct element endswith file filebase64
filebase64sha256 filebase64sha512 fileexists filemd5 fileset filesha1 filesha256 filesha512 flatten floor format formatdate formatlist indent index join
jsondecode jsonencode keys length list log lookup lower map matchkeys max md5 merge min nonsensitive one parseint pathexpand plantimestamp pow range regex
regexall replace reverse rsadecrypt sensitive setintersection setproduct setsubtract setunion sha1 sha256 sha512 signum slice sort split startswith
strcontains strrev substr sum templatefile textdecodebase64 textencodebase64 timeadd timecmp timestamp title tobool tolist tomap tonumber toset tostring
transpose trim trimprefix trimspace trimsuffix try upper urlencode uuid uuidv5 values yamldecode yamlencode zipmap`)...)

// newer reports what needs a newer version than BundledTerraform.
func (s *scan) newer(what, since string, at hcl.Range) {
	s.add(at, "%s exists in %s and later, and provider-terraform has Terraform %s. Remove it, or use an image of the provider with a newer version", what, since, BundledTerraform)
}

// blockType checks the type of a block of the module.
func (s *scan) blockType(name string, at hcl.Range) {
	if !s.language {
		return
	}
	since, known := blockTypes[name]
	switch {
	case strings.Contains(name, placeholderMark), known && since == "":
	case known:
		s.newer("the block "+name, since, at)
	default:
		s.add(at, "Terraform %s has no block %s. Correct the spelling, or remove the block", BundledTerraform, name)
	}
}

// argument checks an argument of a block. resource is true within a resource.
func (s *scan) argument(block, name string, resource bool, attribute *hclsyntax.Attribute) {
	const writeOnly = "_wo" // The suffix of the names of write-only arguments of resources.
	if !s.language {
		return
	}
	s.newerArgument(block, name, attribute.NameRange)
	switch {
	case resource && strings.HasSuffix(name, writeOnly):
		s.newer("the write-only argument "+name, "Terraform 1.11", attribute.NameRange)
	case block == "terraform" && name == "required_version":
		s.requiredVersion(attribute)
	case block == "import" && name == "id" && len(hclsyntax.Variables(attribute.Expr)) > 0:
		s.newer("an import whose id is an expression", "Terraform 1.6", attribute.NameRange)
	}
}

// newerArgument checks the name of an argument of a block, or of a block in it.
func (s *scan) newerArgument(block, name string, at hcl.Range) {
	if !s.language {
		return
	}
	if since := newerArguments[block+" "+name]; since != "" {
		s.newer(fmt.Sprintf("%s of %s", name, block), since, at)
	}
}

// function checks the name of a function.
func (s *scan) function(call *hclsyntax.FunctionCallExpr) {
	since := newerFunctions[call.Name]
	switch {
	case strings.Contains(call.Name, "::"):
		s.newer(fmt.Sprintf("the function %s of a namespace", call.Name), "Terraform 1.8", call.NameRange)
	case since != "":
		s.newer("the function "+call.Name, since, call.NameRange)
	case !strings.Contains(call.Name, placeholderMark) && !functions.Has(call.Name):
		s.add(call.NameRange, "Terraform %s has no function %s. Correct the spelling, or use another function", BundledTerraform, call.Name)
	}
}

func (s *scan) requiredVersion(attribute *hclsyntax.Attribute) {
	constraints, err := version.NewConstraint(literal(attribute.AsHCLAttribute()))
	if err == nil && !constraints.Check(version.Must(version.NewVersion(BundledTerraform))) {
		s.add(attribute.NameRange, "required_version does not permit Terraform %s, which provider-terraform has. Permit it, or use an image of the provider with another version", BundledTerraform)
	}
}
