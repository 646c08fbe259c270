// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

const (
	// stopGrace is how long a component may take to end before it is killed. The provider waits for the commands that it runs, and the API server for
	// open watches, up to a minute.
	stopGrace, apiServerGrace = 20 * time.Second, 3 * time.Second
	// startTimeout limits waits for the components that have started.
	startTimeout = 3 * time.Minute
	// portAttempts limits how often a component is started when another process takes its ports.
	portAttempts = 5
)

// component is one program of the sandbox.
type component struct {
	name, binary string
	// args and health are computed at each start, because ports may have changed. health is the URL that returns 200 when the component is
	// ready.
	args   func() []string
	health func() string
	// env is added to the environment.
	env []string
	// ports are the names, for Sandbox.port, of the ports it listens on.
	ports []string
	// moved is called after a port was changed, to update what refers to the old one.
	moved func(context.Context) error

	process *process.Process
}

// choosePorts chooses new ports.
func (s *Sandbox) choosePorts(names ...string) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for _, name := range names {
		port, err := process.FreePort()
		if err != nil {
			return err
		}
		s.ports[name] = port
	}
	return nil
}

// port returns the port with that name.
func (s *Sandbox) port(name string) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.ports[name]
}

// address is a port with the loopback address.
func (s *Sandbox) address(name string) string { return process.Loopback(s.port(name)) }

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
		if err := s.choosePorts(c.ports...); err != nil {
			return err
		}
		if c.moved != nil {
			if err := c.moved(ctx); err != nil {
				return err
			}
		}
	}
}

// run starts a component and returns when it is ready.
func (s *Sandbox) run(ctx context.Context, c *component) error {
	record := state.Process{
		Spec:   process.Spec{Name: c.name, Path: s.Binary(c.binary), Args: c.args(), Env: c.env, Dir: s.dir, Log: s.logPath(c.name)},
		Health: c.health(),
	}
	if c.name == APIServer {
		record.CA = filepath.Join(s.pkiDir(), "ca.crt")
	}
	started, err := record.Run(ctx, func(p *process.Process) error {
		s.lock.Lock()
		defer s.lock.Unlock()
		c.process = p
		s.state.Record(record)
		return s.state.Save(s.dir)
	})
	if err == nil {
		go s.watch(started)
	}
	return err
}

// watch reports a process that ended without being stopped, with its exit status and last log lines.
func (s *Sandbox) watch(p *process.Process) {
	<-p.Done()
	s.lock.Lock()
	stopped := s.stopped
	s.lock.Unlock()
	if stopped || p.Expected() {
		return
	}
	fmt.Fprintf(s.logs(), "sandbox: %v\n", p.Err())
}

// running returns the process of a component that this process has started, or nil.
func (s *Sandbox) running(name string) (*component, *process.Process) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if c, ok := s.components[name]; ok {
		return c, c.process
	}
	return nil, nil
}

// stop stops a component, which another process may have started (Attach).
func (s *Sandbox) stop(name string, grace time.Duration) error {
	if _, p := s.running(name); p != nil && !p.Ended() {
		p.Stop(grace)
		return nil
	}
	recorded, err := state.Load(s.dir)
	if err != nil {
		return err
	}
	if p := recorded.Process(name); p != nil {
		return p.Stop(grace)
	}
	return fmt.Errorf("the sandbox in %s has no component %s", s.dir, name)
}

// Kill kills a component and its child processes (SIGKILL) and returns when they have ended.
func (s *Sandbox) Kill(name string) error { return s.stop(name, 0) }

// StopComponent terminates a component, and kills it after a grace period.
func (s *Sandbox) StopComponent(_ context.Context, name string) error {
	if name == APIServer {
		return s.stop(name, apiServerGrace)
	}
	return s.stop(name, stopGrace)
}

// StartComponent starts a component that was stopped, killed or crashed, and returns when it is ready. It has its former ports, unless another process has
// taken one of them meanwhile.
func (s *Sandbox) StartComponent(ctx context.Context, name string) error {
	if s.attached {
		return state.Restart(ctx, s.dir, s.logs())
	}
	c, p := s.running(name)
	switch {
	case c == nil:
		return fmt.Errorf("the sandbox has no component %s", name)
	case p != nil && !p.Ended():
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
