// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// prepared is a directory with what all tests use: the files of a release, the programs of users, and repositories for clusterctl.
var prepared string

func TestMain(m *testing.M) {
	os.Exit(fixture.Suite{Parallel: 2, Start: func(ctx context.Context, dir string, _ func(*sandbox.Sandbox)) error {
		prepared = dir
		return prepare(ctx, dir)
	}}.Run(m))
}

// prepare builds what is missing.
func prepare(ctx context.Context, dir string) error {
	programs := filepath.Join(dir, "bin")
	if err := os.Mkdir(programs, 0o700); err != nil {
		return err
	}
	if err := sandbox.Build(ctx, os.Stderr, binaries.ClusterAPICore, binaries.Manager); err != nil {
		return err
	}
	for _, name := range []string{sandbox.Kubectl, sandbox.Clusterctl} {
		path, err := binaries.Built(ctx, os.Stderr, name)
		if err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			return err
		}
	}
	for _, build := range [][]string{
		{"build", "-C", filepath.Join(root, "tools", "kustomize"), "-o", filepath.Join(programs, "kustomize"), "sigs.k8s.io/kustomize/kustomize/v5"},
		{"build", "-C", filepath.Join(root, "tools", "release"), "-o", filepath.Join(programs, "helm"), "helm.sh/helm/v4/cmd/helm"},
		{"run", "-C", filepath.Join(root, "tools", "release"), ".", "-version=v0.4.0", "-image=registry.example.org/capt-manager", "-platforms=linux/" + runtime.GOARCH, "-out=" + filepath.Join(dir, "release")},
	} {
		if _, err := output(ctx, "go", build...); err != nil {
			return err
		}
	}
	return prepareClusterAPI(ctx, dir)
}

// prepareClusterAPI makes repositories for clusterctl from the module of Cluster API, as the release of Cluster API does it: with kustomize.
func prepareClusterAPI(ctx context.Context, dir string) error {
	source, err := module(ctx, root, "sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	metadata, err := os.ReadFile(filepath.Join(source.Dir, "metadata.yaml"))
	if err != nil {
		return err
	}
	config, err := prepareCertManager(ctx, dir)
	if err != nil {
		return err
	}
	for _, provider := range []struct{ label, name, kind, components, config string }{
		{"cluster-api", "cluster-api", "CoreProvider", "core-components.yaml", "core/config/default"},
		{"bootstrap-kubeadm", "kubeadm", "BootstrapProvider", "bootstrap-components.yaml", "bootstrap/kubeadm/config/default"},
	} {
		components, err := output(ctx, filepath.Join(dir, "bin", "kustomize"), "build", filepath.Join(source.Dir, filepath.FromSlash(provider.config)))
		if err != nil {
			return err
		}
		repository := filepath.Join(dir, provider.label, source.Version)
		if err := os.MkdirAll(repository, 0o700); err != nil {
			return err
		}
		for name, data := range map[string][]byte{provider.components: components, "metadata.yaml": metadata} {
			if err := os.WriteFile(filepath.Join(repository, name), data, 0o600); err != nil {
				return err
			}
		}
		config = fmt.Sprintf("- name: %s\n  type: %s\n  url: file://%s\n", provider.name, provider.kind, filepath.Join(repository, provider.components)) + config
	}
	return os.WriteFile(filepath.Join(dir, "clusterctl.yaml"), []byte(config), 0o600)
}

// prepareCertManager makes a file with the CRDs of cert-manager and the namespace that clusterctl looks for, and returns the configuration with which
// clusterctl installs it. Its controllers are not needed: node issues the certificates.
func prepareCertManager(ctx context.Context, dir string) (config string, err error) {
	source, err := module(ctx, filepath.Join(root, "test", "sandbox", "binaries", "cert-manager"), "github.com/cert-manager/cert-manager")
	if err != nil {
		return "", err
	}
	names, err := filepath.Glob(filepath.Join(source.Dir, "deploy", "crds", "*.yaml"))
	if err != nil {
		return "", err
	}
	text := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: cert-manager}}\n")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		text = append(append(text, "---\n"...), data...)
	}
	repository := filepath.Join(dir, "cert-manager", source.Version)
	if err := os.MkdirAll(repository, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(repository, "cert-manager.yaml")
	return "cert-manager:\n  version: " + source.Version + "\n  url: file://" + file + "\n", os.WriteFile(file, text, 0o600)
}

type source struct{ Dir, Version string }

// module returns the source of a module in the version that the module in a directory pins.
func module(ctx context.Context, dir, name string) (found source, err error) {
	downloaded, err := output(ctx, "go", "mod", "download", "-C", dir, "-json", name)
	if err != nil {
		return source{}, err
	}
	return found, json.Unmarshal(downloaded, &found)
}

func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, program, args...)
	var failure bytes.Buffer
	command.Stderr = &failure
	printed, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, failure.String())
	}
	return printed, err
}
