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

package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
)

// farewell is how long a run that ends has for its last words.
const farewell = 10 * time.Second

// run is one command at work.
type run struct {
	Options
	plan     *migrate.Plan
	identity string
	// writes is the client for everything that is written. It stops when the lock is lost, and keeps nothing in a dry run.
	writes client.Client
	record *record
}

func newRun(plan *migrate.Plan, command journal.Command, o Options) (*run, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r := &run{Options: o, plan: plan, identity: lock.Identity(), record: &record{clock: o.Clock, progress: o.Progress}}
	if len(plan.Storage) > 0 && o.NewRewriter == nil {
		return nil, errors.New("the plan has a storage phase, and nothing to do it with was given")
	}
	r.record.state = journal.State{
		PlanID: plan.ID, Checksum: plan.Checksum, ClusterUID: plan.ClusterUID, Scope: plan.Scope, Command: command, Run: r.identity,
	}
	return r, nil
}

// store reads the journal of the cluster, and writes it once there is something to write with.
func (r *run) store() journal.Store {
	return journal.Store{Client: r.writes, Reader: r.Reader, Namespace: r.Namespace}
}

// sameCluster refuses a plan that was made for another management cluster.
func (r *run) sameCluster(ctx context.Context) error {
	var system corev1.Namespace
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("reading namespace %s, by which the cluster is known: %w", metav1.NamespaceSystem, err)
	}
	if system.UID != r.plan.ClusterUID {
		return fmt.Errorf("plan %s was made for another cluster: the UID of its namespace %s is %s, and here it is %s; nothing was written",
			r.plan.ID, metav1.NamespaceSystem, r.plan.ClusterUID, system.UID)
	}
	return nil
}

// recorded is how far the plan has come; nil when it was never begun.
func (r *run) recorded(ctx context.Context) (*journal.State, error) {
	state, err := r.store().State(ctx, r.plan.ID)
	if err == nil && state != nil && state.Checksum != r.plan.Checksum {
		err = fmt.Errorf("another plan with the ID %s was begun in this cluster: its checksum is %s, and not %s", r.plan.ID, state.Checksum, r.plan.Checksum)
	}
	return state, err
}

// locked does the work while this run has the lock, with the journal of this host open.
func (r *run) locked(ctx context.Context, work func(context.Context) error) (err error) {
	if r.Preflight != nil {
		if err := r.Preflight(ctx); err != nil {
			return err
		}
	}
	held, ctx, err := lock.Acquire(ctx, lock.Options{
		Client: r.Client, Reader: r.Reader, Namespace: r.Namespace, Identity: r.identity, Duration: r.LeaseDuration,
	})
	if err != nil {
		return err
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		held.Release(leaving)
	}()
	r.writes = lock.Fence(r.Client, held.Check)
	if r.record.file, err = journal.Open(r.JournalDir, r.plan.ID, r.identity); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.record.file.Close()) }()
	return r.explained(ctx, work(ctx))
}

// explained is why work failed, if that is because the lock was lost: what failed of it then is of no account.
func (r *run) explained(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil || migrate.OutcomeOf(cause) == migrate.Failed:
		return err
	case migrate.OutcomeOf(err) != migrate.Failed && !errors.Is(err, cause):
		return err
	case r.record.store == nil:
		return migrate.Locked.Errorf("%w; nothing was written", cause)
	case migrate.OutcomeOf(err) == migrate.Failed:
		return cause
	}
	return err
}

// begin writes the journals before the first write of an object. previous is the state that an earlier run left.
func (r *run) begin(ctx context.Context, previous *journal.State, phase journal.Phase) error {
	now := metav1.NewTime(r.Clock.Now())
	store := r.store()
	r.record.mutex.Lock()
	defer r.record.mutex.Unlock()
	state := &r.record.state
	state.Phase, state.Started, state.Updated, state.Runs = phase, now, now, 1
	if previous != nil {
		state.Started, state.Runs = previous.Started, previous.Runs+1
		if state.Backup == nil {
			state.Backup = previous.Backup
		}
	}
	begins := journal.Entry{Time: now.UTC(), Event: journal.RunBegins, Command: state.Command, Phase: phase}
	if err := r.record.file.Append(begins); err != nil {
		return err
	}
	r.record.store = &store
	return store.Begin(ctx, r.plan, state)
}

// end is what came of it: failure is why the work stopped, if it did.
func (r *run) end(ctx context.Context, failure error) (*Result, error) {
	state := &r.record.state
	outcome, message := journal.Done, ""
	complete := state.Steps.Complete() && state.Storage.Complete()
	if !complete || failure != nil {
		outcome, message = journal.Partly, r.why(failure)
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	err := r.record.end(leaving, outcome, message)
	result := r.result()
	switch {
	case outcome == journal.Done && err == nil:
		return result, nil
	case failure != nil && migrate.OutcomeOf(failure) != migrate.Failed:
		return result, failure
	case r.DryRun:
		return result, migrate.Failed.Errorf("%s", message)
	case outcome == journal.Done:
		return result, migrate.Partly.Errorf("everything was written, but the journal was not: %w", err)
	}
	return result, migrate.Partly.Errorf("partly done: %s", message)
}

// why the outcome is not Done, in words.
func (r *run) why(failure error) string {
	failures, state := r.record.failures, &r.record.state
	total, left := state.Steps.Total+state.Storage.Total, state.Steps.Left()+state.Storage.Left()
	switch {
	case failure != nil && len(failures) > 0:
		return fmt.Sprintf("%v; %d of %d failed, the first: %s: %s", failure, len(failures), total, failures[0].Object, failures[0].Error)
	case failure != nil:
		return failure.Error()
	}
	return fmt.Sprintf("%d of %d failed and %d were not tried; the first to fail: %s: %s", len(failures), total, left, failures[0].Object, failures[0].Error)
}

func (r *run) result() *Result {
	state := &r.record.state
	return &Result{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Result"},
		PlanID:   r.plan.ID, Command: state.Command, DryRun: r.DryRun, Outcome: state.Outcome, Message: state.Message,
		Steps: state.Steps, Storage: state.Storage, Failures: r.record.failures, Backup: state.Backup,
	}
}
