// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package legacy recognizes what CAPT v0.3 left: which objects are not adopted, and which WorkspaceTemplateApply belongs to which owner. To adopt means
// to take over a WorkspaceTemplateApply, and with it cloud resources, that CAPT v0.3 created. The decisions are pure functions of the objects.
package legacy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// UnadoptedWorkspace returns the name of the Workspace that CAPT v0.3 created for a WorkspaceTemplateApply that has not been adopted, or
// whose adoption was rolled back; empty for all others. The naming scheme of this version gives another name to the Workspace, and with it
// another Terraform state: Terraform would create a second VPC or EKS cluster. So the Workspace is neither written nor released.
//
// CAPT v0.3 never wrote spec.workspaceName, and added its own finalizer before it created anything. This version writes
// spec.workspaceName before it records a Workspace in status, so status without that name is left from a rollback.
func UnadoptedWorkspace(apply *infrav1.WorkspaceTemplateApply) string {
	legacy := LegacyFinalizer(apply)
	recorded := apply.Status.WorkspaceRef != nil || apply.Status.Applied == metav1.ConditionTrue
	switch {
	case AwaitsProof(apply):
		return apply.Spec.WorkspaceName
	case apply.Spec.WorkspaceName != "", !legacy && !recorded:
		return ""
	case apply.Status.WorkspaceName != "":
		return apply.Status.WorkspaceName
	case apply.Status.WorkspaceRef != nil:
		return apply.Status.WorkspaceRef.Name
	}
	return naming.LegacyWorkspace(apply.Name)
}

// LegacyFinalizer reports whether a WorkspaceTemplateApply has the finalizer of CAPT v0.3, so that CAPT v0.3 has reconciled it.
func LegacyFinalizer(apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.Contains(apply.Finalizers, infrav1.LegacyWorkspaceTemplateApplyFinalizer)
}

// LegacyStatus reports whether CAPT v0.3 wrote the status of an owner last. This version always sets observedGeneration, in status and in
// each condition.
func LegacyStatus(observedGeneration int64, conditions []metav1.Condition) bool {
	return observedGeneration == 0 && slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.ObservedGeneration == 0 })
}

// IsUnownedLegacy reports whether a WorkspaceTemplateApply of CAPT v0.3 has not been adopted, and no controller owns it.
func IsUnownedLegacy(apply *infrav1.WorkspaceTemplateApply) bool {
	return UnadoptedWorkspace(apply) != "" && metav1.GetControllerOf(apply) == nil
}

// helperRoles describes the helpers, which are the WorkspaceTemplateApplies that CAPT v0.3 created for a control plane in addition to the
// one for the EKS cluster. A helper has the name of the control plane and one of these suffixes.
var helperRoles = map[string]string{
	"-kubeconfig-apply": "kubeconfig helper",
	"-spot-role-check":  SpotRoleHelper,
	"-spot-role-create": SpotRoleHelper,
}

// HelperRole returns what a helper of CAPT v0.3 is for, as in "kubeconfig helper"; empty if a WorkspaceTemplateApply is not a helper. The
// control plane is the controller of its helpers.
func HelperRole(apply *infrav1.WorkspaceTemplateApply) string {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.Kind != "CAPTControlPlane" {
		return ""
	}
	return helperRole(controller.Name, apply)
}

// helperRole is HelperRole for a given control plane, whether or not that is the controller.
func helperRole(controlPlane string, apply *infrav1.WorkspaceTemplateApply) string {
	suffix, found := strings.CutPrefix(apply.Name, controlPlane)
	if !found {
		return ""
	}
	return helperRoles[suffix]
}

// SpotRoleHelper is the HelperRole of the helpers for the service-linked role of EC2 Spot. All clusters of the AWS account use that role,
// so it is never destroyed.
const SpotRoleHelper = "spot role helper"

// IsSpotRoleHelper reports whether a WorkspaceTemplateApply is a helper for the Spot role, which must be retained. A helper that was
// recreated from an exported manifest has lost its finalizers and its owner reference, so its name is sufficient: it is always safe to
// retain a role.
func IsSpotRoleHelper(apply *infrav1.WorkspaceTemplateApply) bool {
	if HelperRole(apply) == SpotRoleHelper {
		return true
	}
	if metav1.GetControllerOf(apply) != nil {
		return false
	}
	for suffix, role := range helperRoles {
		if role == SpotRoleHelper && strings.HasSuffix(apply.Name, suffix) {
			return true
		}
	}
	return false
}

// MachineOwner returns the kind and name of the machine object of CAPT v0.3 that owns a WorkspaceTemplateApply, for example
// "CaptMachine demo"; empty when none does. This version has no machine kinds.
func MachineOwner(apply *infrav1.WorkspaceTemplateApply) string {
	for _, owner := range apply.OwnerReferences {
		if strings.HasPrefix(owner.APIVersion, infrav1.GroupVersion.Group+"/") && strings.HasPrefix(owner.Kind, "CaptMachine") {
			return owner.Kind + " " + owner.Name
		}
	}
	return ""
}

// CheckAdvice is what to do for an object of CAPT v0.3. Its cloud resources exist, so it must not be recreated.
const CheckAdvice = "Correct the reference if it can still be changed, or run captctl migrate check, which shows how to decide. Do not delete this object"

// ExpectationOfCAPTCluster is that of package claim, with advice for an object of CAPT v0.3.
func ExpectationOfCAPTCluster(captCluster *infrav1.CAPTCluster, cluster string) claim.Expectation {
	want := claim.ExpectationOfCAPTCluster(captCluster, cluster)
	if LegacyStatus(captCluster.Status.ObservedGeneration, captCluster.Status.Conditions) {
		want.Advice = CheckAdvice
	}
	return want
}

// ExpectationOfControlPlane is that of package claim, with advice for an object of CAPT v0.3.
func ExpectationOfControlPlane(controlPlane *controlplanev1.CAPTControlPlane, cluster string) claim.Expectation {
	want := claim.ExpectationOfControlPlane(controlPlane, cluster)
	if LegacyStatus(controlPlane.Status.ObservedGeneration, controlPlane.Status.Conditions) {
		want.Advice = CheckAdvice
	}
	return want
}

// Evidence that a WorkspaceTemplateApply which has not been adopted may belong to an owner.
const (
	// Unowned: no controller owns it, and its template and cluster_name do not contradict the owner.
	Unowned claim.Evidence = "no controller owns it, it uses the same template, and its cluster_name matches or is empty"
	// Referred: spec of the owner names it.
	Referred claim.Evidence = "spec refers to it"
)

// Evidence returns why a WorkspaceTemplateApply that has not been adopted may belong to an owner whose spec refers to none, in addition to
// Expectation.EvidenceFor: the owner owns it, or no controller does and it uses the template of the owner or has its cluster_name.
func Evidence(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []claim.Evidence {
	switch {
	case !mayOwnUnadopted(want, owner, apply):
	case claim.Owns(owner, apply):
		return []claim.Evidence{claim.Owned}
	case metav1.GetControllerOf(apply) == nil:
		return evidenceOfUnowned(want, owner, apply)
	}
	return nil
}

// EvidenceFor returns why a WorkspaceTemplateApply, adopted or not, may belong to an owner whose spec refers to none.
func EvidenceFor(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []claim.Evidence {
	if found := want.EvidenceFor(owner, apply); len(found) > 0 {
		return found
	}
	return Evidence(want, owner, apply)
}

// evidenceOfUnowned returns the evidence for a WorkspaceTemplateApply that no controller owns: its template and its cluster_name, which CAPT v0.3
// set to the name of the Cluster or of the owner.
func evidenceOfUnowned(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) []claim.Evidence {
	ofCluster := want.HasClusterName(owner, apply)
	switch {
	case want.Template.Name != "" && want.SameTemplate(apply) && (ofCluster || apply.Spec.Variables.Text(naming.ClusterVariable) == ""):
		return []claim.Evidence{Unowned}
	case ofCluster:
		return []claim.Evidence{SameCluster}
	}
	return nil
}

// mayOwnUnadopted reports whether a WorkspaceTemplateApply that has not been adopted from CAPT v0.3 may belong to an owner. It ignores name
// and template: CAPT v0.3 did not change the WorkspaceTemplateApply when the template of its owner changed. It returns false for helpers,
// and for the WorkspaceTemplateApplies of machines and Fargate profiles.
func mayOwnUnadopted(want claim.Expectation, owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) bool {
	ofProfile := want.Variables[naming.ProfileVariable] != "" || apply.Spec.Variables.Text(naming.ProfileVariable) != ""
	return !ofProfile && UnadoptedWorkspace(apply) != "" && helperRole(owner.GetName(), apply) == "" && MachineOwner(apply) == ""
}

// IsPending reports whether an object still has to be adopted: a WorkspaceTemplateApply of CAPT v0.3, or an owner whose spec must refer
// to its WorkspaceTemplateApply first. An owner is pending until this version has written its status, because only that status confirms the
// reference. A helper, or the WorkspaceTemplateApply of a CaptMachine, is not pending if its deletionPolicy is Retain: it may remain
// unadopted as long as its owner exists. captctl migrate sets Retain on helpers that it does not adopt; users set it on others.
func IsPending(object metav1.Object) bool {
	switch object := object.(type) {
	case *infrav1.WorkspaceTemplateApply:
		retained := (HelperRole(object) != "" || MachineOwner(object) != "") && object.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain
		return !retained && (UnadoptedWorkspace(object) != "" || adoptionRequired(object.Status.Conditions))
	case *infrav1.CAPTCluster:
		provisioned := !object.Spec.WorkspaceTemplateApplyRef.IsDefined() && ExpectationOfCAPTCluster(object, "").ProvisionedField != ""
		return provisioned || ownerIsPending(object.Status.ObservedGeneration, object.Status.Conditions)
	case *controlplanev1.CAPTControlPlane:
		provisioned := !object.Spec.WorkspaceTemplateApplyRef.IsDefined() && ExpectationOfControlPlane(object, "").ProvisionedField != ""
		return provisioned || ownerIsPending(object.Status.ObservedGeneration, object.Status.Conditions)
	}
	return false
}

// NotAdopted returns why the manager writes nothing for an owner, which may be nil, and its WorkspaceTemplateApply, which may not exist; empty if the
// other rules decide.
func NotAdopted(owner metav1.Object, apply *infrav1.WorkspaceTemplateApply) string {
	if apply != nil && UnadoptedWorkspace(apply) == "" || apply == nil && !lacksRecorded(owner) {
		return ""
	}
	return notAdopted
}

const notAdopted = "CAPT v0.3 created it, and it has not been adopted; captctl migrate plan shows what an adoption changes"

// NotRestored returns why no Workspace is created for an object that was restored from Git or a backup, without the status of CAPT v0.3; empty if one is.
// There is a cluster-wide Workspace with the name that CAPT v0.3 gave and no claim, and no other WorkspaceTemplateApply has it, or may adopt it. Of other
// namespaces, only what status records counts: their users could let an object with a name in spec keep this one from its adoption, so that CAPT would
// create its resources again. read returns nil if a Workspace does not exist; list may return more than the objects that may have one of a name.
func NotRestored(apply *infrav1.WorkspaceTemplateApply, read func(scope terraform.Scope, namespace, name string) (*unstructured.Unstructured, error),
	list func(name string) ([]infrav1.WorkspaceTemplateApply, error),
) (string, error) {
	name := naming.LegacyWorkspace(apply.Name)
	live, err := read(terraform.ScopeCluster, "", name)
	if err != nil || live == nil || live.GetAnnotations()[naming.ClaimAnnotation] != "" || naming.IsPreview(live) {
		return "", err
	}
	others, err := list(name)
	if err != nil || slices.ContainsFunc(others, func(other infrav1.WorkspaceTemplateApply) bool {
		if other.Namespace != apply.Namespace {
			return RecordsClusterWide(&other, name)
		}
		return other.Name != apply.Name && (other.Spec.WorkspaceName == name || UnadoptedWorkspace(&other) == name)
	}) {
		return "", err
	}
	return notAdopted, nil
}

// RecordsClusterWide reports whether status of a WorkspaceTemplateApply records a cluster-wide Workspace.
func RecordsClusterWide(apply *infrav1.WorkspaceTemplateApply, name string) bool {
	return claim.RecordedWorkspace(apply) == types.NamespacedName{Name: name}
}

// lacksRecorded reports whether spec of an owner names the WorkspaceTemplateApply that CAPT v0.3 recorded.
func lacksRecorded(owner metav1.Object) bool {
	var ref infrav1.WorkspaceTemplateApplyReference
	var want claim.Expectation
	legacy := false
	switch owner := owner.(type) {
	case *infrav1.CAPTCluster:
		ref, want, legacy = owner.Spec.WorkspaceTemplateApplyRef, claim.ExpectationOfCAPTCluster(owner, ""), LegacyStatus(owner.Status.ObservedGeneration, owner.Status.Conditions)
	case *controlplanev1.CAPTControlPlane:
		ref, want, legacy = owner.Spec.WorkspaceTemplateApplyRef, claim.ExpectationOfControlPlane(owner, ""), LegacyStatus(owner.Status.ObservedGeneration, owner.Status.Conditions)
	}
	return legacy && owner.GetDeletionTimestamp() == nil && ref.IsDefined() && ref.Name == want.Recorded
}

// NeedsNoAdoption reports whether a helper needs no adoption: CAPT v0.3 recorded no Workspace for it, and its deletionPolicy is Retain, so
// that no cloud resources of it are destroyed.
func NeedsNoAdoption(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName == "" && !claim.RecordsWorkspace(apply) && HelperRole(apply) != "" && apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain
}

// ownerIsPending reports whether the conditions of an owner require its adoption, or CAPT v0.3 wrote its status last.
func ownerIsPending(observedGeneration int64, conditions []metav1.Condition) bool {
	return adoptionRequired(conditions) || LegacyStatus(observedGeneration, conditions)
}

// adoptionRequired reports whether the condition AdoptionRequired is True, or Unknown because a request was refused.
func adoptionRequired(conditions []metav1.Condition) bool {
	condition := meta.FindStatusCondition(conditions, infrav1.AdoptionRequiredCondition)
	return condition != nil && condition.Status != metav1.ConditionFalse
}

// AwaitsProof reports whether captctl migrate apply --prove has written the adoption of a WorkspaceTemplateApply, and not completed it. Until then the
// object counts as not adopted, for its owner as well. An object with spec.terraformState is held by its own controller.
func AwaitsProof(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" && apply.Spec.TerraformState.Name == "" && apply.Annotations[naming.ProveAnnotation] != ""
}

// ProofResult returns the result of the proof that an annotation of an object requests; empty while there is none. Without a request it is Empty.
func ProofResult(object metav1.Object, found infrav1.RevisionPreview) infrav1.PreviewResult {
	switch request := object.GetAnnotations()[naming.ProveAnnotation]; {
	case request == "":
		return infrav1.PreviewEmpty
	case found.Proof != request:
		return ""
	}
	return found.Result
}

// Evidence that only MatchFleet uses, because it requires all objects of the fleet.
const (
	// LegacyNamed: it has the fixed name that CAPT before v0.3 gave to the WorkspaceTemplateApply of every control plane.
	LegacyNamed claim.Evidence = "it has the fixed name that CAPT before v0.3 used"
	// SameTemplate: it uses the template of the owner.
	SameTemplate claim.Evidence = "it uses the template that spec refers to"
	// SameCluster: its variable cluster_name is the name of the Cluster or of the owner.
	SameCluster claim.Evidence = "its cluster_name is the name of the Cluster"
	// SameSecret: it writes the connection Secret that the owner reads.
	SameSecret claim.Evidence = "it writes the connection Secret of this object"
	// SameOutputs: its Workspace reports the endpoint or VPC of the owner. Several clusters may share an endpoint or a VPC.
	SameOutputs claim.Evidence = "its Workspace reports the endpoint or VPC that this object has"
)

// Claimant is an owner for which MatchFleet searches the WorkspaceTemplateApply.
type Claimant struct {
	// Kind of the owner.
	Kind   string
	Object metav1.Object
	Want   claim.Expectation
	// Reference is the name in spec; empty when there is none.
	Reference string
	// ConnectionSecret is the name of the connection Secret of the owner.
	ConnectionSecret string
	// Outputs are the Terraform outputs that the owner's Workspace must report, by name. Endpoints have the form host:port.
	Outputs map[string]string
	// Decided is the UID of the WorkspaceTemplateApply that the user chose for this owner; empty without a decision.
	Decided types.UID
}

// MatchCandidate is a WorkspaceTemplateApply that may belong to an owner.
type MatchCandidate struct {
	Apply *infrav1.WorkspaceTemplateApply
	// For is the evidence that it belongs to the owner.
	For []claim.Evidence
	// Against are the reasons why it may not belong to the owner, as texts for users.
	Against []string
}

// Match is the result for one owner. Either Apply is set, or Problem is the reason why the user has to decide; both are empty
// when there is no evidence for any WorkspaceTemplateApply.
type Match struct {
	Claimant *Claimant
	Apply    *infrav1.WorkspaceTemplateApply
	// Candidates are all WorkspaceTemplateApplies with evidence, the strongest first.
	Candidates []MatchCandidate
	Problem    string
	// Misreferred is the best match, if spec refers to another WorkspaceTemplateApply; else nil. A decision cannot solve this conflict.
	Misreferred *infrav1.WorkspaceTemplateApply
}

// Weights of evidence.
const (
	// weightWeak may match by chance, as the same template does.
	weightWeak = 1
	// weightStrong is the weight of an owner reference.
	weightStrong = 2
	// weightCertain is the weight of a reference in spec, of a name recorded in status, and of the same endpoint or VPC.
	weightCertain = 3
)

// weight of the strongest evidence for the candidate; see weightOf.
func (c *MatchCandidate) weight() int { return weightOf(c.For) }

// weightOf returns the weight of the strongest evidence; 0 if there is none.
func weightOf(found []claim.Evidence) int {
	weight := 0
	for _, evidence := range found {
		switch evidence {
		case Referred, claim.Recorded, SameOutputs:
			return weightCertain
		case claim.Owned:
			weight = weightStrong
		default:
			weight = max(weight, weightWeak)
		}
	}
	return weight
}

// conclusive reports whether the evidence is sufficient for adoption: there is no reason against the candidate, and the evidence is at least
// strong, or both template and cluster_name match.
func (c *MatchCandidate) conclusive() bool {
	return len(c.Against) == 0 && (c.weight() >= weightStrong || c.has(SameTemplate) && c.has(SameCluster))
}

func (c *MatchCandidate) has(evidence claim.Evidence) bool { return slices.Contains(c.For, evidence) }

// allEvidenceAgrees reports whether the owner reference, spec and status all confirm a candidate, and its Workspace does not report an
// endpoint or VPC that differs from the owner's.
func (x *index) allEvidenceAgrees(c *MatchCandidate) bool {
	specAgrees := c.has(Referred) || c.has(SameTemplate) && (c.has(claim.Named) || c.has(LegacyNamed) || c.has(SameCluster))
	sameOutputs := c.has(SameOutputs) || len(x.outputs[c.Apply.UID]) == 0
	return len(c.Against) == 0 && c.has(claim.Owned) && specAgrees && sameOutputs && c.Apply.Status.WorkspaceName != ""
}

// onlySharesOutputs reports whether an endpoint or VPC is the only strong evidence, and there is a reason against the candidate.
func (c *MatchCandidate) onlySharesOutputs() bool {
	others := slices.DeleteFunc(slices.Clone(c.For), func(evidence claim.Evidence) bool { return evidence == SameOutputs })
	return c.has(SameOutputs) && len(c.Against) > 0 && weightOf(others) < weightStrong
}

// MatchFleet finds the WorkspaceTemplateApply of each owner of a fleet. A WorkspaceTemplateApply is assigned to one owner at most: if
// two owners match the same one, neither gets it. outputs are the Terraform outputs that a Workspace reports, by the UID of its
// WorkspaceTemplateApply; a missing entry means that the Workspace does not exist.
func MatchFleet(claimants []Claimant, applies []infrav1.WorkspaceTemplateApply, outputs map[types.UID]map[string]string) []Match {
	index := newIndex(applies, outputs)
	matches := make([]Match, len(claimants))
	for i := range claimants {
		matches[i] = index.match(&claimants[i])
	}
	resolveConflicts(matches)
	return matches
}

// resolveConflicts removes a WorkspaceTemplateApply that several owners claim from all of them, except from the one that the user chose.
func resolveConflicts(matches []Match) {
	claims := map[types.UID][]*Match{}
	for i := range matches {
		for j := range matches[i].Candidates {
			candidate := &matches[i].Candidates[j]
			if matches[i].has(candidate.Apply.UID) || candidate.weight() >= weightStrong {
				claims[candidate.Apply.UID] = append(claims[candidate.Apply.UID], &matches[i])
			}
		}
	}
	for uid, claimed := range claims {
		chosen := matchDecidedFor(uid, claimed)
		for i, match := range claimed {
			if len(claimed) < 2 || !match.has(uid) || match == chosen {
				continue
			}
			other := claimed[(i+1)%len(claimed)].Claimant
			match.Problem = fmt.Sprintf("%s and %s both claim WorkspaceTemplateApply %s", match.Claimant, other, match.Apply.Name)
		}
	}
	for i := range matches {
		if matches[i].Problem != "" {
			matches[i].Apply = nil
		}
	}
}

// matchDecidedFor returns the match of the owner for which the user chose a WorkspaceTemplateApply; nil if the user chose it for no owner,
// or for several.
func matchDecidedFor(uid types.UID, claimed []*Match) *Match {
	named := slices.DeleteFunc(slices.Clone(claimed), func(match *Match) bool { return match.Claimant.Decided != uid })
	if len(named) != 1 {
		return nil
	}
	return named[0]
}

func (m *Match) has(uid types.UID) bool { return m.Apply != nil && m.Apply.UID == uid }

// String returns the kind and name of the owner.
func (c *Claimant) String() string { return c.Kind + " " + c.Object.GetName() }

// match chooses among the candidates of an owner. It does not know the choices of other owners.
func (x *index) match(claimant *Claimant) Match {
	match := Match{Claimant: claimant, Candidates: x.candidates(claimant)}
	if claimant.Decided != "" {
		match.chooseDecided()
	} else {
		match.Candidates = x.withoutUnprovisioned(x.withoutShared(match.Candidates))
		match.choose()
	}
	if match.Apply != nil && claimant.Reference != "" && match.Apply.Name != claimant.Reference {
		// The reference is immutable: the manager would use, or create, the WorkspaceTemplateApply that it names.
		match.Problem = fmt.Sprintf("spec refers to WorkspaceTemplateApply %s, but the best match is %s", claimant.Reference, match.Apply.Name)
		match.Apply, match.Misreferred = nil, match.Apply
	}
	return match
}

// withoutShared drops candidates that only share an endpoint or VPC with the owner, if all evidence agrees on another candidate.
func (x *index) withoutShared(candidates []MatchCandidate) []MatchCandidate {
	if !slices.ContainsFunc(candidates, func(c MatchCandidate) bool { return x.allEvidenceAgrees(&c) }) {
		return candidates
	}
	return slices.DeleteFunc(candidates, func(c MatchCandidate) bool { return c.onlySharesOutputs() })
}

// withoutUnprovisioned drops candidates for which CAPT v0.3 never created a Workspace, if the best candidate is conclusive and has one. The
// manager does not create Workspaces for those that are dropped, because they have the finalizer of CAPT v0.3.
func (x *index) withoutUnprovisioned(candidates []MatchCandidate) []MatchCandidate {
	if len(candidates) < 2 || !candidates[0].conclusive() || !x.hasWorkspace(candidates[0].Apply) || candidates[0].Apply.Status.WorkspaceName == "" {
		return candidates
	}
	return slices.DeleteFunc(candidates, func(c MatchCandidate) bool {
		return !c.has(Referred) && UnadoptedWorkspace(c.Apply) != "" && c.Apply.Status.WorkspaceName == "" && !x.hasWorkspace(c.Apply)
	})
}

// chooseDecided selects the candidate that the user chose, regardless of the evidence, unless it is being deleted or has another
// controller.
func (m *Match) chooseDecided() {
	for i := range m.Candidates {
		switch candidate := &m.Candidates[i]; {
		case candidate.Apply.UID != m.Claimant.Decided:
		case !candidate.Apply.DeletionTimestamp.IsZero(), claim.OtherController(m.Claimant.Object, candidate.Apply) != nil:
			m.Problem = fmt.Sprintf("the decision names WorkspaceTemplateApply %s, but %s", candidate.Apply.Name, strings.Join(candidate.Against, ", "))
			return
		default:
			m.Apply = candidate.Apply
			return
		}
	}
	m.Problem = fmt.Sprintf("the decision names UID %s, but no WorkspaceTemplateApply of the namespace has this UID", m.Claimant.Decided)
}

// choose selects the best candidate, if its evidence is conclusive and clearly stronger than the evidence for the second best.
func (m *Match) choose() {
	if len(m.Candidates) == 0 {
		return
	}
	best := &m.Candidates[0]
	switch {
	case !best.conclusive():
		m.Problem = fmt.Sprintf("the evidence for WorkspaceTemplateApply %s is not sufficient", best.Apply.Name)
		if len(best.Against) > 0 {
			m.Problem = fmt.Sprintf("WorkspaceTemplateApply %s is the best match, but %s", best.Apply.Name, strings.Join(best.Against, ", and "))
		}
		return
	case len(m.Candidates) == 1:
		m.Apply = best.Apply
		return
	}
	second := &m.Candidates[1]
	if second.weight() >= weightStrong || best.weight() < weightCertain {
		m.Problem = fmt.Sprintf("there is evidence for both WorkspaceTemplateApply %s and %s", best.Apply.Name, second.Apply.Name)
		return
	}
	m.Apply = best.Apply
}

// index finds the candidates of an owner without comparing it with every WorkspaceTemplateApply.
type index struct {
	// outputs are those of MatchFleet.
	outputs map[types.UID]map[string]string
	// by has the WorkspaceTemplateApplies by their keys, see keys.
	by map[string][]*infrav1.WorkspaceTemplateApply
}

func newIndex(applies []infrav1.WorkspaceTemplateApply, outputs map[types.UID]map[string]string) *index {
	x := &index{outputs: outputs, by: map[string][]*infrav1.WorkspaceTemplateApply{}}
	for i := range applies {
		apply := &applies[i]
		for _, key := range x.keys(apply) {
			x.by[key] = append(x.by[key], apply)
		}
	}
	return x
}

// keys returns the keys of a WorkspaceTemplateApply in the index. They begin with the namespace: owners have candidates only in their own.
func (x *index) keys(apply *infrav1.WorkspaceTemplateApply) []string {
	keys := []string{"name/" + apply.Name, "uid/" + string(apply.UID)}
	for _, owner := range apply.OwnerReferences {
		keys = append(keys, "owner/"+string(owner.UID))
	}
	if cluster := apply.Spec.Variables.Text(naming.ClusterVariable); cluster != "" {
		keys = append(keys, "cluster/"+apply.TemplateKey().String()+"/"+cluster)
	}
	if ref := apply.Spec.WriteConnectionSecretToRef; ref != nil {
		keys = append(keys, "secret/"+ref.Name)
	}
	for name, value := range x.outputs[apply.UID] {
		keys = append(keys, "output/"+name+"="+value)
	}
	for i := range keys {
		keys[i] = apply.Namespace + "/" + keys[i]
	}
	return keys
}

func (x *index) hasWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	_, exists := x.outputs[apply.UID]
	return exists
}

// candidates returns the candidates of an owner, the strongest first.
func (x *index) candidates(claimant *Claimant) []MatchCandidate {
	want, namespace := claimant.Want, claimant.Object.GetNamespace()
	keys := []string{
		"name/" + claimant.Reference, "name/" + want.Recorded, "name/" + want.SchemeName, "name/" + naming.LegacyFixedApply,
		"owner/" + string(claimant.Object.GetUID()), "secret/" + claimant.ConnectionSecret,
		"cluster/" + want.Template.Key(namespace).String() + "/" + want.Variables[naming.ClusterVariable],
		"cluster/" + want.Template.Key(namespace).String() + "/" + claimant.Object.GetName(),
	}
	for name, value := range claimant.Outputs {
		keys = append(keys, "output/"+name+"="+value)
	}
	if claimant.Decided != "" {
		keys = append(keys, "uid/"+string(claimant.Decided))
	}
	seen := map[types.UID]bool{}
	var found []MatchCandidate
	for _, key := range keys {
		for _, apply := range x.by[namespace+"/"+key] {
			if seen[apply.UID] {
				continue
			}
			seen[apply.UID] = true
			if candidate, ok := x.examine(claimant, apply); ok {
				found = append(found, candidate)
			}
		}
	}
	slices.SortFunc(found, func(a, b MatchCandidate) int {
		if a.weight() != b.weight() {
			return b.weight() - a.weight()
		}
		if a.conclusive() != b.conclusive() {
			if a.conclusive() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Apply.Name, b.Apply.Name)
	})
	return found
}

// examine collects the evidence for and against a WorkspaceTemplateApply. It returns false if that is not a candidate: it is a helper of
// CAPT v0.3, or it belongs to a Fargate profile, or to another cluster with the same name or template.
func (x *index) examine(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (MatchCandidate, bool) {
	want := claimant.Want
	referred := claimant.Reference != "" && apply.Name == claimant.Reference
	explicit := referred || want.Records(apply) || apply.UID == claimant.Decided
	if !explicit && (helperRole(claimant.Object.GetName(), apply) != "" || apply.Spec.Variables.Text(naming.ProfileVariable) != "") {
		return MatchCandidate{}, false
	}
	candidate := MatchCandidate{Apply: apply, For: x.evidenceFor(claimant, apply, referred), Against: evidenceAgainst(claimant, apply)}
	if len(candidate.For) == 0 || len(candidate.Against) > 0 && candidate.weight() < weightStrong && !candidate.has(claim.Named) {
		return candidate, apply.UID == claimant.Decided
	}
	return candidate, true
}

// evidenceFor returns why a WorkspaceTemplateApply may belong to an owner. Referred is whether the owner's spec names it.
func (x *index) evidenceFor(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply, referred bool) (found []claim.Evidence) {
	want, ref := claimant.Want, apply.Spec.WriteConnectionSecretToRef
	add := func(evidence claim.Evidence, applies bool) {
		if applies {
			found = append(found, evidence)
		}
	}
	add(Referred, referred)
	add(SameOutputs, sharesOutput(claimant.Outputs, x.outputs[apply.UID]))
	add(claim.Recorded, want.Recorded != "" && want.Records(apply))
	add(claim.Owned, claim.Owns(claimant.Object, apply) && (want.SameTemplate(apply) || apply.Name == want.SchemeName))
	add(claim.Named, apply.Name == want.SchemeName)
	add(SameSecret, ref != nil && claimant.ConnectionSecret != "" && ref.Name == claimant.ConnectionSecret)
	add(SameTemplate, want.SameTemplate(apply))
	add(SameCluster, want.HasClusterName(claimant.Object, apply))
	add(LegacyNamed, apply.Name == naming.LegacyFixedApply && want.SameTemplate(apply))
	return found
}

// sharesOutput reports whether a Workspace reports one of the outputs that an owner must have.
func sharesOutput(want, reported map[string]string) bool {
	for name, value := range want {
		if value != "" && reported[name] == value {
			return true
		}
	}
	return false
}

// evidenceAgainst returns why a WorkspaceTemplateApply may not belong to an owner, as texts for users.
func evidenceAgainst(claimant *Claimant, apply *infrav1.WorkspaceTemplateApply) (found []string) {
	if other := claim.OtherController(claimant.Object, apply); other != nil {
		found = append(found, fmt.Sprintf("it belongs to %s %s", other.Kind, other.Name))
	}
	if !claimant.Want.SameTemplate(apply) {
		found = append(found, fmt.Sprintf("it uses WorkspaceTemplate %s, but spec refers to %s", apply.TemplateKey(), claimant.Want.Template.Key(apply.Namespace)))
	}
	if given := apply.Spec.Variables.Text(naming.ClusterVariable); given != "" && !claimant.Want.HasClusterName(claimant.Object, apply) {
		found = append(found, fmt.Sprintf("its cluster_name is %s", given))
	}
	if !apply.DeletionTimestamp.IsZero() {
		found = append(found, "it is being deleted")
	}
	if helper := helperRole(claimant.Object.GetName(), apply); helper != "" {
		found = append(found, "it is the "+helper)
	}
	return found
}
