// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
)

// Pending compares every adopted Workspace with what the manager would write: one finding for each that would change, and how many
// were compared. The gate of an adoption says nothing about what is edited afterwards, while the controllers are off.
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
		compared++
		findings = append(findings, f.pendingOf(o)...)
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		live := f.workspaces[f.workspaceKey(apply)]
		if ofOwner[apply.UID] || live == nil || !adopted(apply) || !f.inScope(apply) || apply.DeletionTimestamp != nil {
			continue
		}
		compared++
		o := &owner{object: apply, apply: apply, live: live, OwnerReport: migrate.OwnerReport{Owner: migrate.Ref(kindApply, apply)}}
		findings = append(findings, f.pendingOf(o)...)
	}
	return findings, compared
}

func (f *fleet) pendingOf(o *owner) []migrate.Finding {
	looks, err := f.looks(o)
	if err != nil {
		return nil // What cannot be rendered is not written either.
	}
	for _, look := range looks {
		differences, err := f.rendered(look.apply, o.live)
		if err != nil || len(differences) == 0 {
			continue
		}
		fields := make([]string, len(differences))
		for i := range differences {
			fields[i] = differences[i].Field
		}
		return []migrate.Finding{{
			Severity: migrate.Warning, Reason: ReasonPendingChange, Object: o.Owner, Workspace: workspaceRef(o.live), Differences: differences,
			Message: fmt.Sprintf("the manager would now change Workspace %s in %s, and Terraform would run: spec or WorkspaceTemplate %s was edited. Revert the edit, or start the manager to apply it",
				o.live.GetName(), strings.Join(fields, ", "), o.apply.TemplateKey()),
		}}
	}
	return nil
}
