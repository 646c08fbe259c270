// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package applies

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// maxWaiters is the maximum number of WorkspaceTemplateApplies that the search for a cycle visits. Real chains have two or three. A longer
// cycle is admitted, but causes no damage: its objects report that they wait for each other, and nothing is created.
const maxWaiters = 500

// validateDependencies checks spec.waitForWorkspaces: a WorkspaceTemplateApply must not depend on itself, neither directly nor through
// others.
func validateDependencies(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (field.ErrorList, error) {
	path := dependenciesPath()
	name := WorkspaceName(apply, template)
	if name == "" && apply.Name != "" {
		name = naming.Workspace(terraform.ScopeNamespaced, validation.KeyOf(apply)) // The template is unknown: most templates are namespaced.
	}
	if name == "" || len(apply.Spec.WaitForWorkspaces) == 0 {
		return nil, nil
	}
	var errs field.ErrorList
	for i, dependency := range apply.Spec.WaitForWorkspaces {
		if dependency.Name == name && apply.DependencyKey(dependency).Namespace == apply.Namespace {
			errs = append(errs, validation.Invalid(path.Index(i), "Workspace %s cannot depend on itself. Remove it from the list", name))
		}
	}
	cycle, err := cycleThrough(ctx, reader, apply, name)
	if err != nil || cycle == nil {
		return errs, err
	}
	names := graph.Path(cycle, graph.Name(apply.Namespace, func(key graph.Key) string { return key.Name }))
	return append(errs, validation.Invalid(cycle[0].Field, "WorkspaceTemplateApplies cannot depend on each other: %s. Remove one of these dependencies", names)), nil
}

func dependenciesPath() *field.Path { return field.NewPath("spec", "waitForWorkspaces") }

// cycleThrough returns the shortest cycle through a WorkspaceTemplateApply; nil when there is none. name is the name of its Workspace. The
// object in the request replaces the stored version of that object.
func cycleThrough(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]graph.Edge, error) {
	g, search := graph.New(), claimants{reader: reader, checked: apply, name: name, found: map[string][]infrav1.WorkspaceTemplateApply{}}
	waiters, known := []*infrav1.WorkspaceTemplateApply{apply}, sets.New(validation.KeyOf(apply))
	for i := 0; i < len(waiters); i++ {
		for j, dependency := range waiters[i].Spec.WaitForWorkspaces {
			found, err := search.of(ctx, waiters[i].DependencyKey(dependency))
			if err != nil {
				return nil, err
			}
			for _, claimant := range found {
				if key := validation.KeyOf(claimant); !known.Has(key) {
					if len(waiters) == maxWaiters {
						continue
					}
					known.Insert(key)
					waiters = append(waiters, claimant)
				}
				g.AddEdge(graph.Edge{From: graph.NodeOf(waiters[i]).Key, To: graph.NodeOf(claimant).Key, Field: dependenciesPath().Index(j)})
			}
		}
	}
	return g.CycleThrough(graph.NodeOf(apply).Key), nil
}

// claimants finds WorkspaceTemplateApplies by the names of their Workspaces, each once.
type claimants struct {
	reader  validation.Reader
	checked *infrav1.WorkspaceTemplateApply
	// name is the name of the Workspace of checked.
	name  string
	found map[string][]infrav1.WorkspaceTemplateApply
}

// of finds the WorkspaceTemplateApplies of a namespace whose Workspace has a given name.
func (c *claimants) of(ctx context.Context, workspace types.NamespacedName) (found []*infrav1.WorkspaceTemplateApply, err error) {
	all, known := c.found[workspace.Name]
	if !known {
		if all, err = c.reader.ClaimantsOf(ctx, workspace.Name); err != nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
		c.found[workspace.Name] = all
	}
	if workspace.Name == c.name && workspace.Namespace == c.checked.Namespace {
		found = append(found, c.checked)
	}
	for i := range all {
		if all[i].Namespace == workspace.Namespace && validation.KeyOf(&all[i]) != validation.KeyOf(c.checked) {
			found = append(found, &all[i])
		}
	}
	return found, nil
}
