// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"math/big"
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
	"github.com/zclconf/go-cty/cty/gocty"
)

// Anybody who may write a WorkspaceTemplate writes these conditions, and admission webhooks evaluate them. So only those are evaluated whose time
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

// errTooLarge is an error of a function. Nobody sees it.
const errTooLarge = invalidArgument("out of range")

type invalidArgument string

func (e invalidArgument) Error() string { return string(e) }

const (
	// maxMessageLength is the maximum length of the error_message of a validation, in characters.
	maxMessageLength = 500
	// maxTries is the maximum number of calls of the function try, which evaluates its arguments twice, in a condition.
	maxTries = 3
)

// conditionOf returns the condition of a validation of a variable; nil if it cannot be evaluated.
func conditionOf(validation *hcl.Block, variable string, source []byte) *condition {
	inner, _, _ := validation.Body.PartialContent(ofValidation)
	declared := inner.Attributes["condition"]
	if declared == nil {
		return nil
	}
	expr, native := declared.Expr.(hclsyntax.Expression) // In JSON, it would have to be parsed first.
	text := string(declared.Expr.Range().SliceBytes(source))
	if !native || hasPlaceholder(text) {
		return nil
	}
	s := shapeOf(expr)
	if s.unlimited || s.unknownCalls || s.tries > maxTries || !refersOnlyTo(variable, expr) {
		return nil
	}
	c := &condition{expr: expr, size: len(text), linear: s.nodes, squared: s.squared, message: "does not meet the condition of a validation in the module"}
	if message := strings.TrimSpace(literal(inner.Attributes["error_message"])); message != "" && !hasPlaceholder(message) {
		c.message = shortened(message, maxMessageLength)
	}
	return c
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

// isViolated reports whether a value is known to violate the condition.
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

// maxDepthOfExpression is the maximum depth of calls, tuples and objects in a condition or type. Some functions of go-cty try more than one
// conversion at each level.
const maxDepthOfExpression = 20

// hugeNumber matches texts with a number whose digits, when all are written, are very many. Without concatenation of strings, no other can appear.
// It also matches an escape sequence in a string, which may hide one from jsondecode.
var hugeNumber = regexp.MustCompile(`[0-9.][eEpP][+-]?[0-9]{4,}|[0-9]{400,}|\\\\u`)

// shape is what the work to evaluate an expression depends on.
type shape struct {
	// unlimited is true if the expression has something that is not evaluated here.
	unlimited bool
	// unknownCalls is true if it calls anything but functions.
	unknownCalls bool
	// nodes is the number of nodes, and of instructions of regular expressions. operations are the nodes that are neither literals nor constructors,
	// tries the calls of the function try, and squared the nodes that compare all elements with all others.
	nodes, operations, tries, squared int
	depth, loops                      int
}

func shapeOf(expr hclsyntax.Expression) *shape {
	s := &shape{}
	_ = hclsyntax.Walk(expr, s)
	return s
}

// Enter implements hclsyntax.Walker.
func (s *shape) Enter(node hclsyntax.Node) hcl.Diagnostics {
	s.nodes++
	switch node := node.(type) {
	case *hclsyntax.LiteralValueExpr:
		s.literal(node.Val)
	case *hclsyntax.TemplateExpr:
		s.unlimited = s.unlimited || !node.IsStringLiteral()
	case *hclsyntax.TemplateJoinExpr, *hclsyntax.ExprSyntaxError:
		s.unlimited = true
	case *hclsyntax.FunctionCallExpr:
		s.depth++
		s.call(node)
	case *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr:
		s.depth++
	case *hclsyntax.ForExpr:
		s.loops++
		s.operations++
		s.loop(node)
	case *hclsyntax.ConditionalExpr:
		s.operations++
		s.squared++
	case *hclsyntax.ObjectConsKeyExpr, *hclsyntax.ParenthesesExpr, *hclsyntax.ScopeTraversalExpr, *hclsyntax.UnaryOpExpr:
	default:
		s.operations++
	}
	s.unlimited = s.unlimited || s.depth > maxDepthOfExpression
	return nil
}

// Exit implements hclsyntax.Walker.
func (s *shape) Exit(node hclsyntax.Node) hcl.Diagnostics {
	switch node.(type) {
	case *hclsyntax.FunctionCallExpr, *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr:
		s.depth--
	case *hclsyntax.ForExpr:
		s.loops--
	}
	return nil
}

func (s *shape) literal(value cty.Value) {
	switch {
	case value.IsNull():
	case value.Type() == cty.String:
		s.unlimited = s.unlimited || hugeNumber.MatchString(value.AsString())
	case value.Type() == cty.Number:
		if exponent := value.AsBigFloat().MantExp(nil); exponent > maxExponent || exponent < -maxExponent {
			s.unlimited = true
		}
	}
}

// maxExponent is the maximum exponent of a number, to the base 2.
const maxExponent = 4000

// loop refuses loops in loops, and references to variables in the body of a loop.
func (s *shape) loop(loop *hclsyntax.ForExpr) {
	s.unlimited = s.unlimited || s.loops > 1
	for _, expr := range []hclsyntax.Expression{loop.KeyExpr, loop.ValExpr, loop.CondExpr} {
		if expr == nil {
			continue
		}
		for _, reference := range expr.Variables() {
			s.unlimited = s.unlimited || reference.RootName() == "var"
		}
	}
}

// call adds the work of a function.
func (s *shape) call(call *hclsyntax.FunctionCallExpr) {
	if _, known := callable()[call.Name]; !known { // Within can, an error would be a result.
		s.unknownCalls = true
	}
	switch call.Name {
	case "try":
		s.tries++
	case "distinct", "tolist", "tomap", "toset":
		s.squared++
	case "regex", "regexall":
		instructions, ok := instructionsOf(call)
		s.nodes += instructions
		s.unlimited = s.unlimited || !ok
		if call.Name == "regexall" {
			s.squared += instructions
		}
	}
}

// instructionsOf returns the number of instructions of a regular expression, by which its time grows. It must be a literal.
func instructionsOf(call *hclsyntax.FunctionCallExpr) (int, bool) {
	if len(call.Args) != 2 || call.ExpandFinal {
		return 0, false
	}
	pattern, ok := call.Args[0].(*hclsyntax.TemplateExpr)
	if !ok || !pattern.IsStringLiteral() {
		return 0, false
	}
	text, _ := pattern.Value(nil)
	parsed, err := regexpsyntax.Parse(text.AsString(), regexpsyntax.Perl)
	if err != nil {
		return 0, false
	}
	program, err := regexpsyntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, false
	}
	return len(program.Inst), true
}

// callable returns the functions that conditions may call. They behave as those of Terraform, or return an unknown value.
var callable = sync.OnceValue(func() map[string]function.Function {
	text, list := cty.String, cty.List(cty.Bool)
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "can": tryfunc.CanFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "compact": stdlib.CompactFunc,
		"contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "floor": stdlib.FloorFunc,
		"jsondecode": stdlib.JSONDecodeFunc, "keys": stdlib.KeysFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "min": stdlib.MinFunc,
		"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "signum": stdlib.SignumFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc,
		"split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc, "trim": stdlib.TrimFunc,
		"trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "try": tryfunc.TryFunc,
		"upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc,

		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number), "tostring": stdlib.MakeToFunc(text),
		"tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), "tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),

		"startswith":  ofTexts(strings.HasPrefix),
		"endswith":    ofTexts(strings.HasSuffix),
		"strcontains": ofTexts(strings.Contains),
		"length":      define(cty.Number, lengthOf, cty.DynamicPseudoType),
		"alltrue": define(cty.Bool, func(args []cty.Value) (cty.Value, error) {
			return fold(args[0], cty.True, cty.Value.And), nil
		}, list),
		"anytrue": define(cty.Bool, func(args []cty.Value) (cty.Value, error) {
			return fold(args[0], cty.False, cty.Value.Or), nil
		}, list),
		"cidrhost":    define(text, hostOf, text, cty.Number),
		"cidrnetmask": define(text, netmaskOf, text),
		"cidrsubnet":  define(text, subnetOf, text, cty.Number, cty.Number),
	}
})

func define(result cty.Type, of func(args []cty.Value) (cty.Value, error), parameters ...cty.Type) function.Function {
	spec := &function.Spec{Type: function.StaticReturnType(result), Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return of(args) }}
	for _, parameter := range parameters {
		spec.Params = append(spec.Params, function.Parameter{Name: "value", Type: parameter})
	}
	return function.New(spec)
}

func ofTexts(test func(s, of string) bool) function.Function {
	return define(cty.Bool, func(args []cty.Value) (cty.Value, error) {
		return cty.BoolVal(test(args[0].AsString(), args[1].AsString())), nil
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
func fold(list, start cty.Value, combine func(a, b cty.Value) cty.Value) cty.Value {
	for _, element := range list.AsValueSlice() {
		if element.IsNull() {
			element = cty.False
		}
		start = combine(start, element)
	}
	return start
}

// leadingZero matches addresses that Terraform reads and Go does not.
var leadingZero = regexp.MustCompile(`(^|[.:])0[0-9a-fA-F]`)

// network returns the network of a CIDR block; nil without an error if it cannot be known whether Terraform reads it.
func network(value cty.Value) (*net.IPNet, error) {
	_, parsed, err := net.ParseCIDR(value.AsString())
	if err != nil && leadingZero.MatchString(value.AsString()) {
		return nil, nil
	}
	return parsed, err
}

func netmaskOf(args []cty.Value) (cty.Value, error) {
	block, err := network(args[0])
	switch {
	case err != nil:
		return cty.NilVal, err
	case block == nil:
		return cty.UnknownVal(cty.String), nil
	case block.IP.To4() == nil:
		return cty.NilVal, errTooLarge
	}
	return cty.StringVal(net.IP(block.Mask).String()), nil
}

func hostOf(args []cty.Value) (cty.Value, error) {
	block, err := network(args[0])
	if err != nil {
		return cty.NilVal, err
	}
	var number *big.Int
	if err := gocty.FromCtyValue(args[1], &number); err != nil {
		return cty.NilVal, err
	}
	if block == nil || !number.IsInt64() {
		return cty.UnknownVal(cty.String), nil
	}
	if number.Sign() == 0 {
		return cty.StringVal(block.IP.String()), nil
	}
	if number.Sign() < 0 {
		number.Not(number) // The last address is -1.
	}
	if prefix, length := block.Mask.Size(); number.BitLen() > length-prefix {
		return cty.NilVal, errTooLarge
	}
	return cty.UnknownVal(cty.String), nil // Which address it is, no usual condition asks.
}

func subnetOf(args []cty.Value) (cty.Value, error) {
	block, err := network(args[0])
	if err != nil {
		return cty.NilVal, err
	}
	var bits int
	var number *big.Int
	if err := gocty.FromCtyValue(args[1], &bits); err != nil {
		return cty.NilVal, err
	}
	if err := gocty.FromCtyValue(args[2], &number); err != nil {
		return cty.NilVal, err
	}
	if block == nil || bits < 0 || number.Sign() < 0 {
		return cty.UnknownVal(cty.String), nil
	}
	if prefix, length := block.Mask.Size(); prefix+bits > length || number.IsUint64() && number.BitLen() > bits {
		return cty.NilVal, errTooLarge
	}
	return cty.UnknownVal(cty.String), nil
}
