// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := Root()
	require.NoError(t, err)
	return dir
}

func TestEveryPinnedBinaryHasAVersion(t *testing.T) {
	for _, b := range catalog() {
		if b.pin == "" {
			continue
		}
		version, err := b.version(root(t))
		require.NoError(t, err, b.name)
		require.Regexp(t, `^v\d+\.\d+\.\d+$`, version, b.name)
	}
}

func TestKubernetesIsBuiltWithItsVersion(t *testing.T) {
	require.Equal(t, "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3"+
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36", linkFlags("kubernetes", "v1.36.3"))
	require.Equal(t, "-s -w", linkFlags("etcd", "v3.6.14"))
}

func TestOneGoBuildBuildsAllBinariesOfAModule(t *testing.T) {
	var steps []string
	for _, s := range group(catalog()) {
		steps = append(steps, s.pin()+": "+s.names())
	}
	require.Equal(t, []string{
		"etcd: etcd",
		"kubernetes: kube-apiserver, kube-controllers, kubectl",
		"cluster-api: core, clusterctl",
		"opentofu: tofu",
		"kwok: kwok",
		"cert-manager: cert-manager",
		"source-controller: source-controller",
		"kustomize-controller: kustomize-controller",
		": sandbox, provider, manager, captctl",
	}, steps)
}

// They take minutes to compile, and neither make test nor the quickstart runs them.
func TestBinariesOfFewTestsAreBuiltOnDemand(t *testing.T) {
	for _, name := range []string{CertManager, SourceController, KustomizeController} {
		require.NotContains(t, defaults(), name)
	}
	require.Len(t, defaults(), len(Names())-3)
}

func TestOwnBinariesAreBuiltUnlessTheyAreUpToDate(t *testing.T) {
	dir := pinned(t)
	program(t, filepath.Join(dir, "bin", Manager), "")
	for value, want := range map[string]int{"": 2, "true": 1} {
		t.Setenv(upToDate, value)
		list, err := missing(dir, []string{Manager, Provider})
		require.NoError(t, err)
		require.Len(t, list, want)
	}
}

// Its version is that of Kubernetes, which does not change with the list of controllers.
func TestAProgramInThePinIsBuiltAgainWhenItsSourceChanges(t *testing.T) {
	dir := pinned(t)
	source := filepath.Join(PinDir(dir, "kubernetes"), "controllers", "main.go")
	require.NoError(t, os.MkdirAll(filepath.Dir(source), 0o700))
	wanted := func(content string) int {
		require.NoError(t, os.WriteFile(source, []byte(content), 0o600))
		list, err := missing(dir, []string{KubeControllers})
		require.NoError(t, err)
		return len(list)
	}
	require.Equal(t, 1, wanted("package main"))
	path, err := Path(dir, KubeControllers)
	require.NoError(t, err)
	program(t, path, "")
	require.Equal(t, 0, wanted("package main"))
	require.Equal(t, 1, wanted("package main // another controller"))
}

func TestUnknownBinaryIsRejected(t *testing.T) {
	require.ErrorContains(t, Build(t.Context(), io.Discard, "kubelet"), `unknown binary "kubelet"`)
}

// program writes a shell script that prints a version.
func program(t *testing.T, path, output string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+output+"'\n"), 0o700))
}

// pinned returns the root of a repository that has only the pins, and nothing built.
func pinned(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, pin := range []string{"etcd", "kubernetes"} {
		data, err := os.ReadFile(filepath.Join(pin, "go.mod"))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(PinDir(dir, pin), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(PinDir(dir, pin), "go.mod"), data, 0o600))
	}
	return dir
}

func TestBinariesOfTheRequiredMinorVersionAreUsed(t *testing.T) {
	assets, path := t.TempDir(), t.TempDir()
	program(t, filepath.Join(assets, Etcd), "etcd Version: 3.6.99")
	program(t, filepath.Join(assets, KubeAPIServer), "Kubernetes v1.35.0")
	program(t, filepath.Join(path, Kubectl), "Client Version: v1.36.99")
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	t.Setenv("PATH", path+string(filepath.ListSeparator)+os.Getenv("PATH"))
	dir := pinned(t)
	list, err := missing(dir, []string{Etcd, KubeAPIServer, KubeControllers, Kubectl})
	require.NoError(t, err)
	var out strings.Builder

	list, err = find(t.Context(), dir, list, &out)

	require.NoError(t, err)
	require.Equal(t, "kube-apiserver, kube-controllers", step(list).names())
	require.Equal(t, fmt.Sprintf(`etcd: using %[1]s/etcd (v3.6.99) instead of building it
kube-apiserver: not using %[1]s/kube-apiserver: its version is v1.35.0, and the sandbox needs v1.36
kubectl: using %[2]s/kubectl (v1.36.99) instead of building it
`, assets, path), out.String())
	kubectl, err := Path(dir, Kubectl)
	require.NoError(t, err)
	target, err := os.Readlink(kubectl)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(path, Kubectl), target)

	// A link to a binary that was removed since counts as missing, and can be replaced.
	require.NoError(t, os.Remove(target))
	list, err = missing(dir, []string{Kubectl})
	require.NoError(t, err)
	require.Equal(t, "kubectl", step(list).names())
	program(t, target, "Client Version: v1.36.98")
	list, err = find(t.Context(), dir, list, io.Discard)
	require.NoError(t, err)
	require.Empty(t, list)
}

// Modules that many packages import. A package is compiled again for each version of any module that it depends on, so
// different versions here cost minutes of a cold start.
func TestSharedModulesHaveTheSameVersionInEveryPin(t *testing.T) {
	shared := []string{"golang.org/x/", "google.golang.org/", "go.opentelemetry.io/otel", "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go",
		"k8s.io/klog/", "k8s.io/kube-openapi", "sigs.k8s.io/structured-merge-diff/", "sigs.k8s.io/json", "sigs.k8s.io/yaml", "go.yaml.in/yaml/",
		"github.com/go-logr/logr", "github.com/spf13/pflag", "github.com/go-openapi/", "github.com/fxamacker/cbor/", "go.uber.org/zap",
		"github.com/prometheus/client_golang"}
	files := map[string]string{"CAPT": filepath.Join(root(t), "go.mod")}
	for _, pin := range []string{"etcd", "kubernetes", "cluster-api", "opentofu", "kwok"} {
		files[pin] = filepath.Join(pin, "go.mod")
	}
	versions, where := map[string]string{}, map[string]string{}
	for name, path := range files {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := modfile.Parse(path, data, nil)
		require.NoError(t, err)
		for _, r := range file.Require {
			module := r.Mod.Path
			if r.Mod.Version == "v0.0.0" || !hasPrefix(module, shared) {
				continue
			}
			if versions[module] == "" {
				versions[module], where[module] = r.Mod.Version, name
			}
			if versions[module] != r.Mod.Version {
				t.Errorf("%s is %s in %s and %s in %s", module, versions[module], where[module], r.Mod.Version, name)
			}
		}
	}
}

func hasPrefix(module string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(module, prefix) {
			return true
		}
	}
	return false
}
