// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// pausedBy is the value of the pause annotation. An object with another value was paused by the user, and stays paused. The Lease lets one run
// write at a time, so that what an earlier run left paused is this run's, too.
const pausedBy = naming.MigrationPause

func pauseStep(object migrate.ObjectRef) *plan.Step {
	value, _ := json.Marshal(pausedBy) // A string can always be encoded.
	path := "/metadata/annotations/" + strings.ReplaceAll(clusterv1.PausedAnnotation, "/", "~1")
	return &plan.Step{Object: object, Why: "paused while captctl writes its Cluster", Fields: []plan.Field{{Path: path, After: value}}}
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
		err := r.write(ctx, pauseStep(object), to, &UnitResult{})
		if changed := (*changedError)(nil); errors.As(err, &changed) {
			return nil
		}
		return err
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
	done := map[migrate.ObjectRef]bool{}
	for _, member := range adoptedMembers(unit) {
		objects := []migrate.ObjectRef{member.Object}
		if member.WorkspaceTemplateApply != nil {
			objects = append(objects, *member.WorkspaceTemplateApply)
		}
		for _, object := range objects {
			if done[object] {
				continue
			}
			done[object] = true
			if err := do(object); err != nil {
				return err
			}
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
