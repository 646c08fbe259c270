// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

// ObserveDeletion reads what the deletion of an owner depends on. profiles are the WorkspaceTemplateApplies of its Fargate profiles. CAPT creates no
// helpers, so the cache has them all. A helper that spec refers to by mistake is not deleted.
func (r *Reconciler) ObserveDeletion(ctx context.Context, f *Facts, owner engine.Object, ref infrav1.WorkspaceTemplateApplyReference, profiles ...*infrav1.WorkspaceTemplateApply) (err error) {
	if owner.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if f.HeldBy, err = r.HeldByUsers(ctx, owner); err != nil {
		return err
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
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
	if f.Live != nil {
		own = append(own, f.Live)
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

func (f *Facts) nextToDelete() []*infrav1.WorkspaceTemplateApply {
	return desired.NextToDelete(f.Live, f.Helpers)
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
	return len(next) == 1 && next[0] == f.Live
}

// waitingFor reports what each WorkspaceTemplateApply waits for that is being deleted, or is deleted next; nil without any.
func (f *Facts) waitingFor() *desired.Blocked {
	awaited := f.nextToDelete()
	if f.Live != nil && !f.Live.DeletionTimestamp.IsZero() && !slices.Contains(awaited, f.Live) {
		awaited = append(awaited, f.Live)
	}
	return desired.WaitingForDeletion(awaited)
}
