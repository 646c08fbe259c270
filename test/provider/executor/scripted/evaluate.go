// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package scripted

import (
	"crypto/md5" //nolint:gosec // it is one of the language's functions
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/provider/executor"
)

// evaluation resolves references of one module, each once.
type evaluation struct {
	*module
	state State
	// known are the values of nodes; a node without a value is there as nil, and so is one that is being evaluated.
	known map[string]*cty.Value
}

// metaArguments of a resource are not attributes of it.
var metaArguments = []string{"count", "for_each", "depends_on", "provider"}

// evaluate returns the outputs. What has no value that could be known here gets a made-up one, always the same in one
// Terraform workspace. Null is not an output, as with OpenTofu.
func (m *module) evaluate(workspace string, state State) []executor.Output {
	e := &evaluation{module: m, state: state, known: map[string]*cty.Value{}}
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

// node is the value of a local or of a resource.
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

// text is a function from a string to a string.
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
