// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/applies"
)

// ValidateNewWorkspaceTemplateApply rejects a new WorkspaceTemplateApply with a name that an owner reserves for its own, unless it matches
// what the owner would create. The owner would not take over a mismatch, and would wait forever for the name. An object that is restored
// from a backup is never rejected: without it, the owner would create a new one, and Terraform a second EKS cluster or VPC. If the restored
// object does not match, the owner reports a conflict and writes nothing.
//
// Call it before defaulting sets spec.workspaceName, which identifies a restored object.
func ValidateNewWorkspaceTemplateApply(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply) (validation.Findings, error) {
	var findings validation.Findings
	if isRestored(apply) {
		return findings, nil
	}
	reserved, err := reservedFor(ctx, reader, validation.KeyOf(apply))
	if err != nil || reserved == nil || metav1.IsControlledBy(apply, reserved.owner) {
		return findings, err
	}
	differs := reserved.want.Difference(apply)
	if reserved.want.Records(apply) {
		differs = reserved.want.IdentityDifference(apply) // Restored from a copy that may be older than a change of the owner's template.
	}
	if differs != "" {
		findings.Refuse(validation.Forbidden(field.NewPath("metadata", "name"),
			"%s %s uses this name for %s, but this one %s. Use another name, or set the template and the variables of the %s",
			kindOf(reserved.owner), reserved.owner.GetName(), reserved.purpose, differs, reserved.source))
	}
	return findings, nil
}

// reservation is the owner for which the name of a WorkspaceTemplateApply is reserved.
type reservation struct {
	owner validation.Owner
	// want is what the owner expects of the WorkspaceTemplateApply with this name.
	want claim.Expectation
	// purpose and source are parts of messages: what the owner uses the name for, and the object that determines template and variables.
	purpose, source string
}

// isRestored reports whether a WorkspaceTemplateApply was in use before: it has fields that only CAPT writes.
func isRestored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Spec.WorkspaceName != "" || len(apply.Finalizers) > 0 || applies.RecordedWorkspace(apply) != ""
}

// reservedFor returns the owner, or the Fargate profile of an owner, for which a name is reserved; nil when there is none.
func reservedFor(ctx context.Context, reader validation.Reader, key types.NamespacedName) (*reservation, error) {
	owner, err := ownerByScheme(ctx, reader, key)
	if err != nil {
		return nil, err
	}
	if owner == nil {
		return reservedForProfile(ctx, reader, key)
	}
	cluster, err := clusterName(ctx, reader, owner)
	return &reservation{owner: owner, want: expectationOf(owner, cluster), purpose: "its own WorkspaceTemplateApply", source: kindOf(owner)}, err
}

// ownerByScheme finds the owner whose WorkspaceTemplateApply gets a name by the naming scheme; nil when there is none, or when its
// reference, which is immutable, names another one.
func ownerByScheme(ctx context.Context, reader validation.Reader, key types.NamespacedName) (validation.Owner, error) {
	if name, ok := naming.CAPTClusterOf(key.Name); ok {
		captCluster, err := reader.CAPTCluster(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || captCluster == nil || refersToAnother(captCluster.Spec.WorkspaceTemplateApplyRef, key) || !captCluster.Spec.VPC.Template.IsDefined() {
			return nil, err // With an existing VPC, it never creates a WorkspaceTemplateApply.
		}
		return captCluster, nil
	}
	if name, ok := naming.CAPTControlPlaneOf(key.Name); ok {
		controlPlane, err := reader.CAPTControlPlane(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil || controlPlane == nil || refersToAnother(controlPlane.Spec.WorkspaceTemplateApplyRef, key) {
			return nil, err
		}
		return controlPlane, nil
	}
	return nil, nil
}

// refersToAnother reports whether a reference is to another WorkspaceTemplateApply.
func refersToAnother(ref infrav1.WorkspaceTemplateApplyReference, key types.NamespacedName) bool {
	return ref.IsDefined() && ref.Name != key.Name
}

// reservedForProfile finds the Fargate profile that refers to a name, or gets it by the naming scheme.
func reservedForProfile(ctx context.Context, reader validation.Reader, key types.NamespacedName) (*reservation, error) {
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
			want := claim.ExpectationOfFargateProfile(cluster, profile)
			if ref := profile.WorkspaceTemplateApplyRef; ref.Name == key.Name || !ref.IsDefined() && want.SchemeName == key.Name {
				purpose := "the WorkspaceTemplateApply of its Fargate profile " + profile.Name
				return &reservation{owner: controlPlane, want: want, purpose: purpose, source: "profile"}, nil
			}
		}
	}
	return nil, nil
}

// controlPlanesByProfile finds the control planes with Fargate profiles that may have a WorkspaceTemplateApply: those that refer to it, and
// those of Clusters whose name may be the prefix of its name.
func controlPlanesByProfile(ctx context.Context, reader validation.Reader, key types.NamespacedName) ([]*controlplanev1.CAPTControlPlane, error) {
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
		cluster, err := reader.Cluster(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		controlPlane, err := ControlPlaneOf(ctx, reader, cluster)
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
func clusterName(ctx context.Context, reader validation.Reader, owner validation.Owner) (string, error) {
	if name := owner.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name, nil
	}
	cluster, err := reader.ClusterOf(ctx, owner)
	if err != nil || cluster == nil {
		return "", err
	}
	return cluster.Name, nil
}

// ControlPlaneOf returns the CAPTControlPlane of a Cluster; nil when cluster is nil, or the CAPTControlPlane does not exist.
func ControlPlaneOf(ctx context.Context, reader validation.Reader, cluster *clusterv1.Cluster) (*controlplanev1.CAPTControlPlane, error) {
	if cluster == nil {
		return nil, nil
	}
	ref := cluster.Spec.ControlPlaneRef
	if ref.Kind != "CAPTControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil, nil
	}
	return reader.CAPTControlPlane(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: ref.Name})
}
