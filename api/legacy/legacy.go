// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package legacy recognizes what CAPT v0.3 left: which objects are not adopted, and which WorkspaceTemplateApply belongs to which owner. To adopt means
// to take over a WorkspaceTemplateApply, and with it cloud resources, that CAPT v0.3 created. The decisions are pure functions of the objects.
package legacy

import (
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
