// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

// guide runs the shell blocks of docs/quickstart.md in order, word for word.
type guide struct {
	environment *environment
	// dir looks like the repository's root, except that .sandbox is the sandbox of this test.
	dir    string
	blocks []block
}

// block is one shell block of the guide.
type block struct {
	script string
	fails  bool
}

// shellBlock matches a shell block, and the comment before a block that is expected to fail.
var shellBlock = regexp.MustCompile("(?ms)^(<!-- The next command fails. -->\n)?```sh\n(.*?)^```$")

func newGuide(env *environment) *guide {
	env.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(env, err)
	g := &guide{environment: env, dir: env.TempDir()}
	entries, err := os.ReadDir(root)
	require.NoError(env, err)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			require.NoError(env, os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(g.dir, entry.Name())))
		}
	}
	require.NoError(env, os.Symlink(env.Dir(), filepath.Join(g.dir, ".sandbox")))
	text, err := os.ReadFile(filepath.Join(root, "docs", "quickstart.md"))
	require.NoError(env, err)
	for _, match := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		g.blocks = append(g.blocks, block{script: match[2], fails: match[1] != ""})
	}
	return g
}

// until runs the blocks up to and including the next one that contains a text, and returns the output of that block.
func (g *guide) until(text string) (output string) {
	g.environment.Helper()
	for len(g.blocks) > 0 {
		b := g.blocks[0]
		g.blocks = g.blocks[1:]
		output = g.run(b)
		if strings.Contains(b.script, text) {
			return output
		}
	}
	g.environment.Fatalf("docs/quickstart.md has no shell block with %q left", text)
	return ""
}

// run runs a block in bash. Exported variables reach the next block, as in one terminal.
func (g *guide) run(b block) string {
	g.environment.Helper()
	exported := filepath.Join(g.dir, "exported")
	script := "set -euo pipefail\n[ ! -e " + exported + " ] || source " + exported + "\n" + b.script + "export -p > " + exported + "\n"
	cmd := exec.CommandContext(g.environment.Context(), "bash", "-c", script)
	cmd.Dir = g.dir
	// A make that runs this test must not pass its own flags on.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") && !strings.HasPrefix(variable, "PWD=") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "PWD="+g.dir)
	output, err := cmd.CombinedOutput()
	require.Equal(g.environment, b.fails, err != nil, "%s\n%s", b.script, output)
	return string(output)
}
