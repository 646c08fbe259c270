/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package crash_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// patience is how long one run may take.
	patience = 5 * time.Minute
	tick     = 20 * time.Millisecond
)

// operator is somebody who runs captctl, on a machine with its own folders, through a proxy that can kill it.
type operator struct {
	*testing.T
	proxy      *proxy.Proxy
	kubeconfig string
	// home changes when the operator goes on from elsewhere.
	home string

	mutex   sync.Mutex
	running *run
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{T: t}
	o.elsewhere()
	config, err := shared.ConfigOf(sandbox.Captctl)
	require.NoError(t, err)
	o.proxy, err = proxy.Start(config, o.kill)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, o.proxy.Close()) })
	o.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, o.proxy.WriteKubeconfig(o.kubeconfig))
	return o
}

// elsewhere goes on from another machine: the journal is not there, and neither is the backup.
func (o *operator) elsewhere() {
	o.Helper()
	home, err := os.MkdirTemp(o.TempDir(), "home-")
	require.NoError(o, err)
	o.home = home
}

// run is one run of captctl.
type run struct {
	command   *exec.Cmd
	arguments []string
	out       bytes.Buffer
	done      chan struct{}
}

// start starts captctl. It is killed when the test ends.
func (o *operator) start(arguments ...string) *run {
	o.Helper()
	r := &run{arguments: arguments, done: make(chan struct{})}
	r.command = exec.CommandContext(o.Context(), shared.captctl, append([]string{"migrate", "--kubeconfig", o.kubeconfig}, arguments...)...)
	r.command.Env = []string{"HOME=" + o.home, "PATH=" + os.Getenv("PATH")}
	r.command.Stdout, r.command.Stderr = &r.out, &r.out
	require.NoError(o, r.command.Start())
	go func() {
		defer close(r.done)
		_ = r.command.Wait() // The exit code tells.
	}()
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.running = r
	return r
}

// kill kills the run, and returns when it is gone.
func (o *operator) kill() {
	o.mutex.Lock()
	r := o.running
	o.mutex.Unlock()
	_ = r.command.Process.Kill()
	<-r.done
}

// outcome waits for a run, and is its exit code; -1 when it was killed.
func (o *operator) outcome(r *run) migrate.Outcome {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), patience)
	defer cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		_ = r.command.Process.Kill()
		<-r.done
		require.FailNow(o, "captctl hangs", "%v\n%s", r.arguments, r.out.String())
	}
	return migrate.Outcome(r.command.ProcessState.ExitCode())
}

// must run and be done.
func (o *operator) must(arguments ...string) string {
	o.Helper()
	r := o.start(arguments...)
	require.Equal(o, migrate.Done, o.outcome(r), "%v\n%s", arguments, &r.out)
	return r.out.String()
}

// errNotReached is that a run ended before the call at which it was to be killed.
var errNotReached = errors.New("the call was not reached")

// disturbed runs captctl until its fate at a call, which it must meet. A lease that is as short as here may be lost on a
// machine that has too much to do; that is Partly then.
func (o *operator) disturbed(c call, moment proxy.Moment, arguments ...string) error {
	o.Helper()
	fate := o.proxy.Arm(proxy.Target{Number: c.number, Moment: moment, Matches: func(r *http.Request) bool { return keyOf(r) == c.key }})
	r := o.start(arguments...)
	code := o.outcome(r)
	met := !o.proxy.Disarm()
	if moment == proxy.Lost {
		select {
		case <-fate:
			met = true
		default:
		}
	}
	o.proxy.Open()
	switch {
	case !met:
		return fmt.Errorf("%w; exit code %d\n%s", errNotReached, code, &r.out)
	case moment == proxy.Lost && code != migrate.Done:
		return fmt.Errorf("exit code %d\n%s", code, &r.out)
	}
	return nil
}
