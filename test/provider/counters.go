// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// runs is shared by all controllers of a process: a registry takes a name once.
var runs = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capt_test_provider_runs_total",
	Help: "Terraform commands started for a Workspace, by operation: init, plan, apply, destroy.",
}, []string{"operation", "group", "namespace", "name"})

func init() { metrics.Registry.MustRegister(runs) }

type operation string

const (
	operationInit    operation = "init"
	operationPlan    operation = "plan"
	operationApply   operation = "apply"
	operationDestroy operation = "destroy"
)

// Counts are how many commands of each kind were started for a Workspace, whatever became of them.
type Counts struct {
	Inits, Plans, Applies, Destroys int
}

// Counters count the commands of each Workspace by UID. They keep the counts of Workspaces that are gone. Safe for
// concurrent use.
type Counters struct {
	mu     sync.Mutex
	counts map[types.UID]Counts
}

// NewCounters returns counters at zero.
func NewCounters() *Counters { return &Counters{counts: map[types.UID]Counts{}} }

// For returns the counts of one Workspace; zeros when nothing was ever started for it.
func (c *Counters) For(uid types.UID) Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[uid]
}

// Total returns the sums over all Workspaces.
func (c *Counters) Total() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	var total Counts
	for _, n := range c.counts {
		total.Inits += n.Inits
		total.Plans += n.Plans
		total.Applies += n.Applies
		total.Destroys += n.Destroys
	}
	return total
}

func (c *Counters) count(o client.Object, group string, op operation) {
	c.mu.Lock()
	n := c.counts[o.GetUID()]
	switch op {
	case operationInit:
		n.Inits++
	case operationPlan:
		n.Plans++
	case operationApply:
		n.Applies++
	case operationDestroy:
		n.Destroys++
	}
	c.counts[o.GetUID()] = n
	c.mu.Unlock()
	runs.WithLabelValues(string(op), group, o.GetNamespace(), o.GetName()).Inc()
}
