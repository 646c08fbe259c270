// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds every program that the sandbox runs from the Go module proxy and keeps it in the
// repository's bin directory, one directory per version. The modules in the directories next to this file pin the
// versions, and no other place does.
package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Names of the binaries, on disk and in the sandbox's output.
const (
	Etcd            = "etcd"
	KubeAPIServer   = "kube-apiserver"
	KubeControllers = "kube-controllers"
	Kubectl         = "kubectl"
	ClusterAPICore  = "core"
	Clusterctl      = "clusterctl"
	Tofu            = "tofu"
	CertManager     = "cert-manager"
	Manager         = "manager"
	Captctl         = "captctl"
	Provider        = "provider"
	Sandbox         = "sandbox"
	// Controllers of Flux, which only tests of GitOps run.
	SourceController    = "source-controller"
	KustomizeController = "kustomize-controller"
)

// binary describes how one program is built. A pinned binary comes from a module below test/sandbox/binaries and is
// cached by version; one whose main package is in that module, and not in a dependency, also by its source. A binary
// without a pin is CAPT's own: it is always passed to go build, which is quick when nothing has changed.
type binary struct {
	name string
	// pin is the directory below test/sandbox/binaries and the prefix of the directory in bin. Empty for CAPT's own.
	pin string
	// module is the path in the pin's go.mod whose version the binary has.
	module string
	// pkg is the main package: an import path, or a path relative to the pin or, for CAPT's own, to the repository.
	pkg string
	// output is the name that go build gives the binary, if it differs from name.
	output string
	// onDemand is set for a binary that is built only when it is named, because few tests need it.
	onDemand bool
	// versionArgs make the binary print its version. Only a binary that has them may be found on this machine instead of
	// being built.
	versionArgs []string
}

// catalog lists the binaries in build order. Binaries with the same pin follow each other: one go build builds them.
func catalog() []binary {
	const (
		kubernetes  = "k8s.io/kubernetes"
		clusterAPI  = "sigs.k8s.io/cluster-api"
		opentofu    = "github.com/opentofu/opentofu"
		certManager = "github.com/cert-manager/cert-manager"
		etcdServer  = "go.etcd.io/etcd/server/v3"
		flux        = "github.com/fluxcd/"
	)
	return []binary{
		{name: Etcd, pin: "etcd", module: etcdServer, pkg: etcdServer, output: "server", versionArgs: []string{"--version"}},
		{name: KubeAPIServer, pin: "kubernetes", module: kubernetes, pkg: kubernetes + "/cmd/kube-apiserver", versionArgs: []string{"--version"}},
		{name: KubeControllers, pin: "kubernetes", module: kubernetes, pkg: "./controllers", output: "controllers"},
		{name: Kubectl, pin: "kubernetes", module: kubernetes, pkg: kubernetes + "/cmd/kubectl", versionArgs: []string{"version", "--client"}},
		{name: ClusterAPICore, pin: "cluster-api", module: clusterAPI, pkg: clusterAPI + "/core"},
		{name: Clusterctl, pin: "cluster-api", module: clusterAPI, pkg: clusterAPI + "/cmd/clusterctl"},
		{name: Tofu, pin: "opentofu", module: opentofu, pkg: opentofu + "/cmd/tofu"},
		{name: CertManager, pin: "cert-manager", module: certManager, pkg: ".", onDemand: true},
		{name: SourceController, pin: SourceController, module: flux + SourceController, pkg: flux + SourceController, onDemand: true},
		{name: KustomizeController, pin: KustomizeController, module: flux + KustomizeController, pkg: flux + KustomizeController, onDemand: true},
		{name: Sandbox, pkg: "./test/sandbox/cmd/sandbox"},
		{name: Provider, pkg: "./test/provider/cmd/provider"},
		{name: Manager, pkg: "./cmd/manager"},
		{name: Captctl, pkg: "./cmd/captctl"},
	}
}

// Names returns the name of every binary, in build order.
func Names() []string {
	all := catalog()
	names := make([]string, 0, len(all))
	for _, b := range all {
		names = append(names, b.name)
	}
	return names
}

// defaults returns the names of the binaries that are built unless others are named.
func defaults() (names []string) {
	for _, b := range catalog() {
		if !b.onDemand {
			names = append(names, b.name)
		}
	}
	return names
}

func lookup(name string) (binary, error) {
	for _, b := range catalog() {
		if b.name == name {
			return b, nil
		}
	}
	return binary{}, fmt.Errorf("unknown binary %q: must be one of %s", name, strings.Join(Names(), ", "))
}

// Root returns the repository's root: the nearest parent directory whose go.mod is CAPT's. Tests run in the directory of
// their package and the command anywhere in the repository, so both start from the working directory. A path recorded
// by the compiler does not exist in a binary built with -trimpath.
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
			return "", fmt.Errorf("found no go.mod of %s in the working directory or above it: run this command in the repository", rootModule)
		}
		dir = parent
	}
}

const rootModule = "github.com/capt-provider/capt"

// PinDir is the directory of the module that pins a tool.
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

// Source returns the directory of the source of the module that a pinned binary is built from.
func Source(ctx context.Context, root, name string) (string, error) {
	b, err := lookup(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", b.module)
	cmd.Dir = PinDir(root, b.pin)
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of %s: %w", b.module, err)
	}
	return strings.TrimSpace(string(output)), nil
}

// Path returns the path of a binary, whether it has been built or not.
func Path(root, name string) (string, error) {
	b, err := lookup(name)
	if err != nil {
		return "", err
	}
	return b.path(root)
}

// Built is the path of a program, which is built if it is missing.
func Built(ctx context.Context, out io.Writer, name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if err := Build(ctx, out, name); err != nil {
		return "", err
	}
	return Path(root, name)
}

func (b binary) path(root string) (string, error) {
	if b.pin == "" {
		return filepath.Join(root, "bin", b.name), nil
	}
	version, err := b.version(root)
	if err != nil {
		return "", err
	}
	suffix, err := b.sourceSuffix(root)
	return filepath.Join(root, "bin", b.pin+"-"+version, b.name+suffix), err
}

// sourceSuffix distinguishes builds of a main package in the directory of its pin, which changes without a change of the pinned version. It is
// empty for other binaries.
func (b binary) sourceSuffix(root string) (string, error) {
	if !strings.HasPrefix(b.pkg, ".") {
		return "", nil
	}
	files, err := filepath.Glob(filepath.Join(PinDir(root, b.pin), b.pkg, "*.go"))
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		hash.Write(data)
	}
	return "-" + hex.EncodeToString(hash.Sum(nil))[:8], nil
}

// linkFlags are passed to the linker. Kubernetes needs its version linked in: without it, an API server reports 0.0 and
// cannot emulate other versions.
func linkFlags(pin, version string) string {
	flags := "-s -w"
	if pin != "kubernetes" {
		return flags
	}
	major := strings.TrimPrefix(semver.Major(version), "v")
	minor := strings.TrimPrefix(semver.MajorMinor(version), "v"+major+".")
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("%s -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s", flags, pkg, version, pkg, major, pkg, minor)
}
