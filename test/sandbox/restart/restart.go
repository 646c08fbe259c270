// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package restart starts the processes of a detached sandbox again after they ended, for example because the machine
// was rebooted. It needs only what the sandbox has recorded in its directory.
package restart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// ErrIncomplete means that the sandbox did not finish starting. Then its record is not complete either.
var ErrIncomplete = errors.New("the sandbox did not finish starting")

// timeout limits how long one process may take to become ready.
const timeout = 90 * time.Second

// Ended starts every recorded process that has ended, and every cluster of the simulated EKS whose server has ended. They
// get their former arguments, ports and data.
func Ended(ctx context.Context, dir string, out io.Writer) error {
	recorded, err := state.Load(dir)
	if err != nil {
		return err
	}
	if !recorded.Ready {
		return ErrIncomplete
	}
	client, err := apiserver.ClientIn(dir)
	if err != nil {
		return err
	}
	// They are recorded in the order of their first start: etcd, the API server, and then its clients.
	for i := range recorded.Processes {
		p := &recorded.Processes[i]
		if p.Alive() {
			continue
		}
		if err := start(ctx, client, dir, p, func() error { return recorded.Save(dir) }); err != nil {
			return fmt.Errorf("starting %s: %w", p.Name, err)
		}
		fmt.Fprintf(out, "started %s\n", p.Name)
	}
	return clusters(ctx, dir, out)
}

// start starts one process, records it and waits until it is ready.
func start(ctx context.Context, client *http.Client, dir string, p *state.Process, save func() error) error {
	// A killed process may have left children that still hold its files or ports.
	if err := p.Stop(0); err != nil {
		return err
	}
	started, err := process.Start(process.Spec{Name: p.Name, Path: p.Path, Args: p.Args, Env: p.Env, Dir: dir, Log: p.Log})
	if err != nil {
		return err
	}
	p.ID = started.ID()
	if err := save(); err != nil {
		started.Kill()
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return process.WaitReady(ctx, client, p.Health, started)
}

func clusters(ctx context.Context, dir string, out io.Writer) error {
	servers, err := eks.List(dir)
	if err != nil {
		return err
	}
	for _, server := range servers {
		id, err := server.Process()
		if err != nil {
			return err
		}
		if id.Alive() || server.Version() == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		err = server.Start(ctx, server.Version())
		cancel()
		if err != nil {
			return fmt.Errorf("starting cluster %s: %w", server.Name, err)
		}
		fmt.Fprintf(out, "started cluster %s\n", server.Name)
	}
	return nil
}
