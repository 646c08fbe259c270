// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/migrate"
)

// checkWorkspace reports that the Workspace of an owner does not exist, is being deleted, or may belong to another WorkspaceTemplateApply.
func (f *fleet) checkWorkspace(o *owner) (blocked bool) {
	key := f.workspaceKey(o.apply)
	switch {
	case o.apply.DeletionTimestamp != nil:
		o.markAmbiguous(ReasonBeingDeleted, fmt.Sprintf("WorkspaceTemplateApply %s is being deleted. %s%s", o.apply.Name, finishDeletion, orSkip), nil)
		return true
	case o.live == nil:
		return f.checkMissing(o, key)
	case o.live.GetDeletionTimestamp() != nil:
		o.markAmbiguous(ReasonBeingDeleted, fmt.Sprintf("Workspace %s is being deleted: Terraform destroys what it created. Find out who deleted it, let it finish, and plan again%s", key.Name, orSkip), nil)
		return true
	}
	if claim := claimedByAnother(o.apply, o.live); claim != "" {
		o.markBlocked(ReasonWorkspaceClaimed, fmt.Sprintf("Workspace %s was created for WorkspaceTemplateApply %s, as its annotation %s says. Correct status.workspaceName of WorkspaceTemplateApply %s, or the annotation if it is wrong, and plan again%s",
			key.Name, claim, naming.ClaimAnnotation, o.apply.Name, orSkip))
		return true
	}
	return f.checkShared(o, key)
}

// claimedByAnother is the WorkspaceTemplateApply for which this version of CAPT created a Workspace; empty if it is the given one, or none.
func claimedByAnother(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) string {
	claim := live.GetAnnotations()[naming.ClaimAnnotation]
	if claim == naming.Claim(client.ObjectKeyFromObject(apply)) {
		return ""
	}
	return claim
}

// checkShared reports that another owner may have the Workspace. In CAPT v0.3, equal names in two namespaces, and x and x-apply, share one.
func (f *fleet) checkShared(o *owner, key types.NamespacedName) (blocked bool) {
	claims, decided := f.claims[key], f.decided.workspaces[o.live.GetUID()].BelongsTo
	if len(claims) < 2 && decided == "" {
		return f.checkRecorded(o, key)
	}
	problem := f.decisionProblem(o.live, key)
	if problem == "" && decided == o.apply.UID {
		return false
	}
	if holder := indexOfClaim(claims, decided); holder >= 0 && problem == "" {
		o.State = migrate.OwnerSkipped
		o.addFinding(migrate.Skipped, ReasonSkipped, fmt.Sprintf("it stays as it is: Workspace %s belongs to WorkspaceTemplateApply %s, as decided", key.Name, client.ObjectKeyFromObject(claims[holder])))
		return true
	}
	if holder := f.provenHolder(key); holder != nil && decided == "" {
		return f.reportSharedName(o, holder, key)
	}
	if problem == "" {
		problem = fmt.Sprintf("%d WorkspaceTemplateApplies refer to Workspace %s, and only one can have it. Decide which one with belongsTo in --decisions: the owners of the others need no decision", len(claims), key.Name)
	}
	o.markAmbiguous(ReasonWorkspaceShared, problem, f.claimCandidates(key)).Workspace = o.Workspace
	return true
}

// checkRecorded reports that nothing but text that users of any namespace can write (a name, spec, an annotation) connects a WorkspaceTemplateApply with
// its Workspace. The one that CAPT v0.3 created the Workspace for may be gone.
func (f *fleet) checkRecorded(o *owner, key types.NamespacedName) (blocked bool) {
	if isRecorded(o.apply, o.live) || render.IsClaimed(o.live, o.apply) || render.NamespaceOf(o.live) == o.apply.Namespace {
		return false
	}
	name := client.ObjectKeyFromObject(o.apply)
	o.markAmbiguous(ReasonWorkspaceNotRecorded, fmt.Sprintf("status of WorkspaceTemplateApply %s does not record Workspace %s, which writes no connection Secret to namespace %s: only names connect them, which users of any namespace can write. "+
		"If the Workspace was built for it, decide that with belongsTo: %s in --decisions. Otherwise restore the WorkspaceTemplateApply whose Workspace it is, and plan again%s",
		name, key.Name, name.Namespace, o.apply.UID, orSkip), f.claimCandidates(key)).Workspace = o.Workspace
	return true
}

// isRecorded reports whether status of a WorkspaceTemplateApply, which users cannot write, records a Workspace. CAPT v0.3 wrote the name when it had
// created the Workspace, this version the reference.
func isRecorded(apply *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured) bool {
	ref := apply.Status.WorkspaceRef
	return apply.Status.WorkspaceName == live.GetName() || ref != nil && ref.Namespace == live.GetNamespace() && ref.Name == live.GetName()
}

func indexOfClaim(claims []*infrav1.WorkspaceTemplateApply, uid types.UID) int {
	return slices.IndexFunc(claims, func(claim *infrav1.WorkspaceTemplateApply) bool { return claim.UID == uid })
}

// decisionProblem returns why the decision about a Workspace is wrong, and what to write instead; empty if it is not wrong, or there is none. With a
// wrong decision, the Workspace would be destroyed together with the wrong Cluster.
func (f *fleet) decisionProblem(live *unstructured.Unstructured, key types.NamespacedName) string {
	decision, decided := f.decided.workspaces[live.GetUID()]
	if !decided {
		return ""
	}
	instead, found, remedy := f.claims[key], "", ""
	if chosen := indexOfClaim(instead, decision.BelongsTo); chosen < 0 {
		found = f.describe(decision.BelongsTo)
	} else if found, instead = f.betterMatches(instead[chosen], live, key); found == "" {
		return ""
	} else {
		remedy = ". If the decision is right, first stop CAPT v0.3, and revert the edit of the template that the evidence shows"
	}
	write := make([]string, len(instead))
	for i, claim := range instead {
		write[i] = fmt.Sprintf("%s (WorkspaceTemplateApply %s)", claim.UID, client.ObjectKeyFromObject(claim))
	}
	return fmt.Sprintf("workspaces[uid=%s].belongsTo in --decisions is wrong for Workspace %s: %s. Write instead: belongsTo: %s%s",
		live.GetUID(), key.Name, found, strings.Join(write, ", or "), remedy)
}

// betterMatches returns WorkspaceTemplateApplies whose rendering is closer to the Workspace than the chosen one; none if that is adopted.
func (f *fleet) betterMatches(chosen *infrav1.WorkspaceTemplateApply, live *unstructured.Unstructured, key types.NamespacedName) (why string, by []*infrav1.WorkspaceTemplateApply) {
	differing := func(claim *infrav1.WorkspaceTemplateApply) (sets.Set[string], error) {
		differences, err := f.differencesFrom(claim, live)
		return sets.New(fieldsOf(differences)...), err
	}
	against, failed := differing(chosen)
	if isAdopted(chosen) || failed == nil && against.Len() == 0 {
		return "", nil
	}
	for _, claim := range f.claims[key] {
		fields, err := differing(claim)
		if err == nil && (failed != nil && fields.Len() == 0 || fields.Len() < against.Len() && against.IsSuperset(fields)) {
			by = append(by, claim)
		}
	}
	if len(by) == 0 {
		return "", nil
	}
	why = fmt.Sprintf("WorkspaceTemplateApply %s refers to it, but the Workspace differs from what is rendered from it", client.ObjectKeyFromObject(chosen))
	if failed == nil {
		why += " in " + strings.Join(sets.List(against), ", ")
	}
	return why + ", and differs less from what is rendered from another one", by
}

// unusedDecisions reports the decisions about Workspaces that no WorkspaceTemplateApply refers to: perhaps another one was meant.
func (f *fleet) unusedDecisions(decisions migrate.Decisions) (findings []migrate.Finding) {
	for _, decision := range decisions.Workspaces {
		for key, live := range f.workspaces {
			if live.GetUID() == decision.UID && len(f.claims[key]) == 0 {
				findings = append(findings, warning(ReasonWorkspaceShared, migrate.RefOf(live),
					"workspaces[uid=%s].belongsTo in --decisions has no effect: no WorkspaceTemplateApply refers to this Workspace. Remove the entry, or correct its uid", decision.UID))
			}
		}
	}
	return findings
}

func (f *fleet) describe(uid types.UID) string {
	switch ref := f.knownObjects()[uid]; ref.Kind {
	case "":
		return fmt.Sprintf("no object has UID %s", uid)
	case kindApply:
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		return fmt.Sprintf("it names %s, which refers to Workspace %s", ref, f.workspaceKey(f.applies[key]).Name)
	default:
		return fmt.Sprintf("it names %s, which is not a WorkspaceTemplateApply", ref)
	}
}

// reportSharedName reports that an owner only shares the name of a Workspace, which belongs to holder. It returns false if holder is its own.
func (f *fleet) reportSharedName(o *owner, holder *infrav1.WorkspaceTemplateApply, key types.NamespacedName) (blocked bool) {
	if holder == o.apply {
		return false
	}
	o.State, o.Workspace = migrate.NothingToAdopt, nil
	o.addFinding(migrate.Warning, ReasonNeverBuilt, fmt.Sprintf("nothing was built for it: WorkspaceTemplateApply %s only has the same name as Workspace %s, which belongs to WorkspaceTemplateApply %s. It stays as it is. If you want to delete it, first stop CAPT v0.3, which would delete that Workspace with it",
		o.apply.Name, key.Name, client.ObjectKeyFromObject(holder)))
	return true
}

// provenHolder returns the only WorkspaceTemplateApply whose status records the Workspace and that renders exactly it; nil if the evidence does not decide.
// A name in spec proves nothing: users of any namespace can write it.
func (f *fleet) provenHolder(key types.NamespacedName) *infrav1.WorkspaceTemplateApply {
	var holder *infrav1.WorkspaceTemplateApply
	for _, claim := range f.claims[key] {
		switch records := isRecorded(claim, f.workspaces[key]); {
		case records && holder == nil:
			holder = claim
		case records, legacy.UnadoptedWorkspace(claim) == "", f.ownerBuilt(claim):
			return nil
		}
	}
	if holder == nil {
		return nil
	}
	if differences, err := f.differencesFrom(holder, f.workspaces[key]); err != nil || len(differences) > 0 {
		return nil
	}
	return holder
}

// ownerBuilt reports whether a field of the owner of a WorkspaceTemplateApply shows that cloud resources were created.
func (f *fleet) ownerBuilt(apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.ContainsFunc(f.owners, func(o *owner) bool {
		return o.apply == apply && o.match.Claimant != nil && o.match.Claimant.Want.ProvisionedField != ""
	})
}

// claimCandidates returns the WorkspaceTemplateApplies that refer to a Workspace as candidates, with evidence for and against each.
func (f *fleet) claimCandidates(key types.NamespacedName) []migrate.Candidate {
	candidates := make([]migrate.Candidate, len(f.claims[key]))
	for i, apply := range f.claims[key] {
		candidate := migrate.Candidate{Object: migrate.Ref(kindApply, apply), For: []string{"the name of the Workspace is derived from its name"}}
		if apply.Spec.WorkspaceName != "" {
			candidate.For = []string{"its spec names the Workspace"}
		}
		if apply.Status.WorkspaceName == key.Name {
			candidate.For = []string{"its status names the Workspace"}
		}
		switch differences, err := f.differencesFrom(apply, f.workspaces[key]); {
		case err != nil:
			candidate.Against = []string{"the Workspace cannot be rendered from it: " + err.Error()}
		case len(differences) == 0:
			candidate.For = append(candidate.For, "the Workspace is exactly what is rendered from it")
		default:
			candidate.Against = []string{"the Workspace is not what is rendered from it, in " + strings.Join(fieldsOf(differences), ", ")}
		}
		candidates[i] = candidate
	}
	return candidates
}

// neverBuilt reports whether CAPT v0.3 stopped before it created the Workspace of an owner. It returns false if any record of the owner, or of the
// control plane of its Cluster, shows that a Workspace exists or existed.
func (f *fleet) neverBuilt(o *owner) bool {
	key := f.workspaceKey(o.apply)
	if claim.RecordsWorkspace(o.apply) || o.apply.Spec.WorkspaceName != "" || !legacy.LegacyFinalizer(o.apply) || f.workspaces[types.NamespacedName{Name: key.Name}] != nil {
		return false
	}
	return !slices.ContainsFunc(f.owners, func(other *owner) bool {
		sameCluster := o.cluster != "" && other.cluster == o.cluster && other.Object.Namespace == o.Object.Namespace
		return f.recordsWorkspace(other) && (other == o || other.controlPlane != nil && sameCluster)
	})
}

// recordsWorkspace reports whether an owner shows that cloud resources were created, or has a Workspace.
func (f *fleet) recordsWorkspace(o *owner) bool {
	claimant := o.match.Claimant
	return claimant != nil && claimant.Want.ProvisionedField != "" || o.apply != nil && f.workspaces[f.workspaceKey(o.apply)] != nil
}

// checkMissing reports that the Workspace does not exist. Without blocking a helper: that gets deletionPolicy Retain, so that it can be deleted.
func (f *fleet) checkMissing(o *owner, key types.NamespacedName) (blocked bool) {
	switch {
	case o.helper:
		o.retain = true
		return false
	case f.neverBuilt(o):
		o.State = migrate.NothingToAdopt
		o.addFinding(migrate.Warning, ReasonNeverBuilt, fmt.Sprintf("CAPT v0.3 never created Workspace %s for WorkspaceTemplateApply %s: the WorkspaceTemplateApply stays as it is, and the manager neither creates nor deletes the Workspace. "+
			"If CAPT v0.3 still runs, wait until it has created the Workspace, and plan again. Otherwise stop CAPT v0.3, install this version, check in AWS that none of its resources exist, "+
			"and run kubectl -n %s patch workspacetemplateapply %s --type=merge -p '{\"spec\":{\"deletionPolicy\":\"Retain\"}}', then kubectl -n %s delete workspacetemplateapply %s. "+
			"Its owner, if it has one, then creates a new WorkspaceTemplateApply, or reports what is left to do in its condition AdoptionRequired. If only the status was lost, because a backup was restored, restore the Workspace instead",
			key.Name, o.apply.Name, o.apply.Namespace, o.apply.Name, o.apply.Namespace, o.apply.Name))
	case o.Object.Kind == kindApply:
		o.State = migrate.NothingToAdopt
		o.addFinding(migrate.Warning, ReasonWorkspaceNotFound, fmt.Sprintf("Workspace %s does not exist: this WorkspaceTemplateApply stays as it is, and the manager reports that its Workspace is missing. If it is not needed, stop CAPT v0.3 first, then delete it", key.Name))
	default:
		o.markBlocked(ReasonWorkspaceNotFound, fmt.Sprintf("WorkspaceTemplateApply %s belongs to it, but Workspace %s does not exist: the manager would create the Workspace, and Terraform the resources, again. Restore the Workspace from a backup, and plan again%s",
			o.apply.Name, key.Name, orSkip))
	}
	return true
}
