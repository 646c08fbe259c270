/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package manifest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/manifest"
)

const (
	older = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: jetty}
spec: {templateRef: {name: dock}}
`
	templated = "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CAPTCluster\nmetadata: {name: {{ .name }}}\n"
	notOurs   = "apiVersion:   v1\nkind: ConfigMap\n"
)

// repository is a folder with manifests.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o640))
	}
	return root
}

func run(mode manifest.Mode, in string, paths ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	err = manifest.Options{Paths: paths, Mode: mode, In: strings.NewReader(in), Out: &stdout, ErrOut: &stderr}.Run()
	return stdout.String(), stderr.String(), err
}

func TestCheckTellsWhatWouldChangeAndWritesNothing(t *testing.T) {
	root := repository(t, map[string]string{"a/apply.yaml": older, "other.yml": notOurs, ".git/apply.yaml": older, "readme.md": older})
	out, _, err := run(manifest.Check, "", root)
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	require.ErrorContains(t, err, "1 of 2 files are to be rewritten")
	assert.Contains(t, out, "-apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n+apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n")
	data, err := os.ReadFile(filepath.Join(root, "a", "apply.yaml"))
	require.NoError(t, err)
	assert.Equal(t, older, string(data))
}

func TestWriteWritesWhatChangesOnceAndKeepsTheModeAndLinks(t *testing.T) {
	root := repository(t, map[string]string{"apply.yaml": older, "other.yaml": notOurs})
	link, file := filepath.Join(root, "link.yaml"), filepath.Join(root, "apply.yaml")
	require.NoError(t, os.Symlink("apply.yaml", link))
	other, err := os.Stat(filepath.Join(root, "other.yaml"))
	require.NoError(t, err)

	_, _, err = run(manifest.Write, "", link)
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(older, "v1beta1", "v1beta2", 1), string(data))
	info, err := os.Lstat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o640), info.Mode())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)

	_, errOut, err := run(manifest.Write, "", root)
	require.NoError(t, err)
	assert.Contains(t, errOut, "0 of 3 files rewritten")
	same, err := os.Stat(filepath.Join(root, "other.yaml"))
	require.NoError(t, err)
	assert.True(t, os.SameFile(other, same), "what does not change is not written")
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, entries, 3, "nothing temporary is left")
}

func TestWithoutAModeTheStreamIsPrinted(t *testing.T) {
	root := repository(t, map[string]string{"a.yaml": strings.TrimSuffix(older, "\n"), "b.yaml": notOurs})
	out, _, err := run(manifest.Print, "", root)
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(older, "v1beta1", "v1beta2", 1)+"---\n"+notOurs, out)

	out, _, err = run(manifest.Print, older, "-")
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(older, "v1beta1", "v1beta2", 1), out)

	_, _, err = run(manifest.Write, older, "-")
	require.ErrorContains(t, err, "standard input can not be written")
}

// What captctl can not rewrite keeps a check in CI from passing, and is told with its place.
func TestWhatIsLeftAloneIsPendingInEveryMode(t *testing.T) {
	root := repository(t, map[string]string{"chart.yaml": notOurs + "---\n" + templated})
	for _, mode := range []manifest.Mode{manifest.Print, manifest.Check, manifest.Write} {
		_, errOut, err := run(mode, "", root)
		assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
		require.ErrorContains(t, err, "documents to be changed by hand: 1")
		assert.Contains(t, errOut, "chart.yaml:4: LeftAlone: ")
	}
}

func TestAFileThatIsNotThereIsAnError(t *testing.T) {
	_, _, err := run(manifest.Check, "", filepath.Join(t.TempDir(), "nothing.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
}
