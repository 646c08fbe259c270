// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package teardown stops the processes that a sandbox has recorded, and no others. It is for processes that did not start
// the sandbox themselves: the down command, and the reaper after a crash.
package teardown

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Names of the two processes that must be stopped last and in this order: an API server hangs without etcd, and all other
// components log errors without the API server.
const (
	apiServer = "kube-apiserver"
	etcd      = "etcd"
)

// grace is how long a client of the API server may take to end. The servers are killed at once: they have no clients any
// more, and their data is about to be removed.
const grace = 3 * time.Second

// Recorded stops every recorded process and every simulated EKS cluster. It continues after an error and returns all errors.
// A directory without a sandbox is not an error.
func Recorded(dir string, out io.Writer) error {
	recorded, err := state.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return eks.StopAll(dir)
	}
	if err != nil {
		return err
	}
	var clients, apiServers, stores []state.Process
	for _, p := range recorded.Processes {
		switch p.Name {
		case apiServer:
			apiServers = append(apiServers, p)
		case etcd:
			stores = append(stores, p)
		default:
			clients = append(clients, p)
		}
	}
	failed := stop(clients, grace, out)
	if err := eks.StopAll(dir); err != nil {
		failed = append(failed, err)
	}
	failed = append(failed, stop(apiServers, 0, out)...)
	failed = append(failed, stop(stores, 0, out)...)
	return errors.Join(failed...)
}

// Remove calls Recorded and then removes the directory. If a process could not be stopped, the directory is kept, because it
// has the only record of that process.
func Remove(dir string, out io.Writer) error {
	if err := Recorded(dir, out); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func stop(processes []state.Process, grace time.Duration, out io.Writer) []error {
	var (
		group  sync.WaitGroup
		lock   sync.Mutex
		failed []error
	)
	for _, p := range processes {
		group.Go(func() {
			alive := p.Alive()
			err := p.Stop(grace)
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("stopping %s: %w", p.Name, err))
			} else if alive {
				fmt.Fprintf(out, "stopped %s\n", p.Name)
			}
		})
	}
	group.Wait()
	return failed
}
