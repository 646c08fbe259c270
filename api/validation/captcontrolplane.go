// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/naming"
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
func ValidateCAPTControlPlane(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (Findings, error) {
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
	for _, rule := range []func(context.Context, Reader, *controlplanev1.CAPTControlPlane) (field.ErrorList, error){
		validateControlPlaneRegion, validateKubeconfigNames,
	} {
		errs, err := rule(ctx, reader, controlPlane)
		if err != nil {
			return findings, err
		}
		findings.Refuse(errs...)
	}
	consumed, err := checkControlPlaneFields(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Add(consumed)
	own, err := validateApplyReferences(ctx, reader, controlPlane)
	findings.Add(own)
	return findings, err
}

// validateControlPlaneSpec checks the fields that a CAPTControlPlane and a CAPTControlPlaneTemplate have in common.
func validateControlPlaneSpec(ctx context.Context, spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path, lookUp templateLookup) (Findings, error) {
	findings, err := validateTemplateUse(ctx, spec.WorkspaceTemplateRef, path.Child("workspaceTemplateRef"),
		variablesOf{spec.Variables, path.Child("variables"), ControlPlaneVariables(spec.AdditionalTags), derivedFrom(spec, path)}, lookUp)
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
func derivedFrom(spec *controlplanev1.CAPTControlPlaneTemplateResourceSpec, path *field.Path) map[string]derived {
	found := map[string]derived{}
	tags := path.Child("additionalTags")
	for tag, value := range spec.AdditionalTags {
		found[naming.TagPrefix+tag] = derived{string(value), tags.Key(tag), false}
		found[naming.TagsVariable] = derived{path: tags, document: true}
	}
	if len(spec.Addons) > 0 {
		found[naming.AddonsVariable] = derived{path: path.Child("addons"), document: true}
	}
	if spec.EndpointAccess != nil && len(spec.EndpointAccess.PublicCIDRs) > 0 {
		found[naming.PublicAccessCIDRsVariable] = derived{path: path.Child("endpointAccess", "publicCIDRs"), document: true}
	}
	return found
}

// recoveryParameters are the parameters of the recovery actions that have some.
func recoveryParameters() map[controlplanev1.RecoveryActionType]string {
	return map[controlplanev1.RecoveryActionType]string{
		controlplanev1.RecoveryRecreateFargateProfile: controlplanev1.ProfileParameter,
		controlplanev1.RecoveryRecreateWorkspace:      controlplanev1.AllowDestroyParameter,
	}
}

// validateRecovery warns of parameters that an action does not have. The schema checks the rest.
func validateRecovery(strategy *controlplanev1.RecoveryStrategy, path *field.Path) Findings {
	var findings Findings
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
func validateVersion(controlPlane *controlplanev1.CAPTControlPlane) Findings {
	var findings Findings
	version, err := ParseKubernetesVersion(controlPlane.Spec.Version)
	switch {
	case err != nil:
		findings.Refuse(Invalid(versionPath(), "%s", err))
	case !IsTestedWithEKS(version):
		findings.Warn(versionPath(), "EKS %[3]s is not among the versions this release was tested with (%[1]s to %[2]s). Check that EKS offers it", OldestEKS(), NewestEKS(), version.EKS)
	}
	return findings
}

// validateVersionChange checks that EKS can change from the current version to the one in spec. The controller applies the same rule before
// it writes.
func validateVersionChange(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	switch warning, err := ValidateVersionChange(CurrentVersions(controlPlane, apply), controlPlane.Spec.Version); {
	case err != nil:
		findings.Refuse(Forbidden(versionPath(), "%s", err))
	case warning != "":
		findings.Warn(versionPath(), "%s", warning)
	}
	return findings, nil
}

func versionPath() *field.Path { return field.NewPath("spec", "version") }
