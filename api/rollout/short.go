// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Earlier versions recorded the first twelve digits of hashes, in names of ControllerRevisions, and in spec and status of WorkspaceTemplateApplies. What
// they stored remains valid. A recorded value counts only if it can mean one content, and approves nothing (docs/decisions/0038).

// Store reads the ControllerRevisions of templates.
type Store struct {
	// First returns the first of some that exists; nil if none does.
	First func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error)
	// All returns those of a namespace.
	All func(namespace string) ([]appsv1.ControllerRevision, error)
}

// StoredAs returns the ControllerRevisions that a revision of a template may be stored in.
func StoredAs(template types.NamespacedName, revision string) []types.NamespacedName {
	if revision == "" {
		return nil
	}
	named := func(revision string) types.NamespacedName {
		return types.NamespacedName{Namespace: template.Namespace, Name: naming.TemplateRevision(template.Name, revision)}
	}
	return slices.Compact([]types.NamespacedName{named(revision), named(terraform.ShortRevision(revision))})
}

// hasShortName reports whether an earlier version stored a revision.
func (r *Revision) hasShortName() bool {
	return strings.HasSuffix(r.Name, naming.TemplateRevision("", terraform.ShortRevision(r.Hash)))
}

// Resolve returns the revision that a recorded value means. The first digits mean the only revision that has them, if an earlier version stored it: a later
// one may have been searched for. Otherwise the result is the value, which is then no revision of the template. The history must have the current content.
func (h History) Resolve(recorded string) string {
	if !terraform.IsShortRevision(recorded) {
		return recorded
	}
	found, storedEarlier := recorded, false
	for i := range h {
		switch {
		case terraform.ShortRevision(h[i].Hash) != recorded:
		case found != recorded && found != h[i].Hash:
			return recorded
		default:
			found, storedEarlier = h[i].Hash, storedEarlier || h[i].hasShortName()
		}
	}
	if !storedEarlier {
		return recorded
	}
	return found
}

// resolved returns a copy of a WorkspaceTemplateApply with the revisions that its fields mean.
func (h History) resolved(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	of := *apply
	for _, revision := range []*string{
		&of.Spec.TemplateRevision, &of.Status.WrittenTemplateRevision, &of.Status.TemplateRevision, &of.Status.FailedTemplateRevision,
	} {
		*revision = h.Resolve(*revision)
	}
	return &of
}

// mayHave reports whether a user has a revision, also if only its first digits are recorded, and may mean another one.
func (u *User) mayHave(revision string) bool {
	for _, recorded := range []string{u.Assigned, u.Written, u.Applied} {
		if terraform.IsRecordedAs(revision, recorded) {
			return true
		}
	}
	return false
}
