// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
)

// Target is an API server to probe.
type Target struct {
	// Kubeconfig has the address and the credentials.
	Kubeconfig []byte
	// Version is the version that the API server must run, as 1.31; empty while it is not known.
	Version string
	// Required makes an API server that cannot be reached a failure, although it never answered.
	Required bool
	// Last is what status reports, from which a restarted manager continues.
	Last *controlplanev1.Health
}

// entry is an API server that is probed. It is replaced, and not changed, when the target changes.
type entry struct {
	target     Target
	connection *connection
	// unusable are the results if the kubeconfig cannot be used; nil if it can.
	unusable *health.Probed
	// history is shared by all entries of a control plane.
	*history
}

// Track starts to probe the API server of a control plane, or updates its target.
func (p *Pool) Track(key client.ObjectKey, target Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.entries[key]
	if was != nil && was.target.Version == target.Version && was.target.Required == target.Required && bytes.Equal(was.target.Kubeconfig, target.Kubeconfig) {
		return
	}
	e := &entry{target: target}
	e.connection, e.unusable = newConnection(target.Kubeconfig)
	soon := false
	if was != nil {
		if e.history = was.history; was.target.Version != target.Version {
			e.version, soon = tracker{}, true
		}
	} else {
		e.history = newHistory(target.Last)
	}
	e.target.Last = nil
	p.entries[key] = e
	switch {
	case e.unusable != nil:
	case soon || e.interval(target.Required) != healthyInterval:
		p.queue.Add(key)
	default: // After a restart, the probes of all clusters are distributed.
		p.queue.AddAfter(key, rand.N(healthyInterval)) //nolint:gosec // It distributes probes.
	}
}

// Results returns the results of a control plane. Those that status has already are zero.
func (p *Pool) Results(key client.ObjectKey) health.Probed {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := p.entries[key]; {
	case e == nil:
		return health.Probed{}
	case e.unusable != nil:
		return *e.unusable
	default:
		return health.Probed{APIServer: e.apiServer.reported, Version: e.version.reported, Credentials: e.credentials.reported}
	}
}

// Report updates the metric of the checks of a control plane.
func (p *Pool) Report(key client.ObjectKey, reported *controlplanev1.Health) {
	for _, check := range health.Checks() {
		p.metrics.Report(key, check.Name, health.Status(reported, check.Name))
	}
}

// Stop stops to probe the API server of a control plane.
func (p *Pool) Stop(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, key)
	p.metrics.Stopped(key)
}

// Forget stops to probe the API server of a control plane, and removes all its metrics.
func (p *Pool) Forget(key client.ObjectKey) {
	p.Stop(key)
	p.metrics.Forget(key)
}

// history of a control plane. It is guarded by the mutex of the pool.
type history struct {
	apiServer, version, credentials tracker
	// answered is true once the API server answered.
	answered bool
}

func newHistory(last *controlplanev1.Health) *history {
	known := func(name string) tracker {
		if status := health.Status(last, name); status != controlplanev1.HealthUnknown {
			return tracker{status: status}
		}
		return tracker{} // The first probe reports why.
	}
	h := &history{apiServer: known(health.APIServer), version: known(health.Version), credentials: known(health.Credentials)}
	h.answered = h.apiServer.status != ""
	return h
}

// observe adds an answer, and reports whether a result changed. A network that never reached the API server is not a failure, unless an
// answer is required.
func (h *history) observe(found answer, required bool) (changed bool) {
	apiServer := found.APIServer
	if found.unreachable && !h.answered && !required {
		apiServer.Status = controlplanev1.HealthUnknown
	}
	h.answered = h.answered || found.answered
	for t, result := range map[*tracker]health.Result{&h.apiServer: apiServer, &h.version: found.Version, &h.credentials: found.Credentials} {
		changed = t.observe(result) || changed
	}
	return changed
}

// interval returns the time until the next probe.
func (h *history) interval(required bool) time.Duration {
	switch {
	case h.apiServer.failing() || h.version.failing() || h.credentials.failing():
		return retryInterval
	case h.version.status == controlplanev1.HealthUnhealthy, h.credentials.status == controlplanev1.HealthUnhealthy:
		return failedInterval
	case h.apiServer.status == controlplanev1.HealthHealthy:
		return healthyInterval
	case h.apiServer.status == controlplanev1.HealthUnknown && !required:
		return unreachableInterval
	}
	return failedInterval
}
