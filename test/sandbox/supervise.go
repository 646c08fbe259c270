// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/restart"
	"github.com/capt-provider/capt/test/sandbox/state"
)

const (
	// startTimeout limits how long one component may take to become ready on a busy machine.
	startTimeout = 90 * time.Second
	// stopGrace is how long a component may take to end before it is killed.
	stopGrace = 3 * time.Second
	// portAttempts limits how often a component is started when another process takes its ports.
	portAttempts = 5
)

// component is one program of the sandbox.
type component struct {
	name   string
	binary string
	// args are computed at each start, because ports may have changed.
	args func() ([]string, error)
	// env is added to the environment.
	env []string
	// health is the URL that returns 200 when the component is ready, and client the client for it.
	health func() (string, error)
	client *http.Client
	// ports are the names, for Sandbox.port, of the ports it listens on.
	ports []string
	// moved is called after a port was changed, to update what refers to the old one.
	moved func(context.Context) error

	process *process.Process
}

// port returns the port with that name. It is chosen at its first use.
func (s *Sandbox) port(name string) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if port, ok := s.ports[name]; ok {
		return port, nil
	}
	port, err := process.FreePort()
	if err != nil {
		return 0, err
	}
	s.ports[name] = port
	return port, nil
}

// address is a port with the loopback address.
func (s *Sandbox) address(name string) (string, error) {
	port, err := s.port(name)
	return process.Loopback(port), err
}

// launch starts a component. If another process uses one of its ports, it gets new ones.
func (s *Sandbox) launch(ctx context.Context, c *component) error {
	s.lock.Lock()
	s.components[c.name] = c
	s.lock.Unlock()
	for attempt := 1; ; attempt++ {
		err := s.run(ctx, c)
		if err == nil || attempt == portAttempts || !process.PortTaken(err) {
			return err
		}
		s.lock.Lock()
		for _, name := range c.ports {
			delete(s.ports, name)
		}
		s.lock.Unlock()
		if c.moved != nil {
			if err := c.moved(ctx); err != nil {
				return err
			}
		}
	}
}

// run starts a component and returns when it is ready.
func (s *Sandbox) run(ctx context.Context, c *component) error {
	args, err := c.args()
	if err != nil {
		return err
	}
	health, err := c.health()
	if err != nil {
		return err
	}
	log := s.logPath(c.name)
	spec := process.Spec{Name: c.name, Path: s.Binary(c.binary), Args: args, Env: c.env, Dir: s.dir, Log: log}
	p, err := process.Start(spec)
	if err != nil {
		return err
	}
	if err := s.record(c, p, state.Process{
		ID: p.ID(), Name: c.name, Log: log, Path: spec.Path, Args: spec.Args, Env: spec.Env, Health: health,
	}); err != nil {
		p.Kill()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.WaitReady(ctx, c.client, health, p); err != nil {
		p.Kill()
		return err
	}
	go s.watch(p)
	return nil
}

func (s *Sandbox) record(c *component, p *process.Process, record state.Process) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	c.process = p
	s.state.Record(record)
	return s.state.Save(s.dir)
}

// watch reports a process that ended without being stopped.
func (s *Sandbox) watch(p *process.Process) {
	<-p.Done()
	if p.Expected() {
		return
	}
	fmt.Fprintf(s.logs(), "sandbox: %v\n", p.Err())
	select {
	case s.crashes <- p.Err():
	default: // Without a receiver, the log has it.
	}
}

// Crashes delivers an error for every component that crashed, with its name, exit status and last log lines.
func (s *Sandbox) Crashes() <-chan error { return s.crashes }

// running returns the process of a component.
func (s *Sandbox) running(name string) (*component, *process.Process, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	c, ok := s.components[name]
	if !ok {
		return nil, nil, fmt.Errorf("the sandbox has no component %s", name)
	}
	return c, c.process, nil
}

// Kill kills a component and its child processes (SIGKILL) and returns when they have ended.
func (s *Sandbox) Kill(name string) error {
	if s.attached {
		return s.stopRecorded(name, 0)
	}
	_, p, err := s.running(name)
	if err == nil && p != nil {
		p.Kill()
	}
	return err
}

// stopRecorded stops a component of a sandbox of another process.
func (s *Sandbox) stopRecorded(name string, grace time.Duration) error {
	recorded, err := state.Load(s.dir)
	if err != nil {
		return err
	}
	for _, p := range recorded.Processes {
		if p.Name == name {
			return p.Stop(grace)
		}
	}
	return fmt.Errorf("the sandbox in %s has no component %s", s.dir, name)
}

// StopComponent terminates a component, and kills it after a grace period.
func (s *Sandbox) StopComponent(ctx context.Context, name string) error {
	if s.attached {
		return s.stopRecorded(name, stopGrace)
	}
	_, p, err := s.running(name)
	if err == nil && p != nil {
		p.Stop(ctx, stopGrace)
	}
	return err
}

// StartComponent starts a component that was stopped, killed or crashed, and returns when it is ready. It has its former ports, unless another process has
// taken one of them meanwhile.
func (s *Sandbox) StartComponent(ctx context.Context, name string) error {
	if s.attached {
		return restart.Ended(ctx, s.dir, s.logs())
	}
	c, p, err := s.running(name)
	if err != nil {
		return err
	}
	if p != nil && !p.Ended() {
		return fmt.Errorf("%s is already running", name)
	}
	return s.launch(ctx, c)
}

// Restart calls StopComponent and StartComponent.
func (s *Sandbox) Restart(ctx context.Context, name string) error {
	if err := s.StopComponent(ctx, name); err != nil {
		return err
	}
	return s.StartComponent(ctx, name)
}

// Logs returns the last log lines of a component.
func (s *Sandbox) Logs(name string, lines int) string { return process.Tail(s.logPath(name), lines) }

func (s *Sandbox) logPath(name string) string { return filepath.Join(s.dir, "logs", name+".log") }

// stopTogether stops those of the components that run, in parallel.
func (s *Sandbox) stopTogether(ctx context.Context, names ...string) {
	var group sync.WaitGroup
	for _, name := range names {
		_, p, err := s.running(name)
		if err != nil || p == nil {
			continue
		}
		group.Go(func() { p.Stop(ctx, stopGrace) })
	}
	group.Wait()
}
