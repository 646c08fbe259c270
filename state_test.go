// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package capt

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/typeutil"
)

// immutable are functions whose results are not changed after they return.
var immutable = regexp.MustCompile(`^\(?\*?(errors|fmt|regexp|strings|slices|maps|time|reflect|sync\.OnceValues?|` +
	`k8s\.io/apimachinery/pkg/(util/validation/field|util/sets|runtime\.NewSchemeBuilder|runtime/schema)|` +
	module + `/(api/terraform\.Scope|webhooks/conversion))\b`)

// stateExceptions are variables of packages that hold state, with the reason. Add none.
var stateExceptions = map[string]string{
	"api/validation/modules.declarations": "cache of what modules declare",
}

// TestPackagesHaveNoState: a variable of a package is made once, by an expression, and not written afterwards.
func TestPackagesHaveNoState(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Env: append(os.Environ(), "GOFLAGS=-trimpath")}, // Without -cover, and with what the build has compiled.
		"./api/...", "./webhooks/...", "./controllers/...", "./migrate/...", "./cmd/...")
	require.NoError(t, err)
	found := map[string]string{}
	for _, p := range loaded {
		require.Empty(t, p.Errors)
		for variable, why := range stateOf(p) {
			found[strings.TrimPrefix(p.PkgPath, module+"/")+"."+variable.Name()] = why
		}
	}
	for name, why := range found {
		assert.Contains(t, stateExceptions, name, "%s %s: pass it as a parameter or keep it in a struct", name, why)
	}
	for name := range stateExceptions {
		assert.Contains(t, found, name, "remove the exception of %s", name)
	}
}

// stateOf finds the variables of a package that are written, or made by a function that may return state.
func stateOf(p *packages.Package) map[types.Object]string {
	found := map[types.Object]string{}
	ofPackage := func(expr ast.Expr) types.Object {
		for {
			switch inner := expr.(type) {
			case *ast.IndexExpr:
				expr = inner.X
			case *ast.StarExpr:
				expr = inner.X
			case *ast.ParenExpr:
				expr = inner.X
			case *ast.SelectorExpr:
				expr = inner.X
			case *ast.Ident:
				if variable, ok := p.TypesInfo.Uses[inner].(*types.Var); ok && variable.Parent() == p.Types.Scope() {
					return variable
				}
				return nil
			default:
				return nil
			}
		}
	}
	write := func(exprs ...ast.Expr) {
		for _, expr := range exprs {
			if variable := ofPackage(expr); variable != nil {
				found[variable] = "is written"
			}
		}
	}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.AssignStmt:
				if node.Tok != token.DEFINE {
					write(node.Lhs...)
				}
			case *ast.IncDecStmt:
				write(node.X)
			case *ast.UnaryExpr:
				if _, element := node.X.(*ast.IndexExpr); node.Op == token.AND && !element {
					write(node.X)
				}
			}
			return true
		})
	}
	for _, initializer := range p.TypesInfo.InitOrder {
		ast.Inspect(initializer.Rhs, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				if callee, ok := typeutil.Callee(p.TypesInfo, call).(*types.Func); ok && !immutable.MatchString(callee.Origin().FullName()) {
					for _, variable := range initializer.Lhs {
						found[variable] = "is made by " + callee.FullName()
					}
				}
			}
			_, inFunction := node.(*ast.FuncLit)
			return !inFunction
		})
	}
	return found
}
