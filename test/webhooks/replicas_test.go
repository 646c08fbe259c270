// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/reaper"
	"github.com/capt-provider/capt/test/sandbox/state"
)

const (
	// propagation is how long it takes until all nodes have a change of a Service's endpoints. In a cluster it is a second
	// or two, when nothing is wrong.
	propagation = 2 * time.Second
	// creation is how long a Pod has an address before its process runs.
	creation = time.Second
)

// fleet simulates the Deployment of the manager and its Services. It takes the place of the sandbox's own manager.
type fleet struct {
	*environment
	*installation
	dir       string
	balancers map[string]*balancer
	// certificate returns what a Pod that starts, or is updated, has in its volume.
	certificate func() pki.Pair
	// authority signs certificates, unless cert-manager does.
	authority *pki.Authority
	recorded  state.State
}

// replica simulates a Pod.
type replica struct {
	process *process.Process
	volume  volume
	webhook string
	metrics string
}

// newFleet starts replicas and makes the API server call them. After the test everything is as it was.
func newFleet(env *environment, size int) (*fleet, []*replica) {
	env.Helper()
	f := emptyFleet(env)
	var err error
	f.authority, err = pki.NewAuthority(authorityName)
	require.NoError(env, err)
	f.certificate = f.sign
	return f, f.takeOver(size, f.authority.Bundle())
}

// emptyFleet has no processes. Whatever happens to the test, those that it starts end.
func emptyFleet(env *environment) *fleet {
	env.Helper()
	f := &fleet{environment: env, installation: installed(env.T), dir: env.TempDir()}
	guard, err := reaper.Start(shared.Binary(binaries.Sandbox), f.dir, false)
	require.NoError(env, err)
	env.Cleanup(func() { require.NoError(env, guard.Release()) })
	return f
}

// takeOver replaces the sandbox's own manager by replicas. The API server trusts the bundle.
func (f *fleet) takeOver(size int, bundle []byte) []*replica {
	f.Helper()
	// Replicas of earlier tests were killed and still hold their Lease, so another one than the first could lead.
	require.NoError(f, f.DeleteAllOf(f.Context(), &coordinationv1.Lease{}, client.InNamespace(sandbox.ManagerNamespace)))
	f.balancers = f.serve(f.environment)
	replicas := make([]*replica, size)
	for i := range replicas {
		replicas[i] = f.start()
	}
	ports := map[string]int32{}
	for name, balancer := range f.balancers {
		ports[name] = balancer.port()
	}
	restore := f.point(f.Context(), f.calling(bundle, ports))
	require.NoError(f, shared.StopComponent(f.Context(), sandbox.Manager))
	f.Cleanup(func() {
		f.point(context.Background(), restore)
		require.NoError(f, shared.StartComponent(context.Background(), sandbox.Manager))
	})
	return replicas
}

// start makes a Pod and waits until it is ready. The first one leads.
func (f *fleet) start(args ...string) *replica {
	f.Helper()
	name := fmt.Sprintf("replica-%d", len(f.recorded.Processes)+1)
	r := &replica{volume: volume(filepath.Join(f.dir, name, "serving-certs"))}
	r.volume.write(f.T, f.certificate())
	port, health := f.port(), process.Loopback(f.port())
	r.webhook, r.metrics = process.Loopback(port), process.Loopback(f.port())
	f.publish(r, true)
	time.Sleep(creation)
	r.process = f.launch(name, shared.Binary(binaries.Manager), health, append([]string{
		"--kubeconfig=" + shared.KubeconfigOf(sandbox.Manager),
		"--leader-elect=true", "--leader-elect-namespace=" + sandbox.ManagerNamespace,
		"--diagnostics-address=" + r.metrics, "--insecure-diagnostics=true",
		"--webhook-port=" + strconv.Itoa(port), "--webhook-cert-dir=" + string(r.volume),
		quiet, keepsVersions, "-v=2",
	}, args...)...)
	f.publish(r, false)
	return r
}

// launch starts a process and waits until it is ready.
func (f *fleet) launch(name, path, health string, args ...string) *process.Process {
	f.Helper()
	log := filepath.Join(f.dir, "logs", name+".log")
	started, err := process.Start(process.Spec{Name: name, Path: path, Dir: f.dir, Log: log, Args: append(args, "--health-addr="+health)})
	require.NoError(f, err)
	f.recorded.Record(state.Process{ID: started.ID(), Name: name, Log: log})
	require.NoError(f, f.recorded.Save(f.dir))
	f.Cleanup(func() {
		started.Kill()
		if f.Failed() {
			f.Log(process.Tail(log, 10))
		}
	})
	ctx, cancel := context.WithTimeout(f.Context(), fixture.Timeout)
	defer cancel()
	require.NoError(f, process.WaitReady(ctx, http.DefaultClient, "http://"+health+"/readyz", started))
	return started
}

// publish hands a Pod to the Services that take those which are not ready, or to the others.
func (f *fleet) publish(r *replica, unready bool) {
	for _, balancer := range f.balancers {
		if balancer.unready == unready {
			balancer.add(r.webhook)
		}
	}
}

// withdraw takes it away again.
func (f *fleet) withdraw(r *replica, unready bool) {
	for _, balancer := range f.balancers {
		if balancer.unready == unready {
			balancer.remove(r.webhook)
		}
	}
}

// terminate is what happens to a Pod that is deleted: the kubelet sends the signal to stop, and the Services receive the change a moment
// later. Services that take Pods which are not ready remove them only when they are gone.
func (f *fleet) terminate(r *replica) {
	f.Helper()
	notice := time.AfterFunc(propagation, func() { f.withdraw(r, false) })
	defer notice.Stop()
	r.process.Stop(f.Context(), f.grace)
	require.ErrorContains(f, r.process.Err(), "exit status 0", "it ended by itself")
	time.Sleep(propagation)
	f.withdraw(r, true)
}

func (f *fleet) port() int {
	f.Helper()
	port, err := process.FreePort()
	require.NoError(f, err)
	return port
}

// awaitLeader waits until one of the replicas leads.
func awaitLeader(t *testing.T, replicas ...*replica) {
	t.Helper()
	fixture.EventuallyTrue(t, tick, func() bool { return slices.ContainsFunc(replicas, (*replica).leads) }, "no replica leads")
}

// leads reports whether a replica is the one whose controllers are active. Managers with a filter have a Lease of their own.
func (r *replica) leads() bool {
	measured, err := metrics.Read(context.Background(), "http://"+r.metrics+"/metrics")
	if err != nil {
		return false
	}
	for lease, leads := range measured.By("leader_election_master_status", "name") {
		if strings.HasPrefix(lease, "capt-manager-leader-election") && leads == 1 {
			return true
		}
	}
	return false
}

// balancer simulates a Service: it hands each new connection to the next of its endpoints. What a Service
// does not do, it does not do either: it neither looks into connections, nor tries another endpoint when one refuses, nor
// ends a connection whose endpoint was taken out.
type balancer struct {
	listener net.Listener
	// unready is set when endpoints are published before they are ready, and as long as they exist.
	unready bool

	// lock guards everything below.
	lock      sync.Mutex
	endpoints []string
	next      int
	accepted  map[string]int
}

func newBalancer(t *testing.T, unready bool) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &balancer{listener: listener, unready: unready, accepted: map[string]int{}}
	go b.serve()
	t.Cleanup(func() { _ = listener.Close() })
	return b
}

func (b *balancer) port() int32 { return int32(b.listener.Addr().(*net.TCPAddr).Port) }

func (b *balancer) add(endpoint string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.endpoints = append(b.endpoints, endpoint)
}

func (b *balancer) remove(endpoint string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.endpoints = slices.DeleteFunc(b.endpoints, func(e string) bool { return e == endpoint })
}

// connections is how many connections an endpoint was given.
func (b *balancer) connections(endpoint string) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.accepted[endpoint]
}

func (b *balancer) serve() {
	for {
		connection, err := b.listener.Accept()
		if err != nil {
			return // The test is over.
		}
		go b.forward(connection)
	}
}

func (b *balancer) choose() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	if len(b.endpoints) == 0 {
		return ""
	}
	b.next++
	endpoint := b.endpoints[b.next%len(b.endpoints)]
	b.accepted[endpoint]++
	return endpoint
}

func (b *balancer) forward(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", b.choose())
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var both sync.WaitGroup
	both.Go(func() { pipe(to, from) })
	both.Go(func() { pipe(from, to) })
	both.Wait()
}

// pipe copies one direction, and closes the other side when it ends.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		_ = to.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite()
}
