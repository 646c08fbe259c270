// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"errors"
	"net"
	"regexp"
	regexpsyntax "regexp/syntax"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// Every user who may write a WorkspaceTemplate writes these conditions, and admission webhooks evaluate them. So only those are evaluated whose time
// and memory have a limit that is known before: nothing that grows, no loop in a loop, and the work is at most quadratic in the size of the value.

// condition is the condition of a validation that can be evaluated.
type condition struct {
	expr    hclsyntax.Expression
	message string
	// size is the size of its text. linear and squared are how the work grows with the size of the value.
	size, linear, squared int
}

// work is the work to evaluate the condition for a value of a size in bytes.
func (c *condition) work(size int) int {
	size += c.size
	return c.linear*size + c.squared*size*size
}

func (c *condition) isViolated(variable string, value cty.Value) bool {
	result, diags := c.expr.Value(&hcl.EvalContext{
		Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{variable: value})},
		Functions: callable(),
	})
	if diags.HasErrors() || !result.IsKnown() || result.IsNull() {
		return false
	}
	result, err := convert.Convert(result, cty.Bool)
	return err == nil && result.False()
}

// conditionOf returns the condition of a validation of a variable; nil if it cannot be evaluated.
func conditionOf(validation *hcl.Block, variable string, source []byte) *condition {
	inner, _, _ := validation.Body.PartialContent(parts)
	declared := inner.Attributes["condition"]
	if declared == nil {
		return nil
	}
	expr, native := declared.Expr.(hclsyntax.Expression) // In JSON, it would have to be parsed first.
	text := textOf(declared, source)
	if !native || hasPlaceholder(text) || !refersOnlyTo(variable, expr) {
		return nil
	}
	c := &condition{expr: expr, size: len(text), message: shortened(literal(inner.Attributes["error_message"]), maxMessageLength)}
	if c.message == "" || hasPlaceholder(c.message) {
		c.message = "does not meet the condition of a validation in the module"
	}
	if !c.limit(shapeOf(expr)) {
		return nil
	}
	return c
}

// limit determines how the work grows. It reports whether the condition can be evaluated.
func (c *condition) limit(s *shape) bool {
	const maxTries = 3 // The maximum number of calls of the function try, which evaluates its arguments twice, in a condition.
	c.linear, c.squared = s.nodes, s.conditionals
	tries := 0
	for _, call := range s.calls {
		if _, known := callable()[call.Name]; !known { // Within can, an error would be a result.
			return false
		}
		switch call.Name {
		case "try":
			tries++
		case "distinct", "tolist", "tomap", "toset":
			c.squared++
		case "regex":
			c.linear += instructionsOf(call)
		case "regexall":
			c.squared += instructionsOf(call)
		}
	}
	return !s.unlimited && tries <= maxTries && max(c.linear, c.squared) <= maxWork
}

// refersOnlyTo reports whether an expression has no references but those to one variable.
func refersOnlyTo(variable string, expr hclsyntax.Expression) bool {
	for _, reference := range expr.Variables() {
		if reference.RootName() != "var" || len(reference) < 2 {
			return false
		}
		if name, ok := reference[1].(hcl.TraverseAttr); !ok || name.Name != variable {
			return false
		}
	}
	return true
}

// instructionsOf returns the number of instructions of a regular expression, by which its time grows; more than is permitted if the expression is not
// a valid literal.
func instructionsOf(call *hclsyntax.FunctionCallExpr) int {
	const refused = maxWork + 1
	if len(call.Args) == 0 {
		return refused
	}
	pattern, ok := call.Args[0].(*hclsyntax.TemplateExpr)
	if !ok || !pattern.IsStringLiteral() {
		return refused
	}
	text, _ := pattern.Value(nil)
	parsed, err := regexpsyntax.Parse(text.AsString(), regexpsyntax.Perl)
	if err != nil {
		return refused
	}
	program, err := regexpsyntax.Compile(parsed.Simplify())
	if err != nil {
		return refused
	}
	return len(program.Inst)
}

const (
	// maxDepthOfExpression is the maximum depth of calls, tuples and objects in a condition or type. go-cty can try two conversions at each level.
	maxDepthOfExpression = 20
	// maxExponent is the maximum exponent of a number, to the base 2.
	maxExponent = 4000
)

// hugeNumber matches texts with a number that has very many digits when they are all written. Without concatenation, no other can appear. It also
// matches escape sequences in a string, which may hide one from jsondecode.
var hugeNumber = regexp.MustCompile(`[0-9.][eEpP][+-]?[0-9]{4,}|[0-9]{400,}|\\\\u`)

// shape is what the work to evaluate an expression depends on.
type shape struct {
	// unlimited is true if the expression must not be evaluated.
	unlimited bool
	// operations are nodes that are neither literals, names nor constructors. conditionals compare the types of all elements with all others.
	nodes, operations, conditionals int
	calls                           []*hclsyntax.FunctionCallExpr
	depth, loops, bodies            int
}

func shapeOf(expr hclsyntax.Expression) *shape {
	s := &shape{}
	_ = hclsyntax.Walk(expr, s)
	return s
}

// isConstant reports whether an expression has only literals, names and constructors.
func isConstant(expr hclsyntax.Expression) bool {
	s := shapeOf(expr)
	return !s.unlimited && s.operations == 0
}

func (s *shape) Enter(node hclsyntax.Node) hcl.Diagnostics {
	s.nodes++
	s.nest(node, 1)
	s.refuse(s.depth > maxDepthOfExpression || s.loops > 1)
	switch node := node.(type) {
	case *hclsyntax.LiteralValueExpr:
		s.literal(node.Val)
	case *hclsyntax.TemplateExpr:
		for _, part := range node.Parts { // A heredoc has a part for each line.
			_, literal := part.(*hclsyntax.LiteralValueExpr)
			s.refuse(!literal)
		}
	case *hclsyntax.TemplateJoinExpr:
		s.refuse(true)
	case *hclsyntax.ScopeTraversalExpr:
		s.refuse(s.bodies > 0 && node.Traversal.RootName() == "var")
	case *hclsyntax.FunctionCallExpr:
		s.calls = append(s.calls, node)
	case *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr, *hclsyntax.ParenthesesExpr, *hclsyntax.UnaryOpExpr:
	case *hclsyntax.ConditionalExpr:
		s.operations++
		s.conditionals++
	default:
		s.operations++
	}
	return nil
}

func (s *shape) Exit(node hclsyntax.Node) hcl.Diagnostics {
	s.nest(node, -1)
	return nil
}

func (s *shape) nest(node hclsyntax.Node, by int) {
	switch node.(type) {
	case *hclsyntax.FunctionCallExpr, *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr:
		s.depth += by
	case *hclsyntax.ForExpr:
		s.loops += by
	case hclsyntax.ChildScope: // The body of a loop.
		s.bodies += by
	}
}

func (s *shape) refuse(when bool) { s.unlimited = s.unlimited || when }

func (s *shape) literal(value cty.Value) {
	switch {
	case value.IsNull():
	case value.Type() == cty.String:
		s.refuse(hugeNumber.MatchString(value.AsString()))
	case value.Type() == cty.Number:
		exponent := value.AsBigFloat().MantExp(nil)
		s.refuse(exponent > maxExponent || exponent < -maxExponent)
	}
}

// callable returns the functions that conditions may call. They behave as those of Terraform, or return an unknown value.
var callable = sync.OnceValue(func() map[string]function.Function {
	text, list, dynamic := cty.String, cty.List(cty.Bool), cty.DynamicPseudoType
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "can": tryfunc.CanFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "compact": stdlib.CompactFunc,
		"contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "floor": stdlib.FloorFunc,
		"jsondecode": stdlib.JSONDecodeFunc, "keys": stdlib.KeysFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc,
		"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "signum": stdlib.SignumFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
		"split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "try": tryfunc.TryFunc,
		"upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc,

		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(text),
		"tolist": stdlib.MakeToFunc(cty.List(dynamic)), "tomap": stdlib.MakeToFunc(cty.Map(dynamic)), "toset": stdlib.MakeToFunc(cty.Set(dynamic)),

		"alltrue":     define(cty.Bool, func(args []cty.Value) (cty.Value, error) { return fold(args[0], cty.True, cty.Value.And), nil }, list),
		"anytrue":     define(cty.Bool, func(args []cty.Value) (cty.Value, error) { return fold(args[0], cty.False, cty.Value.Or), nil }, list),
		"cidrhost":    define(text, ofNetwork(hostOf), text, cty.Number),
		"cidrnetmask": define(text, ofNetwork(netmaskOf), text),
		"cidrsubnet":  define(text, ofNetwork(func(*net.IPNet, []cty.Value) (string, error) { return "", nil }), text, cty.Number, cty.Number),
		"endswith":    compare(strings.HasSuffix),
		"length":      define(cty.Number, lengthOf, dynamic),
		"startswith":  compare(strings.HasPrefix),
		"strcontains": compare(strings.Contains),
	}
})

func define(result cty.Type, of func(args []cty.Value) (cty.Value, error), parameters ...cty.Type) function.Function {
	spec := &function.Spec{Type: function.StaticReturnType(result), Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return of(args) }}
	for _, parameter := range parameters {
		spec.Params = append(spec.Params, function.Parameter{Type: parameter})
	}
	return function.New(spec)
}

func compare(of func(text, other string) bool) function.Function {
	return define(cty.Bool, func(args []cty.Value) (cty.Value, error) {
		return cty.BoolVal(of(args[0].AsString(), args[1].AsString())), nil
	}, cty.String, cty.String)
}

func lengthOf(args []cty.Value) (cty.Value, error) {
	switch ty := args[0].Type(); {
	case ty == cty.String:
		return stdlib.Strlen(args[0])
	case ty.IsObjectType():
		return cty.NumberIntVal(int64(len(ty.AttributeTypes()))), nil
	}
	return stdlib.Length(args[0])
}

// fold combines the elements of a list of bools. Null is false.
func fold(list, result cty.Value, combine func(a, b cty.Value) cty.Value) cty.Value {
	for _, element := range list.AsValueSlice() {
		if element.IsNull() {
			element = cty.False
		}
		result = combine(result, element)
	}
	return result
}

// leadingZero matches addresses that Terraform reads and Go does not.
var leadingZero = regexp.MustCompile(`(^|[.:])0[0-9a-fA-F]`)

// ofNetwork returns a function of a network in CIDR notation. The result is unknown if result returns none, or if it is not known whether Terraform
// reads the network.
func ofNetwork(result func(of *net.IPNet, args []cty.Value) (string, error)) func(args []cty.Value) (cty.Value, error) {
	return func(args []cty.Value) (cty.Value, error) {
		_, of, err := net.ParseCIDR(args[0].AsString())
		if err == nil {
			var text string
			if text, err = result(of, args); text != "" {
				return cty.StringVal(text), nil
			}
		} else if leadingZero.MatchString(args[0].AsString()) {
			err = nil
		}
		return cty.UnknownVal(cty.String), err
	}
}

func hostOf(of *net.IPNet, args []cty.Value) (string, error) {
	if args[1].Equals(cty.Zero).True() {
		return of.IP.String(), nil
	}
	return "", nil
}

func netmaskOf(of *net.IPNet, _ []cty.Value) (string, error) {
	if of.IP.To4() == nil {
		return "", errors.New("only IPv4 networks have a mask")
	}
	return net.IP(of.Mask).String(), nil
}
