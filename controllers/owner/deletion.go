// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
)

// ObserveDeletion reads what the deletion of an owner depends on. profiles are the WorkspaceTemplateApplies of its Fargate profiles. CAPT creates no
// helpers, so the cache has them all. A helper that spec refers to by mistake is not deleted.
func (r Reader) ObserveDeletion(ctx context.Context, f *Facts, owner client.Object, ref infrav1.WorkspaceTemplateApplyReference, profiles ...*infrav1.WorkspaceTemplateApply) error {
	if owner.GetDeletionTimestamp().IsZero() {
		return nil
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Cached.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the WorkspaceTemplateApplies that this object controls: %w", err)
	}
	for i := range list.Items {
		apply := &list.Items[i]
		isProfile := slices.ContainsFunc(profiles, func(profile *infrav1.WorkspaceTemplateApply) bool { return profile.UID == apply.UID })
		if metav1.IsControlledBy(apply, owner) && (!ref.IsDefined() || ref.Name != apply.Name) && !isProfile {
			f.Helpers = append(f.Helpers, *apply.DeepCopy())
		}
	}
	slices.SortFunc(f.Helpers, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })

	own := profiles
	if f.Apply != nil {
		own = append(own, f.Apply)
	}
	var conflicts []string
	for _, apply := range own {
		if conflict := validation.RetainConflict(apply, list.Items); conflict != "" {
			conflicts = append(conflicts, conflict)
		}
	}
	f.RetainConflict = strings.Join(conflicts, "; ")
	return nil
}

// nextToDelete returns the WorkspaceTemplateApplies to delete next: first the helpers, which may use resources of the owner's own
// WorkspaceTemplateApply; then the owner's own; then the helpers that the owner's own depends on. Garbage collection of the helpers would be
// a deadlock: it begins after the owner is deleted, the owner waits for its own WorkspaceTemplateApply, and that waits for the helpers.
func (f *Facts) nextToDelete() (next []*infrav1.WorkspaceTemplateApply) {
	prerequisites := f.prerequisites()
	for i := range f.Helpers {
		if !prerequisites.Has(f.Helpers[i].UID) {
			next = append(next, &f.Helpers[i])
		}
	}
	if len(next) == 0 && f.Apply != nil {
		next = append(next, f.Apply)
	}
	return next
}

// prerequisites are the helpers whose Workspaces the owner's own WorkspaceTemplateApply waits for, directly or through others.
func (f *Facts) prerequisites() sets.Set[types.UID] {
	found, needed := sets.New[types.UID](), sets.New[client.ObjectKey]()
	need := func(apply *infrav1.WorkspaceTemplateApply) {
		for _, dependency := range apply.Spec.WaitForWorkspaces {
			needed.Insert(apply.DependencyKey(dependency))
		}
	}
	if f.Apply == nil {
		return found
	}
	need(f.Apply)
	for before := -1; before < found.Len(); {
		before = found.Len()
		for i := range f.Helpers {
			helper := &f.Helpers[i]
			if needed.Has(client.ObjectKey{Namespace: helper.Namespace, Name: helper.Spec.WorkspaceName}) {
				found.Insert(helper.UID)
				need(helper)
			}
		}
	}
	return found
}

// notYetDeleted returns those of nextToDelete whose deletion was not requested yet.
func (f *Facts) notYetDeleted() []*infrav1.WorkspaceTemplateApply {
	return slices.DeleteFunc(f.nextToDelete(), func(apply *infrav1.WorkspaceTemplateApply) bool { return !apply.DeletionTimestamp.IsZero() })
}

// IsHeld reports whether something would be deleted that a Cluster uses. An owner that has nothing, such as a restored copy, is not held.
func (f *Facts) IsHeld() bool { return f.HeldBy != nil && len(f.nextToDelete()) > 0 }

// OwnIsNext reports whether the owner's own WorkspaceTemplateApply is the next one to delete, see nextToDelete.
func (f *Facts) OwnIsNext() bool {
	next := f.nextToDelete()
	return len(next) == 1 && next[0] == f.Apply
}

// waitingFor reports what each WorkspaceTemplateApply waits for that is being deleted, or is deleted next.
func (f *Facts) waitingFor() string {
	awaited := f.nextToDelete()
	if f.Apply != nil && !f.Apply.DeletionTimestamp.IsZero() && !slices.Contains(awaited, f.Apply) {
		awaited = append(awaited, f.Apply)
	}
	messages := make([]string, len(awaited))
	for i, apply := range awaited {
		messages[i] = fmt.Sprintf("waiting for WorkspaceTemplateApply %s%s", apply.Name,
			cmp.Or(causeOf(": ", conditions.Get(apply, infrav1.DeletingCondition)), " to be deleted"))
	}
	return strings.Join(messages, "; ")
}
