// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package gitops_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// branch is the branch that Flux follows.
const branch = "main"

// repository is a working tree whose commits Flux reads.
type repository struct {
	*testing.T
	dir string
}

// newRepository creates a repository in a directory. Flux needs the directories of its Kustomizations, also if they have no manifests.
func newRepository(t *testing.T, dir string, directories ...string) *repository {
	t.Helper()
	r := &repository{T: t, dir: dir}
	require.NoError(t, os.Mkdir(dir, 0o700))
	r.git("init", "--quiet", "--initial-branch="+branch)
	for _, directory := range directories {
		r.write(filepath.Join(directory, "README.md"), "Manifests that Flux applies.\n")
	}
	return r
}

func (r *repository) git(arguments ...string) string {
	r.Helper()
	command := exec.CommandContext(r.Context(), "git", arguments...)
	command.Dir = r.dir
	// The configuration of the user may sign commits or run hooks.
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=user", "GIT_AUTHOR_EMAIL=user@example.com",
		"GIT_COMMITTER_NAME=user", "GIT_COMMITTER_EMAIL=user@example.com")
	output, err := command.CombinedOutput()
	require.NoError(r, err, string(output))
	return strings.TrimSpace(string(output))
}

// write writes documents to a file.
func (r *repository) write(path string, documents ...string) {
	r.Helper()
	path = filepath.Join(r.dir, path)
	require.NoError(r, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(r, os.WriteFile(path, []byte(strings.Join(documents, "\n---\n")), 0o600))
}

func (r *repository) remove(paths ...string) {
	r.Helper()
	r.git(append([]string{"rm", "--quiet", "-r"}, paths...)...)
}

// commit commits everything, and returns the revision as Flux writes it.
func (r *repository) commit(message string) (revision string) {
	r.Helper()
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message="+message)
	return branch + "@sha1:" + r.git("rev-parse", "HEAD")
}

// change changes the objects of a file.
func (r *repository) change(path string, change func(object *unstructured.Unstructured)) {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, path))
	require.NoError(r, err)
	objects, err := manifests.Decode(data)
	require.NoError(r, err)
	var documents []string
	for _, object := range objects {
		change(object)
		text, err := yaml.Marshal(object.Object)
		require.NoError(r, err)
		documents = append(documents, string(text))
	}
	r.write(path, documents...)
}
