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

	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/retry"
)

// adopt writes grants, then the canary alone, then all other units. It returns why it stopped; failures of single steps are
// counted.
func (a *application) adopt(ctx context.Context) error {
	if err := a.record.phase(ctx, journal.Adopting, a.record.state.Steps.Total); err != nil {
		return err
	}
	for _, grant := range a.grants {
		if a.stopped(ctx) {
			return ended(ctx)
		}
		a.make(ctx, grant)
	}
	canaries := a.canaries()
	if err := a.canary(ctx, canaries); err != nil {
		return err
	}
	a.inParallel(ctx, len(a.units), func(i int) {
		if !canaries[i] {
			a.adoptUnit(ctx, a.units[i])
		}
	})
	return ended(ctx)
}

// canaries are the indexes of the units that go first.
func (a *application) canaries() map[int]bool {
	found := map[int]bool{}
	for i, u := range a.units {
		if a.Canary == u.Owner.Namespace+"/"+u.Owner.Name || (u.Cluster != "" && a.Canary == u.Owner.Namespace+"/"+u.Cluster) {
			found[i] = true
		}
	}
	return found
}

func (a *application) canary(ctx context.Context, units map[int]bool) error {
	if len(units) == 0 || a.stopped(ctx) {
		return ended(ctx)
	}
	failed := a.record.failed()
	for i := range a.units {
		if units[i] && !a.stopped(ctx) {
			a.adoptUnit(ctx, a.units[i])
		}
	}
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case a.record.failed() > failed:
		return migrate.Partly.Errorf("canary %s failed, and no other was begun", a.Canary)
	case a.Verify == nil || a.DryRun:
		return nil
	}
	if err := a.Verify(ctx, a.part(units)); err != nil {
		return migrate.NotVerified.Errorf("canary %s was adopted, but is not fine, and no other was begun: %w", a.Canary, err)
	}
	return nil
}

// part is the plan as if it were for some units only.
func (a *application) part(units map[int]bool) *migrate.Plan {
	part := *a.plan
	part.Scope, part.Units, part.Storage = migrate.ScopeAdopt, nil, nil
	for i := range a.units {
		if units[i] {
			part.Units = append(part.Units, *a.units[i].Unit)
		}
	}
	return &part
}

// adoptUnit makes the changes of a unit, until one fails: what refers to another object is written after it.
func (a *application) adoptUnit(ctx context.Context, u unit) {
	changed := false
	for _, c := range u.changes {
		wrote, ok := a.make(ctx, c)
		if !ok {
			return
		}
		changed = changed || wrote
	}
	if changed && !a.DryRun {
		a.announce(ctx, u.Unit)
	}
}

// make makes one change and counts it. One that was interrupted counts as not tried.
func (r *run) make(ctx context.Context, c *change) (wrote, ok bool) {
	wrote, err := r.write(ctx, c)
	if ctx.Err() != nil && err != nil {
		return false, false
	}
	r.record.settle(ctx, &r.record.state.Steps, c.object, c.subresource, c.why, wrote, err)
	return wrote, err == nil
}

// inParallel does n things, as many at a time as there are workers, until nothing new may be begun.
func (r *run) inParallel(ctx context.Context, n int, do func(i int)) {
	var workers errgroup.Group
	workers.SetLimit(r.Workers)
	for i := range n {
		workers.Go(func() error {
			if !r.stopped(ctx) {
				do(i)
			}
			return nil
		})
	}
	_ = workers.Wait()
}

// stopped tells whether nothing new may be begun.
func (r *run) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || r.record.failed() > r.MaxFailures
}

// ended is why a run was interrupted, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); migrate.OutcomeOf(cause) != migrate.Failed {
		return cause
	}
	return migrate.Partly.Errorf("interrupted: %w", context.Cause(ctx))
}

// rewrite is the storage phase.
func (a *application) rewrite(ctx context.Context) error {
	if len(a.plan.Storage) == 0 || a.stopped(ctx) {
		return ended(ctx)
	}
	return a.storage(ctx, journal.Storing, a.plan.Storage, func(ctx context.Context, rewriter Rewriter, item migrate.StorageItem) (bool, error) {
		return rewriter.Rewrite(ctx, item)
	})
}

// storage does something to stored objects.
func (r *run) storage(ctx context.Context, phase journal.Phase, items []migrate.StorageItem, do func(context.Context, Rewriter, migrate.StorageItem) (bool, error)) error {
	if err := r.record.phase(ctx, phase, len(items)); err != nil {
		return err
	}
	rewriter := r.NewRewriter(r.writes)
	r.inParallel(ctx, len(items), func(i int) {
		changed := false
		err := retry.Do(ctx, func(ctx context.Context) (err error) {
			changed, err = do(ctx, rewriter, items[i])
			return err
		})
		if err == nil || ctx.Err() == nil {
			r.record.settle(ctx, &r.record.state.Storage, items[i].ObjectRef, "", "is stored in "+migrate.Version, changed, err)
		}
	})
	return ended(ctx)
}
