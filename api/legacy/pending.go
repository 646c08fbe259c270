// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

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
