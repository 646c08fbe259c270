// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package ownership has the validation rules for which WorkspaceTemplateApply belongs to which owner. The evidence is in package adoption.
package ownership

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

const (
	// cannotShare is the reason why two owners must not share a WorkspaceTemplateApply: they would overwrite each other's changes to the
	// Workspace, and the deletion of one owner would destroy the cloud resources of the other.
	cannotShare = "two objects cannot share one. "
	// removeReference is what to do for an owner with a reference, setReference for an owner without one.
	removeReference = "Remove the reference, or use another name"
	setReference    = "Set workspaceTemplateApplyRef to another name"
)

// ValidateApplyReference checks that a CAPTCluster or a CAPTControlPlane may have the WorkspaceTemplateApply that it refers to.
func ValidateApplyReference(ctx context.Context, reader validation.Reader, owner validation.Owner, ref infrav1.WorkspaceTemplateApplyReference, path *field.Path) (validation.Findings, error) {
	if !ref.IsDefined() {
		return validation.Findings{}, nil
	}
	cluster, err := clusterName(ctx, reader, owner)
	if err != nil {
		return validation.Findings{}, err
	}
	return validateReferredApply(ctx, reader, owner, ref, expectationOf(owner, cluster), path)
}

// validateReferredApply checks that an owner may have the WorkspaceTemplateApply that it refers to. It warns if that does not exist, unless
// the reference has the name of the naming scheme, which CAPT gives to a new one.
func validateReferredApply(ctx context.Context, reader validation.Reader, owner validation.Owner, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation, path *field.Path) (validation.Findings, error) {
	var findings validation.Findings
	if !ref.IsDefined() {
		return findings, nil
	}
	path = path.Child("name")
	exists, reason, err := unavailable(ctx, reader, owner, ref.Name, want, removeReference)
	switch {
	case err != nil:
		return findings, err
	case reason != "":
		findings.Refuse(validation.Forbidden(path, "%s", reason))
	case !exists && ref.Name != want.SchemeName:
		findings.Warn(path, "WorkspaceTemplateApply %s does not exist and will be created. To adopt an existing one, correct the name", ref.Name)
	}
	return findings, nil
}

// unavailable reports whether a WorkspaceTemplateApply exists, and why an owner cannot have it: it has another owner, or it does not match.
// reason is empty if the owner can have it. Otherwise the controller would never write it, and the reference could not be changed. advice
// is added to the reason if the WorkspaceTemplateApply has another owner.
func unavailable(ctx context.Context, reader validation.Reader, owner validation.Owner, name string, want claim.Expectation, advice string) (exists bool, reason string, err error) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: name}
	referrers, err := reader.ReferrersTo(ctx, key)
	if err != nil {
		return false, "", err
	}
	if others := otherOwners(owner, referrers); len(others) > 0 {
		return false, fmt.Sprintf("WorkspaceTemplateApply %s is in use by %s: %s%s", name, strings.Join(others, " and "), cannotShare, advice), nil
	}
	apply, err := reader.WorkspaceTemplateApply(ctx, key)
	if err != nil || apply == nil {
		return false, "", err
	}
	if other := claim.OtherController(owner, apply); other != nil {
		if existsAlready(owner, referrers, other.UID) {
			return true, "", nil
		}
		return true, fmt.Sprintf("WorkspaceTemplateApply %s belongs to %s %s: %s%s", name, other.Kind, other.Name, cannotShare, advice), nil
	}
	if differs := want.Mismatch(owner, apply); differs != "" {
		return true, want.MismatchMessage(apply, differs), nil
	}
	return true, "", nil
}

// existsAlready reports whether the owner in a create request exists already and controls the WorkspaceTemplateApply. Admission must allow
// such a request, so that the API server responds with AlreadyExists: a restarted clusterctl move continues only after this error.
func existsAlready(owner validation.Owner, referrers []validation.Owner, controller types.UID) bool {
	return slices.ContainsFunc(referrers, func(referrer validation.Owner) bool {
		return referrer.GetUID() == controller && kindOf(referrer) == kindOf(owner) && referrer.GetName() == owner.GetName()
	})
}

// expectationOf returns what an owner expects of its WorkspaceTemplateApply, as its controller computes it. cluster is empty while the
// Cluster is unknown.
func expectationOf(owner validation.Owner, cluster string) claim.Expectation {
	switch owner := owner.(type) {
	case *infrav1.CAPTCluster:
		return legacy.ExpectationOfCAPTCluster(owner, cluster)
	case *controlplanev1.CAPTControlPlane:
		return legacy.ExpectationOfControlPlane(owner, cluster)
	}
	return claim.Expectation{Variables: map[string]string{naming.ClusterVariable: cluster}}
}

// otherOwners returns the kinds and names of the referrers other than the owner, sorted: webhooks recognize an error that existed before an
// update by its text, so the text must not depend on the order of the list.
func otherOwners(owner validation.Owner, referrers []validation.Owner) []string {
	var others []string
	for _, other := range referrers {
		if kindOf(other) != kindOf(owner) || other.GetName() != owner.GetName() {
			others = append(others, kindOf(other)+" "+other.GetName())
		}
	}
	slices.Sort(others)
	return others
}

// ValidateApplyReferences checks every reference of a control plane to a WorkspaceTemplateApply.
func ValidateApplyReferences(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (validation.Findings, error) {
	spec := &controlPlane.Spec
	findings, err := ValidateApplyReference(ctx, reader, controlPlane, spec.WorkspaceTemplateApplyRef, field.NewPath("spec", "workspaceTemplateApplyRef"))
	if err != nil || len(spec.FargateProfiles) == 0 {
		return findings, err
	}
	cluster, err := clusterName(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Refuse(validateDistinctApplies(controlPlane, cluster)...)
	for i := range spec.FargateProfiles {
		found, err := validateApplyOfProfile(ctx, reader, controlPlane, &spec.FargateProfiles[i], cluster, field.NewPath("spec", "fargateProfiles").Index(i))
		if err != nil {
			return findings, err
		}
		findings.Add(found)
	}
	return findings, nil
}

// validateApplyOfProfile checks that a Fargate profile may have its WorkspaceTemplateApply. Without a reference, the naming scheme
// determines its name, once the name of the Cluster is known. Then a conflict is only a warning, because the user can delete the
// WorkspaceTemplateApply.
func validateApplyOfProfile(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane, profile *controlplanev1.FargateProfile, cluster string, path *field.Path) (validation.Findings, error) {
	want := claim.ExpectationOfFargateProfile(cluster, profile)
	if profile.WorkspaceTemplateApplyRef.IsDefined() || want.SchemeName == "" {
		path = path.Child("workspaceTemplateApplyRef")
		findings, err := validateReferredApply(ctx, reader, controlPlane, profile.WorkspaceTemplateApplyRef, want, path)
		if err == nil {
			err = validateAddedReference(ctx, reader, controlPlane, profile.WorkspaceTemplateApplyRef, want, path, &findings)
		}
		return findings, err
	}
	var findings validation.Findings
	_, reason, err := unavailable(ctx, reader, controlPlane, want.SchemeName, want, setReference)
	if reason != "" {
		findings.Warn(path, "nothing is created for this profile: %s", reason)
	}
	return findings, err
}

// validateAddedReference rejects a reference that is added to a Fargate profile which already has a WorkspaceTemplateApply of another name.
// With the reference, CAPT would create the profile a second time, so it would stop writing; and a reference cannot be removed again.
func validateAddedReference(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation, path *field.Path, findings *validation.Findings) error {
	if !ref.IsDefined() || want.SchemeName == "" || ref.Name == want.SchemeName {
		return nil
	}
	existing, err := reader.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: want.SchemeName})
	if err == nil && existing != nil && metav1.IsControlledBy(existing, controlPlane) && want.IdentityDifference(existing) == "" {
		findings.Refuse(validation.Forbidden(path, "the profile already has WorkspaceTemplateApply %s. Remove the reference, or remove the profile, wait for the deletion, and add it again", existing.Name))
	}
	return err
}

// validateDistinctApplies checks that a control plane and its Fargate profiles do not share a WorkspaceTemplateApply. For a profile without
// a reference, the naming scheme determines the name, once the name of the Cluster is known.
func validateDistinctApplies(controlPlane *controlplanev1.CAPTControlPlane, cluster string) field.ErrorList {
	var errs field.ErrorList
	spec := &controlPlane.Spec
	users := map[string]string{}
	if ref := spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
		users[ref.Name] = "the control plane itself"
	}
	for i := range spec.FargateProfiles {
		profile, path := &spec.FargateProfiles[i], field.NewPath("spec", "fargateProfiles").Index(i)
		name := claim.ExpectationOfFargateProfile(cluster, profile).SchemeName
		if profile.WorkspaceTemplateApplyRef.IsDefined() {
			name = profile.WorkspaceTemplateApplyRef.Name
		}
		self := "Fargate profile " + profile.Name
		user, used := users[name]
		switch {
		case name == "", user == self: // The schema rejects an empty name, and two profiles with the same name.
		case !used:
			users[name] = self
		case profile.WorkspaceTemplateApplyRef.IsDefined():
			errs = append(errs, validation.Forbidden(path.Child("workspaceTemplateApplyRef", "name"), "WorkspaceTemplateApply %s is in use by %s: %s", name, user, cannotShare+removeReference))
		default:
			errs = append(errs, validation.Forbidden(path.Child("name"), "the WorkspaceTemplateApply of this profile would be %s, which is in use by %s. Rename one of the two", name, user))
		}
	}
	return errs
}

// kindOf returns the kind of an owner, which may be missing in the object itself.
func kindOf(owner validation.Owner) string {
	if _, ok := owner.(*controlplanev1.CAPTControlPlane); ok {
		return "CAPTControlPlane"
	}
	return "CAPTCluster"
}
