// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// rollBack reverts a unit in the reverse order. Fields that were changed since keep their values, which is not a failure.
func (r *run) rollBack(ctx context.Context, unit *plan.Unit, result *UnitResult) error {
	result.Outcome = Unchanged
	recorded := r.journal.unit(unit.Name())
	if !recorded.active() {
		result.Message = cmp.Or(recorded.Message, "there is nothing of this plan to roll back")
		return nil
	}
	if later := r.laterPlan(unit.Name(), recorded); later != "" {
		return fmt.Errorf("plan %s wrote it later. Roll that back first: captctl migrate rollback %s", later, later)
	}
	before, err := r.workspaces(ctx, unit.Workspaces)
	if err != nil {
		return err
	}
	result.Outcome = RolledBack
	var notes []string
	write := func(ctx context.Context) (err error) {
		var steps []*plan.Step
		if steps, notes, err = r.reversible(ctx, unit, recorded, result); err == nil {
			err = r.revert(ctx, steps, result)
		}
		if err == nil {
			err = r.setProof(ctx, unit, recorded.Proof, backward)
		}
		result.Message = strings.Join(slices.Concat(result.Kept, notes), "; ")
		return err
	}
	if r.DryRun {
		return write(ctx)
	}
	if err := r.journal.setPhase(ctx, unit.Name(), PhaseRollingBack, ""); err != nil {
		return err
	}
	if err := r.whilePaused(ctx, unit, true, result, write); err != nil {
		return err
	}
	unreported, err := r.awaitRollback(ctx, unit)
	if err != nil {
		return err
	}
	if err := r.verifyWorkspaces(ctx, before); err != nil {
		return err
	}
	result.Message = strings.Join(slices.Concat(result.Kept, notes, unreported), "; ")
	return r.journal.setPhase(ctx, unit.Name(), PhaseRolledBack, result.Message)
}

// awaitRollback waits for the manager, and returns what it did not report: it may have been stopped. After that, no other unit waits.
func (r *run) awaitRollback(ctx context.Context, unit *plan.Unit) (unreported []string, err error) {
	if r.managerSilent.Load() {
		return nil, nil
	}
	_, err = r.awaitManager(ctx, unit, PhaseRolledBack)
	if errors.Is(err, errUnreported) {
		r.managerSilent.Store(true)
		return []string{err.Error()}, nil
	}
	return nil, err
}

// laterPlan returns a plan that began a unit after this one did, and was not rolled back; empty if there is none.
func (r *run) laterPlan(unit string, recorded UnitState) string {
	for i := range r.otherPlans {
		theirs := r.otherPlans[i].Units[unit]
		if recorded.active() && theirs.active() && recorded.Begun.Before(&theirs.Begun) {
			return r.otherPlans[i].PlanID
		}
	}
	return ""
}

// reversible returns the steps of a unit to revert, in that order, and why the others stay.
func (r *run) reversible(ctx context.Context, unit *plan.Unit, recorded UnitState, result *UnitResult) (steps []*plan.Step, notes []string, err error) {
	for _, step := range reverseOrder(writtenSteps(unit, recorded)) {
		user, err := r.permissionUser(ctx, unit, step)
		switch {
		case err != nil:
			return nil, nil, err
		case user != "":
			notes = append(notes, fmt.Sprintf("%s still allows namespace %s, because %s uses it", step.Object, permittedNamespace(step), user))
		case step.Create != nil:
			result.Left = append(result.Left, step.Object.String())
			notes = append(notes, fmt.Sprintf("%s, which the plan created, is not deleted", step.Object))
		default:
			steps = append(steps, step)
		}
	}
	return steps, notes, nil
}

// lateWrites is the interval between two passes of revert, in which a reconcile that began before the pause may write a status once more.
const lateWrites = time.Second

// revert writes steps backward, in passes, until a pass has nothing to write.
func (r *run) revert(ctx context.Context, steps []*plan.Step, result *UnitResult) error {
	var again *plan.Step // The last step that had to be reverted a second time.
	pass := 0
	err := wait.PollUntilContextTimeout(ctx, lateWrites, r.Wait, true, func(ctx context.Context) (bool, error) {
		result.Kept = nil
		before, incomplete := result.Writes, map[migrate.ObjectRef]bool{}
		for _, step := range steps {
			if incomplete[step.Object] { // Status follows from spec: it is kept while a field of spec is kept.
				continue
			}
			writes := result.Writes
			err := r.write(ctx, step, backward, result)
			if changed := (*changedError)(nil); errors.As(err, &changed) {
				result.Kept, incomplete[step.Object] = append(result.Kept, changed.Error()), true
			} else if err != nil {
				return false, err
			}
			if result.Writes > writes && pass > 0 {
				again = step
			}
		}
		pass++
		return result.Writes == before || r.DryRun, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil && again != nil {
		err = fmt.Errorf("%s is applied again by another client, such as a GitOps controller, each time it is reverted (for %s). Stop that client, and roll back again", again.Object, r.Wait)
	}
	return err
}

// writtenSteps returns the steps of a unit without the fields that were as planned before the first write.
func writtenSteps(unit *plan.Unit, recorded UnitState) []plan.Step {
	steps := slices.Clone(unit.Steps)
	if recorded.Endpoint && unit.Endpoint != nil {
		steps = append(steps, *unit.Endpoint)
	}
	for i := range steps {
		steps[i].Fields = slices.DeleteFunc(slices.Clone(steps[i].Fields), func(field plan.Field) bool {
			return slices.Contains(recorded.Found, foundField(&steps[i], &field))
		})
	}
	return steps
}

// reverseOrder returns steps in reverse order of their objects. Status still comes after spec: the manager derives it from there.
func reverseOrder(steps []plan.Step) (reverse []*plan.Step) {
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

// permittedNamespace returns the namespace that a step permits to use a WorkspaceTemplate; empty if it is not such a step.
func permittedNamespace(step *plan.Step) (namespace string) {
	if step.Object.Kind == templateKind && len(step.Fields) == 1 && step.Fields[0].Element {
		_ = json.Unmarshal(step.Fields[0].After, &namespace) // It is a string.
	}
	return namespace
}

// permissionUser returns a WorkspaceTemplateApply that still needs the permission of a step after this run, because the manager renders it; empty
// if there is none, or if the step is not about a permission.
func (r *run) permissionUser(ctx context.Context, unit *plan.Unit, step *plan.Step) (user string, err error) {
	namespace := permittedNamespace(step)
	if namespace == "" {
		return "", nil
	}
	leaving := r.objectsRolledBack(unit)
	key := types.NamespacedName{Namespace: step.Object.Namespace, Name: step.Object.Name}
	err = migrate.Each(ctx, r.reads, infrav1.GroupVersion.WithKind(applyKind), namespace, func(object *unstructured.Unstructured) error {
		other := &infrav1.WorkspaceTemplateApply{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, other); err != nil {
			return err
		}
		if rendered := legacy.AwaitsProof(other) || legacy.UnadoptedWorkspace(other) == ""; rendered && other.TemplateKey() == key && !leaving[other.UID] {
			user = migrate.Ref(applyKind, other).String()
		}
		return nil
	})
	return user, err
}

// objectsRolledBack returns the UIDs of the objects of a unit, and of the units that are being rolled back at the same time.
func (r *run) objectsRolledBack(unit *plan.Unit) map[types.UID]bool {
	leaving := map[types.UID]bool{}
	selected, _ := r.selected(r.plan) // It was validated.
	for _, other := range selected {
		if other.Name() != unit.Name() && r.journal.unit(other.Name()).Phase != PhaseRollingBack {
			continue
		}
		for _, object := range other.Objects() {
			leaving[object.UID] = true
		}
	}
	return leaving
}
