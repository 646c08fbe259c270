// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture/replicas"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// creation is how long a Pod has an address before its process runs.
const creation = time.Second

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
	recorded  process.State
}

// balancer is a Service. If unready is set, endpoints are published before they are ready, and as long as they exist.
type balancer struct {
	*replicas.Balancer
	unready bool
}

// replica simulates a Pod.
type replica struct {
	*replicas.Replica
	volume volume
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
	guard, err := process.StartReaper(shared.Binary(binaries.Sandbox), f.dir, false)
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
	started := make([]*replica, size)
	for i := range started {
		started[i] = f.start()
	}
	ports := map[string]int32{}
	for name, balancer := range f.balancers {
		ports[name] = int32(balancer.Address().Port)
	}
	restore := f.point(f.Context(), f.calling(bundle, ports))
	require.NoError(f, shared.StopComponent(f.Context(), sandbox.Manager))
	f.Cleanup(func() {
		f.point(context.Background(), restore)
		require.NoError(f, shared.StartComponent(context.Background(), sandbox.Manager))
	})
	return started
}

// start makes a Pod and waits until it is ready. The first one leads.
func (f *fleet) start(args ...string) *replica {
	f.Helper()
	name := fmt.Sprintf("replica-%d", len(f.recorded.Processes)+1)
	r := &replica{volume: volume(filepath.Join(f.dir, name, "serving-certs"))}
	r.volume.write(f.T, f.certificate())
	r.Replica = replicas.New(f.T, replicas.Spec{
		Server: shared, Name: name, Dir: f.dir, Certificates: string(r.volume), Args: append([]string{quiet, keepsVersions}, args...),
	})
	f.publish(r, true)
	time.Sleep(creation)
	r.Start(f.T)
	f.record(name, r.Process, r.Log)
	r.AwaitReady(f.T)
	f.publish(r, false)
	return r
}

// record makes a process end with the test, whatever happens to it.
func (f *fleet) record(name string, started *process.Process, log string) {
	f.Helper()
	f.recorded.Record(process.Recorded{ID: started.ID(), Spec: process.Spec{Name: name, Log: log}})
	require.NoError(f, f.recorded.Save(f.dir))
}

// publish hands a Pod to the Services that take those which are not ready, or to the others.
func (f *fleet) publish(r *replica, unready bool) {
	for _, balancer := range f.balancers {
		if balancer.unready == unready {
			balancer.Add(r.Webhook)
		}
	}
}

// withdraw takes it away again.
func (f *fleet) withdraw(r *replica, unready bool) {
	for _, balancer := range f.balancers {
		if balancer.unready == unready {
			balancer.Remove(r.Webhook)
		}
	}
}

// terminate deletes a Pod. Services that take Pods which are not ready remove them only when they are gone.
func (f *fleet) terminate(r *replica) {
	f.Helper()
	r.Terminate(f.T, f.grace, func() { f.withdraw(r, false) })
	time.Sleep(replicas.Propagation)
	f.withdraw(r, true)
}

// awaitLeader waits until one of the replicas leads.
func awaitLeader(t *testing.T, candidates ...*replica) {
	t.Helper()
	var all []*replicas.Replica
	for _, candidate := range candidates {
		all = append(all, candidate.Replica)
	}
	replicas.AwaitLeader(t, all...)
}
