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

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// pausedBy is the value of the pause annotation. An object with another value was paused by the user, and stays paused. The Lease lets one run
// write at a time, so that what an earlier run left paused is this run's, too.
const pausedBy = naming.MigrationPause

// annotate writes an annotation, or removes it, unless the object was deleted or the annotation has another value.
func (r *run) annotate(ctx context.Context, object migrate.ObjectRef, name, value string, to direction) error {
	encoded, _ := json.Marshal(value) // A string can always be encoded.
	field := plan.Field{Path: "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1"), After: encoded}
	err := r.write(ctx, &plan.Step{Object: object, Fields: []plan.Field{field}}, to, &UnitResult{})
	if changed := (*changedError)(nil); errors.As(err, &changed) {
		return nil
	}
	return err
}

// whilePaused writes a unit while the manager does not reconcile its objects, so that the manager observes all of the writes or none. A unit that is
// written in part stays paused, because a manager that acts on one half could change a Workspace. started is true if an earlier run wrote some of it.
func (r *run) whilePaused(ctx context.Context, unit *plan.Unit, started bool, result *UnitResult, write func(context.Context) error) error {
	err := r.setPaused(ctx, unit, forward)
	if err == nil {
		err = write(ctx)
	}
	if err == nil {
		return r.setPaused(ctx, unit, backward)
	}
	if !started && result.Writes == 0 {
		resume, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err = errors.Join(err, r.setPaused(resume, unit, backward))
	}
	return err
}

// setPaused pauses or resumes the objects of a unit. Those that the user paused, and those that are deleted, stay as they are.
func (r *run) setPaused(ctx context.Context, unit *plan.Unit, to direction) error {
	return eachAdopted(unit, func(object migrate.ObjectRef) error {
		return r.annotate(ctx, object, clusterv1.PausedAnnotation, pausedBy, to)
	})
}

func (r *run) objectsPaused(ctx context.Context, unit *plan.Unit) (objects []string, err error) {
	err = eachAdopted(unit, func(object migrate.ObjectRef) error {
		live, err := r.read(ctx, object)
		if err == nil && live != nil && live.GetAnnotations()[clusterv1.PausedAnnotation] == pausedBy {
			objects = append(objects, object.String())
		}
		return err
	})
	return objects, err
}

// leftPaused describes how a unit that failed is left; empty if the manager reconciles all of it.
func (r *run) leftPaused(ctx context.Context, unit *plan.Unit) string {
	const until = "with annotation " + clusterv1.PausedAnnotation + "=" + pausedBy + " until the unit is applied or rolled back"
	objects, err := r.objectsPaused(ctx, unit)
	switch {
	case err != nil:
		return "Its objects may be paused " + until
	case len(objects) > 0:
		return fmt.Sprintf("Paused %s: %s", until, strings.Join(objects, ", "))
	}
	return ""
}

// eachAdopted calls do for the owners and WorkspaceTemplateApplies of a unit that are adopted, an owner before what it writes.
func eachAdopted(unit *plan.Unit, do func(migrate.ObjectRef) error) error {
	var done []migrate.ObjectRef
	for _, member := range adoptedMembers(unit) {
		for _, object := range []migrate.ObjectRef{member.Object, *cmp.Or(member.WorkspaceTemplateApply, &member.Object)} {
			if slices.Contains(done, object) {
				continue
			}
			if err := do(object); err != nil {
				return err
			}
			done = append(done, object)
		}
	}
	return nil
}

// adoptedMembers returns the members of a unit that have a Workspace and are adopted, or are to be adopted.
func adoptedMembers(unit *plan.Unit) (members []plan.Member) {
	for _, member := range unit.Members {
		if member.Workspace != nil && (member.State == migrate.Adoptable || member.State == migrate.Adopted) {
			members = append(members, member)
		}
	}
	return members
}

// unprovenError means that the plan of Terraform for a WorkspaceTemplateApply is not known to be empty.
type unprovenError struct {
	object migrate.ObjectRef
	found  infrav1.RevisionPreview
}

func (e *unprovenError) Error() string {
	return fmt.Sprintf("%s: %s", e.object, legacy.WhyNotProven(e.found))
}

// setProof requests a proof of the WorkspaceTemplateApplies that a unit adopts, before their first field is written, or ends the request.
func (r *run) setProof(ctx context.Context, unit *plan.Unit, request string, to direction) error {
	for _, member := range adoptedMembers(unit) {
		if request == "" || member.State != migrate.Adoptable {
			continue
		}
		if err := r.annotate(ctx, *cmp.Or(member.WorkspaceTemplateApply, &member.Object), naming.ProveAnnotation, request, to); err != nil {
			return err
		}
	}
	return nil
}

// undo reverts a unit that failed its proof.
func (r *run) undo(ctx context.Context, unit *plan.Unit, why *unprovenError, result *UnitResult) error {
	recorded := r.journal.unit(unit.Name())
	if err := r.rollBack(ctx, unit, result); err != nil {
		return errors.Join(why, fmt.Errorf("reverting what was written: %w", err))
	}
	result.Outcome = NotProven
	result.Message = strings.TrimSuffix(fmt.Sprintf("%s. It is not adopted, and what was written is reverted. %s", why, result.Message), " ")
	recorded.Phase, recorded.Message = PhaseRolledBack, result.Message
	r.mutex.Lock()
	r.unplannable += map[bool]int{true: 1}[why.found.Result == infrav1.PreviewUnavailable]
	r.mutex.Unlock()
	return r.journal.set(ctx, unit.Name(), recorded)
}
