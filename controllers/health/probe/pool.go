// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package probe connects to the API servers of control planes, outside of reconciles: a fixed number of workers probes all of them, and a
// reconcile is triggered only when the result of a check changes.
package probe

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/metrics"
)

// Intervals between probes. An API server that stops answering is reported within a minute: healthyInterval, twice retryInterval and three
// timeouts are 55 seconds. Each is shortened by up to a fifth, so that the probes of many clusters are distributed.
const (
	// healthyInterval applies while all checks pass.
	healthyInterval = 30 * time.Second
	// retryInterval applies after the first failures, before they are reported.
	retryInterval = 5 * time.Second
	// failedInterval applies after a failure was reported, and while the first answer is required.
	failedInterval = 10 * time.Second
	// unreachableInterval applies while the network may not reach the API server. Such clusters must not occupy the workers.
	unreachableInterval = 60 * time.Second
)

const (
	// timeout limits one probe.
	timeout = 5 * time.Second
	// workers is the number of probes at a time. Of 1,000 clusters, 190 can hang without a delay for the others.
	workers = 64
)

// Pool probes API servers.
type Pool struct {
	// mustProbe reports whether this manager still has to probe the API server of a control plane: no event reports that an object was moved to
	// another shard.
	mustProbe func(ctx context.Context, controlPlane client.ObjectKey) bool
	metrics   *metrics.Health
	queue     workqueue.TypedDelayingInterface[client.ObjectKey]
	changes   chan event.GenericEvent
	// probe is replaced in tests.
	probe func(ctx context.Context, e *entry) answer

	mu      sync.Mutex
	entries map[client.ObjectKey]*entry
}

// NewPool returns a pool without targets.
func NewPool(m *metrics.Health, mustProbe func(ctx context.Context, controlPlane client.ObjectKey) bool) *Pool {
	return &Pool{
		mustProbe: mustProbe, metrics: m, queue: workqueue.NewTypedDelayingQueue[client.ObjectKey](), changes: make(chan event.GenericEvent),
		probe: func(ctx context.Context, e *entry) answer {
			return e.connection.probe(ctx, e.target.Version, time.Now())
		}, entries: map[client.ObjectKey]*entry{},
	}
}

// Changes receives the control planes of which a check changed.
func (p *Pool) Changes() <-chan event.GenericEvent { return p.changes }

// Start probes until the context is done, and returns when no probe runs any more. It implements manager.Runnable.
func (p *Pool) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				key, stopped := p.queue.Get()
				if stopped {
					return
				}
				p.next(ctx, key)
				p.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	running.Wait()
	return nil
}

// next probes one API server.
func (p *Pool) next(ctx context.Context, key client.ObjectKey) {
	p.mu.Lock()
	e := p.entries[key]
	p.mu.Unlock()
	switch {
	case ctx.Err() != nil, e == nil, e.unusable != nil:
		return
	case !p.mustProbe(ctx, key):
		p.Forget(key)
		return
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	found := p.probe(limited, e)
	if ctx.Err() != nil || !p.record(key, e, found, began) {
		return
	}
	changed := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case p.changes <- event.GenericEvent{Object: changed}:
	case <-ctx.Done():
	}
}

// record adds the answer of a probe and schedules the next one. It reports whether a result changed.
func (p *Pool) record(key client.ObjectKey, probed *entry, found answer, began time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil || e.history != probed.history || e.unusable != nil {
		return false // Stopped meanwhile.
	}
	if e.target.Version != probed.target.Version {
		found.Version = health.Result{}
	}
	p.metrics.Probed(key, began, time.Since(began))
	changed = e.observe(found, e.target.Required)
	p.queue.AddAfter(key, shortened(e.interval(e.target.Required)))
	return changed
}

// shortened returns an interval that is up to a fifth shorter.
func shortened(interval time.Duration) time.Duration {
	return interval - rand.N(interval/5) //nolint:gosec // It distributes probes.
}

// threshold is the number of failures in a row that flip a check. One success flips it back.
const threshold = 3

// tracker has the results of one check.
type tracker struct {
	// status is what is reported.
	status controlplanev1.HealthState
	// reported is the result that this process reported; zero as long as the one in status still applies.
	reported health.Result
	// last is the last result; failures and same are the number of results in a row that did not pass, and that are equal to it.
	last           health.Result
	failures, same int
}

// observe adds a result, and reports whether the reported result changed. The first result is reported at once, unless it is a failure.
func (t *tracker) observe(result health.Result) bool {
	if result.Status == "" {
		return false
	}
	if result.Status == controlplanev1.HealthHealthy {
		t.failures, t.same = 0, 0
		return t.status != controlplanev1.HealthHealthy && t.report(result)
	}
	if t.failures++; t.last != result {
		t.last, t.same = result, 0
	}
	t.same++
	switch {
	case t.status == "" && result.Status == controlplanev1.HealthUnknown:
		return t.report(result)
	case t.failures < threshold:
		return false
	case t.status != result.Status:
		return t.report(result)
	}
	// Only the message differs. Reporting each one would cause writes while they alternate.
	return t.same >= threshold && t.reported.Status != "" && t.reported != result && t.report(result)
}

func (t *tracker) report(result health.Result) bool {
	t.status, t.reported = result.Status, result
	return true
}

// failing reports whether the check has failed, but not often enough.
func (t *tracker) failing() bool { return t.failures > 0 && t.failures < threshold }
