// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := Root()
	require.NoError(t, err)
	return dir
}

func TestEveryPinnedBinaryHasAVersion(t *testing.T) {
	for _, b := range catalogue() {
		if b.pin == "" {
			continue
		}
		version, err := b.version(root(t))
		require.NoError(t, err, b.name)
		require.Regexp(t, `^v\d+\.\d+\.\d+$`, version, b.name)
	}
}

func TestKubernetesIsBuiltWithItsVersion(t *testing.T) {
	b, err := lookup(KubeAPIServer)
	require.NoError(t, err)
	require.Equal(t, "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3"+
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36", b.linkFlags("v1.36.3"))
}

func TestAssetsAreUsedOnlyWhenComplete(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	for _, name := range []string{Etcd, KubeAPIServer, Kubectl} {
		path, err := Path(root(t), Etcd)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(path, filepath.Join(root(t), "bin")), "an incomplete folder was used")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
	}
	path, err := Path(root(t), Etcd)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, Etcd), path)
	path, err = Path(root(t), KubeControllerManager)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(path, filepath.Join(root(t), "bin")))
}

func TestUnknownBinaryIsRefused(t *testing.T) {
	require.ErrorContains(t, Build(t.Context(), io.Discard, "kubelet"), `no binary called "kubelet"`)
}
