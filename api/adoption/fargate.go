// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"fmt"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// OfProfile returns what a control plane expects of the WorkspaceTemplateApply of one of its Fargate profiles. clusterName is empty
// while the Cluster is unknown. Recorded is always empty: the status of a profile repeats the name from spec or from the naming
// scheme, which does not prove that the WorkspaceTemplateApply was adopted or created.
func OfProfile(clusterName string, profile *controlplanev1.FargateProfile) Expectation {
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

// profileDifference returns how the variable profile_name differs; empty when it does not. A WorkspaceTemplateApply with that variable
// never belongs to a VPC or a control plane.
func (want Expectation) profileDifference(apply *infrav1.WorkspaceTemplateApply) string {
	given := apply.Spec.Variables[naming.ProfileVariable]
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

// source describes, for messages, the field or rule that names the WorkspaceTemplateApply.
func (want Expectation) source() string {
	switch {
	case want.profile == "":
		return "spec.workspaceTemplateApplyRef"
	case want.byScheme:
		return "the naming scheme, for Fargate profile " + want.profile + ","
	}
	return fmt.Sprintf("spec.fargateProfiles[%s].workspaceTemplateApplyRef", want.profile)
}

// anotherName is the advice for using a WorkspaceTemplateApply of another name. A reference can be set, but not changed.
func (want Expectation) anotherName() string {
	switch {
	case want.profile == "" && want.Legacy:
		return checkFirst
	case want.profile == "":
		return "Recreate this object without the reference"
	case want.byScheme:
		return "Set workspaceTemplateApplyRef of the profile to another name"
	}
	return "Remove the profile from spec, and add it again without the reference"
}

// checkFirst is the advice for an object of CAPT v0.3. Its cloud resources exist, so it must not be recreated.
const checkFirst = "Correct the reference if it can still be changed, or run captctl migrate check, which shows how to decide. Do not delete this object"

// Refusal is the message that a WorkspaceTemplateApply is not taken over because of a Mismatch, with what to do next.
func (want Expectation) Refusal(apply *infrav1.WorkspaceTemplateApply, mismatch string) string {
	made, correct, same := "would create", "correct the reference (if it is set already, recreate this object)", "template and "+naming.ClusterVariable
	if want.profile != "" {
		made = "would create for Fargate profile " + want.profile
		correct = "correct the reference (if it is set already, remove the profile from spec, and add it again)"
		same = fmt.Sprintf("template, %s and %s", naming.ClusterVariable, naming.ProfileVariable)
	}
	if want.profile == "" && want.Legacy {
		return fmt.Sprintf("WorkspaceTemplateApply %s does not match what this object %s: it %s. %s", apply.Name, made, mismatch, checkFirst)
	}
	if want.byScheme {
		correct = "set workspaceTemplateApplyRef of the profile to it"
	}
	text := fmt.Sprintf("WorkspaceTemplateApply %s does not match what this object %s: it %s. If another one is meant, %s", apply.Name, made, mismatch, correct)
	if want.profile == "" && want.profileDifference(apply) != "" {
		return text // It cannot belong to a control plane: the variable is the identity of what exists in AWS.
	}
	return text + fmt.Sprintf("; if %s belongs to this object, first give both the same %s", apply.Name, same)
}
