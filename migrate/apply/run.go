// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
)

// shutdownTimeout is how long a run that was interrupted may take to write its last state.
const shutdownTimeout = 10 * time.Second

// run is one call of Apply or Rollback.
type run struct {
	Options
	plan *plan.Plan
	// writes is the client for every write. It fails once the Lease is lost, and keeps nothing in a dry run.
	writes  client.Client
	journal *journal
	mutex   sync.Mutex
	results map[string]*UnitResult
	// rollback is the direction of the run.
	rollback bool
}

// work does one unit and returns what it did. An error means that the unit failed.
type work func(ctx context.Context, unit *plan.Unit, result *UnitResult) error

// Apply writes a plan, or what is missing of it after an interruption. The error is migrate.Partly if some units were not applied.
func Apply(ctx context.Context, p *plan.Plan, o Options) (*Result, error) {
	r, err := newRun(p, o)
	if err != nil {
		return nil, err
	}
	return r.do(ctx, "Applying", r.apply)
}

// Rollback reverts what a plan wrote. What was changed since is left, and reported.
func Rollback(ctx context.Context, p *plan.Plan, o Options) (*Result, error) {
	r, err := newRun(p, o)
	if err != nil {
		return nil, err
	}
	r.rollback = true
	return r.do(ctx, "Rolling back", r.rollBack)
}

func newRun(p *plan.Plan, o Options) (*run, error) {
	if err := o.complete(p); err != nil {
		return nil, err
	}
	r := &run{Options: o, plan: p, results: map[string]*UnitResult{}}
	r.journal = &journal{namespace: o.Namespace, clock: o.Clock}
	return r, nil
}

// selected returns the units to work on, in the order of the plan.
func (o *Options) selected(p *plan.Plan) (units []*plan.Unit, err error) {
	missing := slices.Clone(o.Units)
	for i := range p.Units {
		unit := &p.Units[i]
		if len(o.Units) == 0 || slices.Contains(o.Units, unit.Name()) {
			units = append(units, unit)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == unit.Name() })
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("plan %s does not contain %s: name Clusters as NAMESPACE/NAME; \"captctl migrate show\" lists them", p.ID, strings.Join(missing, ", "))
	}
	return units, nil
}

func (r *run) do(ctx context.Context, phase string, work work) (*Result, error) {
	if err := r.sameCluster(ctx); err != nil {
		return nil, err
	}
	if err := r.Check(ctx); err != nil {
		return nil, err
	}
	if r.DryRun {
		r.writes = client.NewDryRunClient(r.Client)
		if recorded, err := Recorded(ctx, r.Reader, r.Namespace, r.plan.ID); err != nil {
			return nil, err
		} else if recorded != nil {
			r.journal.state = *recorded
		}
		return r.each(ctx, phase, work)
	}
	identity := lock.Identity()
	held, ctx, err := lock.Acquire(ctx, lock.Options{
		Client: r.Client, Reader: r.Reader, Namespace: r.Namespace, Identity: identity, Duration: r.LeaseDuration,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		held.Release(release)
	}()
	r.writes = lock.Fence(r.Client, held.Check)
	r.journal.client = r.writes
	if err := r.begin(ctx, identity); err != nil {
		return nil, err
	}
	return r.each(ctx, phase, work)
}

// sameCluster rejects a plan of another management cluster.
func (r *run) sameCluster(ctx context.Context) error {
	var system corev1.Namespace
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("reading namespace %s, which identifies the management cluster: %w", metav1.NamespaceSystem, err)
	}
	if system.UID != r.plan.ClusterUID {
		return fmt.Errorf("plan %s was made for another management cluster: the UID of its namespace %s is %s, here it is %s. Nothing was written; check --context",
			r.plan.ID, metav1.NamespaceSystem, r.plan.ClusterUID, system.UID)
	}
	return nil
}

// begin writes the backup and the journal, before the first write of an object.
func (r *run) begin(ctx context.Context, identity string) error {
	recorded, err := Recorded(ctx, r.Reader, r.Namespace, r.plan.ID)
	if err != nil {
		return err
	}
	state := State{PlanID: r.plan.ID, Checksum: r.plan.Checksum, ClusterUID: r.plan.ClusterUID, Started: metav1.NewTime(r.Clock.Now())}
	if recorded != nil {
		if recorded.Checksum != r.plan.Checksum {
			return fmt.Errorf("another plan with ID %s was applied in this cluster: its checksum is %s, not %s", r.plan.ID, recorded.Checksum, r.plan.Checksum)
		}
		state = *recorded
	}
	if state.Backup, err = r.Backup(ctx, state.Backup); err != nil {
		return err
	}
	state.Run = identity
	r.journal.state = state
	return r.journal.begin(ctx, r.plan)
}

// each works on the selected units, and stops starting new ones after too many failures.
func (r *run) each(ctx context.Context, phase string, work work) (*Result, error) {
	units, err := r.selected(r.plan)
	if err != nil {
		return nil, err
	}
	r.Progress.Phase(phase, len(units))
	var workers errgroup.Group
	workers.SetLimit(r.Concurrency)
	for _, unit := range units {
		workers.Go(func() error {
			if ctx.Err() == nil && r.failures() <= r.MaxFailures {
				r.one(ctx, unit, work)
			}
			r.Progress.Add(1)
			return nil
		})
	}
	_ = workers.Wait() // Each failure is in its result.
	return r.result(ctx, units)
}

func (r *run) one(ctx context.Context, unit *plan.Unit, work work) {
	result := &UnitResult{Unit: unit.Name()}
	if err := work(ctx, unit, result); err != nil {
		result.Outcome, result.Message = Failed, err.Error()
		if !r.DryRun {
			record, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			if recording := r.journal.fail(record, unit.Name(), result.Message); recording != nil {
				result.Message = errors.Join(err, recording).Error()
			}
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.results[unit.Name()] = result
}

func (r *run) failures() (count int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, result := range r.results {
		if result.Outcome == Failed {
			count++
		}
	}
	return count
}

func (r *run) result(ctx context.Context, units []*plan.Unit) (*Result, error) {
	result := &Result{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Result"}, PlanID: r.plan.ID, DryRun: r.DryRun, Backup: r.journal.state.Backup}
	failed, left, first := 0, 0, ""
	for _, unit := range units {
		of := r.results[unit.Name()]
		switch {
		case of == nil:
			of = &UnitResult{Unit: unit.Name(), Outcome: NotStarted}
			left++
		case of.Outcome == Failed:
			failed++
			if first == "" {
				first = of.Unit + ": " + of.Message
			}
		}
		result.Units = append(result.Units, *of)
	}
	switch {
	case failed+left == 0:
		return result, nil
	case ctx.Err() != nil:
		return result, migrate.Partly.Errorf("interrupted (%w): %d of %d failed, %d not started. Run the same command again to resume", context.Cause(ctx), failed, len(units), left)
	}
	return result, migrate.Partly.Errorf("%d of %d failed, %d not started; the first: %s. Run the same command again to resume", failed, len(units), left, first)
}
