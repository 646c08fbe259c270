// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package capt has the tests of the architecture: which package may import which, and how large the project may get.
package capt

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/capt-provider/capt"

// imports says which packages of this module the packages below a path may import. A test may also import test and config.
var imports = []importRule{
	{"api", "types and pure rules, for controllers, webhooks, captctl and tests", []string{"api"}},
	{"webhooks", "webhooks and controllers share only what is in api", []string{"api", "webhooks", "config"}},
	{"controllers", "controllers and webhooks share only what is in api", []string{"api", "controllers"}},
	{"migrate", "migrate reads and writes objects, but runs no controller and serves no webhook", []string{"api", "webhooks/conversion", "config", "migrate"}},
	{"cmd/manager", "the manager migrates nothing", []string{"api", "webhooks", "controllers"}},
	{"cmd/captctl", "captctl has flags, wiring and output; what it does is in api and migrate", []string{"api", "migrate", "cmd/captctl"}},
	{"config", "config embeds manifests", nil},
	{"tools", "tools are for the repository; tools/reference prints the help and the types of captctl", []string{"api", "migrate", "cmd/captctl"}},
	{"docs", "docs has text", nil},
	{"test", "nothing imports the manager", []string{"api", "webhooks", "controllers", "migrate", "config", "test", "cmd/captctl"}},
}

type importRule struct {
	below, why string
	may        []string
}

// importExceptions are imports that break a rule, with the reason. Add none.
var importExceptions = map[string]string{}

// workspacePort is the only package that talks to Terraform, and workspacePortUsers are those that may use it.
const workspacePort = "controllers/workspace"

var workspacePortUsers = []string{"controllers", "controllers/adoption", "controllers/workspacetemplateapply", "controllers/workspacetemplateapply/previews"}

// clients are packages that api must not depend on, also not through another package.
var (
	clients          = regexp.MustCompile(`^(k8s\.io/client-go/(rest|kubernetes|dynamic|tools)|sigs\.k8s\.io/controller-runtime/pkg/(client|manager|cache))(/|$)`)
	clientExceptions = map[string]string{}
)

// crossplaneText is what only packages that know Crossplane write, and crossplanePackages are these.
var (
	crossplaneText     = regexp.MustCompile(`crossplane\.io|upbound\.io`)
	crossplanePackages = map[string]string{
		"api/terraform":         "the part of provider-terraform's API that CAPT uses",
		"controllers/workspace": "the port to Terraform",
		"api/render":            "WorkspaceTemplateApply → Workspace",
		"migrate/apply":         "advice to annotate a Workspace",
	}
)

const (
	maxProductLines = 75_300
	maxSupportLines = 18_300
)

// pkg is what go list prints about a package.
type pkg struct {
	ImportPath                               string
	Name, Dir                                string
	GoFiles                                  []string
	Imports, TestImports, XTestImports, Deps []string
}

// path of the package in the repository.
func (p pkg) path() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// uses lists the packages of this module that the package imports.
func (p pkg) uses(lists ...[]string) (paths []string) {
	for _, imported := range slices.Concat(lists...) {
		if path, ours := strings.CutPrefix(imported, module+"/"); ours && path != p.path() && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

var allPackages = sync.OnceValues(func() (found []pkg, err error) {
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Dir,GoFiles,Imports,TestImports,XTestImports,Deps", "./...").Output()
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var next pkg
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return nil, err
		case strings.HasPrefix(next.ImportPath, module+"/"):
			found = append(found, next)
		}
	}
})

func packagesOf(t *testing.T) []pkg {
	t.Helper()
	found, err := allPackages()
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func below(path string, tops ...string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return path == top || strings.HasPrefix(path, top+"/") })
}

func TestPackagesImportOnlyWhatTheirRuleAllows(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packagesOf(t) {
		i := slices.IndexFunc(imports, func(rule importRule) bool { return below(p.path(), rule.below) })
		require.GreaterOrEqual(t, i, 0, "%s has no rule: add one to imports, and to CONTRIBUTING.md", p.path())
		may := imports[i].may
		inTests := p.uses(p.TestImports, p.XTestImports)
		if below(p.path(), "config", "docs", "tools") {
			inTests = nil // Samples and manifests are tested with everything that reads them.
		}
		for _, imported := range append(p.uses(p.Imports), inTests...) {
			if below(imported, may...) || !slices.Contains(p.uses(p.Imports), imported) && below(imported, "test", "config") {
				continue
			}
			edge := p.path() + " -> " + imported
			used[edge] = true
			assert.Contains(t, importExceptions, edge, "%s must not import %s: %s", p.path(), imported, imports[i].why)
		}
	}
	for edge := range importExceptions {
		assert.True(t, used[edge], "the exception %q is not needed: remove it", edge)
	}
}

func TestTerraformIsReachedThroughOnePackage(t *testing.T) {
	for _, p := range packagesOf(t) {
		if below(p.path(), "test") || slices.Contains(workspacePortUsers, p.path()) {
			continue
		}
		assert.NotContains(t, p.uses(p.Imports), workspacePort, "%s must use a WorkspaceTemplateApply instead", p.path())
	}
}

func TestAPIDependsOnNoClient(t *testing.T) {
	for _, p := range packagesOf(t) {
		if !below(p.path(), "api") {
			continue
		}
		i := slices.IndexFunc(p.Deps, clients.MatchString)
		_, excepted := clientExceptions[p.path()]
		switch {
		case i >= 0 && !excepted:
			assert.Fail(t, "a client in api", "%s depends on %s", p.path(), p.Deps[i])
		case i < 0 && excepted:
			assert.Fail(t, "an exception that is not needed", "%s depends on no client: remove it from clientExceptions", p.path())
		}
	}
}

func TestOnlyFewPackagesKnowCrossplane(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packagesOf(t) {
		external := slices.ContainsFunc(p.Deps, func(dependency string) bool { return strings.HasPrefix(dependency, "github.com/crossplane/") })
		if !below(p.path(), "test/provider", "test/simulation") { // They run crossplane-runtime's reconciler (decision 30).
			assert.False(t, external, "%s depends on Crossplane's module: the part of its API that CAPT uses is in api/terraform", p.path())
		}
		if below(p.path(), "test", "tools", "config") {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && crossplaneText.MatchString(literal.Value) {
					found[p.path()] = true
					assert.Contains(t, crossplanePackages, p.path(), "%s/%s has %s", p.path(), name, literal.Value)
				}
				return true
			})
		}
	}
	for path := range crossplanePackages {
		assert.True(t, found[path], "%s does not know Crossplane: remove it from crossplanePackages", path)
	}
}

// The lines of hand-written Go have a limit, so that new features delete what they replace. Raise it only with a feature, and report it in its commit.
func TestTheProjectStaysSmall(t *testing.T) {
	for name, limit := range map[string]struct {
		tops  []string
		lines int
	}{
		"product":      {[]string{"api", "webhooks", "controllers", "migrate", "cmd", "config"}, maxProductLines},
		"test support": {[]string{"test"}, maxSupportLines},
	} {
		lines := 0
		for _, top := range limit.tops {
			require.NoError(t, filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
				if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "zz_generated.") {
					return err
				}
				text, err := os.ReadFile(path)
				lines += bytes.Count(text, []byte("\n"))
				return err
			}))
		}
		t.Logf("%s has %d lines, at most %d", name, lines, limit.lines)
		assert.LessOrEqual(t, lines, limit.lines, "%s has grown", name)
	}
}
