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

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

const (
	// ofItsOwn is the reason why two owners must not share a WorkspaceTemplateApply: they would overwrite each other's changes to the
	// Workspace, and the deletion of one owner would destroy the cloud resources of the other.
	ofItsOwn = "two objects cannot share one. "
	// leaveOut is the advice for an owner with a reference, refer for one without.
	leaveOut = "Remove the reference, or use another name"
	refer    = "Set workspaceTemplateApplyRef to another name"
)

// OwnApply checks that a CAPTCluster or a CAPTControlPlane may have the WorkspaceTemplateApply that it refers to.
func OwnApply(ctx context.Context, reader validation.Reader, owner validation.Owner, ref infrav1.WorkspaceTemplateApplyReference, path *field.Path) (validation.Findings, error) {
	if !ref.IsDefined() {
		return validation.Findings{}, nil
	}
	cluster, err := clusterName(ctx, reader, owner)
	if err != nil {
		return validation.Findings{}, err
	}
	return referredApply(ctx, reader, owner, ref, expectationOf(owner, cluster), path)
}

// referredApply checks that an owner may have the WorkspaceTemplateApply that it refers to. It warns if that does not exist, unless it has
// the name of the naming scheme, under which CAPT creates it.
func referredApply(ctx context.Context, reader validation.Reader, owner validation.Owner, ref infrav1.WorkspaceTemplateApplyReference, want adoption.Expectation, path *field.Path) (validation.Findings, error) {
	var findings validation.Findings
	if !ref.IsDefined() || ref.Name == "" {
		return findings, nil
	}
	path = path.Child("name")
	exists, reason, err := unavailable(ctx, reader, owner, ref.Name, want, leaveOut)
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
// reason is empty if the owner can have it. Otherwise the controller would not write it, and the reference is immutable once it is set.
func unavailable(ctx context.Context, reader validation.Reader, owner validation.Owner, name string, want adoption.Expectation, otherwise string) (exists bool, reason string, err error) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: name}
	referrers, err := reader.ReferrersTo(ctx, key)
	if err != nil {
		return false, "", err
	}
	if others := otherOwners(owner, referrers); len(others) > 0 {
		return false, fmt.Sprintf("WorkspaceTemplateApply %s is in use by %s: %s%s", name, strings.Join(others, " and "), ofItsOwn, otherwise), nil
	}
	apply, err := reader.WorkspaceTemplateApply(ctx, key)
	if err != nil || apply == nil {
		return false, "", err
	}
	if other := adoption.OtherController(owner, apply); other != nil {
		if existsAlready(owner, referrers, other.UID) {
			return true, "", nil
		}
		return true, fmt.Sprintf("WorkspaceTemplateApply %s belongs to %s %s: %s%s", name, other.Kind, other.Name, ofItsOwn, otherwise), nil
	}
	if differs := want.Mismatch(owner, apply); differs != "" {
		return true, want.Refusal(apply, differs), nil
	}
	return true, "", nil
}

// existsAlready reports whether the owner in a create request exists already and controls the WorkspaceTemplateApply. Admission must allow
// such a request, so that the API server responds with AlreadyExists: a restarted clusterctl move continues only after this error.
func existsAlready(owner validation.Owner, referrers []validation.Owner, controller types.UID) bool {
	return slices.ContainsFunc(referrers, func(there validation.Owner) bool {
		return there.GetUID() == controller && kindOf(there) == kindOf(owner) && there.GetName() == owner.GetName()
	})
}

// expectationOf returns what an owner expects of its WorkspaceTemplateApply, as its controller computes it. cluster is empty while the
// Cluster is unknown.
func expectationOf(owner validation.Owner, cluster string) adoption.Expectation {
	switch owner := owner.(type) {
	case *infrav1.CAPTCluster:
		return adoption.OfCAPTCluster(owner, cluster)
	case *controlplanev1.CAPTControlPlane:
		return adoption.OfControlPlane(owner, cluster)
	}
	return adoption.Expectation{Variables: map[string]string{naming.ClusterVariable: cluster}}
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

// OwnApplies checks every reference of a control plane to a WorkspaceTemplateApply.
func OwnApplies(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (validation.Findings, error) {
	spec := &controlPlane.Spec
	findings, err := OwnApply(ctx, reader, controlPlane, spec.WorkspaceTemplateApplyRef, field.NewPath("spec", "workspaceTemplateApplyRef"))
	if err != nil || len(spec.FargateProfiles) == 0 {
		return findings, err
	}
	cluster, err := clusterName(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Refuse(distinctApplies(controlPlane, cluster)...)
	for i := range spec.FargateProfiles {
		found, err := applyOfProfile(ctx, reader, controlPlane, &spec.FargateProfiles[i], cluster, field.NewPath("spec", "fargateProfiles").Index(i))
		if err != nil {
			return findings, err
		}
		findings.Add(found)
	}
	return findings, nil
}

// applyOfProfile checks that a Fargate profile may have its WorkspaceTemplateApply. Without a reference, that is the one with the name of
// the naming scheme, once the name of the Cluster is known. A conflict with it is only a warning, because the user can delete it.
func applyOfProfile(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane, profile *controlplanev1.FargateProfile, cluster string, path *field.Path) (validation.Findings, error) {
	want := adoption.OfProfile(cluster, profile)
	if profile.WorkspaceTemplateApplyRef.IsDefined() || want.SchemeName == "" {
		path = path.Child("workspaceTemplateApplyRef")
		findings, err := referredApply(ctx, reader, controlPlane, profile.WorkspaceTemplateApplyRef, want, path)
		if err == nil {
			err = alreadyCreated(ctx, reader, controlPlane, profile.WorkspaceTemplateApplyRef, want, path, &findings)
		}
		return findings, err
	}
	var findings validation.Findings
	_, reason, err := unavailable(ctx, reader, controlPlane, want.SchemeName, want, refer)
	if reason != "" {
		findings.Warn(path, "nothing is created for this profile: %s", reason)
	}
	return findings, err
}

// alreadyCreated rejects a reference that is added to a Fargate profile which already has a WorkspaceTemplateApply of another name. With the
// reference, CAPT would create the profile a second time, so it would stop writing; and a reference cannot be removed again.
func alreadyCreated(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane, ref infrav1.WorkspaceTemplateApplyReference, want adoption.Expectation, path *field.Path, findings *validation.Findings) error {
	if !ref.IsDefined() || want.SchemeName == "" || ref.Name == want.SchemeName {
		return nil
	}
	made, err := reader.WorkspaceTemplateApply(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: want.SchemeName})
	if err == nil && made != nil && metav1.IsControlledBy(made, controlPlane) && want.IdentityDifference(made) == "" {
		findings.Refuse(validation.Forbidden(path, "the profile already has WorkspaceTemplateApply %s. Remove the reference, or remove the profile, wait for the deletion, and add it again", made.Name))
	}
	return err
}

// distinctApplies checks that a control plane and its Fargate profiles do not share a WorkspaceTemplateApply. A profile without a reference
// has the one with the name of the naming scheme, once the name of the Cluster is known.
func distinctApplies(controlPlane *controlplanev1.CAPTControlPlane, cluster string) field.ErrorList {
	var errs field.ErrorList
	spec := &controlPlane.Spec
	users := map[string]string{}
	if ref := spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
		users[ref.Name] = "the control plane itself"
	}
	for i := range spec.FargateProfiles {
		profile, path := &spec.FargateProfiles[i], field.NewPath("spec", "fargateProfiles").Index(i)
		name := adoption.OfProfile(cluster, profile).SchemeName
		if profile.WorkspaceTemplateApplyRef.IsDefined() {
			name = profile.WorkspaceTemplateApplyRef.Name
		}
		itself := "Fargate profile " + profile.Name
		user, used := users[name]
		switch {
		case name == "", user == itself: // The schema rejects an empty name, and two profiles with the same name.
		case !used:
			users[name] = itself
		case profile.WorkspaceTemplateApplyRef.IsDefined():
			errs = append(errs, validation.Forbidden(path.Child("workspaceTemplateApplyRef", "name"), "WorkspaceTemplateApply %s is in use by %s: %s", name, user, ofItsOwn+leaveOut))
		default:
			errs = append(errs, validation.Forbidden(path.Child("name"), "the WorkspaceTemplateApply of this profile would be %s, which is in use by %s. Rename one of the two", name, user))
		}
	}
	return errs
}

func kindOf(owner validation.Owner) string {
	if _, ok := owner.(*controlplanev1.CAPTControlPlane); ok {
		return "CAPTControlPlane"
	}
	return "CAPTCluster"
}
