// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package legacy recognizes what CAPT v0.3 left: which objects are not adopted, and which WorkspaceTemplateApply belongs to which owner. To adopt means
// to take over a WorkspaceTemplateApply, and with it cloud resources, that CAPT v0.3 created. The decisions are pure functions of the objects.
package legacy

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
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
