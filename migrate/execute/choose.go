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
	"fmt"
	"slices"
	"strings"

	"github.com/capt-provider/capt/migrate"
)

// selection is what a rollback takes back: changes in their order, and stored objects.
type selection struct {
	work
	items []migrate.StorageItem
	// left are the objects that the plan created. captctl deletes nothing: they stay, and nothing refers to them any more.
	left []migrate.ObjectRef
}

// choose is the whole plan backwards, or what belongs to one object of it.
func choose(plan *migrate.Plan, object string) (*selection, error) {
	is, err := matcher(object)
	if err != nil {
		return nil, err
	}
	chosen := &selection{}
	for i := range slices.Backward(plan.Units) {
		u := unit{Unit: &plan.Units[i], changes: reverted(plan.Units[i].Steps)}
		if slices.ContainsFunc(u.objects(), is) {
			chosen.units = append(chosen.units, u)
			chosen.left = append(chosen.left, created(u.Unit)...)
		}
	}
	for i := range slices.Backward(plan.Grants) {
		if is(plan.Grants[i].Object) {
			chosen.grants = append(chosen.grants, back(&plan.Grants[i]))
		}
	}
	for _, item := range plan.Storage {
		belongs := func(u unit) bool { return u.has(item.ObjectRef) }
		if is(item.ObjectRef) || slices.ContainsFunc(chosen.units, belongs) {
			chosen.items = append(chosen.items, item)
		}
	}
	if object != "" && len(chosen.all())+len(chosen.items) == 0 {
		return nil, fmt.Errorf("plan %s writes no %s", plan.ID, object)
	}
	chain(chosen.inOrder())
	return chosen, nil
}

// reverted are steps backwards, without those that create something.
func reverted(steps []migrate.Step) (changes []*change) {
	for i := range slices.Backward(steps) {
		if steps[i].Create == nil {
			changes = append(changes, back(&steps[i]))
		}
	}
	return changes
}

// created are the objects that a unit creates.
func created(u *migrate.Unit) (refs []migrate.ObjectRef) {
	for i := range u.Steps {
		if u.Steps[i].Create != nil {
			refs = append(refs, u.Steps[i].Object)
		}
	}
	return refs
}

// inOrder is the order of a rollback: units before grants.
func (s *selection) inOrder() []*change {
	var changes []*change
	for _, u := range s.units {
		changes = append(changes, u.changes...)
	}
	return append(changes, s.grants...)
}

// objects are those that a unit is about.
func (u unit) objects() []migrate.ObjectRef {
	objects := []migrate.ObjectRef{u.Owner}
	if u.WorkspaceTemplateApply != nil {
		objects = append(objects, *u.WorkspaceTemplateApply)
	}
	for i := range u.Steps {
		objects = append(objects, u.Steps[i].Object)
	}
	return objects
}

func (u unit) has(ref migrate.ObjectRef) bool {
	return slices.ContainsFunc(u.objects(), func(object migrate.ObjectRef) bool { return object.UID != "" && object.UID == ref.UID })
}

// matcher tells whether an object is meant by KIND/NAMESPACE/NAME; every one is, by nothing.
func matcher(object string) (func(migrate.ObjectRef) bool, error) {
	if object == "" {
		return func(migrate.ObjectRef) bool { return true }, nil
	}
	parts := strings.Split(object, "/")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%q is not of the form KIND/NAMESPACE/NAME", object)
	}
	return func(ref migrate.ObjectRef) bool {
		return strings.EqualFold(ref.Kind, parts[0]) && ref.Namespace == parts[1] && ref.Name == parts[2]
	}, nil
}

// writtenOnce are the fields without which an older manager builds anew.
var writtenOnce = []string{"/spec/workspaceTemplateApplyRef", "/spec/workspaceName"}

// clears tells whether a change takes out what is written once.
func (c *change) clears() bool {
	return slices.ContainsFunc(c.patch, func(operation migrate.Operation) bool {
		return operation.Op == "remove" && slices.Contains(writtenOnce, operation.Path)
	})
}
