// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package teardown stops what a sandbox wrote down that it started, and nothing else. It is used by those who did not
// start it themselves: the down command, and the reaper after a crash.
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

// Names of the two processes that must be stopped last and in this order: without etcd an API server hangs, and
// without the API server everything else logs errors.
const (
	apiServer = "kube-apiserver"
	etcd      = "etcd"
)

// grace is how long a client of the API server may take to end by itself. The servers get none: nobody is left to be
// polite to, and what they hold is about to be removed.
const grace = 3 * time.Second

// Recorded stops every process recorded in the folder that is still the one recorded, then every sandbox "EKS".
// It goes on after a failure and reports all of them. A folder without a sandbox is not an error.
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

// Remove does what Recorded does and then removes the folder. The folder stays if something could not be stopped,
// because it holds the only record of it.
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
