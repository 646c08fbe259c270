// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/sets"
)

// text is one that users may see.
type text struct {
	file, text string
	// to is where it goes, and beside are constants that go along with it, such as the reason of a condition.
	to     place
	beside map[place]string
}

var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[0-9.*]*[a-zA-Z%]`)

// texts of a file. An expression that is part of a longer text is not a text of its own.
func (s source) texts(file *ast.File, name string) (found []text) {
	done := sets.New[ast.Node]()
	ast.PreorderStack(file, nil, func(node ast.Node, parents []ast.Node) bool {
		if general, ok := node.(*ast.GenDecl); ok && (general.Tok == token.CONST || general.Tok == token.IMPORT) {
			return false // Constants are texts where they are used.
		}
		s.add(node, parents)
		expr, ok := node.(ast.Expr)
		if !ok || done.Has(node) || !s.isText(expr) {
			return true
		}
		var args []ast.Expr
		if call, ok := parents[len(parents)-1].(*ast.CallExpr); ok {
			args = s.formatted(call, expr)
		}
		to, _ := s.destination(node, parents, 0)
		found = append(found, text{name, strings.Join(strings.Fields(s.render(expr, args, done)), " "), to, s.besides(parents)})
		return true
	})
	return found
}

// isText reports whether an expression is a constant string, or is put together with one.
func (s source) isText(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.BinaryExpr:
		return expr.Op == token.ADD && s.isString(expr)
	case *ast.CallExpr:
		callee := s.callee(expr)
		return callee != nil && isSprintf(callee)
	}
	return s.TypesInfo.Types[expr].Value != nil && s.isString(expr)
}

func (s source) isString(expr ast.Expr) bool {
	return isBasic(s.TypesInfo.TypeOf(expr), types.IsString)
}

// formatted are the arguments that a call puts into a format: those after it, if the function takes any number of any.
func (s source) formatted(call *ast.CallExpr, format ast.Expr) []ast.Expr {
	signature, ok := s.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok || !signature.Variadic() || call.Ellipsis.IsValid() {
		return nil
	}
	last := signature.Params().Len() - 1
	slice, ok := signature.Params().At(last).Type().(*types.Slice)
	if !ok || !types.IsInterface(slice.Elem()) || position(call.Args, format) != last-1 {
		return nil
	}
	return call.Args[last:]
}

// besides are the constants in the same call or literal.
func (s source) besides(parents []ast.Node) map[place]string {
	found := map[place]string{}
	for _, parent := range slices.Backward(parents) {
		var parts []ast.Expr
		switch parent := parent.(type) {
		case *ast.CallExpr:
			parts = parent.Args
		case *ast.CompositeLit:
			parts = parent.Elts
		case *ast.BinaryExpr, *ast.KeyValueExpr, *ast.ParenExpr:
			continue
		default:
			return found
		}
		for _, part := range parts {
			above := []ast.Node{parent}
			if pair, ok := part.(*ast.KeyValueExpr); ok {
				part, above = pair.Value, append(above, pair)
			}
			if value := s.TypesInfo.Types[part].Value; value != nil && value.Kind() == constant.String {
				if to, ok := s.destination(part, above, 0); ok {
					found[to] = constant.StringVal(value)
				}
			}
		}
	}
	return found
}

// render shows a text as a reader gets it, with placeholders for what is known only when the program runs.
func (s source) render(expr ast.Expr, args []ast.Expr, done sets.Set[ast.Node]) string {
	done.Insert(expr)
	if value := s.TypesInfo.Types[expr].Value; value != nil && value.Kind() == constant.String {
		ast.Inspect(expr, func(part ast.Node) bool { done.Insert(part); return true })
		return s.filled(constant.StringVal(value), args, done)
	}
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return s.render(expr.X, args, done)
	case *ast.BinaryExpr:
		return s.render(expr.X, args, done) + s.render(expr.Y, args, done)
	case *ast.CallExpr:
		if callee := s.callee(expr); callee != nil && isSprintf(callee) {
			return s.render(expr.Args[0], expr.Args[1:], done)
		}
	}
	return "<" + s.placeholder(expr) + ">"
}

func (s source) filled(format string, args []ast.Expr, done sets.Set[ast.Node]) string {
	if args == nil {
		return format
	}
	next := 0
	return verb.ReplaceAllStringFunc(format, func(found string) string {
		if found == "%%" {
			return "%"
		}
		if _, index, ok := strings.Cut(found, "["); ok {
			next = int(index[0] - '1')
		}
		next++
		if next > len(args) {
			return "<…>"
		}
		return s.render(args[next-1], nil, done)
	})
}

// placeholder names a value by the words of its expression.
func (s source) placeholder(expr ast.Expr) string {
	if of := s.TypesInfo.TypeOf(expr); of != nil && types.IsInterface(of) && types.Implements(of, errorType) {
		return "error"
	}
	switch expr := expr.(type) {
	case *ast.Ident:
		if len(expr.Name) > 2 {
			return words(expr.Name)
		}
	case *ast.SelectorExpr:
		return s.selected(expr)
	case *ast.CallExpr:
		return s.called(expr)
	case *ast.IndexExpr:
		return s.placeholder(expr.X)
	case *ast.ParenExpr:
		return s.placeholder(expr.X)
	case *ast.StarExpr:
		return s.placeholder(expr.X)
	}
	return "…"
}

func (s source) selected(expr *ast.SelectorExpr) string {
	before := strings.TrimPrefix(s.placeholder(expr.X)+" ", "… ")
	if of, ok := expr.X.(*ast.Ident); ok {
		if _, imported := s.TypesInfo.Uses[of].(*types.PkgName); imported {
			before = ""
		}
	}
	return before + words(strings.TrimPrefix(expr.Sel.Name, "Get"))
}

// called is the name of a function, or of what it is given when it only changes the form.
func (s source) called(call *ast.CallExpr) string {
	callee, function := s.callee(call), s.TypesInfo.Types[call.Fun]
	if len(call.Args) > 0 && (function.IsType() || function.IsBuiltin() || callee != nil && isTransparent(callee)) {
		return s.placeholder(call.Args[0])
	}
	return strings.TrimSuffix(strings.TrimSuffix(s.placeholder(call.Fun), " string"), " error")
}

// words of a name in camel case.
func words(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
