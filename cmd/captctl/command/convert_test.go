// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
)

const (
	legacyApply = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: jetty}
spec:
  templateRef: {name: dock} # ours
`
	otherManifest = "apiVersion:   v1\nkind: ConfigMap\n"
	helmTemplate  = otherManifest + "---\napiVersion: infrastructure.cluster.x-k8s.io/v1beta1\nkind: CAPTCluster\nmetadata: {name: {{ .name }}}\n"
)

var convertedApply = strings.Replace(legacyApply, "v1beta1", "v1beta2", 1)

// repository is a directory with manifests.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return root
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

func TestConvertPrintsASingleFile(t *testing.T) {
	root := repository(t, map[string]string{"apply.txt": legacyApply})
	out, errOut, err := run(t, name, "convert", "-f", filepath.Join(root, "apply.txt"))
	require.NoError(t, err)
	assert.Equal(t, convertedApply, out)
	assert.Empty(t, errOut)
	assert.Equal(t, legacyApply, content(t, root, "apply.txt"))
}

func TestConvertFiltersStandardInput(t *testing.T) {
	streams, in, stdout, _ := genericiooptions.NewTestIOStreams()
	in.WriteString(legacyApply)
	require.NoError(t, New(name, []string{"convert", "-f", "-"}, streams).ExecuteContext(t.Context()))
	assert.Equal(t, convertedApply, stdout.String())
}

func TestConvertShowsADiffOfADirectory(t *testing.T) {
	root := repository(t, map[string]string{"a.yaml": legacyApply, "other.yml": otherManifest, "below/b.json": otherManifest, "below/c.yaml": legacyApply, "readme.md": legacyApply})
	out, errOut, err := run(t, name, "convert", "-f", root)
	require.NoError(t, err)
	assert.Contains(t, out, "-apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n+apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n")
	assert.Contains(t, errOut, "1 of 2 files would be converted")
	assert.Equal(t, legacyApply, content(t, root, "a.yaml"))

	_, errOut, err = run(t, name, "convert", "-f", root, "-R", "--detailed-exitcode")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	assert.Contains(t, errOut, "2 of 4 files would be converted")
}

func TestTheDiffOfConvertCanBeApplied(t *testing.T) {
	t.Chdir(repository(t, map[string]string{"a.yaml": legacyApply, "b.yaml": strings.TrimSuffix(legacyApply, "\n"), "c.yaml": otherManifest}))
	out, _, err := run(t, name, "convert", "-f", ".")
	require.NoError(t, err)
	apply := exec.CommandContext(t.Context(), "git", "apply", "-p0")
	apply.Stdin = strings.NewReader(out)
	message, err := apply.CombinedOutput()
	require.NoError(t, err, "%s%s", message, out)
	assert.Equal(t, convertedApply, content(t, "a.yaml"))
	assert.Equal(t, strings.TrimSuffix(convertedApply, "\n"), content(t, "b.yaml"))
}

func TestConvertWritesWhatChangesOnce(t *testing.T) {
	root := repository(t, map[string]string{"apply.yaml": legacyApply, "other.yaml": otherManifest})
	require.NoError(t, os.Symlink("apply.yaml", filepath.Join(root, "link.yaml")))
	require.NoError(t, os.Chmod(filepath.Join(root, "other.yaml"), 0o400))

	_, errOut, err := run(t, name, "convert", "-f", root, "--write", "--detailed-exitcode")
	require.NoError(t, err)
	assert.Contains(t, errOut, "1 of 3 files converted")
	assert.Equal(t, convertedApply, content(t, root, "apply.yaml"))
	info, err := os.Lstat(filepath.Join(root, "link.yaml"))
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink)
	info, err = os.Stat(filepath.Join(root, "apply.yaml"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	_, errOut, err = run(t, name, "convert", "-f", root, "--write")
	require.NoError(t, err)
	assert.Contains(t, errOut, "0 of 3 files converted")
}

func TestConvertReportsWhatItCannotConvertAndConvertsTheOtherFiles(t *testing.T) {
	root := repository(t, map[string]string{"chart.yaml": helmTemplate, "second.yaml": legacyApply})
	_, errOut, err := run(t, name, "convert", "-f", root, "--write", "--detailed-exitcode")
	require.EqualError(t, err, "1 of 2 files were not converted, see above")
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
	assert.Contains(t, errOut, "chart.yaml:4: ")
	assert.Equal(t, helmTemplate, content(t, root, "chart.yaml"))
	assert.Equal(t, convertedApply, content(t, root, "second.yaml"))
}

func TestConvertAddsWhatIsInTheCluster(t *testing.T) {
	env := &environment{objects: []client.Object{&infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "jetty"},
		Spec:       infrav1.WorkspaceTemplateApplySpec{WorkspaceName: "jetty-1"},
	}}}
	root := repository(t, map[string]string{"apply.yaml": legacyApply})
	out, errOut, err := env.run(t, "convert", "-f", filepath.Join(root, "apply.yaml"), "--from-cluster")
	require.NoError(t, err)
	assert.Empty(t, errOut, "it is in the namespace of the kubeconfig")
	assert.Contains(t, out, "  workspaceName: jetty-1\n")

	out, errOut, err = env.run(t, "convert", "-f", filepath.Join(root, "apply.yaml"), "--from-cluster", "-n", "elsewhere")
	require.NoError(t, err)
	assert.Contains(t, errOut, "apply.yaml:1: WorkspaceTemplateApply jetty is not in the cluster")
	assert.Equal(t, convertedApply, out)
}

func TestConvertRefusesFlagsThatDoNotFit(t *testing.T) {
	for complaint, arguments := range map[string][]string{
		"--filename is required":                         {},
		"--write cannot be combined with standard input": {"-f", "-", "--write"},
		`the path "missing.yaml" does not exist`:         {"-f", "missing.yaml"},
	} {
		_, _, err := run(t, name, append([]string{"convert"}, arguments...)...)
		require.ErrorContains(t, err, complaint)
		assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
	}
}
