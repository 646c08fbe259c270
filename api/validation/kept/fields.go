// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package kept restores the fields of an object that an update omits although they must stay. The defaulting webhooks use it, and captctl
// diff for manifests that are not applied yet.
package kept

import (
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/api/validation/versions"
)

// ClusterFields restores the reference of a CAPTCluster.
func ClusterFields(old, captCluster *infrav1.CAPTCluster) {
	keepReference(old.Spec.WorkspaceTemplateApplyRef, &captCluster.Spec.WorkspaceTemplateApplyRef)
}

// ApplyFields restores the name of the Workspace of a WorkspaceTemplateApply.
func ApplyFields(old, apply *infrav1.WorkspaceTemplateApply) {
	if apply.Spec.WorkspaceName == "" {
		apply.Spec.WorkspaceName = old.Spec.WorkspaceName
	}
}

// keepReference restores a reference that an update omits.
func keepReference(old infrav1.WorkspaceTemplateApplyReference, reference *infrav1.WorkspaceTemplateApplyReference) {
	if !reference.IsDefined() {
		*reference = old
	}
}

// ControlPlaneFields restores fields of spec that CAPT wrote and an update omits. An endpoint in the invalid form of CAPT v0.3 is
// corrected, or removed so that the controller writes it again.
func ControlPlaneFields(old, controlPlane *controlplanev1.CAPTControlPlane) {
	if controlPlane.Spec.Version != old.Spec.Version { // An unchanged version keeps its form: a write of other fields must not change spec.version.
		CompleteVersion(controlPlane)
	}
	keepReference(old.Spec.WorkspaceTemplateApplyRef, &controlPlane.Spec.WorkspaceTemplateApplyRef)
	if controlPlane.Spec.ControlPlaneEndpoint.IsZero() {
		controlPlane.Spec.ControlPlaneEndpoint = owners.RepairEndpoint(old.Spec.ControlPlaneEndpoint)
	}
	references := map[string]infrav1.WorkspaceTemplateApplyReference{}
	for i := range old.Spec.FargateProfiles {
		references[old.Spec.FargateProfiles[i].Name] = old.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef
	}
	for i := range controlPlane.Spec.FargateProfiles {
		profile := &controlPlane.Spec.FargateProfiles[i]
		keepReference(references[profile.Name], &profile.WorkspaceTemplateApplyRef)
	}
}

// CompleteVersion changes spec.version to the form that Cluster API's contract requires: a semantic version with the prefix v. It ignores
// an invalid version, which validation rejects.
func CompleteVersion(controlPlane *controlplanev1.CAPTControlPlane) {
	if version, err := versions.ParseKubernetesVersion(controlPlane.Spec.Version); err == nil {
		controlPlane.Spec.Version = version.Semantic
	}
}
