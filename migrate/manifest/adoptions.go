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

package manifest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capt-provider/capt/migrate"
)

// adoptions are what a plan writes, by object.
type adoptions struct {
	objects map[schema.GroupKind]map[string][]*adopted
}

// adopted is what a plan writes into one object.
type adopted struct {
	namespace string
	fields    []adoptedField
	// allowed are the namespaces that a WorkspaceTemplate allows from now on.
	allowed []string
}

type adoptedField struct {
	path  []string
	value any
}

func adoptionsOf(plan *migrate.Plan) *adoptions {
	a := &adoptions{objects: map[schema.GroupKind]map[string][]*adopted{}}
	if plan == nil {
		return a
	}
	for _, step := range plan.Grants {
		a.step(step)
	}
	for _, unit := range plan.Units {
		apply := unit.WorkspaceTemplateApply
		if unit.Owner.Kind == "WorkspaceTemplateApply" {
			apply = &unit.Owner
		} else if apply != nil {
			a.of(unit.Owner).set([]string{"spec", "workspaceTemplateApplyRef", "name"}, apply.Name)
		}
		if apply != nil && unit.Workspace != nil {
			a.of(*apply).set([]string{"spec", "workspaceName"}, unit.Workspace.Name)
		}
		for _, step := range unit.Steps {
			a.step(step)
		}
	}
	return a
}

func (a *adoptions) of(ref migrate.ObjectRef) *adopted {
	kind := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
	if a.objects[kind] == nil {
		a.objects[kind] = map[string][]*adopted{}
	}
	for _, known := range a.objects[kind][ref.Name] {
		if known.namespace == ref.Namespace {
			return known
		}
	}
	added := &adopted{namespace: ref.Namespace}
	a.objects[kind][ref.Name] = append(a.objects[kind][ref.Name], added)
	return added
}

func (a *adopted) set(path []string, value any) {
	for i := range a.fields {
		if slices.Equal(a.fields[i].path, path) {
			a.fields[i].value = value
			return
		}
	}
	a.fields = append(a.fields, adoptedField{path, value})
}

// step takes what a step writes into spec. Status and owner references are not in manifests.
func (a *adoptions) step(step migrate.Step) {
	if step.Subresource != "" {
		return
	}
	for _, operation := range step.Patch {
		path := strings.Split(strings.TrimPrefix(operation.Path, "/"), "/")
		if path[0] != "spec" || len(path) < 2 || operation.Op != "add" && operation.Op != "replace" {
			continue
		}
		value, err := decode(operation.Value)
		if err != nil {
			continue
		}
		if path[1] == "allowedNamespaces" {
			object := a.of(step.Object)
			object.allowed = append(object.allowed, names(value)...)
			continue
		}
		a.of(step.Object).setAll(path, value)
	}
}

// setAll sets each field within a value by itself, so that what a manifest says besides stays.
func (a *adopted) setAll(path []string, value any) {
	table, ok := value.(map[string]any)
	if !ok {
		a.set(path, value)
		return
	}
	for name, inner := range table {
		a.setAll(append(slices.Clone(path), name), inner)
	}
}

// names are the texts in a value: of allowedNamespaces, of its list, or one of them.
func names(value any) []string {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var found []string
		for _, inner := range value {
			found = append(found, names(inner)...)
		}
		return found
	case map[string]any:
		return names(value["names"])
	}
	return nil
}

// find what the plan writes into an object. One that does not say its namespace is meant if its name is unique.
func (a *adoptions) find(kind schema.GroupKind, namespace, name string) (*adopted, error) {
	candidates := a.objects[kind][name]
	if namespace == "" && len(candidates) > 1 {
		var where []string
		for _, candidate := range candidates {
			where = append(where, candidate.namespace)
		}
		slices.Sort(where)
		return nil, fmt.Errorf("%s %s says no namespace, and the plan knows it in %s: nothing was filled in; say the namespace, or fill in by hand", kind.Kind, name, strings.Join(where, ", "))
	}
	for _, candidate := range candidates {
		if namespace == "" || candidate.namespace == namespace {
			return candidate, nil
		}
	}
	return nil, nil
}

// adopt fills in what the plan writes.
func (r *rewriter) adopt(d *document, o object, kind schema.GroupKind, value map[string]any) {
	metadata, _ := o.value["metadata"].(map[string]any)
	found, err := r.adoptions.find(kind, textOf(metadata["namespace"]), textOf(metadata["name"]))
	if err != nil {
		r.note(d.line(o.node), Warning, err.Error())
	}
	if found == nil {
		return
	}
	spec, ok := value["spec"].(map[string]any)
	if !ok {
		return
	}
	for _, field := range found.fields {
		r.fill(d, o, value, field)
	}
	if len(found.allowed) > 0 {
		allow(spec, found.allowed)
	}
}

// fill in one field. What leads to it must be there, but for the reference; an endpoint is repaired where a manifest has one.
func (r *rewriter) fill(d *document, o object, value map[string]any, field adoptedField) {
	table := value
	for i, name := range field.path[:len(field.path)-1] {
		inner, ok := table[name].(map[string]any)
		switch {
		case ok:
		case name == "workspaceTemplateApplyRef" && i == len(field.path)-2:
			inner = map[string]any{}
			table[name] = inner
		case name == "controlPlaneEndpoint":
			return
		default:
			r.note(d.line(o.node), Warning, fmt.Sprintf("the plan writes %s of %s, which this manifest does not lead to: fill it in by hand", strings.Join(field.path, "."), o.name()))
			return
		}
		table = inner
	}
	last := field.path[len(field.path)-1]
	if before, found := table[last]; found && before != field.value && last != "deletionPolicy" && last != "host" {
		r.note(d.line(o.node), Warning, fmt.Sprintf("%s of %s was %v; it was adopted with %v, which is what the manifest says now", strings.Join(field.path, "."), o.name(), before, field.value))
	}
	table[last] = field.value
}

// allow adds namespaces to those that a manifest allows.
func allow(spec map[string]any, namespaces []string) {
	allowed, ok := spec["allowedNamespaces"].(map[string]any)
	if !ok {
		allowed = map[string]any{}
		spec["allowedNamespaces"] = allowed
	}
	list, _ := allowed["names"].([]any)
	sorted := slices.Clone(namespaces)
	slices.Sort(sorted)
	for _, namespace := range slices.Compact(sorted) {
		if !slices.Contains(list, any(namespace)) {
			list = append(list, namespace)
		}
	}
	allowed["names"] = list
}
