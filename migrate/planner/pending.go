// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/controllers/workspace/render"
	"github.com/capt-provider/capt/migrate"
)

// Pending compares every adopted Workspace with what the manager would write: one finding (PendingChange) for each that would
// change, one (CannotRender) for what could not be compared, and how many Workspaces were compared. The gate of an adoption says nothing about what is edited afterwards, while the controllers are off.
func Pending(s *migrate.Snapshot) (findings []migrate.Finding, compared int, err error) {
	f := newFleet(s, nil)
	if err := f.resolve(); err != nil {
		return nil, 0, err
	}
	findings, compared = f.pending()
	return findings, compared, nil
}

func (f *fleet) pending() (findings []migrate.Finding, compared int) {
	ofOwner := map[types.UID]bool{}
	for _, o := range f.sorted() {
		if o.live == nil || o.Owner.Kind == kindApply || !adopted(o.apply) {
			continue
		}
		ofOwner[o.apply.UID] = true
		if o.referenceInSpec() == nil { // The gate has looked at it.
			continue
		}
		found, rendered := f.pendingOf(o)
		findings, compared = append(findings, found...), compared+rendered
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		live := f.workspaces[f.workspaceKey(apply)]
		if ofOwner[apply.UID] || live == nil || !adopted(apply) || !f.inScope(apply) || apply.DeletionTimestamp != nil {
			continue
		}
		o := &owner{object: apply, apply: apply, live: live, OwnerReport: migrate.OwnerReport{Owner: migrate.Ref(kindApply, apply)}}
		found, rendered := f.pendingOf(o)
		findings, compared = append(findings, found...), compared+rendered
	}
	return findings, compared
}

// pendingOf compares one Workspace with what is rendered for it, and returns 1 if that could be rendered. The manager writes what
// the WorkspaceTemplateApply renders also when its owner cannot write it.
func (f *fleet) pendingOf(o *owner) (findings []migrate.Finding, compared int) {
	looks, unwritten := f.looks(o)
	for _, look := range looks {
		differences, err := f.rendered(look.apply, o.live)
		if err != nil {
			unwritten = cmp.Or(unwritten, err)
			continue
		}
		compared = 1
		if len(differences) > 0 {
			findings = append(findings, o.pendingChange(differences))
			break
		}
	}
	if unwritten != nil {
		findings = append(findings, migrate.Finding{
			Severity: migrate.Warning, Reason: ReasonCannotRender, Object: o.Owner, Workspace: workspaceRef(o.live),
			Message: fmt.Sprintf("Workspace %s cannot be compared with what the manager would write once this is corrected: %v. Correct it, and compare again before the manager starts",
				o.live.GetName(), unwritten),
		})
	}
	return findings, compared
}

func (o *owner) pendingChange(differences []render.Difference) migrate.Finding {
	return migrate.Finding{
		Severity: migrate.Warning, Reason: ReasonPendingChange, Object: o.Owner, Workspace: workspaceRef(o.live), Differences: differences,
		Message: fmt.Sprintf("the manager would now change Workspace %s in %s, and Terraform would run: spec or WorkspaceTemplate %s was edited. Revert the edit, or start the manager to apply it",
			o.live.GetName(), strings.Join(fieldsOf(differences), ", "), o.apply.TemplateKey()),
	}
}
