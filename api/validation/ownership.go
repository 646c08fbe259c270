// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
)

const (
	// cannotShare is the reason why two owners must not share a WorkspaceTemplateApply: they would overwrite each other's changes to the
	// Workspace, and the deletion of one owner would destroy the cloud resources of the other.
	cannotShare = "two objects cannot share one. "
	// removeReference is what to do for an owner with a reference, setReference for an owner without one.
	removeReference = "Remove the reference, or use another name"
	setReference    = "Set workspaceTemplateApplyRef to another name"
)

// validateApplyReference checks that a CAPTCluster, a CAPTControlPlane or a CAPTMachinePool may have the WorkspaceTemplateApply that it refers to.
func validateApplyReference(ctx context.Context, reader Reader, owner Owner, ref infrav1.WorkspaceTemplateApplyReference, path *field.Path) (Findings, error) {
	if !ref.IsDefined() {
		return Findings{}, nil
	}
	want, err := expectationOf(ctx, reader, owner)
	if err != nil {
		return Findings{}, err
	}
	return validateReferredApply(ctx, reader, owner, ref, want, path)
}

// validateReferredApply checks that an owner may have the WorkspaceTemplateApply that it refers to. It warns if that does not exist, unless
// the reference has the name of the naming scheme, which CAPT gives to a new one.
func validateReferredApply(ctx context.Context, reader Reader, owner Owner, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation, path *field.Path) (findings Findings, err error) {
	exists, reason, err := unavailable(ctx, reader, owner, ref.Name, want, removeReference)
	switch path = path.Child("name"); {
	case err != nil:
	case reason != "":
		findings.Refuse(Forbidden(path, "%s", reason))
	case !exists && ref.Name != want.SchemeName:
		findings.Warn(path, "WorkspaceTemplateApply %s does not exist and will be created. To adopt an existing one, correct the name", ref.Name)
	}
	return findings, err
}

// unavailable reports whether a WorkspaceTemplateApply exists, and why an owner cannot have it: it has another owner, or it does not match.
// reason is empty if the owner can have it. Otherwise the controller would never write it, and the reference could not be changed. advice
// is added to the reason if the WorkspaceTemplateApply has another owner.
func unavailable(ctx context.Context, reader Reader, owner Owner, name string, want claim.Expectation, advice string) (exists bool, reason string, err error) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: name}
	referrers, err := reader.ReferrersTo(ctx, key)
	if err != nil {
		return false, "", err
	}
	if others := otherOwners(owner, referrers); len(others) > 0 {
		return false, fmt.Sprintf("WorkspaceTemplateApply %s is in use by %s: %s%s", name, strings.Join(others, " and "), cannotShare, advice), nil
	}
	apply, err := Get[*infrav1.WorkspaceTemplateApply](ctx, reader, key)
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
func existsAlready(owner Owner, referrers []Owner, controller types.UID) bool {
	return slices.ContainsFunc(referrers, func(referrer Owner) bool {
		return referrer.GetUID() == controller && claim.ReferenceTo(referrer) == claim.ReferenceTo(owner)
	})
}

// expectationOf returns what an owner expects of its WorkspaceTemplateApply, as its controller computes it.
func expectationOf(ctx context.Context, reader Reader, owner Owner) (claim.Expectation, error) {
	if pool, ok := owner.(*infrav1.CAPTMachinePool); ok {
		group, err := nodeGroupOf(ctx, reader, pool)
		if err != nil {
			return claim.Expectation{}, err
		}
		eksName, err := eksNameOf(ctx, reader, pool, &group)
		return claim.ExpectationOfMachinePool(pool, eksName, group.Name()), err
	}
	name, err := clusterName(ctx, reader, owner)
	if err != nil {
		return claim.Expectation{}, err
	}
	if controlPlane, ok := owner.(*controlplanev1.CAPTControlPlane); ok {
		return legacy.ExpectationOfControlPlane(controlPlane, name), nil
	}
	cluster, err := Get[*clusterv1.Cluster](ctx, reader, types.NamespacedName{Namespace: owner.GetNamespace(), Name: name})
	if err != nil {
		return claim.Expectation{}, err
	}
	controlPlane, err := controlPlaneOf(ctx, reader, cluster)
	if controlPlane == nil && (cluster == nil || cluster.Spec.ControlPlaneRef.Kind == "CAPTControlPlane") {
		name = "" // A control plane that is created later may set it: objects are restored in any order.
	}
	return legacy.ExpectationOfCAPTCluster(owner.(*infrav1.CAPTCluster), claim.EKSClusterName(controlPlane, name)), err
}

// expectationOfProfile returns what a control plane expects of the WorkspaceTemplateApply of a Fargate profile. cluster is empty while the Cluster is
// unknown.
func expectationOfProfile(controlPlane *controlplanev1.CAPTControlPlane, cluster string, profile *controlplanev1.FargateProfile) claim.Expectation {
	want := claim.ExpectationOfFargateProfile(cluster, profile)
	want.Variables[naming.ClusterVariable] = claim.EKSClusterName(controlPlane, cluster)
	return want
}

// otherOwners returns the kinds and names of the referrers other than the owner, sorted: webhooks recognize an error that existed before an
// update by its text, so the text must not depend on the order of the list.
func otherOwners(owner Owner, referrers []Owner) (others []string) {
	for _, other := range referrers {
		if claim.ReferenceTo(other) != claim.ReferenceTo(owner) {
			others = append(others, claim.ReferenceTo(other).Kind+" "+other.GetName())
		}
	}
	slices.Sort(others)
	return others
}

// validateApplyReferences checks every reference of a control plane to a WorkspaceTemplateApply.
func validateApplyReferences(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	spec := &controlPlane.Spec
	if err := findings.include(validateApplyReference(ctx, reader, controlPlane, spec.WorkspaceTemplateApplyRef, field.NewPath("spec", "workspaceTemplateApplyRef"))); err != nil || len(spec.FargateProfiles) == 0 {
		return findings, err
	}
	cluster, err := clusterName(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	findings.Refuse(validateDistinctApplies(controlPlane, cluster)...)
	for i := range spec.FargateProfiles {
		path := field.NewPath("spec", "fargateProfiles").Index(i)
		if err := findings.include(validateApplyOfProfile(ctx, reader, controlPlane, &spec.FargateProfiles[i], cluster, path)); err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// validateApplyOfProfile checks that a Fargate profile may have its WorkspaceTemplateApply. Without a reference, the naming scheme
// determines its name, once the name of the Cluster is known. Then a conflict is only a warning, because the user can delete the
// WorkspaceTemplateApply.
func validateApplyOfProfile(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane, profile *controlplanev1.FargateProfile, cluster string, path *field.Path) (findings Findings, err error) {
	want, ref := expectationOfProfile(controlPlane, cluster, profile), profile.WorkspaceTemplateApplyRef
	switch {
	case ref.IsDefined():
		path = path.Child("workspaceTemplateApplyRef")
		err = cmp.Or(
			findings.include(validateReferredApply(ctx, reader, controlPlane, ref, want, path)),
			findings.include(validateAddedReference(ctx, reader, controlPlane, ref, want, path)))
	case want.SchemeName != "":
		var reason string
		if _, reason, err = unavailable(ctx, reader, controlPlane, want.SchemeName, want, setReference); reason != "" {
			findings.Warn(path, "nothing is created for this profile: %s", reason)
		}
	}
	return findings, err
}

// validateAddedReference rejects a reference that is added to a Fargate profile which already has a WorkspaceTemplateApply of another name.
// With the reference, CAPT would create the profile a second time, so it would stop writing; and a reference cannot be removed again.
func validateAddedReference(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane, ref infrav1.WorkspaceTemplateApplyReference, want claim.Expectation, path *field.Path) (findings Findings, err error) {
	if want.SchemeName == "" || ref.Name == want.SchemeName {
		return findings, nil
	}
	existing, err := Get[*infrav1.WorkspaceTemplateApply](ctx, reader, types.NamespacedName{Namespace: controlPlane.Namespace, Name: want.SchemeName})
	if existing != nil && metav1.IsControlledBy(existing, controlPlane) && want.IdentityDifference(existing) == "" {
		findings.Refuse(Forbidden(path, "the profile already has WorkspaceTemplateApply %s. Remove the reference, or remove the profile, wait for the deletion, and add it again", existing.Name))
	}
	return findings, err
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
			errs = append(errs, Forbidden(path.Child("workspaceTemplateApplyRef", "name"), "WorkspaceTemplateApply %s is in use by %s: %s", name, user, cannotShare+removeReference))
		default:
			errs = append(errs, Forbidden(path.Child("name"), "the WorkspaceTemplateApply of this profile would be %s, which is in use by %s. Rename one of the two", name, user))
		}
	}
	return errs
}

// ValidateNewWorkspaceTemplateApply rejects a new WorkspaceTemplateApply with a name that an owner reserves for its own, unless it matches
// what the owner would create. The owner would not take over a mismatch, and would wait forever for the name. An object that is restored
// from a backup is never rejected: without it, the owner would create a new one, and Terraform a second EKS cluster or VPC. If the restored
// object does not match, the owner reports a conflict and writes nothing.
//
// Call it before defaulting sets spec.workspaceName, which identifies a restored object.
func ValidateNewWorkspaceTemplateApply(ctx context.Context, reader Reader, apply *infrav1.WorkspaceTemplateApply) (Findings, error) {
	var findings Findings
	if apply.Spec.WorkspaceName != "" || len(apply.Finalizers) > 0 || RecordedWorkspace(apply) != "" {
		return findings, nil // It was in use before: only CAPT writes these fields.
	}
	reserved, err := reservedFor(ctx, reader, naming.KeyOf(apply))
	if err != nil || reserved == nil || metav1.IsControlledBy(apply, reserved.owner) {
		return findings, err
	}
	differs := reserved.want.Difference(apply)
	if reserved.want.Records(apply) {
		differs = reserved.want.IdentityDifference(apply) // Restored from a copy that may be older than a change of the owner's template.
	}
	if differs != "" {
		findings.Refuse(Forbidden(field.NewPath("metadata", "name"),
			"%s %s uses this name for %s, but this one %s. Use another name, or set the template and the variables of the %s",
			claim.ReferenceTo(reserved.owner).Kind, reserved.owner.GetName(), reserved.purpose, differs, reserved.source))
	}
	return findings, nil
}

// reservation is the owner for which the name of a WorkspaceTemplateApply is reserved.
type reservation struct {
	owner Owner
	// want is what the owner expects of the WorkspaceTemplateApply with this name.
	want claim.Expectation
	// purpose and source are parts of messages: what the owner uses the name for, and the object that determines template and variables.
	purpose, source string
}

// reservedFor returns the owner, or the Fargate profile of an owner, for which a name is reserved; nil when there is none.
func reservedFor(ctx context.Context, reader Reader, key types.NamespacedName) (*reservation, error) {
	owner, err := ownerByScheme(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		controlPlanes, err := controlPlanesByProfile(ctx, reader, key)
		if err != nil {
			return nil, err
		}
		for _, controlPlane := range controlPlanes {
			cluster, err := clusterName(ctx, reader, controlPlane)
			if err != nil {
				return nil, err
			}
			for i := range controlPlane.Spec.FargateProfiles {
				profile := &controlPlane.Spec.FargateProfiles[i]
				want := expectationOfProfile(controlPlane, cluster, profile)
				if ref := profile.WorkspaceTemplateApplyRef; ref.Name == key.Name || !ref.IsDefined() && want.SchemeName == key.Name {
					purpose := "the WorkspaceTemplateApply of its Fargate profile " + profile.Name
					return &reservation{owner: controlPlane, want: want, purpose: purpose, source: "profile"}, nil
				}
			}
		}
		return nil, nil
	}
	want, err := expectationOf(ctx, reader, owner)
	return &reservation{owner: owner, want: want, purpose: "its own WorkspaceTemplateApply", source: claim.ReferenceTo(owner).Kind}, err
}

// ownerByScheme finds the owner whose WorkspaceTemplateApply gets a name by the naming scheme; nil when there is none, or when its
// reference, which is immutable, names another one.
func ownerByScheme(ctx context.Context, reader Reader, key types.NamespacedName) (Owner, error) {
	if name, ok := naming.CAPTClusterOf(key.Name); ok {
		captCluster, err := Get[*infrav1.CAPTCluster](ctx, reader, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || captCluster == nil || refersToAnother(captCluster.Spec.WorkspaceTemplateApplyRef, key) || !captCluster.Spec.VPC.Template.IsDefined() {
			return nil, err // With an existing VPC, it never creates a WorkspaceTemplateApply.
		}
		return captCluster, nil
	}
	if name, ok := naming.CAPTControlPlaneOf(key.Name); ok {
		controlPlane, err := Get[*controlplanev1.CAPTControlPlane](ctx, reader, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || controlPlane == nil || refersToAnother(controlPlane.Spec.WorkspaceTemplateApplyRef, key) {
			return nil, err
		}
		return controlPlane, nil
	}
	return poolByScheme(ctx, reader, key)
}

func poolByScheme(ctx context.Context, reader Reader, key types.NamespacedName) (Owner, error) {
	name, ok := naming.CAPTMachinePoolOf(key.Name)
	if !ok {
		return nil, nil
	}
	pool, err := Get[*infrav1.CAPTMachinePool](ctx, reader, types.NamespacedName{Namespace: key.Namespace, Name: name})
	if err != nil || pool == nil || refersToAnother(pool.Spec.WorkspaceTemplateApplyRef, key) {
		return nil, err
	}
	return pool, nil
}

func refersToAnother(ref infrav1.WorkspaceTemplateApplyReference, key types.NamespacedName) bool {
	return ref.IsDefined() && ref.Name != key.Name
}

// controlPlanesByProfile finds the control planes with Fargate profiles that may have a WorkspaceTemplateApply: those that refer to it, and
// those of Clusters whose name may be the prefix of its name.
func controlPlanesByProfile(ctx context.Context, reader Reader, key types.NamespacedName) ([]*controlplanev1.CAPTControlPlane, error) {
	var found []*controlplanev1.CAPTControlPlane
	referrers, err := reader.ReferrersTo(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, referrer := range referrers {
		if controlPlane, ok := referrer.(*controlplanev1.CAPTControlPlane); ok {
			found = append(found, controlPlane)
		}
	}
	for _, name := range naming.FargateClustersOf(key.Name) {
		cluster, err := Get[*clusterv1.Cluster](ctx, reader, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		controlPlane, err := controlPlaneOf(ctx, reader, cluster)
		if err != nil {
			return nil, err
		}
		if controlPlane != nil {
			found = append(found, controlPlane)
		}
	}
	return found, nil
}

// clusterName returns the name of the Cluster that an owner belongs to; empty while it is unknown.
func clusterName(ctx context.Context, reader Reader, owner Owner) (string, error) {
	if name := owner.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name, nil
	}
	cluster, err := reader.ClusterOf(ctx, owner)
	if err != nil || cluster == nil {
		return "", err
	}
	return cluster.Name, nil
}

// controlPlaneOf returns the CAPTControlPlane of a Cluster; nil when cluster is nil, or the CAPTControlPlane does not exist.
func controlPlaneOf(ctx context.Context, reader Reader, cluster *clusterv1.Cluster) (*controlplanev1.CAPTControlPlane, error) {
	if cluster == nil {
		return nil, nil
	}
	ref := cluster.Spec.ControlPlaneRef
	if ref.Kind != "CAPTControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil, nil
	}
	return Get[*controlplanev1.CAPTControlPlane](ctx, reader, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name})
}
