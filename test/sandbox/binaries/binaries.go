// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package binaries builds every program that the sandbox runs from the Go module proxy and keeps it in the
// repository's bin directory, one directory per version. The modules in the directories next to this file pin the
// versions, and no other place does.
package binaries

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// Build builds the named binaries that are missing (if none is named, all but those that few tests need) and reports its progress on out. A
// binary of the required version that exists on this machine is used instead of being built. Concurrent builds, in one
// process or in several, wait for each other.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = defaults()
	}
	if list, err := missing(root, names); err != nil || len(list) == 0 {
		return err
	}
	unlock, err := lock(ctx, root, out)
	if err != nil {
		return err
	}
	defer unlock()
	// A concurrent build may have built some of them.
	list, err := missing(root, names)
	if err != nil {
		return err
	}
	if list, err = find(ctx, root, list, out); err != nil {
		return err
	}
	steps := group(list)
	if len(steps) > 0 && steps[0].pin() != "" {
		fmt.Fprintln(out, "Building from source what is missing in bin/. Building everything takes about 8 minutes on two cores, and is done once.")
	}
	for i, s := range steps {
		if err := s.build(ctx, root, out, fmt.Sprintf("[%d/%d]", i+1, len(steps))); err != nil {
			return fmt.Errorf("building %s: %w", s.names(), err)
		}
	}
	return nil
}

// upToDate is the environment variable that is set when CAPT's own binaries in bin are those of the working directory, as after sandbox build.
// Otherwise every start of a sandbox runs go build for them, which takes seconds of CPU time to find that nothing has changed.
const upToDate = "CAPT_BINARIES_UP_TO_DATE"

// missing returns the named binaries that go build must be run for, in the order of the catalog.
func missing(root string, names []string) ([]binary, error) {
	for _, name := range names {
		if _, err := lookup(name); err != nil {
			return nil, err
		}
	}
	var list []binary
	for _, b := range catalog() {
		if !slices.Contains(names, b.name) {
			continue
		}
		path, err := b.path(root)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err == nil && (b.pin != "" || os.Getenv(upToDate) != "") {
			continue
		}
		list = append(list, b)
	}
	return list, nil
}

// step is one run of go build: it builds all missing binaries of one module, which share most of their packages.
type step []binary

func group(list []binary) (steps []step) {
	for i, b := range list {
		if i == 0 || list[i-1].pin != b.pin {
			steps = append(steps, nil)
		}
		steps[len(steps)-1] = append(steps[len(steps)-1], b)
	}
	return steps
}

func (s step) pin() string { return s[0].pin }

func (s step) names() string {
	names := make([]string, 0, len(s))
	for _, b := range s {
		names = append(names, b.name)
	}
	return strings.Join(names, ", ")
}

func (s step) build(ctx context.Context, root string, out io.Writer, label string) error {
	if s.pin() == "" {
		defer s.report(out, label+" CAPT:")()
		return s.goBuild(ctx, root, filepath.Join(root, "bin"), "")
	}
	version, err := s[0].version(root)
	if err != nil {
		return err
	}
	defer s.report(out, label+" "+s.pin()+" "+version+":")()
	target := filepath.Join(root, "bin", s.pin()+"-"+version)
	// A binary gets its final name only when it is complete, because the existence of that file means that it is built.
	part := filepath.Join(target, ".part")
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	if err := s.goBuild(ctx, PinDir(root, s.pin()), part, version); err != nil {
		return err
	}
	for _, b := range s {
		path, err := b.path(root)
		if err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(part, cmp.Or(b.output, b.name)), path); err != nil {
			return err
		}
	}
	return os.RemoveAll(part)
}

// goBuild builds the step's packages into a directory.
func (s step) goBuild(ctx context.Context, dir, target, version string) error {
	args := []string{"build", "-C", dir, "-trimpath", "-ldflags", linkFlags(s.pin(), version), "-o", target + string(filepath.Separator)}
	for _, b := range s {
		args = append(args, b.pkg)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	// An interrupted build must not leave compilers behind: go build forwards an interrupt, but cannot forward a kill.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	// Compilers are short-lived: without garbage collection, a build takes a quarter less time.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOGC=off", "GOMEMLIMIT=2GiB")
	output, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(output)))
	}
}

// lock takes the build lock, a file in bin.
func lock(ctx context.Context, root string, out io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return nil, err
	}
	announce := sync.OnceFunc(func() { fmt.Fprintln(out, "waiting for another build to finish") })
	return process.Lock(ctx, filepath.Join(root, "bin", ".lock"), announce)
}

// reportInterval is the time between two reports of the same step. The API server takes minutes to build.
const reportInterval = 15 * time.Second

// report prints that a step begins, regularly that it still runs, and with the returned function that it has ended. CAPT's own programs are
// usually up to date, so they are reported only if they take long.
func (s step) report(out io.Writer, label string) (done func()) {
	began, announced := time.Now(), false
	ctx, stop := context.WithCancel(context.Background())
	var reporting sync.WaitGroup
	reporting.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, reportInterval, s.pin() != "", func(context.Context) (bool, error) {
			fmt.Fprintf(out, "%s building %s, %s so far\n", label, s.names(), time.Since(began).Round(time.Second))
			announced = true
			return false, nil
		})
	})
	return func() {
		stop()
		reporting.Wait()
		if announced {
			fmt.Fprintf(out, "%s built in %s\n", label, time.Since(began).Round(time.Second))
		}
	}
}

// Names of the binaries, on disk and in the sandbox's output.
const (
	Etcd            = "etcd"
	KubeAPIServer   = "kube-apiserver"
	KubeControllers = "kube-controllers"
	Kubectl         = "kubectl"
	ClusterAPICore  = "core"
	Clusterctl      = "clusterctl"
	Tofu            = "tofu"
	Kwok            = "kwok"
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
		kwok        = "sigs.k8s.io/kwok"
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
		{name: Kwok, pin: "kwok", module: kwok, pkg: kwok + "/cmd/kwok"},
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

// versionTimeout limits how long a binary may take to print its version.
const versionTimeout = time.Minute

// versionPattern matches the version in "etcd Version: 3.6.1", "Kubernetes v1.36.0" and "Client Version: v1.36.0".
var versionPattern = regexp.MustCompile(`(?m)^(?:etcd Version:|Kubernetes|Client Version:) v?(\d+\.\d+\.\d+)`)

// find links binaries that exist on this machine into bin and returns those that must still be built. etcd, kube-apiserver and kubectl are searched in the directory
// that KUBEBUILDER_ASSETS names, and kubectl also in PATH. They are used only when their minor version is the pinned one.
func find(ctx context.Context, root string, list []binary, out io.Writer) (unavailable []binary, err error) {
	for _, b := range list {
		found, err := b.find(ctx, root, out)
		if err != nil {
			return nil, err
		}
		if !found {
			unavailable = append(unavailable, b)
		}
	}
	return unavailable, nil
}

func (b binary) find(ctx context.Context, root string, out io.Writer) (found bool, err error) {
	if len(b.versionArgs) == 0 {
		return false, nil
	}
	want, err := b.version(root)
	if err != nil {
		return false, err
	}
	var candidates []string
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		candidates = append(candidates, filepath.Join(dir, b.name))
	}
	if b.name == Kubectl {
		candidates = append(candidates, b.name)
	}
	for _, candidate := range candidates {
		candidate, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		have, err := b.versionOf(ctx, candidate)
		if err != nil || semver.MajorMinor(have) != semver.MajorMinor(want) {
			have = cmp.Or(have, fmt.Sprintf("unknown (%v)", err))
			fmt.Fprintf(out, "%s: not using %s: its version is %s, and the sandbox needs %s\n", b.name, candidate, have, semver.MajorMinor(want))
			continue
		}
		fmt.Fprintf(out, "%s: using %s (%s) instead of building it\n", b.name, candidate, have)
		return true, b.link(root, candidate)
	}
	return false, nil
}

// versionOf runs a binary to learn its version. This also proves that it runs on this machine.
func (b binary) versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, b.versionArgs...).Output() // #nosec G204 G702 -- The user's PATH and KUBEBUILDER_ASSETS name the program.
	match := versionPattern.FindSubmatch(output)
	if err != nil || match == nil {
		return "", err
	}
	return "v" + string(match[1]), nil
}

// link makes a symbolic link in bin to an existing binary. A link whose target no longer exists is replaced.
func (b binary) link(root, existing string) error {
	path, err := b.path(root)
	if err != nil {
		return err
	}
	if existing, err = filepath.Abs(existing); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_ = os.Remove(path) // If it cannot be removed, it cannot be replaced either.
	return os.Symlink(existing, path)
}
