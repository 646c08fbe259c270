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

package planner

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
)

// Reasons of findings.
const (
	ReasonSkipped          = "Skipped"
	ReasonBeingDeleted     = "BeingDeleted"
	ReasonSeveral          = "SeveralCandidates"
	ReasonNotFound         = "NotFound"
	ReasonNeverBuilt       = "NeverBuilt"
	ReasonWorkspaceShared  = "WorkspaceShared"
	ReasonWorkspaceMissing = "WorkspaceMissing"
	ReasonWorkspaceClaimed = "WorkspaceClaimed"
	ReasonTemplateMissing  = "TemplateMissing"
	ReasonTooManyGrants    = "TooManyGrants"
	ReasonCannotRender     = "CannotRender"
	ReasonWouldChange      = "WouldChange"
	ReasonFargateProfile   = "FargateProfile"
	// ReasonWouldDestroyLater: nothing would change now, but more would be destroyed with the owner than before.
	ReasonWouldDestroyLater = "WouldDestroyLater"
	// ReasonPendingChange: it is adopted, and was edited while the controllers were off.
	ReasonPendingChange   = "PendingChange"
	ReasonPaused          = "Paused"
	ReasonSharedTemplate  = "PermissionGranted"
	ReasonClusterEndpoint = "ClusterEndpoint"
)

// skipHint ends what can be decided by leaving something alone.
const skipHint = "or leave this one out with skip: true in --decisions"

// resolve finds out what is to be written for every owner, and what stands in the way.
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
		o.find(migrate.Skipped, ReasonSkipped, "left as it is, as decided. "+decision.Reason)
		return nil
	}
	if stop := f.unclear(o); stop {
		return nil
	}
	o.live = f.workspaces[f.workspaceKey(o.apply)]
	o.WorkspaceTemplateApply = ptr.To(migrate.Ref(kindApply, o.apply))
	if o.live != nil {
		o.Workspace = workspaceRef(o.live)
	}
	if adopted(o.apply) && o.Owner.Kind != kindApply && o.referenceInSpec() != nil {
		return f.finish(o) // Whoever refers to one that is adopted has been the manager's from then on.
	}
	if stop := f.workspaceUnclear(o); stop {
		return nil
	}
	if o.live != nil && f.gate(o) {
		if !o.helper {
			return nil
		}
		o.leaveAlone()
	}
	return f.finish(o)
}

// leaveAlone retains what a helper created, whatever the problem is: its cluster must not wait for it. The helper stays unadopted,
// so that its Workspace is not written even when its template is restored later.
func (o *owner) leaveAlone() {
	finding := &o.findings[len(o.findings)-1]
	finding.Severity, o.State, o.retain = migrate.Warning, "", true
	o.live, o.Workspace = nil, nil
}

// hint ends what stands in the way of an owner.
func (o *owner) hint() string {
	if o.helper {
		return "or leave it: the manager does not need this helper of CAPT v0.3. It only gets deletionPolicy Retain, is not adopted, and its Workspace stays as it is"
	}
	return skipHint
}

// finish writes down what to do.
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
		o.find(migrate.Warning, ReasonPaused, "it, or its Cluster, is paused: it is adopted all the same, and the manager leaves it alone until it is no longer paused")
	}
	return nil
}

// adopted tells whether a WorkspaceTemplateApply is this CAPT's already.
func adopted(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" && apply.Status.WorkspaceRef != nil && apply.Status.WorkspaceRef.UID != ""
}

// unclear tells whether it is not known which WorkspaceTemplateApply is the owner's.
func (f *fleet) unclear(o *owner) bool {
	switch {
	case !o.object.GetDeletionTimestamp().IsZero():
		o.ambiguous(ReasonBeingDeleted, "it is being deleted. Let the older manager finish that before it is frozen, "+skipHint, f.candidates(o))
	case o.match.Problem != "":
		o.ambiguous(ReasonSeveral, o.match.Problem+". Say which one is its own with take: UID in --decisions, "+skipHint, f.candidates(o))
	case f.ofProfile(o):
		o.block(ReasonFargateProfile, "it is that of a Fargate profile in spec of a CAPTControlPlane, which writes it when the manager starts, and captctl can not tell whether Terraform would run then. Take the profile out of spec until the migration is done, "+skipHint)
	case o.apply != nil:
		return false
	case o.network != nil && o.plane == nil && o.network.Spec.VPC.Template == nil:
		o.State = migrate.NothingToAdopt
	case f.built(o):
		o.block(ReasonNotFound, "it was built, but nothing speaks for any WorkspaceTemplateApply: the manager would build it a second time. Restore the WorkspaceTemplateApply from a backup, "+skipHint)
	case f.perhapsBuilt(o):
		o.ambiguous(ReasonSeveral, "there is no sign that it was ever built, but what nobody owns is made from the template that it names. Say which one is its own with take: UID in --decisions, "+skipHint, f.candidates(o))
	default:
		o.State = migrate.NothingToAdopt
		o.find(migrate.Warning, ReasonNeverBuilt, "there is no WorkspaceTemplateApply for it and no sign that it was ever built: the manager will build it when it starts")
	}
	return true
}

// ofProfile tells whether a WorkspaceTemplateApply is that of a Fargate profile that a control plane asks for. The older CAPT had none:
// people made such WorkspaceTemplateApplies by hand, and may have put the profile into spec when this CAPT served it.
func (f *fleet) ofProfile(o *owner) bool {
	if o.Owner.Kind != kindApply || o.apply.Spec.Variables[naming.ProfileVariable] == "" {
		return false
	}
	for _, other := range f.owners {
		if other.plane == nil || other.plane.Namespace != o.apply.Namespace {
			continue
		}
		for i := range other.plane.Spec.FargateProfiles {
			if meansProfile(o.apply, other.Cluster, &other.plane.Spec.FargateProfiles[i]) {
				return true
			}
		}
	}
	return false
}

func meansProfile(apply *infrav1.WorkspaceTemplateApply, cluster string, profile *controlplanev1.FargateProfile) bool {
	switch ref := profile.WorkspaceTemplateApplyRef; {
	case ref != nil:
		return ref.Name == apply.Name
	case cluster == "": // Its name will be known when its Cluster is.
		return profile.Name == apply.Spec.Variables[naming.ProfileVariable]
	}
	return adoption.OfProfile(cluster, profile).SchemeName == apply.Name
}

// perhapsBuilt looks for what would be an owner's if it said for which cluster it is: the cluster may be named in the template. The
// owner would be built a second time.
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
			o.match.Suspects = append(o.match.Suspects, adoption.Suspect{Apply: apply, For: []adoption.Evidence{adoption.SameTemplate}})
		}
	}
	return len(o.match.Suspects) > 0
}

// built tells whether there is a sign that the owner has something in the cloud.
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

// candidates are the suspects, for a person to decide among.
func (f *fleet) candidates(o *owner) []migrate.Candidate {
	candidates := make([]migrate.Candidate, 0, len(o.match.Suspects))
	for i := range o.match.Suspects {
		suspect := &o.match.Suspects[i]
		candidate := migrate.Candidate{Object: migrate.Ref(kindApply, suspect.Apply), Against: slices.Clone(suspect.Against)}
		for _, evidence := range suspect.For {
			candidate.For = append(candidate.For, string(evidence))
		}
		if live := f.workspaces[f.workspaceKey(suspect.Apply)]; live == nil {
			candidate.Against = append(candidate.Against, "its Workspace "+f.workspaceKey(suspect.Apply).Name+" does not exist")
		} else if o.live == nil {
			candidate.For = append(candidate.For, "its Workspace "+live.GetName()+" exists")
		}
		candidates = append(candidates, candidate)
	}
	return candidates
}

// workspaceUnclear tells whether it is not known whose the Workspace is, or there is none.
func (f *fleet) workspaceUnclear(o *owner) bool {
	key := f.workspaceKey(o.apply)
	switch {
	case o.live == nil:
		return f.workspaceMissing(o, key)
	case o.live.GetDeletionTimestamp() != nil:
		o.ambiguous(ReasonBeingDeleted, fmt.Sprintf("its Workspace %s is being deleted: Terraform destroys what it made. Find out who deleted it, %s", key.Name, skipHint), nil)
		return true
	case o.apply.DeletionTimestamp != nil:
		o.ambiguous(ReasonBeingDeleted, "it is being deleted. Let the older manager finish that before it is frozen, "+skipHint, nil)
		return true
	}
	if claim := o.live.GetAnnotations()[naming.ClaimAnnotation]; claim != "" && claim != naming.Claim(client.ObjectKeyFromObject(o.apply)) {
		o.block(ReasonWorkspaceClaimed, fmt.Sprintf("Workspace %s was made by this CAPT for WorkspaceTemplateApply %s. Find out whose it is, %s", key.Name, claim, skipHint))
		return true
	}
	return f.workspaceShared(o, key)
}

// workspaceShared tells whether several WorkspaceTemplateApplies mean one Workspace, and nobody decided for this one: the older
// CAPT gave one name to equal names in two namespaces, and to x and x-apply.
func (f *fleet) workspaceShared(o *owner, key types.NamespacedName) bool {
	claims := f.claims[key]
	decision := f.decided.workspaces[o.live.GetUID()]
	if decision.BelongsTo == o.apply.UID || len(claims) < 2 && decision.BelongsTo == "" {
		return false
	}
	var candidates []migrate.Candidate
	for _, claim := range claims {
		candidates = append(candidates, f.claimOn(claim, key))
	}
	if decision.BelongsTo != "" {
		o.ambiguous(ReasonWorkspaceShared, fmt.Sprintf("Workspace %s was decided to be another one's. There is none for this one: %s", key.Name, strings.TrimPrefix(skipHint, "or ")), candidates)
		return true
	}
	if o.helper {
		o.find(migrate.Warning, ReasonWorkspaceShared, fmt.Sprintf("%d WorkspaceTemplateApplies mean Workspace %s. Say whose it is with belongsTo in --decisions, %s", len(claims), key.Name, o.hint()))
		o.leaveAlone()
		return false
	}
	o.ambiguous(ReasonWorkspaceShared, fmt.Sprintf("%d WorkspaceTemplateApplies mean Workspace %s, and only one can have it. Say whose it is with belongsTo in --decisions, and leave the others out with skip: true",
		len(claims), key.Name), candidates).Workspace = o.Workspace
	return true
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
		fields := make([]string, len(differences))
		for i, difference := range differences {
			fields[i] = difference.Field
		}
		candidate.Against = append(candidate.Against, "the Workspace is not what is rendered from it, in "+strings.Join(fields, ", "))
	}
	return candidate
}

// workspaceMissing is what to do about one whose Workspace does not exist. A helper is told to leave nothing behind, so that its
// deletion waits for nobody; others would be built, which nobody asked for.
func (f *fleet) workspaceMissing(o *owner, key types.NamespacedName) bool {
	switch {
	case o.helper:
		o.retain = true
		return false
	case o.Owner.Kind == kindApply:
		o.State = migrate.NothingToAdopt
		o.find(migrate.Warning, ReasonWorkspaceMissing, fmt.Sprintf("its Workspace %s does not exist: it is left as it is, and the manager will say so. Delete it if nobody needs it", key.Name))
	default:
		o.block(ReasonWorkspaceMissing, fmt.Sprintf("WorkspaceTemplateApply %s is its own, but Workspace %s does not exist: the manager would have Terraform build it anew. Restore the Workspace from a backup if it has built something, %s",
			o.apply.Name, key.Name, skipHint))
	}
	return true
}

// findStandalone adds the WorkspaceTemplateApplies that no owner has or may have: helpers of the older CAPT, and what people made.
func (f *fleet) findStandalone() {
	spokenFor := map[types.UID]bool{}
	clusters := map[types.UID]string{}
	for _, o := range f.owners {
		clusters[o.object.GetUID()] = o.Cluster
		if o.apply != nil {
			spokenFor[o.apply.UID] = true
			continue
		}
		for _, suspect := range o.match.Suspects {
			spokenFor[suspect.Apply.UID] = true
		}
	}
	for i := range f.Applies {
		apply := &f.Applies[i]
		ours := apply.Labels[naming.TurnsLabel] != "" // This CAPT made it for a Fargate profile.
		if !spokenFor[apply.UID] && !adopted(apply) && !ours {
			f.owners = append(f.owners, standalone(apply, clusters))
		}
	}
}

// standalone is a WorkspaceTemplateApply that stands for itself, with its role.
func standalone(apply *infrav1.WorkspaceTemplateApply, clusters map[types.UID]string) *owner {
	o := &owner{object: apply, apply: apply, OwnerReport: migrate.OwnerReport{Owner: migrate.Ref(kindApply, apply), Role: "made by a person"}}
	for _, ref := range apply.OwnerReferences {
		if cluster := clusters[ref.UID]; cluster != "" {
			o.Cluster = cluster
		}
		if ref.Kind == kindControlPlane || ref.Kind == kindCAPTCluster {
			o.Role = fmt.Sprintf("of %s %s", ref.Kind, ref.Name)
		}
	}
	if helper := adoption.Helper(apply); helper != "" {
		o.Role = fmt.Sprintf("%s of %s %s", helper, kindControlPlane, metav1.GetControllerOf(apply).Name)
		o.helper, o.retain = true, helper == adoption.SpotRole
	}
	return o
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
