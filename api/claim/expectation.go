// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// ExpectationOfCAPTCluster returns what a CAPTCluster expects of the WorkspaceTemplateApply of its VPC. cluster is the name of the Cluster,
// empty while it is unknown.
func ExpectationOfCAPTCluster(captCluster *infrav1.CAPTCluster, cluster string) Expectation {
	want := Expectation{
		SchemeName: naming.VPCWorkspaceTemplateApply(captCluster.Name),
		Variables:  map[string]string{naming.ClusterVariable: cluster},
	}
	if template := captCluster.Spec.VPC.Template; template.IsDefined() {
		want.Template, want.Variables[naming.VPCVariable] = template.Ref, VPCName(captCluster)
		if captCluster.Status.VPC.ID != "" {
			want.ProvisionedField = "status.vpc.id"
		}
	}
	if known := captCluster.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	return want
}

// VPCName returns the name of the VPC of a CAPTCluster with a template.
func VPCName(captCluster *infrav1.CAPTCluster) string {
	return cmp.Or(captCluster.Spec.VPC.Template.Name, naming.VPC(captCluster.Name))
}

// ExpectationOfControlPlane returns what a CAPTControlPlane expects of the WorkspaceTemplateApply of its EKS cluster. cluster is the name
// of the Cluster, empty while it is unknown.
func ExpectationOfControlPlane(controlPlane *controlplanev1.CAPTControlPlane, cluster string) Expectation {
	want := Expectation{
		SchemeName: naming.ControlPlaneWorkspaceTemplateApply(controlPlane.Name),
		Template:   controlPlane.Spec.WorkspaceTemplateRef,
		Variables:  map[string]string{naming.ClusterVariable: cluster},
	}
	if known := controlPlane.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	switch {
	case controlPlane.Spec.ControlPlaneEndpoint.Host != "":
		want.ProvisionedField = "spec.controlPlaneEndpoint"
	case ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false):
		want.ProvisionedField = "status.initialization"
	}
	return want
}
