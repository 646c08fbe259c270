// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/capt-provider/capt/test/provider/executor"
)

// module is what a module says of itself.
type module struct {
	// source is all of its text, for the fingerprint.
	source string
	// remote is a module that lies elsewhere: what it declares is not known.
	remote    bool
	variables map[string]*variable
	// addresses are those of its resources, in the order of the text.
	addresses []string
	nodes     map[string]node
	outputs   map[string]*hcl.BodyContent
}

// variable is one variable, and its value once that is assigned.
type variable struct {
	kind     cty.Type
	defaults *typeexpr.Defaults
	value    cty.Value
	assigned bool
}

// node is what an expression can refer to: a local value, or a resource with its arguments.
type node struct {
	local     hcl.Expression
	arguments hcl.Attributes
}

var (
	rootSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
		{Type: "resource", LabelNames: []string{"type", "name"}},
		{Type: "module", LabelNames: []string{"name"}},
		{Type: "locals"},
	}}
	variableSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "type"}, {Name: "default"}}}
	outputSchema   = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "value", Required: true}, {Name: "sensitive"}}}
)

// parse reads the module of a Workspace. Of a remote one nothing is known; it passes for one with one resource.
func parse(w executor.Module) (*module, error) {
	m := &module{variables: map[string]*variable{}, nodes: map[string]node{}, outputs: map[string]*hcl.BodyContent{}}
	if w.Remote != "" {
		m.remote, m.source, m.addresses = true, w.Remote, []string{"module.remote"}
		return m, nil
	}
	for _, files := range []map[string][]byte{w.Files, w.EntrypointFiles} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			var file *hcl.File
			var diags hcl.Diagnostics
			switch {
			case strings.HasSuffix(name, ".tf"):
				file, diags = hclsyntax.ParseConfig(files[name], name, hcl.InitialPos)
			case strings.HasSuffix(name, ".tf.json"):
				file, diags = hcljson.Parse(files[name], name)
			default:
				continue
			}
			if !diags.HasErrors() {
				diags = append(diags, m.add(file)...)
			}
			if diags.HasErrors() {
				return nil, failure(diags, files)
			}
			m.source += string(files[name]) + "\x00"
		}
	}
	return m, nil
}

func (m *module) add(file *hcl.File) hcl.Diagnostics {
	content, _, diags := file.Body.PartialContent(rootSchema)
	for _, block := range content.Blocks {
		switch block.Type {
		case "variable":
			diags = append(diags, m.declare(block)...)
		case "output":
			inner, _, problems := block.Body.PartialContent(outputSchema)
			m.outputs[block.Labels[0]] = inner
			diags = append(diags, problems...)
		case "locals":
			attributes, problems := block.Body.JustAttributes()
			for name, attribute := range attributes {
				m.nodes["local."+name] = node{local: attribute.Expr}
			}
			diags = append(diags, problems...)
		case "module":
			m.addresses = append(m.addresses, "module."+block.Labels[0])
		case "resource":
			address := strings.Join(block.Labels, ".")
			arguments, _ := block.Body.JustAttributes() // Nested blocks do not affect outputs.
			m.addresses = append(m.addresses, address)
			m.nodes[address] = node{arguments: arguments}
		}
	}
	return diags
}

func (m *module) declare(block *hcl.Block) hcl.Diagnostics {
	inner, _, diags := block.Body.PartialContent(variableSchema)
	v := &variable{kind: cty.DynamicPseudoType}
	if attribute, ok := inner.Attributes["type"]; ok {
		var problems hcl.Diagnostics
		v.kind, v.defaults, problems = typeexpr.TypeConstraintWithDefaults(attribute.Expr)
		diags = append(diags, problems...)
	}
	if attribute, ok := inner.Attributes["default"]; ok && !diags.HasErrors() {
		value, problems := attribute.Expr.Value(nil)
		diags = append(diags, problems...)
		if !problems.HasErrors() {
			diags = append(diags, v.assign(value, attribute.Expr.Range(), "Invalid default value for variable", block.Labels[0])...)
		}
	}
	m.variables[block.Labels[0]] = v
	return diags
}

// assign converts a value to the type of the variable.
func (v *variable) assign(value cty.Value, where hcl.Range, summary, name string) hcl.Diagnostics {
	if v.defaults != nil && !value.IsNull() {
		value = v.defaults.Apply(value)
	}
	converted, err := convert.Convert(value, v.kind)
	if err != nil {
		return hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: summary, Subject: &where,
			Detail: fmt.Sprintf("The given value is not suitable for var.%s: %s.", name, err),
		}}
	}
	v.value, v.assigned = converted, true
	return nil
}

// assign gives the variables their values: of the environment, then vars, then files, then arguments.
func (m *module) assign(env []string, o executor.RunOptions) error {
	var diags hcl.Diagnostics
	for _, e := range env {
		if key, value, _ := strings.Cut(strings.TrimPrefix(e, "TF_VAR_"), "="); strings.HasPrefix(e, "TF_VAR_") && m.variables[key] != nil {
			diags = append(diags, m.assignText(key, value)...)
		}
	}
	for _, v := range o.Vars {
		diags = append(diags, m.assignText(v.Key, v.Value)...)
	}
	files := map[string][]byte{}
	for i, f := range o.VarFiles {
		name := fmt.Sprintf("crossplane-provider-terraform-%d.tfvars", i)
		if f.JSON {
			name += ".json"
		}
		files[name] = f.Data
		diags = append(diags, m.assignFile(name, f)...)
	}
	for _, arg := range o.Args {
		if assignment, ok := strings.CutPrefix(arg, "-var="); ok {
			key, value, _ := strings.Cut(assignment, "=")
			diags = append(diags, m.assignText(key, value)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.variables)) {
		if !m.variables[name].assigned {
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "No value for required variable",
				Detail: fmt.Sprintf("The root module input variable %q is not set, and has no default value. Use a -var or -var-file command line argument to provide a value for this variable.", name),
			})
		}
	}
	if diags = append(diags, m.undeclared()...); diags.HasErrors() {
		return failure(diags, files)
	}
	return nil
}

// assignText assigns what stands on the command line: text as it is, and everything else as an expression.
func (m *module) assignText(name, text string) hcl.Diagnostics {
	v := m.variables[name]
	switch {
	case v == nil && m.remote:
		return nil
	case v == nil:
		return hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Value for undeclared variable",
			Detail: fmt.Sprintf("A variable named %q was assigned on the command line, but the root module does not declare a variable of that name. To use this value, add a \"variable\" block to the configuration.", name),
		}}
	}
	source := fmt.Sprintf("<value for var.%s>", name)
	value, where := cty.StringVal(text), hcl.Range{Filename: source, Start: hcl.InitialPos, End: hcl.InitialPos}
	if !v.kind.IsPrimitiveType() && v.kind != cty.DynamicPseudoType {
		expression, diags := hclsyntax.ParseExpression([]byte(text), source, hcl.InitialPos)
		if diags.HasErrors() {
			return diags
		}
		if value, diags = expression.Value(nil); diags.HasErrors() {
			return diags
		}
	}
	return v.assign(value, where, "Invalid value for input variable", name)
}

// assignFile assigns what a file of variables says. Names that the module does not declare are passed over, as they are
// by OpenTofu, with a warning.
func (m *module) assignFile(name string, f executor.VarFile) hcl.Diagnostics {
	parse := func(data []byte, name string) (*hcl.File, hcl.Diagnostics) {
		return hclsyntax.ParseConfig(data, name, hcl.InitialPos)
	}
	if f.JSON {
		parse = hcljson.Parse
	}
	file, diags := parse(f.Data, name)
	if diags.HasErrors() {
		return diags
	}
	attributes, diags := file.Body.JustAttributes()
	for key, attribute := range attributes {
		value, problems := attribute.Expr.Value(nil)
		diags = append(diags, problems...)
		if v := m.variables[key]; v != nil && !problems.HasErrors() {
			diags = append(diags, v.assign(value, attribute.Range, "Invalid value for input variable", key)...)
		}
	}
	return diags
}

// fingerprint is the same as long as the module and its variables are.
func (m *module) fingerprint() string {
	sum := sha256.New()
	sum.Write([]byte(m.source))
	for _, name := range slices.Sorted(maps.Keys(m.variables)) {
		value, err := ctyjson.Marshal(m.variables[name].value, cty.DynamicPseudoType)
		fmt.Fprintln(sum, name, string(value), err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// failure is what the CLI prints of errors.
func failure(diags hcl.Diagnostics, files map[string][]byte) error {
	var stderr strings.Builder
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		fmt.Fprintf(&stderr, "\nError: %s\n", d.Summary)
		if d.Subject != nil {
			fmt.Fprintf(&stderr, "\n  on %s line %d:\n", filepath.Base(d.Subject.Filename), d.Subject.Start.Line)
			lines := strings.Split(string(files[d.Subject.Filename]), "\n")
			if n := d.Subject.Start.Line; n >= 1 && n <= len(lines) && lines[n-1] != "" {
				fmt.Fprintf(&stderr, "%4d: %s\n", n, lines[n-1])
			}
		}
		fmt.Fprintf(&stderr, "\n%s\n", d.Detail)
	}
	return executor.Failure(stderr.String())
}
