// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// MachinePoolVariables lists the variables that CAPT sets for the template of a node group. They override variables of the user.
func MachinePoolVariables() []string {
	return []string{
		naming.ClusterVariable, naming.RegionVariable, naming.NodeGroupVariable, naming.VersionVariable, naming.DesiredSizeVariable,
		naming.MinSizeVariable, naming.MaxSizeVariable, naming.EKSConnectionVariable, naming.VPCConnectionVariable,
	}
}

// ValidateCAPTMachinePool checks what the schema of a CAPTMachinePool cannot: its name, its template, the variables, and consistency with other objects.
func ValidateCAPTMachinePool(ctx context.Context, reader Reader, pool *infrav1.CAPTMachinePool) (findings Findings, err error) {
	findings.Refuse(validateNameLength(pool.Name, naming.MaxCAPTMachinePoolNameLength)...)
	err = cmp.Or(
		findings.include(validateMachinePoolSpec(ctx, templates{Reader: reader, namespace: pool.Namespace}, &pool.Spec.CAPTMachinePoolTemplateResourceSpec, field.NewPath("spec"))),
		findings.include(validateNodeGroup(ctx, reader, pool)),
		findings.include(validateApplyReference(ctx, reader, pool, pool.Spec.WorkspaceTemplateApplyRef, field.NewPath("spec", "workspaceTemplateApplyRef"))))
	return findings, err
}

// ValidateCAPTMachinePoolTemplate applies the rules for CAPTMachinePools to a template.
func ValidateCAPTMachinePoolTemplate(ctx context.Context, reader Reader, template *infrav1.CAPTMachinePoolTemplate) (findings Findings, err error) {
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	err = findings.include(validateMachinePoolSpec(ctx, templates{reader, template.Namespace, true}, &template.Spec.Template.Spec, templatePath.Child("spec")))
	return findings, err
}

func validateMachinePoolSpec(ctx context.Context, of templates, spec *infrav1.CAPTMachinePoolTemplateResourceSpec, path *field.Path) (findings Findings, err error) {
	variables := variablesOf{given: spec.Variables, path: path.Child("variables"), setByCAPT: MachinePoolVariables()}
	err = cmp.Or(
		findings.include(of.validateUse(ctx, spec.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"), variables)),
		findings.include(of.checkFields(ctx, spec.WorkspaceTemplateRef, MachinePoolFields(spec, path))))
	findings.Add(validateRecovery(spec.Recovery, path))
	return findings, err
}
