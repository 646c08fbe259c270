// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package naming

import "strings"

// CAPTClusterOf returns the name of the CAPTCluster whose VPC gets a WorkspaceTemplateApply of this name by the naming scheme; false if the
// naming scheme does not give this name. A truncated name does not identify its owner.
func CAPTClusterOf(apply string) (string, bool) {
	return ownerOf(apply, vpcSuffix, VPCWorkspaceTemplateApply)
}

// CAPTControlPlaneOf returns the name of the CAPTControlPlane that gets a WorkspaceTemplateApply of this name by the naming scheme; false
// if the naming scheme does not give this name. A truncated name does not identify its owner.
func CAPTControlPlaneOf(apply string) (string, bool) {
	return ownerOf(apply, controlPlaneApplySuffix, ControlPlaneWorkspaceTemplateApply)
}

// FargateClustersOf returns the names of the Clusters whose Fargate profiles may get a WorkspaceTemplateApply of this name by the naming
// scheme. There may be several: both names may have dashes, and a hash may replace the name of the profile. The caller compares the
// profiles of these Clusters.
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

// ownerOf returns a name without the suffix, and whether the naming scheme derives the name from the result. scheme derives it.
func ownerOf(name, suffix string, scheme func(string) string) (string, bool) {
	owner, found := strings.CutSuffix(name, suffix)
	return owner, found && owner != "" && scheme(owner) == name
}

// ApplyWithSameWorkspace returns the name of the other WorkspaceTemplateApply whose Workspace gets the same name by the naming scheme:
// x-apply for x, and x for x-apply.
func ApplyWithSameWorkspace(apply string) string {
	if base, found := strings.CutSuffix(apply, applySuffix); found && base != "" {
		return base
	}
	return apply + applySuffix
}
