// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

var (
	versionPath  = field.NewPath("spec", "version")
	profilesPath = field.NewPath("spec", "fargateProfiles")
)

// ControlPlaneVariables are the variables that CAPT gives to the template of a control plane, whatever the user gives under
// their names. The one of a VPC is among them once its id is known, and each tag has one.
func ControlPlaneVariables(tags map[string]controlplanev1.TagValue) []string {
	names := []string{
		naming.ClusterVariable, naming.VersionVariable, naming.RegionVariable, naming.VPCIDVariable,
		publicAccessVariable, privateAccessVariable, publicAccessCIDRsVariable, addonsVariable, tagsVariable,
	}
	for key := range tags {
		names = append(names, tagPrefix+key)
	}
	return names
}

// CAPTControlPlane checks what the schema of a CAPTControlPlane can not: names, the version, documents within fields, and
// what other objects say.
func CAPTControlPlane(ctx context.Context, world World, controlPlane *controlplanev1.CAPTControlPlane) (Findings, error) {
	spec := field.NewPath("spec")
	findings, err := controlPlaneSpec(ctx, &controlPlane.Spec.CAPTControlPlaneTemplateResourceSpec, spec, referencesFrom(world, controlPlane.Namespace))
	if err != nil {
		return findings, err
	}
	findings.Refuse(longName(controlPlane.Name, naming.MaxCAPTControlPlane)...)
	findings.Add(versionOf(controlPlane))
	for _, look := range []func(context.Context, World, *controlplanev1.CAPTControlPlane) (field.ErrorList, error){
		versionStep, regionOfControlPlane, kubeconfigNames,
	} {
		errs, err := look(ctx, world, controlPlane)
		if err != nil {
			return findings, err
		}
		findings.Refuse(errs...)
	}
	consumed, err := consumptionOfControlPlane(ctx, world, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Add(consumed)
	own, err := ownApplies(ctx, world, controlPlane)
	findings.Add(own)
	return findings, err
}

// controlPlaneSpec checks what control planes and their templates have in common.
func controlPlaneSpec(ctx context.Context, spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path, look templateLookup) (Findings, error) {
	findings, err := templated(ctx, spec.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"),
		spec.Variables, path.Child("variables"), ControlPlaneVariables(spec.AdditionalTags), look)
	if err != nil {
		return findings, err
	}
	findings.Refuse(addons(spec.Addons, path.Child("addons"))...)
	findings.Refuse(tags(spec.AdditionalTags, path.Child("additionalTags"))...)
	findings.Add(notImplemented(spec, path))
	profiles, err := fargateProfiles(ctx, spec.FargateProfiles, path.Child("fargateProfiles"), look)
	findings.Add(profiles)
	return findings, err
}

// notImplemented warns of fields that CAPT does not act on yet.
func notImplemented(spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) Findings {
	var findings Findings
	const message = "has no effect yet: CAPT does not act on this field in this version"
	if spec.EndpointProbe != "" && spec.EndpointProbe != controlplanev1.EndpointProbeBestEffort {
		findings.Warn(path.Child("endpointProbe"), message)
	}
	if spec.Recovery != nil {
		findings.Warn(path.Child("recovery"), message)
	}
	return findings
}

// versionOf checks the version by itself.
func versionOf(controlPlane *controlplanev1.CAPTControlPlane) Findings {
	var findings Findings
	version, err := ParseKubernetesVersion(controlPlane.Spec.Version)
	switch {
	case err != nil:
		findings.Refuse(invalid(versionPath, "%s", err))
	case !OfferedByEKS(version):
		findings.Warn(versionPath, "this CAPT knows of EKS versions %s to %s; %s is passed on, and EKS may refuse it", oldestEKS(), newestEKS(), version.EKS)
	}
	return findings
}

// versionStep checks the version against the running one and the one that was given to Terraform, as the controller does
// before it writes.
func versionStep(ctx context.Context, world World, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	apply, err := applyInUse(ctx, world, controlPlane)
	if err != nil {
		return nil, err
	}
	if err := KubernetesVersionStep(VersionsOf(controlPlane, apply), controlPlane.Spec.Version); err != nil {
		return field.ErrorList{forbidden(versionPath, "%s", err)}, nil
	}
	return nil, nil
}

// applyInUse is the WorkspaceTemplateApply that a control plane refers to; nil when there is none.
func applyInUse(ctx context.Context, world World, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.WorkspaceTemplateApply, error) {
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	if !ref.IsDefined() {
		return nil, nil
	}
	return world.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
}
