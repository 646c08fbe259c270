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
// adoption was rolled back; empty for any other. Under the naming scheme its Workspace would get another name, and with it another
// Terraform state: a second VPC or EKS cluster. So it is neither written nor released.
//
// CAPT v0.3 never wrote spec.workspaceName, and added a finalizer of its own before it created anything. This version writes
// spec.workspaceName before it records a Workspace in status, so that a record without that name is from a rollback.
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

// LegacyFinalizer reports whether CAPT v0.3 once reconciled a WorkspaceTemplateApply.
func LegacyFinalizer(apply *infrav1.WorkspaceTemplateApply) bool {
	return slices.Contains(apply.Finalizers, infrav1.LegacyWorkspaceTemplateApplyFinalizer)
}

// LegacyStatus reports whether CAPT v0.3 left the status of an owner. Every status of this version has an observedGeneration, and
// each of its conditions has one.
func LegacyStatus(observedGeneration int64, conditions []metav1.Condition) bool {
	return observedGeneration == 0 && slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.ObservedGeneration == 0 })
}

// Ownerless reports whether a WorkspaceTemplateApply of CAPT v0.3 has not been adopted, and no controller owns it.
func Ownerless(apply *infrav1.WorkspaceTemplateApply) bool {
	return Unadopted(apply) != "" && metav1.GetControllerOf(apply) == nil
}

// Helpers of CAPT v0.3, by the suffix of their names: what it created for a control plane besides the EKS cluster.
var helpers = map[string]string{
	"-kubeconfig-apply": "kubeconfig helper",
	"-spot-role-check":  "spot role helper",
	"-spot-role-create": "spot role helper",
}

// Helper returns which helper of CAPT v0.3 a WorkspaceTemplateApply is; empty when it is none. CAPT v0.3 made the control plane its
// controller.
func Helper(apply *infrav1.WorkspaceTemplateApply) string {
	controller := metav1.GetControllerOf(apply)
	if controller == nil || controller.Kind != "CAPTControlPlane" {
		return ""
	}
	return helperOf(controller.Name, apply)
}

// helperOf returns which helper of CAPT v0.3 the name of a WorkspaceTemplateApply means for a control plane; empty when none.
func helperOf(controlPlane string, apply *infrav1.WorkspaceTemplateApply) string {
	suffix, found := strings.CutPrefix(apply.Name, controlPlane)
	if !found {
		return ""
	}
	return helpers[suffix]
}

// SpotRole is what Helper returns of the helpers for the account-wide role of Spot. Other clusters need it, too, so that it is
// never destroyed.
const SpotRole = "spot role helper"

// KeepsSpotRole reports whether a WorkspaceTemplateApply is a helper for the role of Spot. One that was replaced from an exported manifest
// has lost its finalizers and the reference to its control plane: it is recognized by its name, since to retain a role is always safe.
func KeepsSpotRole(apply *infrav1.WorkspaceTemplateApply) bool {
	if Helper(apply) == SpotRole {
		return true
	}
	byName := strings.HasSuffix(apply.Name, "-spot-role-check") || strings.HasSuffix(apply.Name, "-spot-role-create")
	return byName && metav1.GetControllerOf(apply) == nil
}

// Machine returns which object of CAPT v0.3's machine kinds owns a WorkspaceTemplateApply, for example "CaptMachine demo"; empty when
// none does. No kind of this version succeeds them.
func Machine(apply *infrav1.WorkspaceTemplateApply) string {
	for _, owner := range apply.OwnerReferences {
		if strings.HasPrefix(owner.APIVersion, infrav1.GroupVersion.Group+"/") && strings.HasPrefix(owner.Kind, "CaptMachine") {
			return owner.Kind + " " + owner.Name
		}
	}
	return ""
}
