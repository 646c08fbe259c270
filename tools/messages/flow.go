// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/typeutil"
)

// place is where strings go: a variable, a parameter, a struct field, or a result of a function.
type place struct {
	object types.Object
	result int
}

// flow records the places that strings go to from each place. It ignores paths and instances: a field is one place.
type flow map[place][]place

// source is a package with its syntax and types.
type source struct {
	*packages.Package
	flow flow
	// parts are the functions that parameters belong to, and the packages of fields that become JSON.
	parts map[types.Object]string
}

// add records where the value of a node goes.
func (s source) add(node ast.Node, parents []ast.Node) {
	switch node := node.(type) {
	case *ast.Ident:
		if variable, ok := s.TypesInfo.Uses[node].(*types.Var); ok {
			s.connect(place{object: variable.Origin()}, node, parents)
		}
	case *ast.Field:
		if node.Tag != nil && strings.Contains(node.Tag.Value, `json:"`) {
			for _, name := range node.Names {
				s.parts[s.TypesInfo.Defs[name]] = "json " + s.PkgPath
			}
		}
	case *ast.CallExpr:
		callee := s.callee(node)
		if callee == nil || isTransparent(callee) {
			return
		}
		for i := range callee.Signature().Results().Len() {
			s.connect(place{callee.Origin(), i}, node, parents)
		}
	}
}

func (s source) connect(from place, node ast.Node, parents []ast.Node) {
	if to, ok := s.destination(node, parents, from.result); ok && to != from {
		s.flow[from] = append(s.flow[from], to)
	}
}

// destination is the place that gets the value of an expression. Of a call with several results, it is that of one result.
func (s source) destination(child ast.Node, parents []ast.Node, result int) (place, bool) {
	for i, parent := range slices.Backward(parents) {
		if to, done := s.taker(parent, child, parents[:i], result); done {
			return to, to.object != nil
		}
		if !passesOn(parent, child) {
			break
		}
		child = parent
	}
	return place{}, false
}

// passesOn reports whether an expression or statement has the value of one of its parts.
func passesOn(parent, child ast.Node) bool {
	switch parent := parent.(type) {
	case *ast.ParenExpr, *ast.StarExpr, *ast.FuncLit, *ast.BlockStmt, *ast.CompositeLit, *ast.CallExpr, *ast.ReturnStmt:
		return true
	case *ast.BinaryExpr:
		return parent.Op == token.ADD
	case *ast.IndexExpr:
		return parent.X == child
	case *ast.SelectorExpr:
		return parent.Sel == child
	case *ast.KeyValueExpr:
		return parent.Value == child
	}
	return false
}

// taker is the place in or around a node that takes a value, if the node has one.
func (s source) taker(node, child ast.Node, parents []ast.Node, result int) (to place, done bool) {
	switch node := node.(type) {
	case *ast.KeyValueExpr:
		return s.field(node, child)
	case *ast.CompositeLit:
		if structure, ok := s.TypesInfo.TypeOf(node).Underlying().(*types.Struct); ok {
			return place{object: structure.Field(max(position(node.Elts, child), 0))}, true
		}
	case *ast.CallExpr:
		return s.parameter(node, child)
	case *ast.AssignStmt:
		return s.assigned(node.Lhs, node.Rhs, child, result), true
	case *ast.ValueSpec:
		names := make([]ast.Expr, len(node.Names))
		for i, name := range node.Names {
			names[i] = name
		}
		return s.assigned(names, node.Values, child, result), true
	case *ast.RangeStmt:
		return s.variable(node.Value), true
	case *ast.ReturnStmt:
		function := s.enclosing(parents)
		return place{function, max(result, position(node.Results, child))}, function != nil
	}
	return place{}, false
}

// field is the one that gets a value in a literal of a struct.
func (s source) field(pair *ast.KeyValueExpr, child ast.Node) (to place, done bool) {
	key, ok := pair.Key.(*ast.Ident)
	if !ok || pair.Value != child {
		return place{}, false
	}
	field, ok := s.TypesInfo.Uses[key].(*types.Var)
	return s.variable(key), ok && field.IsField()
}

func position(of []ast.Expr, node ast.Node) int {
	return slices.IndexFunc(of, func(e ast.Expr) bool { return e == node })
}

// parameter is the one that gets an argument; it is not done where the call returns what it gets.
func (s source) parameter(call *ast.CallExpr, argument ast.Node) (to place, done bool) {
	index := position(call.Args, argument)
	if index < 0 || s.TypesInfo.Types[call.Fun].IsType() || s.TypesInfo.Types[call.Fun].IsBuiltin() {
		return place{}, index < 0
	}
	callee := s.callee(call)
	if callee != nil && isTransparent(callee) {
		return place{}, false
	}
	signature, ok := s.TypesInfo.TypeOf(call.Fun).Underlying().(*types.Signature)
	if callee != nil {
		signature, ok = callee.Origin().Signature(), true
	}
	if !ok || signature.Params().Len() == 0 {
		return place{}, true
	}
	variable := signature.Params().At(min(index, signature.Params().Len()-1))
	if callee != nil {
		s.parts[variable] = callee.Origin().FullName()
	}
	return place{object: variable}, true
}

func (s source) callee(call *ast.CallExpr) *types.Func {
	callee, _ := typeutil.Callee(s.TypesInfo, call).(*types.Func)
	return callee
}

// isTransparent reports whether a function returns the text that it gets.
func isTransparent(function *types.Func) bool {
	if function.Pkg() == nil || !slices.Contains([]string{"strings", "slices", "cmp", "strconv", "fmt"}, function.Pkg().Path()) {
		return false
	}
	results := function.Signature().Results()
	return results.Len() > 0 && !types.Implements(results.At(0).Type(), errorType) && !isBasic(results.At(0).Type(), types.IsBoolean|types.IsNumeric)
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

func isBasic(of types.Type, info types.BasicInfo) bool {
	basic, ok := of.Underlying().(*types.Basic)
	return ok && basic.Info()&info != 0
}

func isSprintf(function *types.Func) bool {
	return slices.Contains([]string{"fmt.Sprintf", "fmt.Sprint"}, function.FullName())
}

func (s source) assigned(to, from []ast.Expr, child ast.Node, result int) place {
	index := position(from, child)
	if len(from) == 1 && len(to) > 1 {
		index = result
	}
	if index < 0 || index >= len(to) {
		return place{}
	}
	return s.variable(to[index])
}

// variable is the one that an expression on the left of an assignment is about.
func (s source) variable(expr ast.Expr) place {
	var object types.Object
	switch expr := expr.(type) {
	case *ast.Ident:
		object = s.TypesInfo.ObjectOf(expr)
	case *ast.SelectorExpr:
		object = s.TypesInfo.Uses[expr.Sel]
	case *ast.IndexExpr:
		return s.variable(expr.X)
	case *ast.StarExpr:
		return s.variable(expr.X)
	}
	if variable, ok := object.(*types.Var); ok {
		object = variable.Origin()
	}
	return place{object: object}
}

// enclosing is the declared function around a node; the results of a function literal go on to where that goes.
func (s source) enclosing(parents []ast.Node) types.Object {
	for _, parent := range slices.Backward(parents) {
		switch parent := parent.(type) {
		case *ast.FuncLit:
			return nil
		case *ast.FuncDecl:
			return s.TypesInfo.Defs[parent.Name]
		}
	}
	return nil
}

// classes of all places from which strings reach a sink: that of the sink, or the first of several.
func (f flow) classes(sink func(types.Object) class) map[place]class {
	found := map[place]class{}
	for changed := true; changed; {
		changed = false
		for from, next := range f {
			for _, to := range next {
				for _, class := range []class{sink(to.object), found[to]} {
					if class != none && (found[from] == none || class < found[from]) {
						found[from], changed = class, true
					}
				}
			}
		}
	}
	return found
}
