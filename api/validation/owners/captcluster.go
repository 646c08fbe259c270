// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package owners has the rules for CAPTClusters and CAPTControlPlanes, and for their ClusterClass templates.
package owners

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/ownership"
)

// VPCVariables lists the variables that CAPT sets for the template of a VPC. They override variables of the user.
func VPCVariables() []string {
	return []string{naming.ClusterVariable, naming.VPCVariable, naming.RegionVariable}
}

// CAPTCluster checks what the schema of a CAPTCluster cannot: names, and consistency with other objects. The connection Secret of an
// existing VPC is not checked, because Secrets are not cached.
func CAPTCluster(ctx context.Context, reader validation.Reader, captCluster *infrav1.CAPTCluster) (validation.Findings, error) {
	findings, err := network(ctx, reader, captCluster)
	if err != nil {
		return findings, err
	}
	conflict, err := regionOfNetwork(ctx, reader, captCluster)
	findings.Refuse(conflict...)
	return findings, err
}

// network checks the source of the VPC: a template or an existing VPC.
func network(ctx context.Context, reader validation.Reader, captCluster *infrav1.CAPTCluster) (validation.Findings, error) {
	var findings validation.Findings
	spec := field.NewPath("spec")
	ref, refPath := captCluster.Spec.WorkspaceTemplateApplyRef, spec.Child("workspaceTemplateApplyRef")
	template := captCluster.Spec.VPC.Template
	if !template.IsDefined() {
		if ref.IsDefined() {
			findings.Warn(refPath, "has no effect: CAPT creates nothing for an existing VPC. Remove the reference")
		}
		return findings, nil
	}
	findings.Refuse(longName(captCluster.Name, naming.MaxCAPTCluster)...)
	found, err := vpcTemplate(ctx, template, spec.Child("vpc", "template"), referencesFrom(reader, captCluster.Namespace))
	if err != nil {
		return findings, err
	}
	findings.Add(found)
	consumed, err := consumption.Check(ctx, reader, template.Ref, captCluster.Namespace, consumption.VPCFields(&captCluster.Spec.CAPTClusterTemplateResourceSpec, spec))
	if err != nil {
		return findings, err
	}
	findings.Add(consumed)
	own, err := ownership.OwnApply(ctx, reader, captCluster, ref, refPath)
	findings.Add(own)
	return findings, err
}

// vpcTemplate checks the template of a VPC and its variables, for a CAPTCluster and for a CAPTClusterTemplate.
func vpcTemplate(ctx context.Context, vpc infrav1.VPCTemplate, path *field.Path, look templateLookup) (validation.Findings, error) {
	return templated(ctx, vpc.Ref, path.Child("ref"), vpc.Variables, path.Child("variables"), VPCVariables(), look)
}
