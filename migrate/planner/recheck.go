// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Recheck plans one unit again from a fresh snapshot, right before it is written. The new plan must have exactly the writes that are still missing. Each
// owner must pass the render gate, even if an interrupted apply has adopted it. The error is what changed since the plan was created.
func Recheck(s *migrate.Snapshot, decisions *migrate.Decisions, unit *plan.Unit) error {
	mustPassGate := map[types.UID]bool{}
	for i := range unit.Members {
		member := &unit.Members[i]
		mustPassGate[member.Object.UID] = member.State == migrate.Adoptable && member.Workspace != nil
	}
	current, err := New(s, Options{Decisions: decisionsAbout(unit, decisions), Now: s.Taken, mustPassGate: mustPassGate})
	if err != nil {
		return fmt.Errorf("%s changed since the plan was created: %w. Create a new plan", unit.Name(), err)
	}
	if err := firstUndecided(current.FindingsOf(unit)); err != nil {
		return err
	}
	var steps []plan.Step
	for i := range current.Units {
		steps = append(steps, current.Units[i].Steps...)
	}
	planned := writesOf(steps)
	for _, write := range planned {
		if !slices.Contains(writesOf(unit.Steps), write) {
			return write.changedError("would now also")
		}
	}
	missing, err := missingWrites(s, unit.Steps)
	for _, write := range missing {
		if !slices.Contains(planned, write) {
			return write.changedError("would no longer")
		}
	}
	return err
}

// firstUndecided returns the first finding that prevents an adoption, as an error; nil if there is none.
func firstUndecided(findings []migrate.Finding) error {
	for _, finding := range findings {
		switch {
		case finding.Reason == ReasonWorkspaceDiffers && finding.Undecided(): // It names the object that changed.
			return fmt.Errorf("%s. captctl migrate check -n %s shows the differences. Create a new plan", finding.Message, finding.Object.Namespace)
		case finding.Undecided():
			return fmt.Errorf("%s changed since the plan was created (%s): %s", finding.Object, finding.Reason, finding.Message)
		}
	}
	return nil
}

// write is a field that a step writes, in a form that can be compared.
type write struct {
	object                   migrate.ObjectRef
	subresource, path, after string // All are empty for an object that is created.
}

func writesOf(steps []plan.Step) (writes []write) {
	for _, step := range steps {
		if step.Create != nil {
			writes = append(writes, write{object: step.Object})
		}
		for _, field := range step.Fields {
			writes = append(writes, write{step.Object, step.Subresource, field.Path, string(field.After)})
		}
	}
	return writes
}

// changedError returns the error that the adoption of the object would differ from the plan: verb is "would now also" or "would no longer".
func (w write) changedError(verb string) error {
	what := "write " + w.path
	if w.path == "" {
		what = "create it"
	}
	return fmt.Errorf("%s changed since the plan was created: its adoption %s %s. Create a new plan", w.object, verb, what)
}

// missingWrites returns the writes of steps that are not done.
func missingWrites(s *migrate.Snapshot, steps []plan.Step) (missing []write, err error) {
	for _, step := range steps {
		live, err := contentOf(s, step.Object)
		if step.Create != nil && live != nil {
			step.Create = nil
		}
		step.Fields = slices.DeleteFunc(slices.Clone(step.Fields), func(field plan.Field) bool {
			state, stateErr := field.State(live)
			err = cmp.Or(err, stateErr)
			return state == plan.Applied
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Object, err)
		}
		missing = append(missing, writesOf([]plan.Step{step})...)
	}
	return missing, nil
}

// Written counts the steps whose fields all have the planned values in a snapshot. A field that cannot be compared does not count.
func Written(s *migrate.Snapshot, steps []plan.Step) (written int) {
	for i := range steps {
		if missing, err := missingWrites(s, steps[i:i+1]); err == nil && len(missing) == 0 {
			written++
		}
	}
	return written
}

func contentOf(s *migrate.Snapshot, ref migrate.ObjectRef) (map[string]any, error) {
	objects := map[string][]client.Object{
		kindCAPTCluster: migrate.Objects(s.CAPTClusters), kindControlPlane: migrate.Objects(s.ControlPlanes),
		kindApply: migrate.Objects(s.Applies), kindTemplate: migrate.Objects(s.Templates), "Cluster": migrate.Objects(s.Clusters),
	}
	for _, object := range objects[ref.Kind] {
		if object.GetNamespace() == ref.Namespace && object.GetName() == ref.Name {
			return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		}
	}
	return nil, nil
}

// decisionsAbout returns decisions that reproduce the matches of a unit. Its objects may be written in part, and objects that conflict with them
// are not in the snapshot, so the evidence alone may give other matches.
func decisionsAbout(unit *plan.Unit, decisions *migrate.Decisions) *migrate.Decisions {
	made, about := byUID(decisions), &migrate.Decisions{}
	for _, member := range unit.Members {
		owner := made.owners[member.Object.UID]
		owner.UID = member.Object.UID
		switch apply := member.WorkspaceTemplateApply; {
		case member.State != migrate.Adoptable && member.State != migrate.Adopted:
			owner = migrate.OwnerDecision{UID: owner.UID, Skip: true}
		case apply != nil && apply.UID != owner.UID:
			owner.Take = apply.UID
		}
		about.Owners = append(about.Owners, owner)
		if member.Workspace == nil || owner.Skip {
			continue
		}
		if workspace, decided := made.workspaces[member.Workspace.UID]; decided {
			about.Workspaces = append(about.Workspaces, workspace)
		}
	}
	return about
}
