// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds every program the sandbox runs from the Go module proxy and keeps it under the
// repository's bin folder, one folder a version. The versions are those that the modules beside this file pin, and
// nothing else names them.
package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Names of the binaries, as they are called on disk and in the sandbox's output.
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	Kubectl               = "kubectl"
	ClusterAPICore        = "core"
	Clusterctl            = "clusterctl"
	Tofu                  = "tofu"
	Manager               = "manager"
	Captctl               = "captctl"
	Provider              = "provider"
	Sandbox               = "sandbox"
)

// binary says how one program is built. A pinned binary comes from the module in its own folder under
// test/sandbox/binaries and is cached by version; one without a pin is the project's own and is always given to
// go build, whose cache makes an unchanged one cheap.
type binary struct {
	name string
	// pin is the folder under test/sandbox/binaries, and the prefix of the folder in bin. Empty for our own.
	pin string
	// module is the path in the pin's go.mod whose version the binary carries.
	module string
	// pkg is the main package: an import path for pinned binaries, a path relative to the repository for our own.
	pkg string
	// kubernetes binaries need their version linked in: without it they report 0.0 and refuse to emulate versions.
	kubernetes bool
	// asset says that the binary may come from KUBEBUILDER_ASSETS.
	asset bool
}

// catalogue lists the binaries in the order in which they are built: the slow one that everything waits for first.
func catalogue() []binary {
	return []binary{
		{name: Etcd, pin: "etcd", module: "go.etcd.io/etcd/server/v3", pkg: "go.etcd.io/etcd/server/v3", asset: true},
		{name: KubeAPIServer, pin: "kubernetes", module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", kubernetes: true, asset: true},
		{name: KubeControllerManager, pin: "kubernetes", module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", kubernetes: true},
		{name: Kubectl, pin: "kubernetes", module: "k8s.io/kubernetes", pkg: "k8s.io/kubernetes/cmd/kubectl", kubernetes: true, asset: true},
		{name: ClusterAPICore, pin: "cluster-api", module: "sigs.k8s.io/cluster-api", pkg: "sigs.k8s.io/cluster-api/core"},
		{name: Clusterctl, pin: "cluster-api", module: "sigs.k8s.io/cluster-api", pkg: "sigs.k8s.io/cluster-api/cmd/clusterctl"},
		{name: Tofu, pin: "opentofu", module: "github.com/opentofu/opentofu", pkg: "github.com/opentofu/opentofu/cmd/tofu"},
		{name: Sandbox, pkg: "./test/sandbox/cmd/sandbox"},
		{name: Provider, pkg: "./test/provider/cmd/provider"},
		{name: Manager, pkg: "./cmd/manager"},
		{name: Captctl, pkg: "./cmd/captctl"},
	}
}

// Names returns the name of every binary, in build order.
func Names() []string {
	all := catalogue()
	names := make([]string, 0, len(all))
	for _, b := range all {
		names = append(names, b.name)
	}
	return names
}

func lookup(name string) (binary, error) {
	for _, b := range catalogue() {
		if b.name == name {
			return b, nil
		}
	}
	return binary{}, fmt.Errorf("there is no binary called %q; known are %s", name, strings.Join(Names(), ", "))
}

// Root returns the folder of the repository: the nearest one upwards whose go.mod is CAPT's. Tests run in their
// package's folder and the command anywhere below the root, so the working directory is the one thing both share
// (a path from the compiler would be gone in a binary built with -trimpath).
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modfile.ModulePath(data) == rootModule {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of %s in the working directory or above it: run this inside the repository", rootModule)
		}
		dir = parent
	}
}

const rootModule = "github.com/capt-provider/capt"

// PinDir is the folder of the module that pins a tool.
func PinDir(root, pin string) string { return filepath.Join(root, "test", "sandbox", "binaries", pin) }

// version reads the version of a pinned binary from its go.mod.
func (b binary) version(root string) (string, error) {
	path := filepath.Join(PinDir(root, b.pin), "go.mod")
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	file, err := modfile.Parse(path, data, nil)
	if err != nil {
		return "", err
	}
	for _, require := range file.Require {
		if require.Mod.Path == b.module {
			return require.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", path, b.module)
}

// Path says where a binary is, whether it has been built or not.
func Path(root, name string) (string, error) {
	b, err := lookup(name)
	if err != nil {
		return "", err
	}
	return b.path(root)
}

func (b binary) path(root string) (string, error) {
	if b.pin == "" {
		return filepath.Join(root, "bin", b.name), nil
	}
	if dir := assets(); b.asset && dir != "" {
		return filepath.Join(dir, b.name), nil
	}
	version, err := b.version(root)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "bin", b.pin+"-"+version, b.name), nil
}

// assets returns the folder of KUBEBUILDER_ASSETS if it holds all of etcd, kube-apiserver and kubectl: a mixture of
// its binaries and ours would pair versions nobody chose.
func assets() string {
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		return ""
	}
	for _, name := range []string{Etcd, KubeAPIServer, Kubectl} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return ""
		}
	}
	return dir
}

// linkFlags are given to the linker. They are part of Go's cache key: changing them rebuilds everything.
func (b binary) linkFlags(version string) string {
	flags := "-s -w"
	if !b.kubernetes {
		return flags
	}
	major := strings.TrimPrefix(semver.Major(version), "v")
	minor := strings.TrimPrefix(semver.MajorMinor(version), "v"+major+".")
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("%s -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", flags, pkg, version, pkg, major, pkg, minor)
}
