// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
)

// workspaceUnclear reports whether it is not known whose the Workspace is, or whether there is none.
func (f *fleet) workspaceUnclear(o *owner) bool {
	key := f.workspaceKey(o.apply)
	switch {
	case o.apply.DeletionTimestamp != nil:
		o.ambiguous(ReasonBeingDeleted, fmt.Sprintf("WorkspaceTemplateApply %s is being deleted. %s%s", o.apply.Name, finishDeletion, orSkip), nil)
		return true
	case o.live == nil:
		return f.workspaceMissing(o, key)
	case o.live.GetDeletionTimestamp() != nil:
		o.ambiguous(ReasonBeingDeleted, fmt.Sprintf("Workspace %s is being deleted: Terraform destroys what it created. Find out who deleted it, let it finish, and plan again%s", key.Name, orSkip), nil)
		return true
	}
	if claim := claimedByAnother(o.apply, o.live); claim != "" {
		o.block(ReasonWorkspaceClaimed, fmt.Sprintf("Workspace %s was created for WorkspaceTemplateApply %s, as its annotation %s says. Correct status.workspaceName of WorkspaceTemplateApply %s, or the annotation if it is wrong, and plan again%s",
			key.Name, claim, naming.ClaimAnnotation, o.apply.Name, orSkip))
		return true
	}
	return f.workspaceShared(o, key)
}

// claimedByAnother is the WorkspaceTemplateApply for which this version of CAPT created a Workspace; empty if it is the given one, or none.
func claimedByAnother(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) string {
	claim := live.GetAnnotations()[naming.ClaimAnnotation]
	if claim == naming.Claim(client.ObjectKeyFromObject(apply)) {
		return ""
	}
	return claim
}

// workspaceShared reports whether several WorkspaceTemplateApplies refer to one Workspace, and this one does not get it: CAPT v0.3 gave
// one name to equal names in two namespaces, and to x and x-apply.
func (f *fleet) workspaceShared(o *owner, key types.NamespacedName) bool {
	claims, decided := f.claims[key], f.decided.workspaces[o.live.GetUID()].BelongsTo
	if decided == o.apply.UID || len(claims) < 2 && decided == "" {
		return false
	}
	claimedBy := func(uid types.UID) int {
		return slices.IndexFunc(claims, func(claim *infrav1.WorkspaceTemplateApply) bool { return claim.UID == uid })
	}
	if holder := claimedBy(decided); holder >= 0 {
		o.State = migrate.OwnerSkipped
		o.find(migrate.Skipped, ReasonSkipped, fmt.Sprintf("it stays as it is: Workspace %s belongs to WorkspaceTemplateApply %s, as decided", key.Name, client.ObjectKeyFromObject(claims[holder])))
		return true
	}
	if holder := f.holder(key); holder != nil && decided == "" {
		return f.lost(o, holder, key)
	}
	candidates := make([]migrate.Candidate, 0, len(claims))
	for _, claim := range claims {
		candidates = append(candidates, f.claimOn(claim, key))
	}
	problem := fmt.Sprintf("%d WorkspaceTemplateApplies refer to Workspace %s, and only one can have it", len(claims), key.Name)
	if decided != "" {
		problem = fmt.Sprintf("the decision gives Workspace %s to a WorkspaceTemplateApply that does not refer to it", key.Name)
	}
	o.ambiguous(ReasonWorkspaceShared, problem+". Decide which one with belongsTo in --decisions: the owners of the others need no decision", candidates).Workspace = o.Workspace
	return true
}

// lost reports whether another WorkspaceTemplateApply holds the Workspace of an owner. The owner has nothing then.
func (f *fleet) lost(o *owner, holder *infrav1.WorkspaceTemplateApply, key types.NamespacedName) bool {
	if holder == o.apply {
		return false
	}
	o.State, o.Workspace = migrate.NothingToAdopt, nil
	o.find(migrate.Warning, ReasonNeverBuilt, fmt.Sprintf("nothing was ever built for it: WorkspaceTemplateApply %s only has the name of Workspace %s, which status of WorkspaceTemplateApply %s records and which is rendered from it. It stays as it is. If it is not wanted, stop CAPT v0.3 before you delete it: it would delete that Workspace",
		o.apply.Name, key.Name, client.ObjectKeyFromObject(holder)))
	return true
}

// holder is the one of several WorkspaceTemplateApplies whose status records their Workspace and which renders exactly that, where the
// others only have the name, and nothing was built for their owners; nil when the evidence does not decide.
func (f *fleet) holder(key types.NamespacedName) *infrav1.WorkspaceTemplateApply {
	var holder *infrav1.WorkspaceTemplateApply
	for _, claim := range f.claims[key] {
		records := claim.Spec.WorkspaceName == key.Name || claim.Status.WorkspaceName == key.Name
		switch {
		case records && holder == nil:
			holder = claim
		case records, adoption.Unadopted(claim) == "", f.ownerBuilt(claim):
			return nil
		}
	}
	if holder == nil {
		return nil
	}
	if differences, err := f.rendered(holder, f.workspaces[key]); err != nil || len(differences) > 0 {
		return nil
	}
	return holder
}

// ownerBuilt reports whether the owner of a WorkspaceTemplateApply says that it was built.
func (f *fleet) ownerBuilt(apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.ContainsFunc(f.owners, func(o *owner) bool {
		return o.apply == apply && o.match.Claimant != nil && o.match.Claimant.Want.Built != ""
	})
}

// claimOn is one of several claims on a Workspace, with the evidence that only rendering gives.
func (f *fleet) claimOn(apply *infrav1.WorkspaceTemplateApply, key types.NamespacedName) migrate.Candidate {
	candidate := migrate.Candidate{Object: migrate.Ref(kindApply, apply)}
	if apply.Status.WorkspaceName == key.Name {
		candidate.For = append(candidate.For, "its status names the Workspace")
	} else {
		candidate.For = append(candidate.For, "its name gives the name of the Workspace")
	}
	differences, err := f.rendered(apply, f.workspaces[key])
	switch {
	case err != nil:
		candidate.Against = append(candidate.Against, "the Workspace cannot be rendered from it: "+err.Error())
	case len(differences) == 0:
		candidate.For = append(candidate.For, "the Workspace is exactly what is rendered from it")
	default:
		candidate.Against = append(candidate.Against, "the Workspace is not what is rendered from it, in "+strings.Join(fieldsOf(differences), ", "))
	}
	return candidate
}

// neverBuilt reports whether CAPT v0.3 reconciled a WorkspaceTemplateApply whose Workspace does not exist, and stopped before it created the
// Workspace. No record may say otherwise: neither its own or its owner's, nor, for a VPC, a control plane of the same Cluster.
func (f *fleet) neverBuilt(o *owner) bool {
	status, key := &o.apply.Status, f.workspaceKey(o.apply)
	recorded := o.apply.Spec.WorkspaceName != "" || status.WorkspaceName != "" || status.WorkspaceRef != nil || status.Applied == metav1.ConditionTrue
	if recorded || !adoption.LegacyFinalizer(o.apply) || f.workspaces[types.NamespacedName{Name: key.Name}] != nil {
		return false
	}
	return !slices.ContainsFunc(f.owners, func(other *owner) bool {
		sameCluster := o.cluster != "" && other.cluster == o.cluster && other.Object.Namespace == o.Object.Namespace
		return f.hasRecord(other) && (other == o || other.plane != nil && sameCluster)
	})
}

// hasRecord reports whether an owner has an endpoint or a VPC, or its WorkspaceTemplateApply a Workspace.
func (f *fleet) hasRecord(o *owner) bool {
	claimant := o.match.Claimant
	return claimant != nil && claimant.Want.Built != "" || o.apply != nil && f.workspaces[f.workspaceKey(o.apply)] != nil
}

// workspaceMissing is what to do about one whose Workspace does not exist. A helper is retained, so that its deletion waits for nothing;
// what was built once would be built again.
func (f *fleet) workspaceMissing(o *owner, key types.NamespacedName) bool {
	switch {
	case o.helper:
		o.retain = true
		return false
	case f.neverBuilt(o):
		o.State = migrate.NothingToAdopt
		o.find(migrate.Warning, ReasonNeverBuilt, fmt.Sprintf("CAPT v0.3 never created Workspace %s for WorkspaceTemplateApply %s: it stays as it is, and the manager neither builds nor deletes it. "+
			"If CAPT v0.3 still runs, wait until it has created the Workspace, and plan again. Otherwise stop CAPT v0.3, install this version, check that nothing of it exists in AWS, "+
			"and run kubectl -n %s patch workspacetemplateapply %s --type=merge -p '{\"spec\":{\"deletionPolicy\":\"Retain\"}}', then kubectl -n %s delete workspacetemplateapply %s. "+
			"Its owner, if it has one, creates another one, or names what is left to do in its condition AdoptionRequired. If status was lost when a backup was restored, restore the Workspace instead",
			key.Name, o.apply.Name, o.apply.Namespace, o.apply.Name, o.apply.Namespace, o.apply.Name))
	case o.Object.Kind == kindApply:
		o.State = migrate.NothingToAdopt
		o.find(migrate.Warning, ReasonWorkspaceNotFound, fmt.Sprintf("Workspace %s does not exist: it stays as it is, and the manager reports so. If it is not needed, stop CAPT v0.3 first, then delete it", key.Name))
	default:
		o.block(ReasonWorkspaceNotFound, fmt.Sprintf("WorkspaceTemplateApply %s is its own, but Workspace %s does not exist: the manager would have Terraform build it again. Restore the Workspace from a backup, and plan again%s",
			o.apply.Name, key.Name, orSkip))
	}
	return true
}
