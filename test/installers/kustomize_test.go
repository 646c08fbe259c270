// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeLayers writes the two layers of docs/install-reference.md to the directory overlay.
func (env *environment) writeLayers() {
	env.Helper()
	inner, outer, found := strings.Cut(documented(env.T, "# renamed/kustomization.yaml"), "---\n")
	require.True(env, found)
	for dir, content := range map[string]string{
		"overlay/renamed": strings.ReplaceAll(inner, "<CAPT>", "../.."),
		"overlay":         strings.ReplaceAll(outer, "<CAPT>", ".."),
	} {
		require.NoError(env, os.MkdirAll(filepath.Join(env.dir, dir), 0o700))
		require.NoError(env, os.WriteFile(filepath.Join(env.dir, dir, "kustomization.yaml"), []byte(content), 0o600))
	}
}

func TestKubectlInstallsUpgradesAndRemoves(t *testing.T) {
	env := newEnvironment(t)
	env.initClusterAPI()
	env.runDocumented("kubectl apply --server-side -f out/release/install.yaml")
	env.requireLife(byDefault)

	// An upgrade, which also is the installation with kustomize.
	cluster := env.readyCluster(byDefault)
	env.runDocumented("kustomize edit set image")
	require.Equal(t, "registry.example.org/capt-manager:v0.4.0", env.image())
	env.requireDeleted(cluster)

	env.shell("kubectl delete workspacetemplates --all-namespaces --all")
	env.runDocumented("kubectl delete --ignore-not-found -k config/default")
	require.Empty(t, env.definitions())
	require.NotContains(t, env.shell("kubectl get namespaces -o name"), "capt-system")
}

// image is the image of the installed manager.
func (env *environment) image() string {
	env.Helper()
	return env.shell("kubectl -n capt-system get deployment capt-manager -o jsonpath='{.spec.template.spec.containers[0].image}'")
}

// definitions lists the CRDs of CAPT.
func (env *environment) definitions() []string {
	env.Helper()
	return strings.Fields(env.shell("kubectl get crd -l 'cluster.x-k8s.io/provider in (infrastructure-capt, control-plane-capt)' -o name"))
}
