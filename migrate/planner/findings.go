// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Reasons of findings. docs/migration.md describes each of them. The list is stable: programs may rely on it.
const (
	ReasonSkipped                        = "Skipped"
	ReasonBeingDeleted                   = "BeingDeleted"
	ReasonMultipleCandidates             = "MultipleCandidates"
	ReasonReferenceDiffers               = "ReferenceDiffers"
	ReasonWorkspaceTemplateApplyNotFound = "WorkspaceTemplateApplyNotFound"
	ReasonNeverBuilt                     = "NeverBuilt"
	ReasonWorkspaceShared                = "WorkspaceShared"
	ReasonWorkspaceNotRecorded           = "WorkspaceNotRecorded"
	ReasonWorkspaceNotFound              = "WorkspaceNotFound"
	ReasonWorkspaceClaimed               = "WorkspaceClaimed"
	ReasonWorkspaceTemplateNotFound      = "WorkspaceTemplateNotFound"
	ReasonPermissionRequired             = "PermissionRequired"
	ReasonTooManyNamespaces              = "TooManyNamespaces"
	ReasonRenderFailed                   = "RenderFailed"
	ReasonWorkspaceDiffers               = "WorkspaceDiffers"
	ReasonPinFailed                      = "PinFailed"
	ReasonFargateProfileConflict         = "FargateProfileConflict"
	ReasonDeletionPolicyDiffers          = "DeletionPolicyDiffers"
	ReasonMachineNotAdopted              = "MachineNotAdopted"
	ReasonPendingChange                  = "PendingChange"
	ReasonPaused                         = "Paused"
	ReasonPermissionGranted              = "PermissionGranted"
	ReasonInvalidClusterEndpoint         = "InvalidClusterEndpoint"
)

// mergeConflicts merges the findings about one conflict: about owners that may have the same WorkspaceTemplateApply, or the same Workspace.
func mergeConflicts(findings []migrate.Finding) (merged []migrate.Finding) {
	shared, first := simple.NewUndirectedGraph(), map[types.UID]int64{}
	for i := range findings {
		this := int64(i)
		shared.AddNode(simple.Node(this))
		for _, uid := range conflictObjects(&findings[i]) {
			if other, seen := first[uid]; !seen {
				first[uid] = this
			} else if other != this {
				shared.SetEdge(simple.Edge{F: simple.Node(other), T: simple.Node(this)})
			}
		}
	}
	groups := topo.ConnectedComponents(shared)
	byID := func(a, b graph.Node) int { return cmp.Compare(a.ID(), b.ID()) }
	for _, group := range groups {
		slices.SortFunc(group, byID)
	}
	slices.SortFunc(groups, func(a, b []graph.Node) int { return byID(a[0], b[0]) })
	for _, group := range groups {
		into := findings[group[0].ID()]
		for _, node := range group[1:] {
			mergeInto(&into, &findings[node.ID()])
		}
		merged = append(merged, into)
	}
	return merged
}

// conflictObjects returns the UIDs of the objects of a conflict; none for other findings. Findings that share one are about the same conflict.
func conflictObjects(finding *migrate.Finding) (uids []types.UID) {
	switch {
	case finding.Severity != migrate.Ambiguous:
	case finding.Reason == ReasonWorkspaceShared:
		return []types.UID{finding.Workspace.UID}
	case finding.Reason == ReasonMultipleCandidates:
		for _, candidate := range finding.Candidates {
			uids = append(uids, candidate.Object.UID)
		}
	}
	return uids
}

// mergeInto adds a finding to another one of the same conflict. The evidence for a candidate is about one owner, so each candidate gets its owner.
func mergeInto(into, from *migrate.Finding) {
	into.AlsoAbout = append(into.AlsoAbout, from.Object)
	if into.Reason == ReasonWorkspaceShared {
		return // Evidence is about the Workspace, and the same for all owners.
	}
	if len(into.AlsoAbout) == 1 {
		setOwner(into, into.Object)
	}
	setOwner(from, from.Object)
	into.Candidates = append(into.Candidates, from.Candidates...)
	into.Message = fmt.Sprintf("%d owners may have the same WorkspaceTemplateApplies. Decide for each of them which one is its own with take: UID in --decisions, or leave it as it is with skip: true",
		len(into.AlsoAbout)+1)
}

func setOwner(finding *migrate.Finding, owner migrate.ObjectRef) {
	for i := range finding.Candidates {
		finding.Candidates[i].Owner = &owner
	}
}

func warning(reason string, object migrate.ObjectRef, format string, args ...any) migrate.Finding {
	return migrate.Finding{Severity: migrate.Warning, Reason: reason, Object: object, Message: fmt.Sprintf(format, args...)}
}

// invalidEndpoints reports Clusters whose endpoint is the URL that CAPT v0.3 wrote. The manager never writes a Cluster.
func (f *fleet) invalidEndpoints() (findings []migrate.Finding) {
	for i := range f.Clusters {
		cluster := &f.Clusters[i]
		if !f.inScope(cluster) || !strings.Contains(cluster.Spec.ControlPlaneEndpoint.Host, "://") || cluster.Spec.ControlPlaneRef.Kind != kindControlPlane {
			continue
		}
		findings = append(findings, warning(ReasonInvalidClusterEndpoint, migrate.Ref("Cluster", cluster),
			"spec.controlPlaneEndpoint.host is a URL, so clients cannot connect. Apply the plan with --fix-cluster-endpoints, or remove https:// from it"))
	}
	return findings
}

// pendingChanges compares every adopted Workspace with what the manager would write: it may have been edited since the gate of its adoption.
func (f *fleet) pendingChanges() (findings []migrate.Finding) {
	ofOwner := map[types.UID]bool{}
	for _, o := range f.ownersInScope() {
		if o.Object.Kind == kindApply || o.live == nil || !isAdopted(o.apply) {
			continue
		}
		ofOwner[o.apply.UID] = true
		if o.alreadyAdopted && o.typed.GetDeletionTimestamp() == nil { // The gate has looked at the others.
			findings = append(findings, f.pendingChangesOf(o)...)
		}
	}
	for i := range f.Applies {
		if o := f.asOwner(&f.Applies[i]); o != nil && !ofOwner[o.apply.UID] {
			findings = append(findings, f.pendingChangesOf(o)...)
		}
	}
	return findings
}

// asOwner returns an adopted WorkspaceTemplateApply as an owner, for pendingChangesOf; nil if it is not adopted, being deleted or out of scope.
func (f *fleet) asOwner(apply *infrav1.WorkspaceTemplateApply) *owner {
	live := f.workspaces[f.workspaceKey(apply)]
	if live == nil || !isAdopted(apply) || apply.DeletionTimestamp != nil || !f.inScope(apply) {
		return nil
	}
	return &owner{typed: apply, apply: apply, live: live, Member: plan.Member{Object: migrate.Ref(kindApply, apply), Workspace: ptr.To(migrate.RefOf(live))}}
}

// pendingChangesOf compares one Workspace with what is rendered for it, also when its owner cannot write the WorkspaceTemplateApply.
func (f *fleet) pendingChangesOf(o *owner) (findings []migrate.Finding) {
	variants, unwritten := f.variants(o)
	for _, variant := range variants {
		differences, err := f.differencesFrom(variant.apply, o.live)
		if err != nil {
			unwritten = cmp.Or(unwritten, err)
			continue
		}
		if len(differences) > 0 {
			source := f.editedObject(variant, differences)
			finding := warning(ReasonPendingChange, o.Object, "the manager would now change Workspace %s in %s, and Terraform would run: %s was edited. If that is intended, start the manager. %s",
				o.live.GetName(), strings.Join(fieldsOf(differences), ", "), source, f.revertAdvice(o, source, "the manager"))
			finding.Differences = differences
			findings = append(findings, finding)
			break
		}
	}
	if unwritten != nil {
		findings = append(findings, warning(ReasonRenderFailed, o.Object,
			"Workspace %s cannot be compared with what the manager would write once this is corrected: %v. Correct it, and compare again before the manager starts", o.live.GetName(), unwritten))
	}
	for i := range findings {
		findings[i].Workspace = o.Workspace
	}
	return findings
}
