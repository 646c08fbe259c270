// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs the control plane of a management cluster on one machine, without containers: etcd,
// kube-apiserver, kube-controller-manager, Cluster API core, CAPT and a provider for Terraform Workspaces. All of them
// listen on loopback only and keep their files in one directory. They end when the sandbox is stopped or its owner ends.
//
// Tests start a sandbox with Start, users with the sandbox command (make quickstart).
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Sandbox is a running control plane. Its methods may be called from several goroutines.
type Sandbox struct {
	options   Options
	root      string
	dir       string
	authority *pki.Authority
	guard     *state.Guard
	config    *rest.Config
	client    client.Client

	// lock guards everything below.
	lock        sync.Mutex
	state       state.State
	ports       map[string]int
	components  map[string]*component
	kubeconfigs map[string]string
	// clusterAPIDir is the directory of the source of Cluster API, once it is known.
	clusterAPIDir string
	stopped       bool
	// attached is set when another process owns the sandbox.
	attached bool
}

// Start starts a sandbox and returns when all components are ready. If it fails or the context ends, it stops everything
// it started.
func Start(ctx context.Context, options Options) (*Sandbox, error) {
	options.complete()
	if err := binaries.Build(ctx, options.Log, options.binaries()...); err != nil {
		return nil, err
	}
	s, err := newSandbox(options)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func newSandbox(options Options) (*Sandbox, error) {
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(options.Dir)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		options:     options,
		root:        root,
		dir:         dir,
		ports:       map[string]int{},
		components:  map[string]*component{},
		kubeconfigs: map[string]string{},
	}
	s.state.Kubeconfig = s.Kubeconfig()
	s.state.Binaries = map[string]string{}
	for _, name := range binaries.Names() {
		if s.state.Binaries[name], err = binaries.Path(root, name); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := s.choosePorts(portNames()...); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.guard, err = state.StartReaper(s.Binary(binaries.Sandbox), dir, !keepDir()); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// makeDir creates the sandbox's directory. It must be empty, because Stop removes it.
func makeDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "capt-sandbox-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty: the sandbox needs an empty directory, which it removes when it stops", dir)
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func keepDir() bool { return os.Getenv("SANDBOX_KEEP") != "" }

// start runs the steps in order: each needs the one before it.
func (s *Sandbox) start(ctx context.Context) error {
	began := time.Now()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"certificates", s.createCertificates},
		{"etcd and kube-apiserver", s.startControlPlane},
		{"CRDs and access rules", s.installDefinitions},
		{"controllers", s.startControllers},
		{"webhooks", s.installAdmission},
		{"provider configurations", s.configureProvider},
	} {
		stepBegan := time.Now()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("starting the sandbox, %s: %w", step.name, err)
		}
		fmt.Fprintf(s.options.Log, "sandbox: %s (%s)\n", step.name, time.Since(stepBegan).Round(time.Millisecond))
	}
	fmt.Fprintf(s.options.Log, "sandbox: ready in %s in %s\n", s.dir, time.Since(began).Round(time.Millisecond))
	s.reportMissingManager()
	if err := s.writeEnvFile(); err != nil {
		return err
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.state.Ready, s.state.Ports = true, maps.Clone(s.ports)
	s.state.AuditLog, s.state.Installation = s.options.AuditLog, s.options.Installation
	return s.state.Save(s.dir)
}

// Stop stops everything, clients before servers, and removes the directory. It may be called twice. A sandbox of another
// process (Attach) continues to run.
func (s *Sandbox) Stop(context.Context) error {
	s.lock.Lock()
	if s.stopped || s.attached {
		s.lock.Unlock()
		return nil
	}
	s.stopped = true
	s.lock.Unlock()

	if err := state.Stop(s.dir, io.Discard); err != nil {
		return err // The reaper tries again.
	}
	err := s.guard.Release()
	if !keepDir() {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Detach keeps the sandbox running when this process ends. Its directory identifies it (state.Load).
func (s *Sandbox) Detach() error {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.stopped = true
	return s.guard.Release()
}

func (s *Sandbox) logs() io.Writer { return s.options.Log }
