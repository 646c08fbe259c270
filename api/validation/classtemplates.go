// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

var templatePath = field.NewPath("spec", "template")

// ValidateCAPTClusterTemplate applies the rules for CAPTClusters to a template, except for rules about other objects of the same Cluster.
func ValidateCAPTClusterTemplate(ctx context.Context, reader Reader, template *infrav1.CAPTClusterTemplate) (Findings, error) {
	var findings Findings
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	vpc := template.Spec.Template.Spec.VPC.Template
	if !vpc.IsDefined() {
		return findings, nil
	}
	found, err := validateVPCTemplate(ctx, vpc, templatePath.Child("spec", "vpc", "template"), lookupFromClass(reader, template.Namespace))
	findings.Add(found)
	if err != nil {
		return findings, err
	}
	consumed, err := checkFields(ctx, reader, vpc.Ref, template.Namespace, VPCFields(&template.Spec.Template.Spec, templatePath.Child("spec")))
	findings.Add(consumed)
	return findings, err
}

// ValidateCAPTControlPlaneTemplate applies the rules for CAPTControlPlanes to a template, except for rules about other objects of the same
// Cluster.
func ValidateCAPTControlPlaneTemplate(ctx context.Context, reader Reader, template *controlplanev1.CAPTControlPlaneTemplate) (Findings, error) {
	spec, path := &template.Spec.Template.Spec, templatePath.Child("spec")
	findings, err := validateControlPlaneSpec(ctx, spec, path, lookupFromClass(reader, template.Namespace))
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	if err != nil {
		return findings, err
	}
	// Only warnings: patches of a ClusterClass may set another WorkspaceTemplate, and each CAPTControlPlane is checked on creation.
	consumed, err := checkFields(ctx, reader, spec.WorkspaceTemplateRef, template.Namespace, commonFields(spec, path))
	if err != nil {
		return findings, err
	}
	consumed.DowngradeToWarnings()
	findings.Add(consumed)
	profiles, err := checkFargateFields(ctx, reader, spec.FargateProfiles, template.Namespace, path.Child("fargateProfiles"))
	findings.Add(profiles)
	return findings, err
}

// ValidateCAPTClusterTemplateUpdate rejects a change of spec.template.spec.
func ValidateCAPTClusterTemplateUpdate(_ context.Context, _ Reader, old, template *infrav1.CAPTClusterTemplate) (field.ErrorList, error) {
	return validateImmutable(old.Spec.Template.Spec, template.Spec.Template.Spec), nil
}

// ValidateCAPTControlPlaneTemplateUpdate rejects a change of spec.template.spec.
func ValidateCAPTControlPlaneTemplateUpdate(_ context.Context, _ Reader, old, template *controlplanev1.CAPTControlPlaneTemplate) (field.ErrorList, error) {
	return validateImmutable(old.Spec.Template.Spec, template.Spec.Template.Spec), nil
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
