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
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
)

// Apply carries a plan out, or goes on with it. A plan that was carried out is not written again. The error has the exit code
// of the command; there is a result whenever something may have been written.
func Apply(ctx context.Context, plan *migrate.Plan, o Options) (*Result, error) {
	r, err := newRun(plan, journal.Apply, o)
	if err != nil {
		return nil, err
	}
	return (&application{run: r, work: forthOf(plan)}).apply(ctx)
}

// Resume goes on with a plan that was begun in this cluster, from this host or another.
func Resume(ctx context.Context, planID string, o Options) (*Result, error) {
	store := journal.Store{Reader: o.reader(), Namespace: o.Namespace}
	plan, err := store.Plan(ctx, planID)
	if err != nil {
		return nil, err
	}
	state, err := store.State(ctx, planID)
	if err != nil {
		return nil, err
	}
	if state.Command == journal.Rollback {
		return nil, fmt.Errorf("plan %s was being taken back: go on with captctl migrate rollback %s, or apply the plan from its file", planID, planID)
	}
	return Apply(ctx, plan, o)
}

// Status is how far a plan has come, or all plans when the ID is empty.
func Status(ctx context.Context, reader client.Reader, namespace, planID string) ([]journal.State, error) {
	store := journal.Store{Reader: reader, Namespace: namespace}
	if planID == "" {
		return store.List(ctx)
	}
	state, err := store.State(ctx, planID)
	switch {
	case err != nil:
		return nil, err
	case state == nil:
		return nil, fmt.Errorf("plan %s was never begun in this cluster, or its journal is not in namespace %s", planID, namespace)
	}
	return []journal.State{*state}, nil
}

// work is what a plan writes before its storage phase, in order.
type work struct {
	grants []*change
	units  []unit
}

// unit is an owner and what is written for it.
type unit struct {
	*migrate.Unit
	changes []*change
}

func forthOf(plan *migrate.Plan) work {
	var w work
	for i := range plan.Grants {
		w.grants = append(w.grants, forth(&plan.Grants[i]))
	}
	for i := range plan.Units {
		u := unit{Unit: &plan.Units[i]}
		for j := range u.Steps {
			u.changes = append(u.changes, forth(&u.Steps[j]))
		}
		w.units = append(w.units, u)
	}
	chain(w.all())
	return w
}

func (w work) all() []*change {
	all := slices.Clone(w.grants)
	for _, u := range w.units {
		all = append(all, u.changes...)
	}
	return all
}

// application carries a plan out.
type application struct {
	*run
	work
}

func (a *application) apply(ctx context.Context) (*Result, error) {
	a.record.state.Steps.Total, a.record.state.Storage.Total = len(a.all()), len(a.plan.Storage)
	if err := a.sameCluster(ctx); err != nil {
		return nil, err
	}
	previous, err := a.recorded(ctx)
	if err != nil {
		return nil, err
	}
	proof, err := prove(ctx, &a.Options, a.all())
	if err != nil {
		return nil, err
	}
	if a.over(previous, proof) {
		return a.nothingToDo(previous), nil
	}
	if err := a.admit(ctx, previous, proof); err != nil {
		return nil, err
	}
	if a.DryRun {
		return a.rehearse(ctx)
	}
	var result *Result
	err = a.locked(ctx, func(ctx context.Context) error {
		result, err = a.carryOut(ctx)
		return err
	})
	return result, err
}

// over tells whether the plan was carried out. What the objects can not tell, the journal does: whether the storage phase ended.
// What became of an object after the plan was carried out does not make it stale.
func (a *application) over(previous *journal.State, p *proof) bool {
	if previous != nil {
		return previous.Command == journal.Apply && previous.Outcome == journal.Done && len(p.due) == 0
	}
	return len(p.due) == 0 && len(p.stale) == 0 && len(a.plan.Storage) == 0
}

func (a *application) nothingToDo(previous *journal.State) *Result {
	state := &a.record.state
	state.Outcome, state.Steps.Already, state.Storage.Already = journal.Done, state.Steps.Total, state.Storage.Total
	if previous != nil {
		state.Backup = previous.Backup
	}
	return a.result()
}

// admit refuses, before anything is written, what may not be begun.
func (a *application) admit(ctx context.Context, previous *journal.State, p *proof) error {
	begun := previous != nil && previous.Command == journal.Apply
	undecided := a.plan.Undecided()
	switch {
	case a.plan.Expired(a.Clock.Now()) && !begun:
		return migrate.Stale.Errorf("plan %s has expired at %s, and nothing was written; make a new one", a.plan.ID, a.plan.Expires)
	case len(undecided) > 0:
		return migrate.NeedsDecision.Errorf("%d findings of the plan need a decision, the first about %s: %s; nothing was written",
			len(undecided), undecided[0].Object, undecided[0].Message)
	case a.Canary != "" && len(a.canaries()) == 0:
		return fmt.Errorf("the plan has no owner and no Cluster %s that could go first; nothing was written", a.Canary)
	case a.BackupDir == "" && !a.DryRun && (previous == nil || previous.Backup == nil):
		return fmt.Errorf("plan %s has no backup yet: say where to make it; nothing was written", a.plan.ID)
	}
	if err := p.rest(ctx, &a.Options, a.plan); err != nil {
		return err
	}
	return p.err()
}

// carryOut is all of a plan's life under the lock.
func (a *application) carryOut(ctx context.Context) (*Result, error) {
	// Another run may have been at work until this one got the lock.
	previous, err := a.recorded(ctx)
	if err != nil {
		return nil, err
	}
	proof, err := prove(ctx, &a.Options, a.all())
	if err != nil {
		return nil, err
	}
	if a.over(previous, proof) {
		return a.nothingToDo(previous), nil
	}
	if err := a.admit(ctx, previous, proof); err != nil {
		return nil, err
	}
	if err := a.backUp(ctx); err != nil {
		return nil, err
	}
	if err := a.begin(ctx, previous, journal.Adopting); err != nil {
		return nil, err
	}
	return a.end(ctx, a.phases(ctx))
}

func (a *application) phases(ctx context.Context) error {
	if err := a.adopt(ctx); err != nil {
		return err
	}
	if err := a.rewrite(ctx); err != nil {
		return err
	}
	return ended(ctx)
}

// backUp makes the backup, or verifies the one that an earlier run has made. From another host, there is only the record of it.
func (a *application) backUp(ctx context.Context) error {
	if a.BackupDir == "" {
		return nil
	}
	a.Progress.Phase("Backup", 0)
	sum, err := backup.Write(ctx, a.Reader, a.BackupDir, a.plan, a.Clock.Now())
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(a.BackupDir)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	a.record.state.Backup = &journal.Backup{Host: host, Dir: dir, Sum: sum}
	return nil
}

// rehearse sends every patch that is due, for nothing.
func (a *application) rehearse(ctx context.Context) (*Result, error) {
	a.writes = lock.Fence(client.NewDryRunClient(a.Client), func() error { return nil })
	return a.end(ctx, a.phases(ctx))
}

func (o *Options) reader() client.Reader {
	if o.Reader != nil {
		return o.Reader
	}
	return o.Client
}
