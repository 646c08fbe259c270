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

package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xlab/treeprint"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

func stateStyle(state string) output.Style {
	switch migrate.OwnerState(state) {
	case migrate.Adopted, migrate.Adoptable:
		return output.Good
	case migrate.OwnerAmbiguous:
		return output.Attention
	case migrate.OwnerBlocked:
		return output.Bad
	case migrate.OwnerSkipped, migrate.NothingToAdopt:
		return output.Faint
	default:
		return output.Plain
	}
}

// Inspection shows what is there: each owner on a line, and what is known about those that can not be adopted.
func Inspection(p *output.Printer, found *migrate.Inspection) {
	if len(found.Owners) == 0 {
		p.Linef("There is nothing of CAPT in %s.", namespaces(found.Namespace))
		return
	}
	var rows output.Rows
	for _, owner := range found.Owners {
		rows = append(rows, []string{
			owner.Owner.Namespace, owner.Cluster, owner.Owner.Kind, owner.Owner.Name, name(owner.WorkspaceTemplateApply), name(owner.Workspace),
			string(owner.State), strings.Join(remarks(owner), ", "), strings.Join(owner.Evidence, "; "),
		})
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Cluster"}, {Name: "Kind"}, {Name: "Owner"}, {Name: "WorkspaceTemplateApply"}, {Name: "Workspace"},
		{Name: "State", Style: stateStyle}, {Name: "Remarks"}, {Name: "Evidence", Wide: true},
	}, rows)
	p.Blank()
	p.Linef("%s: %s", count(len(found.Owners), "owner"), states(p, found))
	if found.PendingChanges > 0 {
		p.Linef("%s", p.Paint(output.Attention, fmt.Sprintf("The manager would now change %s.", count(found.PendingChanges, "Workspace"))))
	}
	Findings(p, found.Findings)
}

// remarks are what is special about an owner.
func remarks(owner migrate.OwnerReport) (all []string) {
	if owner.Role != "" {
		all = append(all, owner.Role)
	}
	if owner.Paused {
		all = append(all, "paused")
	}
	return all
}

// states counts owners.
func states(p *output.Printer, found *migrate.Inspection) string {
	var counts []string
	for _, state := range []migrate.OwnerState{
		migrate.Adopted, migrate.Adoptable, migrate.OwnerAmbiguous, migrate.OwnerBlocked, migrate.OwnerSkipped, migrate.NothingToAdopt,
	} {
		if n := found.Counts[state]; n > 0 {
			counts = append(counts, p.Paint(stateStyle(string(state)), fmt.Sprintf("%d %s", n, state)))
		}
	}
	return strings.Join(counts, ", ")
}

// Tree shows each Cluster with its owners, what is theirs, and why.
func Tree(p *output.Printer, found *migrate.Inspection) {
	var (
		tree treeprint.Tree
		last string
	)
	flush := func() {
		if tree != nil {
			p.Linef("%s", strings.TrimSuffix(tree.String(), "\n"))
		}
	}
	for _, owner := range found.Owners {
		if root := clusterOf(owner); tree == nil || root != last {
			flush()
			tree, last = treeprint.NewWithRoot(p.Paint(output.Strong, root)), root
		}
		branch(p, tree, owner, candidates(found.Findings, owner))
	}
	flush()
}

// clusterOf is what an owner is shown below.
func clusterOf(owner migrate.OwnerReport) string {
	if owner.Cluster == "" {
		return "no Cluster, in namespace " + owner.Owner.Namespace
	}
	return "Cluster " + owner.Owner.Namespace + "/" + owner.Cluster
}

func branch(p *output.Printer, tree treeprint.Tree, owner migrate.OwnerReport, others []migrate.Candidate) {
	text := p.Paint(output.Plain, owner.Owner.Kind+" "+owner.Owner.Name) + "  " + p.Paint(stateStyle(string(owner.State)), string(owner.State))
	for _, remark := range remarks(owner) {
		text += p.Paint(output.Faint, ", "+remark)
	}
	below := tree.AddBranch(text)
	if apply := owner.WorkspaceTemplateApply; apply != nil {
		if apply.UID != owner.Owner.UID {
			below = below.AddBranch(p.Paint(output.Plain, "WorkspaceTemplateApply "+apply.Name))
		}
		if owner.Workspace != nil {
			below.AddNode(p.Paint(output.Plain, "Workspace "+workspaceName(owner.Workspace)))
		}
		for _, evidence := range owner.Evidence {
			below.AddNode(p.Paint(output.Faint, "because "+evidence))
		}
	}
	for _, candidate := range others {
		maybe := below.AddBranch(p.Paint(output.Attention, "perhaps "+candidate.Object.String()))
		for _, evidence := range candidate.For {
			maybe.AddNode(p.Paint(output.Good, "for: "+evidence))
		}
		for _, evidence := range candidate.Against {
			maybe.AddNode(p.Paint(output.Bad, "against: "+evidence))
		}
	}
}

func workspaceName(ref *migrate.ObjectRef) string {
	if ref.Namespace == "" {
		return ref.Name + " (cluster-wide)"
	}
	return ref.Namespace + "/" + ref.Name
}

// candidates of an owner that is not clear.
func candidates(findings []migrate.Finding, owner migrate.OwnerReport) (found []migrate.Candidate) {
	for _, finding := range findings {
		concerns := func(ref migrate.ObjectRef) bool { return ref.UID == owner.Owner.UID }
		if !slices.ContainsFunc(finding.Objects(), concerns) {
			continue
		}
		for _, candidate := range finding.Candidates {
			if candidate.Owner == nil || concerns(*candidate.Owner) {
				found = append(found, candidate)
			}
		}
	}
	return found
}
