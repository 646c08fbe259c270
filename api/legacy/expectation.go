// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

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
	case want.Template.Name != "" && want.SameTemplate(apply) && (ofCluster || apply.Spec.Variables[naming.ClusterVariable] == ""):
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
	ofProfile := want.Variables[naming.ProfileVariable] != "" || apply.Spec.Variables[naming.ProfileVariable] != ""
	return !ofProfile && UnadoptedWorkspace(apply) != "" && helperRole(owner.GetName(), apply) == "" && MachineOwner(apply) == ""
}
