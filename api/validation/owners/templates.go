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

// CAPTClusterTemplate checks a template for CAPTClusters like one of them, as far as it is the same for all.
func CAPTClusterTemplate(ctx context.Context, world validation.World, template *infrav1.CAPTClusterTemplate) (validation.Findings, error) {
	var findings validation.Findings
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	vpc := template.Spec.Template.Spec.VPC.Template
	if !vpc.IsDefined() {
		return findings, nil
	}
	found, err := vpcTemplate(ctx, vpc, templatePath.Child("spec", "vpc", "template"), referencesOfClass(world, template.Namespace))
	findings.Add(found)
	if err != nil {
		return findings, err
	}
	consumed, err := consumption.Check(ctx, world, vpc.Ref, template.Namespace, consumption.VPCFields(&template.Spec.Template.Spec, templatePath.Child("spec")))
	findings.Add(consumed)
	return findings, err
}

// CAPTControlPlaneTemplate checks a template for CAPTControlPlanes like one of them, as far as it is the same for all.
func CAPTControlPlaneTemplate(ctx context.Context, world validation.World, template *controlplanev1.CAPTControlPlaneTemplate) (validation.Findings, error) {
	spec, path := &template.Spec.Template.Spec, templatePath.Child("spec")
	findings, err := controlPlaneSpec(ctx, spec, path, referencesOfClass(world, template.Namespace))
	findings.Refuse(template.Spec.Template.ObjectMeta.Validate(templatePath.Child("metadata"))...)
	if err != nil {
		return findings, err
	}
	// The patches of a ClusterClass may choose another WorkspaceTemplate; the CAPTControlPlanes themselves are refused.
	consumed, err := consumption.Check(ctx, world, spec.WorkspaceTemplateRef, template.Namespace, consumption.CommonFields(spec, path))
	if err != nil {
		return findings, err
	}
	consumed.OnlyWarn()
	findings.Add(consumed)
	profiles, err := consumption.CheckFargateProfiles(ctx, world, spec.FargateProfiles, template.Namespace, path.Child("fargateProfiles"))
	findings.Add(profiles)
	return findings, err
}

// CAPTClusterTemplateChange refuses a change of what CAPTClusters are made from.
func CAPTClusterTemplateChange(_ context.Context, _ validation.World, old, template *infrav1.CAPTClusterTemplate) (field.ErrorList, error) {
	return unchanged(old.Spec.Template.Spec, template.Spec.Template.Spec), nil
}

// CAPTControlPlaneTemplateChange refuses a change of what CAPTControlPlanes are made from.
func CAPTControlPlaneTemplateChange(_ context.Context, _ validation.World, old, template *controlplanev1.CAPTControlPlaneTemplate) (field.ErrorList, error) {
	return unchanged(old.Spec.Template.Spec, template.Spec.Template.Spec), nil
}

// unchanged keeps the spec of a template as it is. Cluster API does not watch templates: a change would reach every Cluster
// of the ClusterClass by itself, at some time within its resync period, and run Terraform in all of them. With a new
// template the user chooses when, and for which Clusters.
func unchanged(old, spec any) field.ErrorList {
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	return field.ErrorList{validation.Forbidden(templatePath.Child("spec"),
		"is immutable: a change would affect all Clusters of the ClusterClass at once. Create a new template and refer to it in the ClusterClass")}
}
