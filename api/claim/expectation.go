// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"fmt"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// ExpectationOfCAPTCluster returns what a CAPTCluster expects of the WorkspaceTemplateApply of its VPC. cluster is the name of the EKS cluster,
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
		Variables:  map[string]string{naming.ClusterVariable: EKSClusterName(controlPlane, cluster)},
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

// ExpectationOfMachinePool returns what a CAPTMachinePool expects of the WorkspaceTemplateApply of its node group. cluster is the name of the EKS
// cluster; it and nodeGroup are empty while they are unknown.
func ExpectationOfMachinePool(pool *infrav1.CAPTMachinePool, cluster, nodeGroup string) Expectation {
	want := Expectation{
		SchemeName: naming.MachinePoolWorkspaceTemplateApply(pool.Name), Template: pool.Spec.WorkspaceTemplateRef, nodeGroup: nodeGroup,
		Variables: map[string]string{naming.ClusterVariable: cluster},
	}
	if known := pool.Status.WorkspaceTemplateApply; known != nil {
		want.Recorded = known.Name
	}
	if pool.Spec.ProviderID != "" {
		want.ProvisionedField = "spec.providerID"
	}
	return want
}

// EKSClusterName returns the name of the EKS cluster of a CAPTControlPlane, which is nil without one. cluster is the name of the Cluster; while that is
// unknown, so is the result.
func EKSClusterName(controlPlane *controlplanev1.CAPTControlPlane, cluster string) string {
	if controlPlane == nil || cluster == "" {
		return cluster
	}
	return cmp.Or(controlPlane.Spec.EKSClusterName, cluster)
}

// ExpectationOfFargateProfile returns what a control plane expects of the WorkspaceTemplateApply of one of its Fargate profiles.
// clusterName is empty while the Cluster is unknown. Recorded is always empty: the status of a profile repeats the name from spec or from
// the naming scheme, which does not prove that the WorkspaceTemplateApply was created.
func ExpectationOfFargateProfile(clusterName string, profile *controlplanev1.FargateProfile) Expectation {
	want := Expectation{
		profile:  profile.Name,
		byScheme: !profile.WorkspaceTemplateApplyRef.IsDefined(),
		Template: profile.WorkspaceTemplateRef,
		Variables: map[string]string{
			naming.ClusterVariable: clusterName,
			naming.ProfileVariable: profile.Name,
		},
	}
	if clusterName != "" {
		want.SchemeName = naming.FargateWorkspaceTemplateApply(clusterName, profile.Name)
	}
	return want
}

// OfFargateProfile reports whether a Fargate profile refers to a WorkspaceTemplateApply, or gets it by the naming scheme. clusterName is empty while
// the Cluster is unknown.
func OfFargateProfile(apply *infrav1.WorkspaceTemplateApply, clusterName string, profile *controlplanev1.FargateProfile) bool {
	switch ref := profile.WorkspaceTemplateApplyRef; {
	case ref.IsDefined():
		return ref.Name == apply.Name
	case clusterName == "": // Its name will be known when its Cluster is.
		return profile.Name == apply.Spec.Variables.Text(naming.ProfileVariable)
	}
	return ExpectationOfFargateProfile(clusterName, profile).SchemeName == apply.Name
}

// profileDifference returns the difference in the variable profile_name, as a message for users; empty when there is none. A
// WorkspaceTemplateApply with that variable never belongs to a VPC or a control plane.
func (want Expectation) profileDifference(apply *infrav1.WorkspaceTemplateApply) string {
	given := apply.Spec.Variables.Text(naming.ProfileVariable)
	switch {
	case given == want.profile:
		return ""
	case want.profile == "":
		return "belongs to a Fargate profile"
	case given == "":
		return "has no " + naming.ProfileVariable
	}
	return "has another " + naming.ProfileVariable
}

// source returns the field or rule that determines the name of the WorkspaceTemplateApply, for messages.
func (want Expectation) source() string {
	switch {
	case want.profile == "":
		return "spec.workspaceTemplateApplyRef"
	case want.byScheme:
		return "the naming scheme, for Fargate profile " + want.profile + ","
	}
	return fmt.Sprintf("spec.fargateProfiles[%s].workspaceTemplateApplyRef", want.profile)
}

// otherNameAdvice returns what to do to use a WorkspaceTemplateApply with another name. A reference can be set, but not changed.
func (want Expectation) otherNameAdvice() string {
	switch {
	case want.Advice != "":
		return want.Advice
	case want.profile == "":
		return "Recreate this object without the reference"
	case want.byScheme:
		return "Set workspaceTemplateApplyRef of the profile to another name"
	}
	return "Remove the profile from spec, and add it again without the reference"
}

// MismatchMessage is the message that a WorkspaceTemplateApply is not taken over because of a Mismatch, with what to do next.
func (want Expectation) MismatchMessage(apply *infrav1.WorkspaceTemplateApply, mismatch string) string {
	text := fmt.Sprintf("WorkspaceTemplateApply %s does not match what this object would create%s: it %s. ", apply.Name, want.forProfile(), mismatch)
	if want.Advice != "" {
		return text + want.Advice
	}
	text += "If another one is meant, " + want.referenceAdvice()
	if want.profile == "" && want.profileDifference(apply) != "" {
		return text // It cannot belong to a control plane: the variable is the identity of what exists in AWS.
	}
	same := fmt.Sprintf("template and %s", naming.ClusterVariable)
	switch {
	case want.nodeGroup != "":
		same = fmt.Sprintf("template, %s and %s", naming.ClusterVariable, naming.NodeGroupVariable)
	case want.profile != "":
		same = fmt.Sprintf("template, %s and %s", naming.ClusterVariable, naming.ProfileVariable)
	}
	return text + fmt.Sprintf("; if %s belongs to this object, first give both the same %s", apply.Name, same)
}

// forProfile names the Fargate profile in messages; empty for a VPC or a control plane.
func (want Expectation) forProfile() string {
	if want.profile == "" {
		return ""
	}
	return " for Fargate profile " + want.profile
}

// referenceAdvice returns how to refer to another WorkspaceTemplateApply.
func (want Expectation) referenceAdvice() string {
	switch {
	case want.profile == "":
		return "correct the reference (if it is set already, recreate this object)"
	case want.byScheme:
		return "set workspaceTemplateApplyRef of the profile to it"
	}
	return "correct the reference (if it is set already, remove the profile from spec, and add it again)"
}
