// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/consumption"
	"github.com/capt-provider/capt/api/validation/ownership"
	"github.com/capt-provider/capt/api/validation/versions"
)

// ControlPlaneVariables lists the variables that CAPT sets for the template of a control plane, with one for each tag. They override
// variables of the user. vpc_id is set once the ID of the VPC is known.
func ControlPlaneVariables(tags map[string]controlplanev1.TagValue) []string {
	names := []string{
		naming.ClusterVariable, naming.VersionVariable, naming.RegionVariable, naming.VPCIDVariable,
		naming.PublicAccessVariable, naming.PrivateAccessVariable, naming.PublicAccessCIDRsVariable, naming.AddonsVariable, naming.TagsVariable,
	}
	for key := range tags {
		names = append(names, naming.TagPrefix+key)
	}
	return names
}

// ValidateCAPTControlPlane checks what the schema of a CAPTControlPlane cannot: names, the version, documents in fields, and consistency
// with other objects.
func ValidateCAPTControlPlane(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (validation.Findings, error) {
	spec := field.NewPath("spec")
	findings, err := validateControlPlaneSpec(ctx, &controlPlane.Spec.CAPTControlPlaneTemplateResourceSpec, spec, lookupFrom(reader, controlPlane.Namespace))
	if err != nil {
		return findings, err
	}
	findings.Refuse(validateNameLength(controlPlane.Name, naming.MaxCAPTControlPlaneNameLength)...)
	findings.Add(validateVersion(controlPlane))
	change, err := validateVersionChange(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Add(change)
	for _, rule := range []func(context.Context, validation.Reader, *controlplanev1.CAPTControlPlane) (field.ErrorList, error){
		validateControlPlaneRegion, validateKubeconfigNames,
	} {
		errs, err := rule(ctx, reader, controlPlane)
		if err != nil {
			return findings, err
		}
		findings.Refuse(errs...)
	}
	consumed, err := consumption.CheckControlPlane(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Add(consumed)
	own, err := ownership.ValidateApplyReferences(ctx, reader, controlPlane)
	findings.Add(own)
	return findings, err
}

// validateControlPlaneSpec checks the fields that a CAPTControlPlane and a CAPTControlPlaneTemplate have in common.
func validateControlPlaneSpec(ctx context.Context, spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path, lookUp templateLookup) (validation.Findings, error) {
	derived, err := derivedFrom(spec, path)
	if err != nil {
		return validation.Findings{}, err
	}
	findings, err := validateTemplateUse(ctx, spec.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"),
		variablesOf{spec.Variables, path.Child("variables"), ControlPlaneVariables(spec.AdditionalTags), derived}, lookUp)
	if err != nil {
		return findings, err
	}
	findings.Refuse(validateAddons(spec.Addons, path.Child("addons"))...)
	findings.Refuse(validateTags(spec.AdditionalTags, path.Child("additionalTags"))...)
	findings.Add(validateRecovery(spec.Recovery, path.Child("recovery", "actions")))
	profiles, err := validateFargateProfiles(ctx, spec.FargateProfiles, path.Child("fargateProfiles"), lookUp)
	findings.Add(profiles)
	return findings, err
}

// derivedFrom returns the variables that CAPT sets from fields that are set.
func derivedFrom(spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) (map[string]derived, error) {
	intent, err := desired.ControlPlaneIntent(&controlplanev1.CAPTControlPlane{
		Spec: controlplanev1.CAPTControlPlaneSpec{CAPTControlPlaneTemplateResourceSpec: *spec},
	}, desired.ControlPlaneInputs{})
	if err != nil {
		return nil, err
	}
	found := map[string]derived{}
	document := func(name string, fields ...string) {
		found[name] = derived{intent.Variables[name], path.Child(fields[0], fields[1:]...), true}
	}
	tags := path.Child("additionalTags")
	for tag, value := range spec.AdditionalTags {
		found[naming.TagPrefix+tag] = derived{string(value), tags.Key(tag), false}
		document(naming.TagsVariable, "additionalTags")
	}
	if len(spec.Addons) > 0 {
		document(naming.AddonsVariable, "addons")
	}
	if spec.EndpointAccess != nil && len(spec.EndpointAccess.PublicCIDRs) > 0 {
		document(naming.PublicAccessCIDRsVariable, "endpointAccess", "publicCIDRs")
	}
	return found, nil
}

// recoveryParameters are the parameters of the recovery actions that have some.
func recoveryParameters() map[controlplanev1.RecoveryActionType]string {
	return map[controlplanev1.RecoveryActionType]string{
		controlplanev1.RecoveryRecreateFargateProfile: controlplanev1.ProfileParameter,
		controlplanev1.RecoveryRecreateWorkspace:      controlplanev1.AllowDestroyParameter,
	}
}

// validateRecovery warns of parameters that an action does not have. The schema checks the rest.
func validateRecovery(strategy *controlplanev1.RecoveryStrategy, path *field.Path) validation.Findings {
	var findings validation.Findings
	for i := 0; strategy != nil && i < len(strategy.Actions); i++ {
		action := &strategy.Actions[i]
		for _, name := range slices.Sorted(maps.Keys(action.Parameters)) {
			if name != recoveryParameters()[action.Type] {
				findings.Warn(path.Index(i).Child("parameters").Key(name), "has no effect: action %s has no such parameter. Remove it", action.Type)
			}
		}
	}
	return findings
}

// validateVersion checks the format of the version, and warns of a version that EKS may not offer.
func validateVersion(controlPlane *controlplanev1.CAPTControlPlane) validation.Findings {
	var findings validation.Findings
	version, err := versions.ParseKubernetesVersion(controlPlane.Spec.Version)
	switch {
	case err != nil:
		findings.Refuse(validation.Invalid(versionPath(), "%s", err))
	case !versions.IsTestedWithEKS(version):
		findings.Warn(versionPath(), "EKS %[3]s is not among the versions this release was tested with (%[1]s to %[2]s). Check that EKS offers it", versions.OldestEKS(), versions.NewestEKS(), version.EKS)
	}
	return findings
}

// validateVersionChange checks that EKS can change from the current version to the one in spec. The controller applies the same rule before
// it writes.
func validateVersionChange(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings validation.Findings, err error) {
	apply, err := validation.ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	switch warning, err := versions.ValidateVersionChange(versions.CurrentVersions(controlPlane, apply), controlPlane.Spec.Version); {
	case err != nil:
		findings.Refuse(validation.Forbidden(versionPath(), "%s", err))
	case warning != "":
		findings.Warn(versionPath(), "%s", warning)
	}
	return findings, nil
}

func versionPath() *field.Path { return field.NewPath("spec", "version") }
