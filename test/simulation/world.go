// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs CAPT's controllers, watches and webhooks against a simulated API server, Cluster API and provider-terraform, in one
// process, on virtual time, with one runnable goroutine at a time. A seed determines the order of everything.
package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"k8s.io/apimachinery/pkg/api/meta"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/provider"
	"github.com/capt-provider/capt/webhooks/admission"
)

const pollInterval = 10 * time.Minute

var (
	scheme         = sync.OnceValue(controllers.Scheme)
	providerScheme = sync.OnceValue(func() *apiruntime.Scheme {
		s := apiruntime.NewScheme()
		must(clientgoscheme.AddToScheme(s))
		must(provider.AddToScheme(s))
		return s
	})
	// mapper knows the kinds of both schemes.
	mapper = sync.OnceValue(func() meta.RESTMapper {
		m := meta.NewDefaultRESTMapper(nil)
		for gvk := range scheme().AllKnownTypes() {
			m.Add(gvk, meta.RESTScopeNamespace)
		}
		m.Add(namespaceKind, meta.RESTScopeRoot)
		m.Add(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, meta.RESTScopeRoot)
		m.Add(terraform.ScopeCluster.GroupVersionKind(), meta.RESTScopeRoot)
		m.Add(workspaceKind, meta.RESTScopeNamespace)
		return m
	})
)

// World is one run of one schedule.
type World struct {
	store     *store
	cloud     *cloud
	core      core
	rng       *rand.Rand
	processes []*process
	manager   *process
	provider  *process
	// active reports whether a worker runs: its requests can have faults, and may wait while others run.
	active bool
	parked []*parkedCall
	// coreSeen is the version at which Cluster API had nothing to do for an object.
	coreSeen map[coreKey]int64
	// collected is the version at which the garbage collector had nothing to do.
	collected int64
	trace     *strings.Builder
	steps     int
	faults
	invariants
	// violation is the first broken invariant.
	violation string
}

type coreKey struct {
	gvk schema.GroupVersionKind
	key types.NamespacedName
}

// parkedCall is a worker in the middle of a request.
type parkedCall struct {
	process *process
	what    string
	resume  chan struct{}
	// notBefore is the step until which the call waits.
	notBefore int
}

func newWorld(seed uint64, from *base, traced bool) *World {
	w := &World{store: newStore(scheme()), rng: rand.New(rand.NewPCG(seed, 1)), coreSeen: map[coreKey]int64{}} // It must be reproducible.
	w.cloud = &cloud{world: w, states: map[string]*state{}, refuse: map[string][]string{}}
	w.core = core{w}
	if traced {
		w.trace = &strings.Builder{}
	}
	w.invariants = newInvariants()
	if from != nil {
		w.resume(from)
	}
	w.store.admit, w.store.observe = w.admit, w.observe
	if from == nil {
		w.installation()
	}
	return w
}

// start starts the processes.
func (w *World) start() {
	w.startManager()
	w.startProvider()
}

func (w *World) tracef(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%5d %s ", w.steps, time.Since(began).Truncate(time.Millisecond))
		fmt.Fprintf(w.trace, format+"\n", args...)
	}
}

var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *World) startManager() {
	w.manager = w.newProcess("capt", scheme(), func(ctx context.Context, mgr ctrl.Manager) error {
		options := controllers.Options{
			Concurrency: 1, Recovery: true, SkipCRDMigrationPhases: []crdmigrator.Phase{crdmigrator.StorageVersionMigrationPhase},
		}
		if err := controllers.SetupWithManager(ctx, mgr, options); err != nil {
			return err
		}
		return admission.SetupWebhookWithManager(ctx, mgr, "")
	})
	w.manager.lead()
}

func (w *World) startProvider() {
	w.provider = w.newProcess("provider", providerScheme(), func(_ context.Context, mgr ctrl.Manager) error {
		return provider.SetupWithManager(mgr, provider.Options{
			Executors: opener{w.cloud, func() *process { return mgr.(*process) }}, PollInterval: pollInterval, Timeout: 20 * time.Minute,
			Logger: logging.NewNopLogger(), MaxConcurrentReconciles: 1, Reconciler: publishUnlessPublished(mgr.GetClient()),
		})
	})
	w.provider.lead()
}

// stop ends all processes, so that no goroutine is left.
func (w *World) stop() {
	for len(w.processes) > 0 {
		w.processes[0].kill()
	}
}

// inline reports whether a request comes from the scheduler itself or from a webhook: it has no faults and does not wait.
func (w *World) inline() bool { return !w.active }

// user returns a client outside of the processes.
func (w *World) user(name string) client.Client {
	return &api{world: w, user: name, scheme: scheme()}
}

// park lets others run in the middle of a request or of a run of Terraform.
func (w *World) park(p *process, what string) { w.parkFor(p, what, 0) }

// parkFor is park, for at least a number of steps.
func (w *World) parkFor(p *process, what string, steps int) {
	call := &parkedCall{process: p, what: what, resume: make(chan struct{}), notBefore: w.steps + steps}
	w.parked = append(w.parked, call)
	<-call.resume
	p.exitIfDead()
}

// action is something that can happen next.
type action struct {
	name string
	do   func()
}

// enabled are the actions that can happen now, in a fixed order.
func (w *World) enabled() (actions []action) {
	for _, p := range w.processes {
		for _, v := range p.views.order {
			if v.pending() > 0 && w.steps >= v.frozen {
				actions = append(actions, action{"deliver " + p.name, func() { w.deliver(v) }})
			}
		}
		for _, q := range p.queues {
			if p.fenced {
				continue
			}
			for _, request := range q.runnable() {
				actions = append(actions, action{"reconcile " + p.name, func() {
					w.tracef("%s: reconcile %s %s", p.name, q.name, request)
					w.run(func() { q.hand(request) })
				}})
			}
		}
	}
	for i, call := range w.parked {
		if w.steps < call.notBefore {
			continue
		}
		actions = append(actions, action{"resume " + call.process.name, func() {
			w.parked = append(w.parked[:i:i], w.parked[i+1:]...)
			w.tracef("%s: continues %s", call.process.name, call.what)
			w.run(func() { close(call.resume) })
		}})
	}
	return w.enabledCore(actions)
}

func (w *World) lagging() bool {
	for _, p := range w.processes {
		for _, v := range p.views.order {
			if v.pending() > 0 && w.steps < v.frozen {
				return true
			}
		}
	}
	for _, call := range w.parked {
		if w.steps < call.notBefore {
			return true
		}
	}
	return len(w.later) > 0 || w.manager.dead || w.provider.dead
}

// deliverAll gives all pending events to the handlers, in a random order of kinds.
func (w *World) deliverAll() {
	for _, p := range w.processes {
		for _, i := range w.rng.Perm(len(p.views.order)) {
			if v := p.views.order[i]; w.steps >= v.frozen {
				for v.pending() > 0 {
					v.deliver()
				}
			}
		}
	}
}

// enabledCore adds the actions of Cluster API, of the garbage collector and of the controller of namespaces.
func (w *World) enabledCore(actions []action) []action {
	for _, gvk := range []schema.GroupVersionKind{clusterKind, machinePoolKind} {
		for _, key := range w.store.of(gvk).keys {
			id := coreKey{gvk, key}
			if w.coreSeen[id] == w.store.version {
				continue
			}
			actions = append(actions, action{"capi", func() {
				before := w.store.version
				w.core.step(gvk, key)
				if w.store.version == before {
					w.coreSeen[id] = before
				} else {
					w.tracef("capi: %s %s", gvk.Kind, key)
				}
			}})
		}
	}
	if w.collected != w.store.version {
		actions = append(actions, action{"gc", func() {
			if !w.collect() && !w.terminate() {
				w.collected = w.store.version
			}
		}})
	}
	return actions
}

// run lets a worker run until it ends, or waits in a request.
func (w *World) run(start func()) {
	w.active = true
	start()
	synctest.Wait()
	w.active = false
}

// deliver gives events of one kind to the handlers of a process.
func (w *World) deliver(v *view) {
	for range 1 + w.rng.IntN(v.pending()) {
		v.deliver()
	}
}

// stepDuration is how long a step takes: a time that a status shows differs between two reconciles.
const stepDuration = time.Second

// step does one thing. It returns false when nothing can happen before the next timer.
func (w *World) step() bool {
	w.runLater()
	if w.rng.IntN(100) < 60 {
		w.deliverAll()
	}
	actions := w.enabled()
	if len(actions) == 0 {
		if w.lagging() {
			w.steps++
			return true
		}
		return false
	}
	w.steps++
	time.Sleep(stepDuration)
	actions[w.rng.IntN(len(actions))].do()
	return true
}

func (w *World) nextTimer() (at time.Time) {
	for _, p := range w.processes {
		for _, q := range p.queues {
			if due := q.next(); !due.IsZero() && (at.IsZero() || due.Before(at)) {
				at = due
			}
		}
	}
	return at
}
