// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Unadopted returns the name of the Workspace that CAPT v0.3 created for a WorkspaceTemplateApply that has not been adopted, or whose
// adoption was rolled back; empty for any other. The naming scheme of this version gives another name to the Workspace, and with it
// another Terraform state: Terraform would create a second VPC or EKS cluster. So the Workspace is neither written nor released.
//
// CAPT v0.3 never wrote spec.workspaceName, and added its own finalizer before it created anything. This version writes
// spec.workspaceName before it records a Workspace in status, so status without that name is left from a rollback.
func Unadopted(apply *infrav1.WorkspaceTemplateApply) string {
	legacy := LegacyFinalizer(apply)
	recorded := apply.Status.WorkspaceRef != nil || apply.Status.Applied == metav1.ConditionTrue
	switch {
	case apply.Spec.WorkspaceName != "", !legacy && !recorded:
		return ""
	case apply.Status.WorkspaceName != "":
		return apply.Status.WorkspaceName
	case apply.Status.WorkspaceRef != nil:
		return apply.Status.WorkspaceRef.Name
	}
	return naming.LegacyWorkspace(apply.Name)
}

// LegacyFinalizer reports whether a WorkspaceTemplateApply has the finalizer of CAPT v0.3, which has reconciled it then.
func LegacyFinalizer(apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.Contains(apply.Finalizers, infrav1.LegacyWorkspaceTemplateApplyFinalizer)
}

// LegacyStatus reports whether CAPT v0.3 wrote the status of an owner last. This version always sets observedGeneration, in status and in
// each condition.
func LegacyStatus(observedGeneration int64, conditions []metav1.Condition) bool {
	return observedGeneration == 0 && slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.ObservedGeneration == 0 })
}

// Ownerless reports whether a WorkspaceTemplateApply of CAPT v0.3 has not been adopted, and no controller owns it.
func Ownerless(apply *infrav1.WorkspaceTemplateApply) bool {
	return Unadopted(apply) != "" && metav1.GetControllerOf(apply) == nil
}

// helpers are the WorkspaceTemplateApplies that CAPT v0.3 created for a control plane besides the one of the EKS cluster: descriptions by
// the suffix of the name.
var helpers = map[string]string{
	"-kubeconfig-apply": "kubeconfig helper",
	"-spot-role-check":  "spot role helper",
	"-spot-role-create": "spot role helper",
}

// Helper returns the description of the helper of CAPT v0.3 that a WorkspaceTemplateApply is; empty if it is not a helper. The control
// plane is the controller of its helpers.
func Helper(apply *infrav1.WorkspaceTemplateApply) string {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.Kind != "CAPTControlPlane" {
		return ""
	}
	return helperOf(controller.Name, apply)
}

// helperOf returns the description of the helper of a control plane that has the name of a WorkspaceTemplateApply; empty if none has.
func helperOf(controlPlane string, apply *infrav1.WorkspaceTemplateApply) string {
	suffix, found := strings.CutPrefix(apply.Name, controlPlane)
	if !found {
		return ""
	}
	return helpers[suffix]
}

// SpotRole is the description of the helpers for the service-linked role of EC2 Spot. All clusters of the AWS account use that role, so
// it is never destroyed.
const SpotRole = "spot role helper"

// KeepsSpotRole reports whether a WorkspaceTemplateApply is a helper for the Spot role, which must be retained. One that was recreated
// from an exported manifest has lost its finalizers and its owner reference. It is recognized by its name alone, because it is always
// safe to retain a role.
func KeepsSpotRole(apply *infrav1.WorkspaceTemplateApply) bool {
	if Helper(apply) == SpotRole {
		return true
	}
	byName := strings.HasSuffix(apply.Name, "-spot-role-check") || strings.HasSuffix(apply.Name, "-spot-role-create")
	return byName && metav1.GetControllerOf(apply) == nil
}

// Machine returns the kind and name of the machine object of CAPT v0.3 that owns a WorkspaceTemplateApply, for example
// "CaptMachine demo"; empty when none does. This version has no machine kinds.
func Machine(apply *infrav1.WorkspaceTemplateApply) string {
	for _, owner := range apply.OwnerReferences {
		if strings.HasPrefix(owner.APIVersion, infrav1.GroupVersion.Group+"/") && strings.HasPrefix(owner.Kind, "CaptMachine") {
			return owner.Kind + " " + owner.Name
		}
	}
	return ""
}
