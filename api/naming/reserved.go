// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

import "strings"

// CAPTClusterOf returns the CAPTCluster whose VPC gets a WorkspaceTemplateApply of this name by the scheme; false when
// there can be none. A name that was cut does not identify its owner.
func CAPTClusterOf(apply string) (string, bool) {
	return stem(apply, vpcSuffix, VPCWorkspaceTemplateApply)
}

// CAPTControlPlaneOf returns the CAPTControlPlane that gets a WorkspaceTemplateApply of this name by the scheme; false when
// there can be none. A name that was cut does not identify its owner.
func CAPTControlPlaneOf(apply string) (string, bool) {
	return stem(apply, controlPlaneApplySuffix, ControlPlaneWorkspaceTemplateApply)
}

// FargateClustersOf returns the names of the Clusters of which a Fargate profile could get a WorkspaceTemplateApply of this name
// by the scheme. They are several, since both names may have dashes, and the name of the profile may stand there as a hash:
// the profiles of the Clusters decide which one it is.
func FargateClustersOf(apply string) []string {
	begin, found := strings.CutSuffix(apply, fargateApplySuffix)
	if !found {
		return nil
	}
	var clusters []string
	for i, r := range begin {
		if r == '-' && i > 0 {
			clusters = append(clusters, begin[:i])
		}
	}
	return clusters
}

// stem takes the suffix off a name, and asks the scheme whether it would put it on again.
func stem(name, suffix string, scheme func(string) string) (string, bool) {
	owner, found := strings.CutSuffix(name, suffix)
	return owner, found && owner != "" && scheme(owner) == name
}

// Namesake is the other WorkspaceTemplateApply that may get the same Workspace by the scheme: x-apply for x, and x for
// x-apply.
func Namesake(apply string) string {
	if base, found := strings.CutSuffix(apply, applySuffix); found && base != "" {
		return base
	}
	return apply + applySuffix
}
