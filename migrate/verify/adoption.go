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

package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/migrate"
)

// adopted: everything that the plan writes is written, and still there.
func adopted(ctx context.Context, w *world, c *Check) error {
	steps := slices.Clone(w.plan.Grants)
	for _, unit := range w.plan.Units {
		steps = append(steps, unit.Steps...)
	}
	refs, byObject := []migrate.ObjectRef{}, map[string][]*migrate.Step{}
	for i := range steps {
		refs = append(refs, steps[i].Object)
		name := steps[i].Object.String()
		byObject[name] = append(byObject[name], &steps[i])
	}
	err := w.all(ctx, refs, c, func(live *unstructured.Unstructured) error {
		name := migrate.ObjectRef{Kind: live.GetKind(), Namespace: live.GetNamespace(), Name: live.GetName()}.String()
		for _, step := range byObject[name] {
			missing, err := undone(step, live)
			if err != nil {
				return err
			}
			if missing != "" {
				c.wrong(step.Object, "%s is not what the plan writes (%s)", missing, step.Why)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.conclude(len(byObject), "objects", "all have what the plan writes",
		"do not have what the plan writes, or no longer. Run \"captctl migrate apply\" again, or \"resume\"")
	return nil
}

// undone says which field does not hold what a step writes; empty when all do. An object with the hash of after the step is what
// the plan has made of it; one with another hash was changed since, which is all right as far as what was written is there.
func undone(step *migrate.Step, live *unstructured.Unstructured) (string, error) {
	if step.Precondition.After != "" {
		hash, err := migrate.ContentHash(live)
		if err != nil || hash == step.Precondition.After {
			return "", err
		}
	}
	for _, operation := range step.Patch {
		ok, err := holds(live.Object, operation)
		if err != nil {
			return "", fmt.Errorf("reading the plan, %s of %s: %w", operation.Path, step.Object, err)
		}
		if !ok {
			return operation.Path, nil
		}
	}
	return "", nil
}

// holds tells whether an object is as if an operation had just been applied to it.
func holds(object map[string]any, operation migrate.Operation) (bool, error) {
	path := strings.Split(operation.Path, "/")[1:]
	for i := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
	}
	switch operation.Op {
	case "test":
		return true, nil // It was about what was there before.
	case "remove":
		_, found := find(object, path)
		return !found, nil
	}
	var want any
	if err := json.Unmarshal(operation.Value, &want); err != nil {
		return false, err
	}
	// What was added to a list may have moved since.
	if parent, found := find(object, path[:len(path)-1]); found {
		if list, ok := parent.([]any); ok {
			return contains([]any{want}, list), nil
		}
	}
	is, found := find(object, path)
	return found && covers(want, is), nil
}

func find(content any, path []string) (any, bool) {
	for _, part := range path {
		switch parent := content.(type) {
		case map[string]any:
			child, ok := parent[part]
			if !ok {
				return nil, false
			}
			content = child
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, false
			}
			content = parent[i]
		default:
			return nil, false
		}
	}
	return content, true
}

// covers tells whether all that is wanted is there; there may be more.
func covers(want, is any) bool {
	switch want := want.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range want {
			if !covers(value, is[name]) {
				return false
			}
		}
		return true
	case []any:
		list, ok := is.([]any)
		return ok && contains(want, list)
	case float64:
		switch is := is.(type) {
		case int64:
			return want == float64(is)
		case float64:
			return want == is
		}
		return false
	}
	return reflect.DeepEqual(want, is)
}

// contains tells whether each wanted element is in a list.
func contains(want, list []any) bool {
	for _, element := range want {
		if !slices.ContainsFunc(list, func(is any) bool { return covers(element, is) }) {
			return false
		}
	}
	return true
}

// references: owner, WorkspaceTemplateApply and Workspace name each other, and are the ones that were meant.
func references(ctx context.Context, w *world, c *Check) error {
	var refs []migrate.ObjectRef
	names := map[types.UID]name{}
	for _, unit := range w.plan.Units {
		if unit.WorkspaceTemplateApply == nil {
			continue
		}
		refs = append(refs, *unit.WorkspaceTemplateApply)
		if unit.Owner.UID != unit.WorkspaceTemplateApply.UID {
			refs = append(refs, unit.Owner)
			names[unit.Owner.UID] = name{unit.WorkspaceTemplateApply.Name, []string{"spec", "workspaceTemplateApplyRef", "name"}}
		}
		if unit.Workspace != nil {
			refs = append(refs, *unit.Workspace)
			names[unit.WorkspaceTemplateApply.UID] = name{unit.Workspace.Name, []string{"spec", "workspaceName"}}
		}
	}
	err := w.all(ctx, refs, c, func(object *unstructured.Unstructured) error {
		want, ok := names[object.GetUID()]
		if is, _, _ := unstructured.NestedString(object.Object, want.path...); ok && is != want.is {
			c.wrong(migrate.Ref(object.GetKind(), object), "%s is %q, and should be %q", strings.Join(want.path, "."), is, want.is)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.conclude(sets.New(refs...).Len(), "objects", "owner, WorkspaceTemplateApply and Workspace of each unit name each other",
		"do not refer to what is theirs. Nothing of the cloud is written as long as it is so; \"captctl migrate inspect\" shows who claims what")
	return nil
}

// name is what a field must be.
type name struct {
	is   string
	path []string
}

// workspace is a Workspace by its name.
type workspace struct {
	scope           terraform.Scope
	namespace, name string
}

// oneToOne: no two WorkspaceTemplateApplies have one Workspace, and no two owners one WorkspaceTemplateApply.
func oneToOne(ctx context.Context, w *world, c *Check) error {
	applies, err := w.allApplies(ctx)
	if err != nil {
		return err
	}
	claims := map[workspace]*infrav1.WorkspaceTemplateApply{}
	for i := range applies {
		apply := &applies[i]
		claim, err := w.claim(ctx, apply)
		if err != nil {
			return err
		}
		if claim.name == "" {
			continue
		}
		if first, taken := claims[claim]; taken {
			c.wrong(migrate.Ref("WorkspaceTemplateApply", apply), "WorkspaceTemplateApply %s/%s names the same Workspace, %s", first.Namespace, first.Name, claim.name)
			continue
		}
		claims[claim] = apply
	}
	owners, err := w.owned(ctx, c)
	if err != nil {
		return err
	}
	c.conclude(len(applies)+owners, "objects", "each WorkspaceTemplateApply has a Workspace, and an owner, of its own",
		"are claimed twice. Set deletionPolicy of one to Retain before you delete it, or the Workspace goes with it")
	return nil
}

// claim is the Workspace that a WorkspaceTemplateApply names. As long as it names none, it has none that could be told.
func (w *world) claim(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (workspace, error) {
	claim := workspace{scope: terraform.ScopeNamespaced, namespace: apply.Namespace, name: apply.Spec.WorkspaceName}
	if ref := apply.Status.WorkspaceRef; ref != nil {
		if ref.APIVersion == terraform.ScopeCluster.GroupVersionKind().GroupVersion().String() {
			claim.scope = terraform.ScopeCluster
		}
	} else if template, err := w.template(ctx, apply.TemplateKey()); err != nil {
		return claim, err
	} else if template != nil {
		claim.scope = template.Spec.WorkspaceScope.OrDefault()
	}
	if claim.scope == terraform.ScopeCluster {
		claim.namespace = ""
	}
	return claim, nil
}

// owned looks for WorkspaceTemplateApplies to which two owners refer. If a person decided to leave one of them as it is, so it is.
func (w *world) owned(ctx context.Context, c *Check) (looked int, err error) {
	owners := map[types.NamespacedName]migrate.ObjectRef{}
	for _, kind := range migrate.Kinds() {
		if kind.Kind != "CAPTCluster" && kind.Kind != "CAPTControlPlane" {
			continue
		}
		err := migrate.Each(ctx, w.reader, kind.GroupVersionKind, "", func(owner *unstructured.Unstructured) error {
			looked++
			ref := migrate.Ref(kind.Kind, owner)
			for _, name := range referred(owner) {
				key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: name}
				if first, taken := owners[key]; taken {
					tell := c.wrong
					if w.left(ref.UID) || w.left(first.UID) {
						tell = c.note
					}
					tell(ref, "%s refers to the same WorkspaceTemplateApply, %s", first, name)
					continue
				}
				owners[key] = ref
			}
			return nil
		})
		if err != nil {
			return looked, err
		}
	}
	return looked, nil
}

// left tells whether a person decided to leave an owner as it is.
func (w *world) left(uid types.UID) bool {
	return slices.ContainsFunc(w.plan.Findings, func(f migrate.Finding) bool { return f.Severity == migrate.Skipped && f.Object.UID == uid })
}

// referred are the names of the WorkspaceTemplateApplies to which an owner refers, those of Fargate profiles included.
func referred(owner *unstructured.Unstructured) (names []string) {
	holders := []any{owner.Object["spec"]}
	profiles, _, _ := unstructured.NestedSlice(owner.Object, "spec", "fargateProfiles")
	for _, holder := range append(holders, profiles...) {
		if name, found := find(holder, []string{"workspaceTemplateApplyRef", "name"}); found {
			if name, ok := name.(string); ok && name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// templatesPermit: what is adopted may use its template from where it is.
func templatesPermit(ctx context.Context, w *world, c *Check) error {
	applies, err := w.allApplies(ctx)
	if err != nil {
		return err
	}
	adopted := map[types.UID]bool{}
	for _, unit := range w.plan.Units {
		// One that has no Workspace, such as a helper that never ran, needs no template, either.
		if unit.WorkspaceTemplateApply != nil && unit.Workspace != nil {
			adopted[unit.WorkspaceTemplateApply.UID] = true
		}
	}
	for i := range applies {
		apply := &applies[i]
		if !adopted[apply.UID] {
			continue
		}
		key, ref := apply.TemplateKey(), migrate.Ref("WorkspaceTemplateApply", apply)
		template, err := w.template(ctx, key)
		if err != nil {
			return err
		}
		if template == nil {
			c.wrong(ref, "its WorkspaceTemplate %s is gone", key)
			continue
		}
		permitted, err := validation.PermitsNamespace(template, apply.Namespace, func() (labels.Set, error) {
			return w.namespaceLabels(ctx, apply.Namespace)
		})
		if err != nil {
			return err
		}
		if !permitted {
			c.wrong(ref, "WorkspaceTemplate %s does not permit namespace %s in spec.allowedNamespaces", key, apply.Namespace)
		}
	}
	c.conclude(len(adopted), "adopted WorkspaceTemplateApplies", "all may use their templates", "may not use their templates; the manager will not write their Workspaces")
	return nil
}
