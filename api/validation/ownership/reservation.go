// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
)

// WorkspaceTemplateApplyCreation checks that a new WorkspaceTemplateApply does not have the name that an owner gives to its
// own, unless it can be the owner's: the owner would not take it, and wait for the name forever. One that is put back from
// a backup is never refused: the owner would make another one, which is a second EKS cluster or VPC, whereas it stops at
// one that it does not know.
//
// Defaulting gives a new one its spec.workspaceName, and must ask here before it does.
func WorkspaceTemplateApplyCreation(ctx context.Context, world validation.World, apply *infrav1.WorkspaceTemplateApply) (validation.Findings, error) {
	var findings validation.Findings
	if restored(apply) {
		return findings, nil
	}
	kept, err := reservedFor(ctx, world, validation.KeyOf(apply))
	if err != nil || kept == nil || metav1.IsControlledBy(apply, kept.owner) {
		return findings, err
	}
	differs := kept.want.Difference(apply)
	if kept.want.Had(apply) {
		differs = kept.want.IdentityDifference(apply) // Put back from a copy, which may be from before the owner got another template.
	}
	if differs != "" {
		findings.Refuse(validation.Forbidden(field.NewPath("metadata", "name"),
			"%s %s uses this name for %s, but this one %s. Use another name, or set the template and the variables of the %s",
			kindOf(kept.owner), kept.owner.GetName(), kept.what, differs, kept.whose))
	}
	return findings, nil
}

// reservation is a name that an owner gives to a WorkspaceTemplateApply.
type reservation struct {
	owner validation.Owner
	// want is what the owner would make under the name.
	want adoption.Expectation
	// what and whose describe in words what the WorkspaceTemplateApply is to the owner.
	what, whose string
}

// restored reports whether a WorkspaceTemplateApply has been in use before: it has what CAPT writes into it.
func restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" || len(apply.Finalizers) > 0 || applies.RecordedWorkspace(apply) != ""
}

// reservedFor returns for whom a name is reserved: an owner, or a Fargate profile of one. It returns nil when there is none.
func reservedFor(ctx context.Context, world validation.World, key types.NamespacedName) (*reservation, error) {
	owner, err := ownerByScheme(ctx, world, key)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return reservedForProfile(ctx, world, key)
	}
	cluster, err := clusterName(ctx, world, owner)
	return &reservation{owner: owner, want: expectationOf(owner, cluster), what: "its own WorkspaceTemplateApply", whose: kindOf(owner)}, err
}

// ownerByScheme finds the owner whose WorkspaceTemplateApply gets a name by the naming scheme; nil when there is none, or when
// it has another one, for good.
func ownerByScheme(ctx context.Context, world validation.World, key types.NamespacedName) (validation.Owner, error) {
	if name, ok := naming.CAPTClusterOf(key.Name); ok {
		captCluster, err := world.CAPTCluster(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || captCluster == nil || another(captCluster.Spec.WorkspaceTemplateApplyRef, key) || !captCluster.Spec.VPC.Template.IsDefined() {
			return nil, err // With an existing VPC, it never makes one.
		}
		return captCluster, nil
	}
	if name, ok := naming.CAPTControlPlaneOf(key.Name); ok {
		controlPlane, err := world.CAPTControlPlane(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || controlPlane == nil || another(controlPlane.Spec.WorkspaceTemplateApplyRef, key) {
			return nil, err
		}
		return controlPlane, nil
	}
	return nil, nil
}

// another reports whether a reference is to another WorkspaceTemplateApply.
func another(ref infrav1.WorkspaceTemplateApplyReference, key types.NamespacedName) bool {
	return ref.IsDefined() && ref.Name != key.Name
}

// reservedForProfile finds the Fargate profile that refers to a name, or gets it by the naming scheme.
func reservedForProfile(ctx context.Context, world validation.World, key types.NamespacedName) (*reservation, error) {
	controlPlanes, err := controlPlanesByProfile(ctx, world, key)
	if err != nil {
		return nil, err
	}
	for _, controlPlane := range controlPlanes {
		cluster, err := clusterName(ctx, world, controlPlane)
		if err != nil {
			return nil, err
		}
		for i := range controlPlane.Spec.FargateProfiles {
			profile := &controlPlane.Spec.FargateProfiles[i]
			want := adoption.OfProfile(cluster, profile)
			if ref := profile.WorkspaceTemplateApplyRef; ref.Name == key.Name || !ref.IsDefined() && want.SchemeName == key.Name {
				what := "the WorkspaceTemplateApply of its Fargate profile " + profile.Name
				return &reservation{owner: controlPlane, want: want, what: what, whose: "profile"}, nil
			}
		}
	}
	return nil, nil
}

// controlPlanesByProfile finds the control planes of which a Fargate profile may have a WorkspaceTemplateApply: those that refer
// to it, and those of the Clusters with whose names its own may begin.
func controlPlanesByProfile(ctx context.Context, world validation.World, key types.NamespacedName) ([]*controlplanev1.CAPTControlPlane, error) {
	var found []*controlplanev1.CAPTControlPlane
	referrers, err := world.ReferrersTo(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, referrer := range referrers {
		if controlPlane, ok := referrer.(*controlplanev1.CAPTControlPlane); ok {
			found = append(found, controlPlane)
		}
	}
	for _, name := range naming.FargateClustersOf(key.Name) {
		cluster, err := world.Cluster(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		controlPlane, err := ControlPlaneOf(ctx, world, cluster)
		if err != nil {
			return nil, err
		}
		if controlPlane != nil {
			found = append(found, controlPlane)
		}
	}
	return found, nil
}

// clusterName is the name of the Cluster that an owner belongs to; empty when it is not known yet.
func clusterName(ctx context.Context, world validation.World, owner validation.Owner) (string, error) {
	if name := owner.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name, nil
	}
	cluster, err := world.ClusterOf(ctx, owner)
	if err != nil || cluster == nil {
		return "", err
	}
	return cluster.Name, nil
}

// ControlPlaneOf finds the CAPTControlPlane of a Cluster, which may be nil; nil when there is none, or not yet.
func ControlPlaneOf(ctx context.Context, world validation.World, cluster *clusterv1.Cluster) (*controlplanev1.CAPTControlPlane, error) {
	if cluster == nil {
		return nil, nil
	}
	ref := cluster.Spec.ControlPlaneRef
	if ref.Kind != "CAPTControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil, nil
	}
	return world.CAPTControlPlane(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name})
}
