// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
)

// premises are what the render gate looked at for the units of a plan, but for what steps have preconditions for.
func (f *fleet) premises(plan *migrate.Plan) ([]migrate.Premise, error) {
	seen := map[types.UID]bool{}
	steps := slices.Clone(plan.Grants)
	for _, unit := range plan.Units {
		steps = append(steps, unit.Steps...)
	}
	for i := range steps {
		seen[steps[i].Object.UID] = seen[steps[i].Object.UID] || steps[i].Precondition.Hash != ""
	}
	var found []migrate.Premise
	for _, o := range f.sorted() {
		if len(o.steps) == 0 {
			continue
		}
		for _, object := range f.restsOn(o) {
			if seen[object.GetUID()] {
				continue
			}
			seen[object.GetUID()] = true
			premise, err := f.premise(object)
			if err != nil {
				return nil, err
			}
			found = append(found, premise)
		}
	}
	slices.SortFunc(found, func(a, b migrate.Premise) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return found, nil
}

// restsOn are the objects that decide what the manager would make of an owner's Workspace.
func (f *fleet) restsOn(o *owner) (objects []client.Object) {
	objects = append(objects, o.object, o.apply)
	if o.network != nil {
		objects = append(objects, o.network)
	}
	if template := f.templates[o.templateKey()]; template != nil && template.UID != "" {
		objects = append(objects, template)
	}
	return objects
}

func (f *fleet) premise(object client.Object) (migrate.Premise, error) {
	raw, err := f.Raw[object.GetUID()].Object()
	if err != nil {
		return migrate.Premise{}, fmt.Errorf("reading %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	hash, err := migrate.ContentHash(raw)
	return migrate.Premise{ObjectRef: migrate.Ref(raw.GetKind(), object), Hash: hash}, err
}
