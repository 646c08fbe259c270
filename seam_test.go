// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package capt

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seam lists the directories that know CAPT v0.3. To remove it is to delete them, and the registration of the gate in controllers/setup.go.
var seam = []string{
	"api/legacy", "api/controlplane/v1beta1", "api/infrastructure/v1beta1", "webhooks/conversion", "controllers/adoption", "migrate", "cmd/captctl/migration",
}

// aboutV03 matches identifiers and comments about CAPT v0.3, and about the adoption of what it left.
var aboutV03 = regexp.MustCompile(`\b([uU]n|[rR]e)?adopt|Adopt|[lL]egacy|v0\.?3|V03|captctl migrate`)

// mentions returns the identifiers and comments of a file about CAPT v0.3. Texts for users do not count.
func mentions(t *testing.T, path string) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok && aboutV03.MatchString(name.Name) {
			found = append(found, name.Name)
		}
		return true
	})
	for _, group := range file.Comments {
		if text := group.Text(); aboutV03.MatchString(text) {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}

// seamExceptions are the mentions in controllers outside of the seam, by file and text, each with its reason. There are at most ten.
var seamExceptions = map[string]string{
	"controllers/setup.go adoption":                                          "the registration of the gate",
	"controllers/engine/gate.go AdoptionRequiredCondition":                   "the name of the condition in the API",
	"controllers/engine/gate.go AdoptionRequiredReason":                      "the name of the reason in the API",
	"controllers/engine/gate.go AdoptionNotRequiredReason":                   "the name of the reason in the API",
	"controllers/workspacetemplateapply/observe.go AdoptWorkspaceAnnotation": "users confirm any Workspace that is not recorded with this annotation",
}

// ofStates lists the directories about the adoption of Terraform states, which CAPT v0.3 has not created.
var ofStates = []string{"api/states", "cmd/captctl/takeover"}

// outsideSeam has the number of mentions in directories that are not behind the seam yet. The numbers must not rise.
var outsideSeam = map[string]int{
	"api/controlplane/v1beta2":   8,
	"api/desired":                8,
	"api/infrastructure/v1beta2": 25,
	"api/naming":                 14,
	"api/overview":               4,
	"api/reasons":                2,
	"api/render":                 8,
	"api/rollout":                2,
	"api/validation":             29,
	"api/validation/modules":     1,
	"cmd/captctl/cli":            1,
	"cmd/captctl/diff":           5,
	"cmd/captctl/fleet":          1, // The annotation with which users take a retained Workspace over.
	"config/rbac":                1,
	"webhooks/admission":         20,
}

func TestControllersKnowCAPTv03OnlyBehindTheGate(t *testing.T) {
	require.LessOrEqual(t, len(seamExceptions), 10)
	used, counts := map[string]bool{}, map[string]int{}
	skipped := slices.Concat([]string{"test", "bin", "tools", "docs", ".git", ".github"}, seam, ofStates)
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && below(path, skipped...):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "zz_generated"):
			return nil
		}
		for _, mention := range mentions(t, path) {
			if !below(path, "controllers") {
				counts[filepath.Dir(path)]++
				continue
			}
			used[path+" "+mention] = true
			assert.Contains(t, seamExceptions, path+" "+mention, "only controllers/adoption knows CAPT v0.3")
		}
		return nil
	}))
	for exception := range seamExceptions {
		assert.True(t, used[exception], "%s: the exception is not needed any more", exception)
	}
	for dir, count := range counts {
		assert.LessOrEqual(t, count, outsideSeam[dir], "%s: CAPT v0.3 is a concern of %s", dir, strings.Join(seam, ", "))
	}
}
