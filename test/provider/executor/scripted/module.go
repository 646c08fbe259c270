// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"cmp"
	"crypto/md5" //nolint:gosec // it is one of the language's functions
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/provider/executor"
)

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

type variable struct {
	kind     cty.Type
	defaults *typeexpr.Defaults
	value    cty.Value
	assigned bool
}

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

// evaluation resolves references of one module, each once.
type evaluation struct {
	*module
	state State
	// known are the values of nodes; a node without a value is there as nil, and so is one that is being evaluated.
	known map[string]*cty.Value
}

func newEvaluation(m *module, state State) *evaluation {
	return &evaluation{module: m, state: state, known: map[string]*cty.Value{}}
}

// metaArguments of a resource are not attributes of it.
var metaArguments = []string{"count", "for_each", "depends_on", "provider"}

// evaluate returns the outputs. What has no value that could be known here gets a made-up one, always the same in one
// Terraform workspace. Null is not an output, as with OpenTofu.
func (m *module) evaluate(workspace string, state State) []executor.Output {
	e := newEvaluation(m, state)
	outputs := make([]executor.Output, 0, len(m.outputs))
	for _, name := range slices.Sorted(maps.Keys(m.outputs)) {
		out := executor.Output{Name: name, Sensitive: e.isTrue(m.outputs[name].Attributes["sensitive"])}
		value := e.value(m.outputs[name].Attributes["value"].Expr)
		switch {
		case value == nil:
			out.String, out.Value = true, madeUp(workspace, name)
		case value.IsNull():
			continue
		default:
			out.String = value.Type() == cty.String
			if out.Value = decoded(*value); out.Value == nil {
				continue
			}
		}
		outputs = append(outputs, out)
	}
	return outputs
}

// elsewhere are the roots of references that lead to nothing a module of these tests declares.
var elsewhere = []string{"data", "module", "path", "terraform", "tofu", "each", "count", "self"}

// undeclared finds references to what the module does not have, as a plan does.
func (m *module) undeclared() hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, expr := range m.expressions() {
		for _, traversal := range expr.Variables() {
			root, name := traversal.RootName(), second(traversal)
			kind, ok := "resource", slices.Contains(elsewhere, root)
			switch root {
			case "var":
				kind, ok = "input variable", m.variables[name] != nil
			case "local":
				kind = "local value"
			}
			if _, declared := m.nodes[root+"."+name]; ok || declared {
				continue
			}
			where := traversal.SourceRange()
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagError, Summary: "Reference to undeclared " + kind, Subject: &where,
				Detail: fmt.Sprintf("A %s %q has not been declared in the root module.", kind, name),
			})
		}
	}
	return diags
}

// expressions are those of outputs, locals and resources, in no order.
func (m *module) expressions() []hcl.Expression {
	var all []hcl.Expression
	for _, output := range m.outputs {
		all = append(all, output.Attributes["value"].Expr)
	}
	for _, n := range m.nodes {
		if n.local != nil {
			all = append(all, n.local)
		}
		for name, argument := range n.arguments {
			if !slices.Contains(metaArguments, name) {
				all = append(all, argument.Expr)
			}
		}
	}
	return all
}

func (e *evaluation) isTrue(attribute *hcl.Attribute) bool {
	if attribute == nil {
		return false
	}
	value := e.value(attribute.Expr)
	return value != nil && value.RawEquals(cty.True)
}

func madeUp(workspace, output string) string {
	sum := sha256.Sum256([]byte(workspace + "\x00" + output))
	return output + "-" + hex.EncodeToString(sum[:4])
}

// decoded is a value as encoding/json sees it.
func decoded(value cty.Value) any {
	data, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return nil
	}
	var plain any
	if json.Unmarshal(data, &plain) != nil {
		return nil
	}
	return plain
}

// value evaluates an expression; nil when it refers to something unknown or fails. References are looked at before:
// functions like try would make something of them that they are not.
func (e *evaluation) value(expr hcl.Expression) *cty.Value {
	ctx := &hcl.EvalContext{Functions: functions(), Variables: map[string]cty.Value{}}
	objects := map[string]map[string]cty.Value{"var": {}}
	for name, v := range e.variables {
		objects["var"][name] = v.value
	}
	for _, traversal := range expr.Variables() {
		root, name := traversal.RootName(), second(traversal)
		if root == "var" {
			continue
		}
		value := e.node(root + "." + name)
		if value == nil {
			return nil
		}
		if objects[root] == nil {
			objects[root] = map[string]cty.Value{}
		}
		objects[root][name] = *value
	}
	for root, attributes := range objects {
		ctx.Variables[root] = cty.ObjectVal(attributes)
	}
	value, diags := expr.Value(ctx)
	if diags.HasErrors() || !value.IsWhollyKnown() {
		return nil
	}
	return &value
}

// second is the name behind the dot.
func second(traversal hcl.Traversal) string {
	if len(traversal) > 1 {
		if attribute, ok := traversal[1].(hcl.TraverseAttr); ok {
			return attribute.Name
		}
	}
	return ""
}

func (e *evaluation) node(name string) *cty.Value {
	if value, ok := e.known[name]; ok {
		return value
	}
	e.known[name] = nil // What refers to itself has no value.
	n, ok := e.nodes[name]
	if !ok {
		return nil
	}
	if n.local != nil {
		e.known[name] = e.value(n.local)
	} else {
		e.known[name] = e.resource(name, n.arguments)
	}
	return e.known[name]
}

// resource is an object of what the module says of it, and of the two attributes that terraform_data adds. Resources
// that repeat have no value.
func (e *evaluation) resource(address string, arguments hcl.Attributes) *cty.Value {
	attributes := map[string]cty.Value{"id": cty.StringVal(e.state.id(address)), "output": cty.NullVal(cty.DynamicPseudoType)}
	for name, argument := range arguments {
		if slices.Contains(metaArguments[:2], name) {
			return nil
		}
		if slices.Contains(metaArguments, name) {
			continue
		}
		if value := e.value(argument.Expr); value != nil {
			attributes[name] = *value
		}
	}
	if _, ok := arguments["input"]; ok {
		delete(attributes, "output")
		if input, ok := attributes["input"]; ok {
			attributes["output"] = input
		}
	}
	object := cty.ObjectVal(attributes)
	return &object
}

// functions are those of the language that modules of tests use.
var functions = sync.OnceValue(func() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc,
		"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc,
		"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "replace": stdlib.ReplaceFunc, "split": stdlib.SplitFunc,
		"strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc,
		"upper": stdlib.UpperFunc, "indent": stdlib.IndentFunc,
		"chunklist": stdlib.ChunklistFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc,
		"length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc, "merge": stdlib.MergeFunc, "range": stdlib.RangeFunc,
		"reverse": stdlib.ReverseListFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc,
		"zipmap": stdlib.ZipmapFunc, "coalesce": stdlib.CoalesceFunc,
		"jsonencode": stdlib.JSONEncodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "csvdecode": stdlib.CSVDecodeFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(cty.String),
		"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"try":   tryfunc.TryFunc, "can": tryfunc.CanFunc,
		"yamlencode": yamlEncode,
		"md5": text(func(s string) (string, error) {
			sum := md5.Sum([]byte(s)) //nolint:gosec // see the import
			return hex.EncodeToString(sum[:]), nil
		}),
		"sha256": text(func(s string) (string, error) {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:]), nil
		}),
		"base64encode": text(func(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }),
		"base64decode": text(func(s string) (string, error) {
			data, err := base64.StdEncoding.DecodeString(s)
			return string(data), err
		}),
		"file": text(func(path string) (string, error) {
			data, err := os.ReadFile(path)
			return string(data), err
		}),
	}
})

func text(f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

// yamlEncode writes the same document as OpenTofu, if not with the same quotes.
var yamlEncode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		data, err := ctyjson.Marshal(args[0], args[0].Type())
		if err != nil {
			return cty.NilVal, err
		}
		document, err := yaml.JSONToYAML(data)
		return cty.StringVal(string(document)), err
	},
})

// replacing are the arguments whose change replaces a resource.
var replacing = []string{"triggers_replace", "name"}

// change is what a plan does with a resource or an output.
type change struct{ address, action, reason string }

// planned lists what a plan that is not empty changes, as far as the module can be evaluated. If nothing is found, a resource that has
// drifted, or the first one, is updated.
func (p *simulation) planned(m *module, state State, drift string) (changes, outputs []change) {
	e := newEvaluation(m, state)
	for _, address := range m.addresses {
		i := slices.IndexFunc(state.Resources, func(r Resource) bool { return r.Address == address })
		if i < 0 {
			changes = append(changes, change{address, "create", ""})
			continue
		}
		if c := e.changed(state.Resources[i]); c.action != "" {
			changes = append(changes, c)
		}
	}
	_, surplus := split(state.Resources, func(r Resource) bool { return slices.Contains(m.addresses, r.Address) })
	for _, r := range surplus {
		changes = append(changes, change{r.Address, "delete", "delete_because_no_resource_config"})
	}
	outputs = changedOutputs(state.Outputs, m.evaluate(p.selected, state))
	if len(state.Resources) > 0 && (state.Drift != drift || len(changes)+len(outputs) == 0) {
		if first := state.Resources[0].Address; !slices.ContainsFunc(changes, func(c change) bool { return c.address == first }) {
			changes = append(changes, change{first, "update", ""})
		}
	}
	return changes, outputs
}

// changed is the change of a resource that the state and the module have.
func (e *evaluation) changed(r Resource) change {
	c, now := change{address: r.Address}, e.arguments(r.Address)
	for name := range maps.Keys(now) {
		if r.Arguments[name] == now[name] {
			continue
		}
		if c.action = cmp.Or(c.action, "update"); slices.Contains(replacing, name) {
			return change{r.Address, "replace", "cannot_update"}
		}
	}
	return c
}

// arguments are the values of the arguments of a resource, as JSON; empty when they are not known.
func (e *evaluation) arguments(address string) map[string]string {
	known := map[string]string{}
	for name, argument := range e.nodes[address].arguments {
		if slices.Contains(metaArguments, name) {
			continue
		}
		known[name] = ""
		if value := e.value(argument.Expr); value != nil {
			data, _ := ctyjson.Marshal(*value, cty.DynamicPseudoType) // What cannot be encoded never changes.
			known[name] = string(data)
		}
	}
	return known
}

func changedOutputs(before, after []executor.Output) (changes []change) {
	for _, o := range after {
		i := slices.IndexFunc(before, func(old executor.Output) bool { return old.Name == o.Name })
		switch {
		case i < 0:
			changes = append(changes, change{o.Name, "create", ""})
		case !reflect.DeepEqual(before[i].Value, o.Value):
			changes = append(changes, change{o.Name, "update", ""})
		}
	}
	for _, o := range before {
		if !slices.ContainsFunc(after, func(now executor.Output) bool { return now.Name == o.Name }) {
			changes = append(changes, change{o.Name, "delete", ""})
		}
	}
	return changes
}

// isJSON reports whether the CLI prints JSON, also its errors.
func isJSON(o executor.RunOptions) bool { return slices.Contains(o.Args, "-json") }

// printed returns what the CLI prints of a plan: a text, or the lines of -json, which have no values.
func printed(asJSON bool, state State, drifted bool, changes, outputs []change) string {
	count := map[string]int{}
	for _, c := range changes {
		count[c.action]++
	}
	add, remove := count["create"]+count["replace"], count["delete"]+count["replace"]
	summary := fmt.Sprintf("Plan: %d to add, %d to change, %d to destroy.", add, count["update"], remove)
	out := &strings.Builder{}
	if !asJSON {
		out.WriteString("\nOpenTofu will perform the following actions:\n\n")
		for _, c := range changes {
			fmt.Fprintf(out, "  # %s will be changed: %s\n", instance(c.address), c.action)
		}
		return out.String() + "\n" + summary + "\n"
	}
	line := func(message, kind string, content map[string]any) {
		content["@level"], content["@message"], content["@module"], content["type"] = "info", message, "tofu.ui", kind
		content["@timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		data, _ := json.Marshal(content) //nolint:errchkjson // Only strings and numbers.
		out.Write(append(data, '\n'))
	}
	line("OpenTofu", "version", map[string]any{"tofu": "1.12.6", "ui": "1.2"})
	for _, r := range state.Resources {
		line(instance(r.Address)+": Refreshing state... [id="+r.ID+"]", "refresh_start",
			map[string]any{"hook": map[string]any{"resource": resourceOf(r.Address), "id_key": "id", "id_value": r.ID}})
	}
	if drifted && len(state.Resources) > 0 {
		drift := change{state.Resources[0].Address, "update", ""}
		line(instance(drift.address)+": Drift detected (update)", "resource_drift", map[string]any{"change": drift.content()})
	}
	for _, c := range changes {
		line(instance(c.address)+": Plan to "+c.action, "planned_change", map[string]any{"change": c.content()})
	}
	line(summary, "change_summary", map[string]any{"changes": map[string]any{
		"add": add, "change": count["update"], "import": 0, "remove": remove, "forget": 0, "operation": "plan",
	}})
	if actions := map[string]any{}; len(outputs) > 0 {
		for _, o := range outputs {
			actions[o.address] = map[string]any{"sensitive": false, "action": o.action}
		}
		line(fmt.Sprintf("Outputs: %d", len(outputs)), "outputs", map[string]any{"outputs": actions})
	}
	return out.String()
}

func (c change) content() map[string]any {
	content := map[string]any{"resource": resourceOf(c.address), "action": c.action}
	if c.reason != "" {
		content["reason"] = c.reason
	}
	return content
}

// instance is the address of a resource: of a module, one resource is known.
func instance(address string) string {
	if strings.HasPrefix(address, "module.") {
		return address + ".terraform_data.this"
	}
	return address
}

func resourceOf(address string) map[string]any {
	module, local := "", address
	if strings.HasPrefix(address, "module.") {
		module, local = address, "terraform_data.this"
	}
	kind, name, _ := strings.Cut(local, ".")
	return map[string]any{
		"addr": instance(address), "module": module, "resource": local, "implied_provider": strings.Split(kind, "_")[0],
		"resource_type": kind, "resource_name": name, "resource_key": nil,
	}
}
