// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// apply writes a unit: pause, write, unpause, wait for the manager, and prove that no Workspace changed.
func (r *run) apply(ctx context.Context, unit *plan.Unit, result *UnitResult) error {
	result.Outcome = Unchanged
	steps := r.steps(unit)
	pending, err := r.pending(ctx, unit, steps)
	if err != nil {
		return err
	}
	if !pending && r.journal.phase(unit.Name()) == PhaseApplied {
		return nil
	}
	if pending {
		if err := r.Gate(ctx, unit); err != nil {
			return err
		}
	}
	result.Outcome = Applied
	write := func(ctx context.Context) error {
		for i := range steps {
			if err := r.write(ctx, &steps[i], forward, result); err != nil {
				return err
			}
		}
		return nil
	}
	// What the plan found counts, also after an interruption: a Workspace that changed meanwhile must not become the new normal.
	done := PhaseApplied
	return r.carryOut(ctx, unit, unit.Workspaces, PhaseApplying, &done, write)
}

// rollBack reverts a unit in the reverse order.
func (r *run) rollBack(ctx context.Context, unit *plan.Unit, result *UnitResult) error {
	result.Outcome = Unchanged
	if phase := r.journal.phase(unit.Name()); phase == "" || phase == PhaseRolledBack {
		return nil
	}
	before, err := r.workspaces(ctx, unit)
	if err != nil {
		return err
	}
	result.Outcome = RolledBack
	done, kept := PhaseRolledBack, []string(nil)
	write := func(ctx context.Context) (err error) {
		if kept, err = r.revert(ctx, unit, result); len(kept) > 0 {
			done = PhaseRollingBack
		}
		return err
	}
	if err := r.carryOut(ctx, unit, before, PhaseRollingBack, &done, write); err != nil || len(kept) == 0 {
		return err
	}
	return fmt.Errorf("rolled back, but for what was changed since: %s", strings.Join(kept, "; "))
}

// revert writes the steps of a unit backward until none is applied any more, and returns what it left because it was changed since. A
// reconcile that began before the unit was paused can write a status once more.
func (r *run) revert(ctx context.Context, unit *plan.Unit, result *UnitResult) (kept []string, err error) {
	err = wait.PollUntilContextTimeout(ctx, pollInterval, r.Wait, true, func(ctx context.Context) (bool, error) {
		kept = nil
		before, incomplete := result.Writes, map[migrate.ObjectRef]bool{}
		for _, step := range backwards(r.steps(unit)) {
			// Status follows from spec: it stays while a field of spec does.
			if r.shared(unit, step) || incomplete[step.Object] {
				continue
			}
			err := r.write(ctx, step, backward, result)
			if changed, ok := err.(*changedError); ok { //nolint:errorlint // write returns it unwrapped.
				kept, incomplete[step.Object] = append(kept, changed.Error()), true
			} else if err != nil {
				return false, err
			}
		}
		return result.Writes == before || r.DryRun, nil
	})
	return kept, err
}

// backwards returns steps in reverse order of their objects. The status of an object still comes after its spec: the manager derives it from
// there.
func backwards(steps []plan.Step) (reverse []*plan.Step) {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].Subresource != "" && i > 0 && steps[i-1].Object == steps[i].Object {
			reverse = append(reverse, &steps[i-1], &steps[i])
			i--
			continue
		}
		reverse = append(reverse, &steps[i])
	}
	return reverse
}

// carryOut writes a unit while it is paused. done is the phase after it, known once it is written.
func (r *run) carryOut(ctx context.Context, unit *plan.Unit, before []migrate.BaselineItem, started Phase, done *Phase, write func(context.Context) error) error {
	if r.DryRun {
		return write(ctx)
	}
	if err := r.journal.set(ctx, unit.Name(), started, ""); err != nil {
		return err
	}
	if err := r.pause(ctx, unit); err != nil {
		return err
	}
	if err := write(ctx); err != nil {
		return fmt.Errorf("%w. The unit stays paused until it is resumed or rolled back", err)
	}
	if err := r.unpause(ctx, unit); err != nil {
		return err
	}
	if err := r.await(ctx, unit, *done == PhaseApplied); err != nil {
		return err
	}
	if err := r.prove(ctx, unit, before); err != nil {
		return err
	}
	return r.journal.set(ctx, unit.Name(), *done, "")
}

// steps of a unit, with the repair of the Cluster's endpoint last if it is asked for.
func (r *run) steps(unit *plan.Unit) []plan.Step {
	if unit.Endpoint == nil || !r.FixClusterEndpoints && !r.rollback {
		return unit.Steps
	}
	return append(slices.Clone(unit.Steps), *unit.Endpoint)
}

// pending reports whether a unit has something to write, and fails if an object is no longer as the plan found it. A unit that was applied may
// have been changed since by the user.
func (r *run) pending(ctx context.Context, unit *plan.Unit, steps []plan.Step) (bool, error) {
	applied := r.journal.phase(unit.Name()) == PhaseApplied
	pending := false
	for i := range steps {
		live, err := r.read(ctx, steps[i].Object)
		if err != nil {
			return false, err
		}
		state, changed, err := examine(&steps[i], live, forward)
		switch {
		case err != nil:
			return false, err
		case state == plan.Changed && !applied:
			return false, changed
		case state == plan.Pending:
			pending = true
		}
	}
	return pending, nil
}

// shared reports whether a step must stay because another unit that is applied needs it too: templates that several clusters use.
func (r *run) shared(unit *plan.Unit, step *plan.Step) bool {
	selected, _ := r.selected(r.plan)
	for i := range r.plan.Units {
		other := &r.plan.Units[i]
		phase := r.journal.phase(other.Name())
		if other.Name() == unit.Name() || phase == "" || phase == PhaseRolledBack || slices.Contains(selected, other) && phase == PhaseRollingBack {
			continue
		}
		if slices.ContainsFunc(other.Steps, func(theirs plan.Step) bool { return sameElements(step, &theirs) }) {
			return true
		}
	}
	return false
}

func sameElements(one, other *plan.Step) bool {
	return one.Object.UID != "" && one.Object.UID == other.Object.UID && one.Subresource == other.Subresource &&
		slices.EqualFunc(one.Fields, other.Fields, func(a, b plan.Field) bool {
			return a.Element && b.Element && a.Path == b.Path && string(a.After) == string(b.After)
		})
}

// workspaces reads the Workspaces of a unit. One that is gone is left out.
func (r *run) workspaces(ctx context.Context, unit *plan.Unit) (items []migrate.BaselineItem, err error) {
	for _, planned := range unit.Workspaces {
		live, err := r.read(ctx, planned.ObjectRef)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		hash, err := migrate.WorkspaceHash(live)
		if err != nil {
			return nil, err
		}
		item := migrate.BaselineItem{ObjectRef: planned.ObjectRef, Generation: live.GetGeneration(), Hash: hash}
		item.UID = live.GetUID()
		items = append(items, item)
	}
	return items, nil
}

// prove fails if a Workspace is not what it was before.
func (r *run) prove(ctx context.Context, unit *plan.Unit, before []migrate.BaselineItem) error {
	after, err := r.workspaces(ctx, unit)
	if err != nil {
		return err
	}
	for _, item := range before {
		if !slices.Contains(after, item) {
			return fmt.Errorf("%s is not what it was: its UID, generation (%d before), spec, labels, annotations or finalizers changed. Pause the Cluster, look at what changed it, and roll back",
				item.ObjectRef, item.Generation)
		}
	}
	return nil
}

// empty returns an object with only kind, namespace and name.
func empty(ref migrate.ObjectRef) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	kind, err := ref.GroupVersionKind()
	if err != nil {
		return nil, err
	}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(ref.Namespace)
	object.SetName(ref.Name)
	return object, nil
}
