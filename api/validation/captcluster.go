// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
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
func ValidateCAPTCluster(ctx context.Context, reader Reader, captCluster *infrav1.CAPTCluster) (findings Findings, err error) {
	spec := field.NewPath("spec")
	ref, refPath := captCluster.Spec.WorkspaceTemplateApplyRef, spec.Child("workspaceTemplateApplyRef")
	switch {
	case captCluster.Spec.VPC.Template.IsDefined():
		findings.Refuse(validateNameLength(captCluster.Name, naming.MaxCAPTClusterNameLength)...)
		err = cmp.Or(
			findings.include(validateVPC(ctx, templates{Reader: reader, namespace: captCluster.Namespace}, &captCluster.Spec.CAPTClusterTemplateResourceSpec, spec)),
			findings.include(validateEKSNameOfVPC(ctx, reader, captCluster)),
			findings.include(validateApplyReference(ctx, reader, captCluster, ref, refPath)))
	case ref.IsDefined():
		findings.Warn(refPath, "has no effect: CAPT creates nothing for an existing VPC. Remove the reference")
	}
	err = cmp.Or(err, findings.include(validateCAPTClusterRegion(ctx, reader, captCluster)))
	return findings, err
}

// validateVPC checks the template of a VPC, its variables, and the fields that reach Terraform only through the template.
func validateVPC(ctx context.Context, of templates, spec *infrav1.CAPTClusterTemplateResourceSpec, path *field.Path) (findings Findings, err error) {
	vpc, vpcPath := spec.VPC.Template, path.Child("vpc", "template")
	variables := variablesOf{given: vpc.Variables, path: vpcPath.Child("variables"), setByCAPT: VPCVariables()}
	if vpc.Name != "" {
		variables.derived = map[string]derived{naming.VPCVariable: {value: vpc.Name, path: vpcPath.Child("name")}}
	}
	err = cmp.Or(
		findings.include(of.validateUse(ctx, vpc.Ref, vpcPath.Child("ref"), variables)),
		findings.include(of.checkFields(ctx, vpc.Ref, VPCFields(spec, path))))
	findings.Add(validateRecovery(spec.Recovery, path))
	return findings, err
}

var templatePath = field.NewPath("spec", "template")

// ValidateCAPTClusterTemplate applies the rules for CAPTClusters to a template, except for rules about other objects of the same Cluster.
func ValidateCAPTClusterTemplate(ctx context.Context, reader Reader, template *infrav1.CAPTClusterTemplate) (findings Findings, err error) {
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	if spec := &template.Spec.Template.Spec; spec.VPC.Template.IsDefined() {
		err = findings.include(validateVPC(ctx, templates{reader, template.Namespace, true}, spec, templatePath.Child("spec")))
	}
	return findings, err
}

// validateImmutable rejects a change of the spec of a template. Cluster API does not watch templates: within its resync period, a change
// would reach all Clusters of the ClusterClass and run Terraform for each of them. With a new template, the user decides when the change
// reaches which Cluster.
func validateImmutable(old, spec any) field.ErrorList {
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	return field.ErrorList{Forbidden(templatePath.Child("spec"),
		"is immutable: a change would affect all Clusters of the ClusterClass at once. Create a new template and refer to it in the ClusterClass")}
}

// validateNameLength rejects a name for which derived names would be truncated. Truncated names are unique, but users cannot recognize
// their owner.
func validateNameLength(name string, longest int) field.ErrorList {
	if len(name) <= longest {
		return nil
	}
	return field.ErrorList{Invalid(namePath, "has %d characters, so names that CAPT derives from it would be truncated. Use at most %d characters", len(name), longest)}
}
