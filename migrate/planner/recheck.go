// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"bytes"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Recheck plans one unit again from a fresh snapshot of its objects, right before it is written. What would be written now must be what the unit
// says, without what is written already, and every owner that the unit adopts must pass the render gate, also if an interrupted apply has adopted
// it. The error says what changed since the plan was made.
func Recheck(s *migrate.Snapshot, decisions *migrate.Decisions, unit *plan.Unit) error {
	gated := map[types.UID]bool{}
	for i := range unit.Members {
		member := &unit.Members[i]
		gated[member.Object.UID] = member.State == migrate.Adoptable && member.Workspace != nil
	}
	now, err := New(s, Options{Decisions: decisionsAbout(unit, decisions), Now: s.Taken, gated: gated})
	if err != nil {
		return fmt.Errorf("%s changed since the plan was made: %w. Create a new plan", unit.Name(), err)
	}
	for _, finding := range now.FindingsOf(unit) {
		switch {
		case finding.Reason == ReasonWorkspaceDiffers && finding.Undecided(): // It names the object that changed.
			return fmt.Errorf("%s. captctl migrate check -n %s shows the differences. Create a new plan", finding.Message, finding.Object.Namespace)
		case finding.Undecided():
			return fmt.Errorf("%s changed since the plan was made (%s): %s", finding.Object, finding.Reason, finding.Message)
		}
	}
	var steps []plan.Step
	for i := range now.Units {
		steps = append(steps, now.Units[i].Steps...)
	}
	if err := planned(unit, steps); err != nil {
		return err
	}
	for i := range unit.Steps {
		if err := stillPlanned(s, steps, &unit.Steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// planned fails if a step would write something that the unit does not say.
func planned(unit *plan.Unit, steps []plan.Step) error {
	for i := range steps {
		for j := range steps[i].Fields {
			if !writes(unit.Steps, &steps[i], &steps[i].Fields[j]) {
				return differs(&steps[i], "would now also write "+steps[i].Fields[j].Path)
			}
		}
		if steps[i].Create != nil && !creates(unit.Steps, &steps[i]) {
			return differs(&steps[i], "would now create it")
		}
	}
	return nil
}

// stillPlanned fails if a field of a step is not written yet, and would not be planned any more.
func stillPlanned(s *migrate.Snapshot, now []plan.Step, step *plan.Step) error {
	live, err := content(s, step.Object)
	if err != nil {
		return err
	}
	if step.Create != nil {
		if live == nil && !creates(now, step) {
			return differs(step, "would no longer create it")
		}
		return nil
	}
	for i := range step.Fields {
		field := &step.Fields[i]
		state, err := field.State(live)
		if err != nil {
			return fmt.Errorf("%s: %w", step.Object, err)
		}
		if state != plan.Applied && !writes(now, step, field) {
			return differs(step, "would no longer write "+field.Path)
		}
	}
	return nil
}

func differs(step *plan.Step, what string) error {
	return fmt.Errorf("%s changed since the plan was made: its adoption %s. Create a new plan", step.Object, what)
}

// writes reports whether one of some steps writes a field of the object of another step.
func writes(steps []plan.Step, of *plan.Step, field *plan.Field) bool {
	return slices.ContainsFunc(steps, func(step plan.Step) bool {
		return step.Object == of.Object && step.Subresource == of.Subresource && slices.ContainsFunc(step.Fields, func(known plan.Field) bool {
			return known.Path == field.Path && bytes.Equal(known.After, field.After)
		})
	})
}

// creates reports whether one of some steps creates the object of another step.
func creates(steps []plan.Step, of *plan.Step) bool {
	return slices.ContainsFunc(steps, func(step plan.Step) bool { return step.Create != nil && step.Object == of.Object })
}

// content of an object of a snapshot; nil if it does not exist.
func content(s *migrate.Snapshot, ref migrate.ObjectRef) (map[string]any, error) {
	lists := map[string]func() []client.Object{
		kindCAPTCluster:  func() []client.Object { return objectsOf(s.CAPTClusters) },
		kindControlPlane: func() []client.Object { return objectsOf(s.ControlPlanes) },
		kindApply:        func() []client.Object { return objectsOf(s.Applies) },
		kindTemplate:     func() []client.Object { return objectsOf(s.Templates) },
	}
	for _, object := range lists[ref.Kind]() {
		if object.GetNamespace() == ref.Namespace && object.GetName() == ref.Name {
			return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		}
	}
	return nil, nil
}

// decisionsAbout a unit are those that it was planned with, and what it was planned without a decision: an owner that is written in part may
// no longer match by evidence, and what stays as it is must not match because the objects that it conflicts with are not in the snapshot.
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
