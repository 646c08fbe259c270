// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/consumption"
)

var templatePath = field.NewPath("spec", "template")

// CAPTClusterTemplate applies those rules for CAPTClusters to a template that do not depend on the single CAPTCluster.
func CAPTClusterTemplate(ctx context.Context, reader validation.Reader, template *infrav1.CAPTClusterTemplate) (validation.Findings, error) {
	var findings validation.Findings
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	vpc := template.Spec.Template.Spec.VPC.Template
	if !vpc.IsDefined() {
		return findings, nil
	}
	found, err := vpcTemplate(ctx, vpc, templatePath.Child("spec", "vpc", "template"), referencesOfClass(reader, template.Namespace))
	findings.Add(found)
	if err != nil {
		return findings, err
	}
	consumed, err := consumption.Check(ctx, reader, vpc.Ref, template.Namespace, consumption.VPCFields(&template.Spec.Template.Spec, templatePath.Child("spec")))
	findings.Add(consumed)
	return findings, err
}

// CAPTControlPlaneTemplate applies those rules for CAPTControlPlanes to a template that do not depend on the single CAPTControlPlane.
func CAPTControlPlaneTemplate(ctx context.Context, reader validation.Reader, template *controlplanev1.CAPTControlPlaneTemplate) (validation.Findings, error) {
	spec, path := &template.Spec.Template.Spec, templatePath.Child("spec")
	findings, err := controlPlaneSpec(ctx, spec, path, referencesOfClass(reader, template.Namespace))
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	if err != nil {
		return findings, err
	}
	// Only warnings: patches of a ClusterClass may set another WorkspaceTemplate, and each CAPTControlPlane is checked on creation.
	consumed, err := consumption.Check(ctx, reader, spec.WorkspaceTemplateRef, template.Namespace, consumption.CommonFields(spec, path))
	if err != nil {
		return findings, err
	}
	consumed.OnlyWarn()
	findings.Add(consumed)
	profiles, err := consumption.CheckFargateProfiles(ctx, reader, spec.FargateProfiles, template.Namespace, path.Child("fargateProfiles"))
	findings.Add(profiles)
	return findings, err
}

// CAPTClusterTemplateChange rejects a change of spec.template.spec.
func CAPTClusterTemplateChange(_ context.Context, _ validation.Reader, old, template *infrav1.CAPTClusterTemplate) (field.ErrorList, error) {
	return unchanged(old.Spec.Template.Spec, template.Spec.Template.Spec), nil
}

// CAPTControlPlaneTemplateChange rejects a change of spec.template.spec.
func CAPTControlPlaneTemplateChange(_ context.Context, _ validation.Reader, old, template *controlplanev1.CAPTControlPlaneTemplate) (field.ErrorList, error) {
	return unchanged(old.Spec.Template.Spec, template.Spec.Template.Spec), nil
}

// unchanged rejects a change of the spec of a template. Cluster API does not watch templates: within its resync period, a change would
// reach all Clusters of the ClusterClass and run Terraform for each of them. With a new template, the user decides when the change reaches
// which Cluster.
func unchanged(old, spec any) field.ErrorList {
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	return field.ErrorList{validation.Forbidden(templatePath.Child("spec"),
		"is immutable: a change would affect all Clusters of the ClusterClass at once. Create a new template and refer to it in the ClusterClass")}
}
