// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// VPCVariables lists the variables that CAPT sets for the template of a VPC. They override variables of the user.
func VPCVariables() []string {
	return []string{naming.ClusterVariable, naming.VPCVariable, naming.RegionVariable}
}

// ValidateCAPTCluster checks what the schema of a CAPTCluster cannot: names, and consistency with other objects. The connection Secret of
// an existing VPC is not checked, because Secrets are not cached.
func ValidateCAPTCluster(ctx context.Context, reader Reader, captCluster *infrav1.CAPTCluster) (Findings, error) {
	findings, err := validateVPC(ctx, reader, captCluster)
	if err != nil {
		return findings, err
	}
	conflict, err := validateCAPTClusterRegion(ctx, reader, captCluster)
	findings.Refuse(conflict...)
	return findings, err
}

// validateVPC checks the source of the VPC: a template or an existing VPC.
func validateVPC(ctx context.Context, reader Reader, captCluster *infrav1.CAPTCluster) (Findings, error) {
	var findings Findings
	spec := field.NewPath("spec")
	ref, refPath := captCluster.Spec.WorkspaceTemplateApplyRef, spec.Child("workspaceTemplateApplyRef")
	template := captCluster.Spec.VPC.Template
	if !template.IsDefined() {
		if ref.IsDefined() {
			findings.Warn(refPath, "has no effect: CAPT creates nothing for an existing VPC. Remove the reference")
		}
		return findings, nil
	}
	findings.Refuse(validateNameLength(captCluster.Name, naming.MaxCAPTClusterNameLength)...)
	found, err := validateVPCTemplate(ctx, template, spec.Child("vpc", "template"), lookupFrom(reader, captCluster.Namespace))
	if err != nil {
		return findings, err
	}
	findings.Add(found)
	consumed, err := checkFields(ctx, reader, template.Ref, captCluster.Namespace, VPCFields(&captCluster.Spec.CAPTClusterTemplateResourceSpec, spec))
	if err != nil {
		return findings, err
	}
	findings.Add(consumed)
	own, err := validateApplyReference(ctx, reader, captCluster, ref, refPath)
	findings.Add(own)
	return findings, err
}

// validateVPCTemplate checks the template of a VPC and its variables, for a CAPTCluster and for a CAPTClusterTemplate.
func validateVPCTemplate(ctx context.Context, vpc infrav1.VPCTemplate, path *field.Path, lookUp templateLookup) (Findings, error) {
	variables := variablesOf{given: vpc.Variables, path: path.Child("variables"), setByCAPT: VPCVariables()}
	if vpc.Name != "" {
		variables.derived = map[string]derived{naming.VPCVariable: {value: vpc.Name, path: path.Child("name")}}
	}
	return validateTemplateUse(ctx, vpc.Ref, path.Child("ref"), variables, lookUp)
}
