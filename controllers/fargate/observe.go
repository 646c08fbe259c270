// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fargate reconciles the Fargate profiles of an EKS cluster: one WorkspaceTemplateApply each, written and reported by the
// controller of control planes. The controller of WorkspaceTemplateApplies serializes the Terraform runs for profiles of one cluster,
// because it observes everything that causes a run: changes of spec and template, and deletions.
package fargate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// Cluster is the EKS cluster of the profiles.
type Cluster struct {
	desired.EKSCluster
	// UpToDate is true when Terraform has applied the WorkspaceTemplateApply of the control plane.
	UpToDate bool
	// Connection is the connection Secret of the control plane; nil when it does not exist.
	Connection *corev1.Secret
}

// Profile is a Fargate profile.
type Profile struct {
	Name string
	// Apply is its WorkspaceTemplateApply.
	Apply owner.Facts
	// Existing is a WorkspaceTemplateApply that the control plane controls and that is for a profile of this name; it may differ from
	// the one that spec refers to.
	Existing *infrav1.WorkspaceTemplateApply
}

// Facts are what was observed of the Fargate profiles of a control plane.
type Facts struct {
	// Profiles of spec, in its order. There are none when the control plane is being deleted.
	Profiles []Profile
	// Obsolete are those that exist and spec no longer has: all, when the control plane is being deleted. Sorted by name.
	Obsolete []Profile
	// Cluster is nil while the control plane has no Workspace.
	Cluster *Cluster
	// VPCSecret describes the VPC; read only when a profile is to be created or changed, because its value is not cached.
	VPCSecret *corev1.Secret
}

// ObsoleteApplies are the WorkspaceTemplateApplies of Obsolete.
func (f *Facts) ObsoleteApplies() []*infrav1.WorkspaceTemplateApply {
	applies := make([]*infrav1.WorkspaceTemplateApply, len(f.Obsolete))
	for i := range f.Obsolete {
		applies[i] = f.Obsolete[i].Apply.Apply
	}
	return applies
}

// busy reports whether Terraform creates, changes or destroys a profile, or is about to. New profiles are created in the order of
// spec, one after the other. A profile that cannot be destroyed, or waits for the user, does not delay others.
func (f *Facts) busy() bool {
	return slices.ContainsFunc(f.Obsolete, func(p Profile) bool { return isDestroying(p.Apply.Apply) }) ||
		slices.ContainsFunc(f.Profiles, func(p Profile) bool { return isApplying(p.Apply.Apply) || isApplying(p.Existing) })
}

// isApplying reports whether Terraform creates or changes a profile, or is about to. It starts nothing while paused.
func isApplying(apply *infrav1.WorkspaceTemplateApply) bool {
	facts := owner.Facts{Apply: apply}
	return apply != nil && !facts.UpToDate() && facts.Working() && !conditions.IsTrue(apply, clusterv1.PausedCondition)
}

// isDestroying reports whether Terraform destroys an obsolete profile, or is about to.
func isDestroying(apply *infrav1.WorkspaceTemplateApply) bool {
	switch conditions.GetReason(apply, infrav1.DeletingCondition) {
	case "", infrav1.NotDeletingReason, infrav1.WaitingForWorkspaceDeletionReason, infrav1.QueuedReason:
		return true
	}
	return false
}

// Reader reads Fargate profiles.
type Reader struct {
	Cached   client.Client
	Uncached client.Reader
	Gate     engine.Gate
}

// ObserveSpec reads the profiles of spec once their EKS cluster is known, and adds them to the existing ones.
func (r Reader) ObserveSpec(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, cluster Cluster, f *Facts) (err error) {
	f.Cluster = &cluster
	for i := range f.Profiles {
		spec := &controlPlane.Spec.FargateProfiles[i]
		want, ref := desired.ExpectationOfFargateProfile(cluster.Name, cluster.EKSName, spec)
		// Confirm with the API server only if the profile may be created: the cluster is up to date, and Terraform creates no other profile.
		reader := owner.Reader{Cached: r.Cached, Uncached: r.Uncached, Gate: r.Gate, Confirm: cluster.UpToDate && !f.busy()}
		if f.Profiles[i].Apply, err = reader.Observe(ctx, controlPlane, ref, want); err != nil {
			return fmt.Errorf("reading Fargate profile %s: %w", spec.Name, err)
		}
	}
	if !cluster.UpToDate || cluster.VPCSecretName == "" {
		return nil
	}
	pending, err := f.anyPending(controlPlane)
	if err != nil || !pending {
		return err
	}
	key := client.ObjectKey{Namespace: controlPlane.Namespace, Name: cluster.VPCSecretName}
	if f.VPCSecret, err = engine.Get(ctx, r.Uncached, key, &corev1.Secret{}); err != nil {
		return fmt.Errorf("reading Secret %s: %w", key.Name, err)
	}
	return nil
}
