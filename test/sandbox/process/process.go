// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package process starts, monitors, records and stops the programs of a sandbox. The record is a file in the directory of the sandbox: which
// processes it started, where the API server and etcd listen, and where the programs are. Other processes read it, and stop or restart what is
// recorded: later runs of the sandbox command, the reaper after a crash, and the Terraform modules that start simulated EKS clusters. A process is always
// identified by its process ID together with its start time, never by a name or the process ID alone.
package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Lock takes a flock on a file, and creates it. The kernel releases it when this process ends, however it ends. While another process has it,
// waiting is called, which may be nil.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err == nil, err
		}
		if waiting != nil {
			waiting()
		}
		return false, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Spec describes a program to run.
type Spec struct {
	Name string   `json:"name"`
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
	// Env is added to the environment of the caller.
	Env []string `json:"env,omitempty"`
	// Dir is the working directory.
	Dir string `json:"dir,omitempty"`
	// Log is the file that the output is appended to. It is not a pipe, because a detached process outlives this one.
	Log string `json:"log"`
}

// Process is a child process.
type Process struct {
	spec     Spec
	id       ID
	cmd      *exec.Cmd
	done     chan struct{}
	err      error
	expected atomic.Bool
}

// Start starts a process in its own session. So Ctrl-C reaches only this process, which stops its children in order, and a
// detached process outlives the terminal.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Dir, log, log
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	// Without a wait, its process ID is not reused, even if it has already ended.
	if p.id, err = Identify(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	err := p.cmd.Wait()
	// Its children are killed as well, as in a container. The group ID cannot have been reused yet: process IDs are assigned
	// in ascending order.
	_ = syscall.Kill(-p.id.PID, syscall.SIGKILL)
	status := "exit status 0"
	if err != nil {
		status = err.Error()
	}
	p.err = fmt.Errorf("%s ended (%s); last lines of its log:\n%s", p.spec.Name, status, indent(Tail(p.spec.Log, 20)))
	close(p.done)
}

// ID identifies the process.
func (p *Process) ID() ID { return p.id }

// Name is the name given in the spec.
func (p *Process) Name() string { return p.spec.Name }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err returns the name, the exit status and the last log lines of the process. It waits until the process has ended.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Expected reports whether Stop or Kill was called. Otherwise the process crashed.
func (p *Process) Expected() bool { return p.expected.Load() }

// Stop terminates the process, and kills it and its children after the grace period. It returns when the process has ended.
func (p *Process) Stop(grace time.Duration) {
	p.expected.Store(true)
	_ = p.id.Stop(grace)
	<-p.done
}

// Kill is Stop without a grace period.
func (p *Process) Kill() { p.Stop(0) }

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// pollInterval is the interval of health checks. Components start one after the other, so a longer interval would be
// noticeable; a shorter one would fill their logs with failed checks.
const pollInterval = 100 * time.Millisecond

// WaitReady returns when a GET of the URL returns 200. If the process ends meanwhile, it returns that error with the last log
// lines, without waiting for the timeout.
func WaitReady(ctx context.Context, client *http.Client, url string, p *Process) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		last := Probe(ctx, client, url)
		if last == nil && !p.Ended() {
			return nil
		}
		select {
		case <-p.Done():
			return p.Err()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("waiting for %s: %w", p.Name(), context.Cause(ctx))
			}
			return fmt.Errorf("%s did not become ready: %w (%w); last lines of its log:\n%s", p.Name(), last, context.Cause(ctx),
				indent(Tail(p.spec.Log, 20)))
		case <-ticker.C:
		}
	}
}

// Probe checks the health once.
func Probe(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned %s", url, response.Status)
	}
	return nil
}

// tailWindow limits how much of a log is read to find its last lines.
const tailWindow = 256 << 10

// Tail returns the last lines of a log file. It returns no error, because it is used in error messages.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "(no log)"
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > tailWindow {
		_, _ = file.Seek(-tailWindow, io.SeekEnd)
	}
	data, err := io.ReadAll(file)
	if err != nil || len(data) == 0 {
		return "(the log is empty)"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// The ports of a sandbox are below the ranges that Linux and macOS use for outgoing connections, so a component that is
// restarted finds its port free.
const (
	firstPort = 20000
	lastPort  = 31999
)

// reserved holds the reservations of FreePort until this process ends.
var reserved sync.Map

// FreePort returns a free loopback port that no process has got from this function and still runs: the UDP port of the same number is
// the reservation. Otherwise two sandboxes that start at the same time could choose the same port, and one of them could take the health of the other's
// component for that of its own.
func FreePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		reservation, err := net.ListenPacket("udp", Loopback(port))
		if err != nil {
			continue
		}
		listener, err := net.Listen("tcp", Loopback(port))
		if err != nil {
			_ = reservation.Close()
			continue
		}
		reserved.Store(port, reservation)
		return port, listener.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

// Loopback is the address of a port on loopback.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// PortTaken reports whether a process ended because another process used its port.
func PortTaken(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "address already in use") || strings.Contains(text, "EADDRINUSE")
}

// ID identifies a process even after its process ID is reused.
type ID struct {
	PID int `json:"pid"`
	// Started is the start time in a system-specific format. It is only compared.
	Started string `json:"started"`
}

// Identify returns the identity of a running process.
func Identify(pid int) (ID, error) {
	started, _, err := inspect(pid)
	if err != nil {
		return ID{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return ID{PID: pid, Started: started}, nil
}

// Alive reports whether this process still runs. A zombie does not: in a container whose first process does not wait for
// its children, it would remain forever.
func (id ID) Alive() bool {
	if id.PID <= 1 || id.Started == "" {
		return false
	}
	started, zombie, err := inspect(id.PID)
	return err == nil && !zombie && started == id.Started
}

// Signal sends a signal to the process and its children: every process of the sandbox leads its own process group. A process
// that has ended is not an error.
func (id ID) Signal(signal syscall.Signal) error {
	target := id.PID
	switch {
	case id.Alive():
		if group, err := syscall.Getpgid(id.PID); err == nil && group == id.PID {
			target = -id.PID
		}
	case id.orphans():
		target = -id.PID
	default:
		return nil
	}
	if err := syscall.Kill(target, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signaling process %d: %w", id.PID, err)
	}
	return nil
}

// Stop terminates the process, and kills it after the grace period; without one, it is killed at once. It returns when the process has ended.
func (id ID) Stop(grace time.Duration) error {
	if grace > 0 {
		if err := id.Signal(syscall.SIGTERM); err != nil || id.gone(grace) {
			return err
		}
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !id.gone(killTimeout) {
		return fmt.Errorf("process %d still exists %s after it was killed", id.PID, killTimeout)
	}
	return nil
}

// killTimeout is how long a killed process may take to end on a busy machine: the kernel must release its memory and files.
const killTimeout = time.Minute

func (id ID) gone(timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		if !id.Alive() && !id.orphans() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func inspect(pid int) (started string, zombie bool, err error) {
	if runtime.GOOS == "linux" {
		own, err := statOf(pid)
		return strconv.FormatUint(own.Starttime, 10), isZombie(own), err
	}
	output, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", false, err
	}
	state, started, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	return strings.TrimSpace(started), strings.HasPrefix(state, "Z"), nil
}

func statOf(pid int) (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

func isZombie(stat procfs.ProcStat) bool { return stat.State == "Z" || stat.State == "X" }

// orphans reports whether the process has ended but its children still run, for example an apply of a killed provider. As
// long as a process group has members, its ID is not reused. So the members of the group and session with this ID are
// children of this process, unless a new process has the ID. Only Linux provides this information; elsewhere, orphans are
// left to end.
func (id ID) orphans() bool {
	born, err := strconv.ParseUint(id.Started, 10, 64)
	if runtime.GOOS != "linux" || id.PID <= 1 || err != nil {
		return false
	}
	if own, err := statOf(id.PID); err == nil && own.Starttime != born {
		return false
	}
	all, err := procfs.AllProcs()
	return err == nil && slices.ContainsFunc(all, func(proc procfs.Proc) bool {
		member, err := proc.Stat()
		return err == nil && proc.PID != id.PID && !isZombie(member) && member.PGRP == id.PID && member.Session == id.PID && member.Starttime >= born
	})
}

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
	Processes []Recorded `json:"processes,omitempty"`
}

// Recorded is one recorded process, with all that is needed to stop it and to start it again.
type Recorded struct {
	ID
	Spec
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
func (s *State) Process(name string) *Recorded {
	for i := range s.Processes {
		if s.Processes[i].Name == name {
			return &s.Processes[i]
		}
	}
	return nil
}

// Record stores a process. It replaces an earlier process with the same name.
func (s *State) Record(p Recorded) {
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
func (p *Recorded) Client() (*http.Client, error) {
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
func (p *Recorded) Probe(ctx context.Context) error {
	client, err := p.Client()
	if err != nil {
		return err
	}
	return Probe(ctx, client, p.Health)
}

// Run starts a process and returns when it is ready. record is called in between, with the process identified.
func (p *Recorded) Run(ctx context.Context, record func(*Process) error) (*Process, error) {
	client, err := p.Client()
	if err != nil {
		return nil, err
	}
	started, err := Start(p.Spec)
	if err != nil {
		return nil, err
	}
	p.ID = started.ID()
	if err = record(started); err == nil {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		err = WaitReady(ctx, client, p.Health, started)
	}
	if err != nil {
		started.Kill()
		return nil, err
	}
	return started, nil
}

// RestartAll starts every recorded process of a sandbox that has ended, for example because the machine was rebooted. They get their
// former arguments, ports and data.
func RestartAll(ctx context.Context, dir string, out io.Writer) error {
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
			if _, err := p.Run(ctx, func(*Process) error { return recorded.Save(dir) }); err != nil {
				return fmt.Errorf("starting %s: %w", p.Name, err)
			}
			fmt.Fprintf(out, "started %s\n", p.Name)
		}
	}
	return nil
}

// StopAll stops every recorded process of a sandbox, and no others: clients before servers. It continues after an error and returns
// the first one of each step. A directory without a sandbox is not an error.
func StopAll(dir string, out io.Writer) error {
	recorded, err := Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		recorded, err = &State{}, nil
	}
	if err != nil {
		return err
	}
	isServer := func(p Recorded) bool { return slices.Contains(servers[:], p.Name) }
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
			failed = errors.Join(failed, stop([]Recorded{*p}, 0, out))
		}
	}
	return failed
}

func stop(processes []Recorded, grace time.Duration, out io.Writer) error {
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

// Remove calls StopAll and then removes the directory. If a process could not be stopped, the directory is kept, because it
// has the only record of that process.
func Remove(dir string, out io.Writer) error {
	if err := StopAll(dir, out); err != nil {
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
	return StopAll(dir, out)
}
