// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package state is the record that a sandbox keeps in its directory: which processes it started, where the API server and
// etcd listen, and where the programs are. Other processes read it, and stop or restart what is recorded: later runs of the sandbox
// command, the reaper after a crash, and the Terraform modules that start simulated EKS clusters, which have a record each.
package state

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// FileName is the name of the file in the sandbox's directory.
const FileName = "sandbox.json"

// State is the content of the file.
type State struct {
	// Ready is set when the sandbox has started completely.
	Ready bool `json:"ready"`
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// EtcdEndpoint is where etcd listens for clients, for example http://127.0.0.1:20379.
	EtcdEndpoint string `json:"etcdEndpoint,omitempty"`
	// Binaries maps the name of a program to its path.
	Binaries map[string]string `json:"binaries,omitempty"`
	// Ports are the ports that components listen on, by the names that the sandbox has for them.
	Ports map[string]int `json:"ports,omitempty"`
	// EtcdPrefix is what the keys of a simulated EKS cluster begin with, and Version its version of Kubernetes.
	EtcdPrefix string `json:"etcdPrefix,omitempty"`
	Version    string `json:"version,omitempty"`
	// AuditLog is set when the API server logs requests.
	AuditLog bool `json:"auditLog,omitempty"`
	// Installation is the directory of the kustomization that installed CAPT, if it is not the default.
	Installation string `json:"installation,omitempty"`
	// Processes lists what was started, in the order of the first start.
	Processes []Process `json:"processes,omitempty"`
}

// Process is one recorded process, with all that is needed to stop it and to start it again.
type Process struct {
	process.ID
	process.Spec
	// Health is the URL that returns 200 when the process is ready. It needs no client certificate.
	Health string `json:"health,omitempty"`
	// CA is the file of the certificate authority of Health, if it is https.
	CA string `json:"ca,omitempty"`
}

// Load reads the state from a sandbox's directory. Without a sandbox, the error is fs.ErrNotExist.
func Load(dir string) (*State, error) {
	data, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	state := &State{}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(dir, FileName), err)
	}
	return state, nil
}

// Save replaces the file atomically: the reaper may read it at any time.
func (s *State) Save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, FileName), data)
}

// WriteFile atomically writes a file that only the owner can read.
func WriteFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// Process returns the record of a process, or nil.
func (s *State) Process(name string) *Process {
	for i := range s.Processes {
		if s.Processes[i].Name == name {
			return &s.Processes[i]
		}
	}
	return nil
}

// Record stores a process. It replaces an earlier process with the same name.
func (s *State) Record(p Process) {
	if recorded := s.Process(p.Name); recorded != nil {
		*recorded = p
		return
	}
	s.Processes = append(s.Processes, p)
}

const (
	// startTimeout limits how long one process may take to become ready on a busy machine.
	startTimeout = 3 * time.Minute
	// stopGrace is how long a client of the API server may take to end. The servers are killed at once: they have no clients any
	// more, and their data is about to be removed.
	stopGrace = 3 * time.Second
)

// servers are stopped last, in this order: an API server hangs without etcd, and all other components log errors without the API server.
var servers = [...]string{"kube-apiserver", "etcd"}

// ErrIncomplete means that the sandbox did not finish starting. Then its record is not complete either.
var ErrIncomplete = errors.New("the sandbox did not finish starting")

// EKS is the directory of the simulated EKS clusters of a sandbox. Each has a subdirectory with a record of its own.
func EKS(dir string) string { return filepath.Join(dir, "eks") }

// clusters returns the directories of the simulated EKS clusters whose server was started.
func clusters(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(EKS(dir), "*", FileName)) // The pattern is valid.
	for i := range files {
		files[i] = filepath.Dir(files[i])
	}
	return files
}

// Client returns an HTTP client for Health, without a client certificate.
func (p *Process) Client() (*http.Client, error) {
	if p.CA == "" {
		return http.DefaultClient, nil
	}
	bundle, err := os.ReadFile(p.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}, nil
}

// Probe returns an error unless the process runs and is ready.
func (p *Process) Probe(ctx context.Context) error {
	client, err := p.Client()
	if err != nil {
		return err
	}
	return process.Probe(ctx, client, p.Health)
}

// Run starts a process and returns when it is ready. record is called in between, with the process identified.
func (p *Process) Run(ctx context.Context, record func(*process.Process) error) (*process.Process, error) {
	client, err := p.Client()
	if err != nil {
		return nil, err
	}
	started, err := process.Start(p.Spec)
	if err != nil {
		return nil, err
	}
	p.ID = started.ID()
	if err = record(started); err == nil {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		err = process.WaitReady(ctx, client, p.Health, started)
	}
	if err != nil {
		started.Kill()
		return nil, err
	}
	return started, nil
}

// Restart starts every recorded process of a sandbox that has ended, for example because the machine was rebooted. They get their
// former arguments, ports and data.
func Restart(ctx context.Context, dir string, out io.Writer) error {
	for i, dir := range append([]string{dir}, clusters(dir)...) {
		recorded, err := Load(dir)
		switch {
		case err != nil:
			return err
		case !recorded.Ready && i == 0:
			return ErrIncomplete
		case !recorded.Ready:
			continue // Terraform did not finish creating this cluster.
		}
		// They are recorded in the order of their first start: etcd, the API server, and then its clients.
		for i := range recorded.Processes {
			p := &recorded.Processes[i]
			if p.Alive() {
				continue
			}
			// A killed process may have left children that still hold its files or ports.
			if err := p.Stop(0); err != nil {
				return err
			}
			if _, err := p.Run(ctx, func(*process.Process) error { return recorded.Save(dir) }); err != nil {
				return fmt.Errorf("starting %s: %w", p.Name, err)
			}
			fmt.Fprintf(out, "started %s\n", p.Name)
		}
	}
	return nil
}

// Stop stops every recorded process of a sandbox, and no others: clients before servers. It continues after an error and returns
// the first one of each step. A directory without a sandbox is not an error.
func Stop(dir string, out io.Writer) error {
	recorded, err := Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		recorded, err = &State{}, nil
	}
	if err != nil {
		return err
	}
	isServer := func(p Process) bool { return slices.Contains(servers[:], p.Name) }
	failed := stop(slices.DeleteFunc(slices.Clone(recorded.Processes), isServer), stopGrace, out)
	for _, cluster := range clusters(dir) {
		eks, err := Load(cluster)
		if err == nil {
			err = stop(eks.Processes, 0, out)
		}
		failed = errors.Join(failed, err)
	}
	for _, name := range servers {
		if p := recorded.Process(name); p != nil {
			failed = errors.Join(failed, stop([]Process{*p}, 0, out))
		}
	}
	return failed
}

// stop stops processes in parallel.
func stop(processes []Process, grace time.Duration, out io.Writer) error {
	var group errgroup.Group
	for _, p := range processes {
		alive := p.Alive()
		group.Go(func() error {
			if err := p.Stop(grace); err != nil {
				return fmt.Errorf("stopping %s: %w", p.Name, err)
			}
			if alive {
				fmt.Fprintf(out, "stopped %s\n", p.Name)
			}
			return nil
		})
	}
	return group.Wait()
}

// Remove calls Stop and then removes the directory. If a process could not be stopped, the directory is kept, because it
// has the only record of that process.
func Remove(dir string, out io.Writer) error {
	if err := Stop(dir, out); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// ReapVerb is the hidden subcommand of the sandbox program that runs the reaper.
const ReapVerb = "reap"

// released is the message of an owner that no longer needs the reaper.
const released = "released"

// Guard is the owner's end of the pipe.
type Guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// StartReaper starts a process that cleans up after the sandbox in dir when its owner, this process, has ended for whatever reason: then the
// kernel closes the pipe between them. The reaper stops the recorded processes. With remove, it also removes the directory.
func StartReaper(binary, dir string, remove bool) (*Guard, error) {
	cmd := exec.Command(binary, ReapVerb, "--dir", dir, "--remove="+strconv.FormatBool(remove))
	// In its own session, Ctrl-C does not end it together with the owner.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	// It must not inherit the owner's output: go test waits until all processes have closed it.
	log, err := os.OpenFile(filepath.Join(dir, "logs", "reaper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the reaper: %w", err)
	}
	return &Guard{pipe: pipe, cmd: cmd}, nil
}

// Release ends the reaper without a cleanup, because everything is stopped or must continue. It returns when the reaper has
// ended.
func (g *Guard) Release() error {
	_, err := io.WriteString(g.pipe, released)
	return errors.Join(err, g.pipe.Close(), g.cmd.Wait())
}

// Reap waits until the pipe is closed and cleans up, unless the reaper was released.
func Reap(pipe io.Reader, out io.Writer, dir string, remove bool) error {
	said, err := io.ReadAll(pipe)
	if err != nil {
		return err
	}
	if string(said) == released {
		return nil
	}
	fmt.Fprintf(out, "%s the owner of the sandbox has ended: cleaning up\n", time.Now().Format(time.RFC3339))
	if remove {
		return Remove(dir, out)
	}
	return Stop(dir, out)
}
