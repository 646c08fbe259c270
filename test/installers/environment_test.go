// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package installers_test installs CAPT with the real kubectl, kustomize, Helm and clusterctl. The commands are those of docs/install.md, word for
// word. What the API server then has is run as a cluster would run it (see node): the manager has the arguments, the certificate and the
// ServiceAccount of the installed Deployment, and the API server calls its webhooks through the installed Service.
package installers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/sandbox"
)

const root = "../.."

// environment is a cluster without CAPT, and the terminal of a user.
type environment struct {
	*testing.T
	*fixture.Server
	node *node
	// dir looks like a clone of the repository in which make release was run.
	dir string
}

// newEnvironment starts a control plane. Each test has its own, because only one installation of CAPT fits into one.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	return newEnvironmentWith(t, nil)
}

// newEnvironmentWith runs CAPT in an image.
func newEnvironmentWith(t *testing.T, image *image) *environment {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "config"), os.DirFS(filepath.Join(root, "config"))))
	for _, name := range []string{"home", "out"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	require.NoError(t, os.Symlink(filepath.Join(prepared, "release"), filepath.Join(dir, "out", "release")))
	workspaces, err := filepath.Abs(filepath.Join(root, "test", "provider", "config", "crd"))
	require.NoError(t, err)
	data, err := os.MkdirTemp("", "capt-sandbox-")
	require.NoError(t, err)
	network := newNetwork(t)
	s := fixture.Start(t, sandbox.Options{
		Dir: data, NoCRDs: true, Provider: true, KubeControllerManager: true, AuditLog: true, Manifests: []string{workspaces},
		APIServerArgs: []string{"--egress-selector-config-file=" + network.config()},
		ProviderArgs:  []string{"--executor=scripted", "--script-dir=" + servers.Scripts(data)},
	})
	server, err := fixture.Connect(s)
	require.NoError(t, err)
	return &environment{T: t, Server: server, node: startNode(t, server, network, image), dir: dir}
}

// shell runs a script as a user would, and returns its output. It must succeed.
func (env *environment) shell(script string) string {
	env.Helper()
	printed, err := env.tryShell(script)
	require.NoError(env, err, "%s\n%s", script, printed)
	return printed
}

func (env *environment) tryShell(script string) (string, error) {
	command := exec.CommandContext(env.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = env.dir
	home := filepath.Join(env.dir, "home")
	command.Env = []string{
		"HOME=" + home, "TMPDIR=" + os.TempDir(), "KUBECONFIG=" + env.Kubeconfig(),
		"PATH=" + filepath.Join(prepared, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true", // It would look for a newer release on the internet.
		"CLUSTER_TOPOLOGY=true",                // The ClusterClass needs it.
	}
	printed, err := command.CombinedOutput()
	return string(printed), err
}

var codeBlock = regexp.MustCompile("(?ms)^```(?:yaml)?\n(.*?)^```$")

// documented returns the block of docs/install.md, or of its reference, that has a text.
func documented(t *testing.T, text string) string {
	t.Helper()
	var found []string
	for _, name := range []string{"install.md", "install-reference.md"} {
		document, err := os.ReadFile(filepath.Join(root, "docs", name))
		require.NoError(t, err)
		for _, match := range codeBlock.FindAllStringSubmatch(string(document), -1) {
			if strings.Contains(match[1], text) {
				found = append(found, match[1])
			}
		}
	}
	require.Len(t, found, 1, "blocks with %q in docs/install.md and its reference", text)
	return found[0]
}

// runDocumented runs the block of docs/install.md, or of its reference, that has a text.
func (env *environment) runDocumented(text string) string {
	env.Helper()
	return env.shell(documented(env.T, text))
}
