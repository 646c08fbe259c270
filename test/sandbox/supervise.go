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
	"github.com/capt-provider/capt/test/sandbox/state"
)

const (
	// startPatience bounds how long one component may take to become ready on a busy machine.
	startPatience = 90 * time.Second
	// stopGrace is how long a component may take to end by itself.
	stopGrace = 3 * time.Second
	// portAttempts is how often a component is started on other ports when somebody else was faster to take one.
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
	// health is the URL that answers 200 when the component is ready, and client the one that can ask.
	health func() (string, error)
	client *http.Client
	// ports are those it listens on, by the names under which Sandbox.port knows them.
	ports []string
	// moved is called when a port had to be changed, to tell those who were told the old one.
	moved func(context.Context) error

	process *process.Process
}

// port returns the port of that name, drawn at its first use.
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

// launch starts a component for the first time. If somebody else took one of its ports, it gets new ones.
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
	p, err := process.Start(process.Spec{
		Name: c.name,
		Path: s.Binary(c.binary),
		Args: args,
		Env:  c.env,
		Dir:  s.dir,
		Log:  log,
	})
	if err != nil {
		return err
	}
	if err := s.remember(c, p, state.Process{ID: p.ID(), Name: c.name, Log: log, Health: health}); err != nil {
		p.Kill()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := process.WaitReady(ctx, c.client, health, p); err != nil {
		p.Kill()
		return err
	}
	go s.watch(p)
	return nil
}

func (s *Sandbox) remember(c *component, p *process.Process, record state.Process) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	c.process = p
	s.state.Remember(record)
	return s.state.Save(s.dir)
}

// watch reports the end of a process that nobody asked for.
func (s *Sandbox) watch(p *process.Process) {
	<-p.Done()
	if p.Expected() {
		return
	}
	fmt.Fprintf(s.logs(), "sandbox: %v\n", p.Err())
	select {
	case s.crashes <- p.Err():
	default: // Nobody listens, and the log has it.
	}
}

// Crashes delivers an error for every component that ended by itself: its name, its exit status and the end of its log.
func (s *Sandbox) Crashes() <-chan error { return s.crashes }

// running returns the process of a component.
func (s *Sandbox) running(name string) (*component, *process.Process, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	c, ok := s.components[name]
	if !ok {
		return nil, nil, fmt.Errorf("the sandbox has no %s", name)
	}
	return c, c.process, nil
}

// Kill kills a component (SIGKILL) and returns when it is gone. What it had started itself dies with it.
func (s *Sandbox) Kill(name string) error {
	_, p, err := s.running(name)
	if err == nil && p != nil {
		p.Kill()
	}
	return err
}

// StopComponent asks a component to end, and kills it if it does not.
func (s *Sandbox) StopComponent(ctx context.Context, name string) error {
	_, p, err := s.running(name)
	if err == nil && p != nil {
		p.Stop(ctx, stopGrace)
	}
	return err
}

// StartComponent starts a component that was stopped, was killed or crashed, on the ports it had, and returns when it
// is ready.
func (s *Sandbox) StartComponent(ctx context.Context, name string) error {
	c, p, err := s.running(name)
	if err != nil {
		return err
	}
	if p != nil && !p.Ended() {
		return fmt.Errorf("%s is running already", name)
	}
	return s.run(ctx, c)
}

// Restart is StopComponent and StartComponent.
func (s *Sandbox) Restart(ctx context.Context, name string) error {
	if err := s.StopComponent(ctx, name); err != nil {
		return err
	}
	return s.StartComponent(ctx, name)
}

// Logs returns the last lines that a component printed.
func (s *Sandbox) Logs(name string, lines int) string { return process.Tail(s.logPath(name), lines) }

func (s *Sandbox) logPath(name string) string { return filepath.Join(s.dir, "logs", name+".log") }

// stopTogether stops components at the same time. Those that do not run are left out.
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
