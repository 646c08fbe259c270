// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
)

// orSkip ends what can also be decided by leaving something alone. It is never the only way out.
const orSkip = ", or leave this one as it is with skip: true in --decisions"

// resolve finds out what to write for every owner, and what blocks it.
func (f *fleet) resolve() error {
	for _, o := range f.owners {
		if err := f.resolveOwner(o); err != nil {
			return err
		}
	}
	f.findStandalone()
	for _, o := range f.owners {
		if o.Owner.Kind == kindApply {
			if err := f.resolveOwner(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fleet) resolveOwner(o *owner) error {
	if decision := f.decided.owners[o.object.GetUID()]; decision.Skip {
		o.State = migrate.OwnerSkipped
		o.find(migrate.Skipped, ReasonSkipped, "it stays as it is, as decided. "+decision.Reason)
		return nil
	}
	if f.blocked(o) && !o.leaveAlone() {
		return nil
	}
	return f.finish(o)
}

// blocked reports whether an owner cannot be adopted. There is a finding then, or nothing to adopt.
func (f *fleet) blocked(o *owner) bool {
	if stop := f.unclear(o); stop {
		return true
	}
	o.live = f.workspaces[f.workspaceKey(o.apply)]
	o.WorkspaceTemplateApply = ptr.To(migrate.Ref(kindApply, o.apply))
	if o.live != nil {
		o.Workspace = workspaceRef(o.live)
	}
	if adopted(o.apply) && o.Owner.Kind != kindApply && o.referenceInSpec() != nil {
		return false // From then on it has been the manager's.
	}
	return f.workspaceUnclear(o) || o.live != nil && f.gate(o)
}

// leaveAlone turns what blocks a helper of CAPT v0.3 into a warning, and reports whether it is a helper: its cluster must not wait for
// it. What it created is retained. The helper stays unadopted, so that its Workspace is not written even when its template is restored
// later. One that is being deleted is not written at all.
func (o *owner) leaveAlone() bool {
	if !o.helper || len(o.findings) == 0 {
		return false
	}
	finding := &o.findings[len(o.findings)-1]
	if finding.Severity != migrate.Skipped {
		finding.Severity = migrate.Warning
	}
	o.State, o.retain = "", true
	finding.Message += ". This blocks nothing: the manager does not need this helper of CAPT v0.3. It only gets deletionPolicy Retain, is not adopted, and its Workspace stays as it is"
	finding.Candidates, o.live, o.Workspace = nil, nil, nil
	if o.apply.DeletionTimestamp != nil {
		o.State = migrate.NothingToAdopt
		return false
	}
	return true
}

// finish plans the steps.
func (f *fleet) finish(o *owner) error {
	if err := f.adopt(o); err != nil {
		return err
	}
	if o.State == "" {
		o.State = migrate.Adopted
		if len(o.steps) > 0 {
			o.State = migrate.Adoptable
		}
	}
	if o.Paused && len(o.steps) > 0 {
		o.find(migrate.Warning, ReasonPaused, "it or its Cluster is paused: it is adopted, and the manager does not reconcile it until it is resumed. Resume it when it suits you")
	}
	return nil
}

// adopted reports whether a WorkspaceTemplateApply has been adopted, or was created by this version.
func adopted(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" && apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != ""
}

// unclear reports whether it is not known which WorkspaceTemplateApply is the owner's.
func (f *fleet) unclear(o *owner) bool {
	switch {
	case !o.object.GetDeletionTimestamp().IsZero():
		o.ambiguous(ReasonBeingDeleted, "it is being deleted. Let CAPT v0.3 finish the deletion and plan again"+orSkip, f.candidates(o))
	case o.match.Problem != "":
		o.ambiguous(ReasonSeveral, o.match.Problem+". Decide which one is its own with take: UID in --decisions"+orSkip, f.candidates(o))
	case f.ofProfile(o):
		o.block(ReasonFargateProfile, "it belongs to a Fargate profile in the spec of a CAPTControlPlane. The manager would write it, and captctl cannot tell whether Terraform would run. Remove the profile from the spec until the migration is done"+orSkip)
	case f.machineLeft(o):
	case o.apply != nil:
		return false
	case o.network != nil && o.plane == nil && o.network.Spec.VPC.Template == nil:
		o.State = migrate.NothingToAdopt
	case f.built(o):
		o.block(ReasonNotFound, "it was built, and there is no evidence for any WorkspaceTemplateApply of its namespace: the manager would build it a second time. Restore the WorkspaceTemplateApply from a backup or from Git, and plan again"+orSkip)
	case f.perhapsBuilt(o):
		o.ambiguous(ReasonSeveral, "there is no evidence that it was ever built, but WorkspaceTemplateApplies without an owner are made from its template. Decide which one is its own with take: UID in --decisions"+orSkip, f.candidates(o))
	default:
		o.State = migrate.NothingToAdopt
		o.find(migrate.Warning, ReasonNeverBuilt, "it has no WorkspaceTemplateApply, and there is no evidence that it was ever built: the manager will build it. Delete it if it is not wanted")
	}
	return true
}

// perhapsBuilt looks for WorkspaceTemplateApplies that name no cluster and may be the owner's: the template may name the cluster, and
// the owner would be built a second time.
func (f *fleet) perhapsBuilt(o *owner) bool {
	taken := map[types.UID]bool{}
	for _, other := range f.owners {
		if other.apply != nil {
			taken[other.apply.UID] = true
		}
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		if !taken[apply.UID] && apply.Namespace == o.object.GetNamespace() && o.match.Claimant.Want.Orphan(o.object, apply) {
			o.match.Candidates = append(o.match.Candidates, adoption.MatchCandidate{Apply: apply, For: []adoption.Evidence{adoption.SameTemplate}})
		}
	}
	return len(o.match.Candidates) > 0
}

// built reports whether there is evidence that the owner has something in the cloud.
func (f *fleet) built(o *owner) bool {
	name := naming.VPCWorkspaceTemplateApply(o.object.GetName())
	if o.plane != nil {
		name = naming.ControlPlaneWorkspaceTemplateApply(o.object.GetName())
	}
	if _, left := f.workspaces[types.NamespacedName{Name: naming.LegacyWorkspace(name)}]; left && len(f.claims[types.NamespacedName{Name: naming.LegacyWorkspace(name)}]) == 0 {
		return true
	}
	return o.match.Claimant.Want.Built != "" || o.referenceInSpec() != nil
}

// candidates of an owner, for a user to decide among.
func (f *fleet) candidates(o *owner) []migrate.Candidate {
	candidates := make([]migrate.Candidate, 0, len(o.match.Candidates))
	for i := range o.match.Candidates {
		match := &o.match.Candidates[i]
		candidate := migrate.Candidate{Object: migrate.Ref(kindApply, match.Apply), Against: slices.Clone(match.Against)}
		for _, evidence := range match.For {
			candidate.For = append(candidate.For, string(evidence))
		}
		if live := f.workspaces[f.workspaceKey(match.Apply)]; live == nil {
			candidate.Against = append(candidate.Against, "its Workspace "+f.workspaceKey(match.Apply).Name+" does not exist")
		} else if o.live == nil {
			candidate.For = append(candidate.For, "its Workspace "+live.GetName()+" exists")
		}
		candidates = append(candidates, candidate)
	}
	return candidates
}

func (o *owner) find(severity migrate.Severity, reason, message string) *migrate.Finding {
	o.findings = append(o.findings, migrate.Finding{Severity: severity, Reason: reason, Object: o.Owner, Message: strings.TrimSpace(message)})
	return &o.findings[len(o.findings)-1]
}

func (o *owner) ambiguous(reason, message string, candidates []migrate.Candidate) *migrate.Finding {
	o.State = migrate.OwnerAmbiguous
	finding := o.find(migrate.Ambiguous, reason, message)
	finding.Candidates = candidates
	return finding
}

func (o *owner) block(reason, message string) *migrate.Finding {
	o.State = migrate.OwnerBlocked
	return o.find(migrate.Blocked, reason, message)
}
