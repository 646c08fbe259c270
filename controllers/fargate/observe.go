// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fargate reconciles the Fargate profiles of an EKS cluster: one WorkspaceTemplateApply each, written and reported by the
// controller of control planes. The controller of WorkspaceTemplateApplies serializes the Terraform runs for profiles of one cluster,
// because it observes everything that causes a run: changes of spec and template, and deletions.
package fargate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
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
	// Running is the time since Terraform started to create or update the profile, also while it fails; nil before.
	Running *time.Duration
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
		applies[i] = f.Obsolete[i].Apply.Live
	}
	return applies
}

// busy reports whether Terraform creates, changes or destroys a profile, or is about to. New profiles are created in the order of
// spec, one after the other. A profile that cannot be destroyed, or waits for the user, does not delay others.
func (f *Facts) busy() bool {
	return slices.ContainsFunc(f.Obsolete, func(p Profile) bool { return isDestroying(p.Apply.Live) }) ||
		slices.ContainsFunc(f.Profiles, func(p Profile) bool { return isApplying(p.Apply.Live) || isApplying(p.Existing) })
}

// isApplying reports whether Terraform creates or changes a profile, or is about to. It starts nothing while paused.
func isApplying(apply *infrav1.WorkspaceTemplateApply) bool {
	facts := owner.Facts{Live: apply}
	return apply != nil && !facts.UpToDate() && facts.Working() && !conditions.IsTrue(apply, clusterv1.PausedCondition)
}

// isDestroying reports whether Terraform destroys an obsolete profile, or is about to.
func isDestroying(apply *infrav1.WorkspaceTemplateApply) bool {
	switch conditions.GetReason(apply, infrav1.DeletingCondition) {
	case "", infrav1.NotDeletingReason, infrav1.WaitingForWorkspaceDeletionReason, infrav1.NotReportedReason, infrav1.QueuedReason:
		return true
	}
	return false
}

// Reader reads Fargate profiles.
type Reader struct{ *owner.Reconciler }

// ObserveSpec reads the profiles of spec once their EKS cluster is known, and adds them to the existing ones.
func (r Reader) ObserveSpec(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, cluster Cluster, f *Facts) (err error) {
	f.Cluster = &cluster
	for i := range f.Profiles {
		spec := &controlPlane.Spec.FargateProfiles[i]
		want, ref := desired.ExpectationOfFargateProfile(cluster.Name, cluster.EKSName, spec)
		// Confirm with the API server only if the profile may be created: the cluster is up to date, and Terraform creates no other profile.
		if f.Profiles[i].Apply, err = r.Reader(engine.GateDecision{}, cluster.UpToDate && !f.busy()).Observe(ctx, controlPlane, ref, want); err != nil {
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
	f.VPCSecret, err = r.ReadSecret(ctx, controlPlane.Namespace, cluster.VPCSecretName)
	return err
}

// ControllerIndex finds the WorkspaceTemplateApplies of Fargate profiles by the UID of their control plane.
const ControllerIndex = "fargateProfileOf"

// IndexController is the function of ControllerIndex.
func IndexController(object client.Object) []string {
	controller := metav1.GetControllerOf(object)
	if controller == nil || object.GetLabels()[naming.SerializeLabel] != naming.FargateProfilesGroup {
		return nil
	}
	return []string{string(controller.UID)}
}

// ObserveExisting reads the profiles that exist: those of spec, in its order, and obsolete ones. Before the finalizer can be removed, it reads
// from the API server, because the cache may not have a profile that was just created.
func (r Reader) ObserveExisting(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane) (f Facts, err error) {
	applies, err := r.controlled(ctx, controlPlane)
	if err != nil {
		return f, fmt.Errorf("listing the WorkspaceTemplateApplies of Fargate profiles: %w", err)
	}
	deleted, existing := !controlPlane.DeletionTimestamp.IsZero(), map[string]*infrav1.WorkspaceTemplateApply{}
	for i := range applies {
		apply := &applies[i]
		switch {
		case !metav1.IsControlledBy(apply, controlPlane):
		case deleted || !desired.HasProfile(controlPlane, apply):
			f.Obsolete = append(f.Obsolete, Profile{Name: desired.ProfileName(apply), Apply: owner.Facts{Live: apply}})
		default:
			existing[desired.ProfileName(apply)] = apply
		}
	}
	slices.SortFunc(f.Obsolete, byName)
	for i := range controlPlane.Spec.FargateProfiles {
		if name := controlPlane.Spec.FargateProfiles[i].Name; !deleted {
			f.Profiles = append(f.Profiles, Profile{Name: name, Existing: existing[name]})
		}
	}
	return f, r.confirmObsolete(ctx, controlPlane, &f)
}

// controlled lists the WorkspaceTemplateApplies of profiles that a control plane controls.
func (r Reader) controlled(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	inNamespace := client.InNamespace(controlPlane.Namespace)
	if err := r.Client.List(ctx, &list, inNamespace, client.MatchingFields{ControllerIndex: string(controlPlane.UID)}); err != nil {
		return nil, err
	}
	unused := len(controlPlane.Spec.FargateProfiles)+len(list.Items) == 0
	if !controllerutil.ContainsFinalizer(controlPlane, controlplanev1.FargateProfileFinalizer) || !unused && controlPlane.DeletionTimestamp.IsZero() {
		return list.Items, nil
	}
	// Select by the labels that they were created with: a namespace may have many clusters, and the response has whole objects.
	var live infrav1.WorkspaceTemplateApplyList
	err := r.Uncached.List(ctx, &live, inNamespace, labelsOf(controlPlane))
	return merged(live.Items, list.Items), err
}

func labelsOf(controlPlane *controlplanev1.CAPTControlPlane) client.MatchingLabels {
	labels := client.MatchingLabels{naming.SerializeLabel: naming.FargateProfilesGroup}
	if cluster := controlPlane.Labels[clusterv1.ClusterNameLabel]; cluster != "" {
		labels[clusterv1.ClusterNameLabel] = cluster
	}
	return labels
}

// merged adds objects from the cache that the API server did not return, because another client may have changed their labels.
func merged(live, cached []infrav1.WorkspaceTemplateApply) []infrav1.WorkspaceTemplateApply {
	for i := range cached {
		if !slices.ContainsFunc(live, func(a infrav1.WorkspaceTemplateApply) bool { return a.UID == cached[i].UID }) {
			live = append(live, cached[i])
		}
	}
	return live
}

// ObserveOrphans adds the profiles of a control plane in deletion that it does not control: profiles that spec refers to and that were never
// written, and profiles that lost their owner reference because the control plane was deleted with propagationPolicy Orphan. EKS does not
// delete a cluster with profiles, and no other controller would delete them.
func (r Reader) ObserveOrphans(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, eksName string, f *Facts) error {
	if controlPlane.DeletionTimestamp.IsZero() {
		return nil
	}
	for i := range controlPlane.Spec.FargateProfiles {
		spec := &controlPlane.Spec.FargateProfiles[i]
		want, ref := desired.ExpectationOfFargateProfile(controlPlane.Labels[clusterv1.ClusterNameLabel], eksName, spec)
		known := slices.ContainsFunc(f.Obsolete, func(p Profile) bool { return p.Apply.Live.Name == ref.Name })
		if known || ref.Name == "" {
			continue
		}
		apply, err := r.Reader(engine.GateDecision{}, false).Observe(ctx, controlPlane, ref, want)
		if err != nil {
			return fmt.Errorf("reading Fargate profile %s: %w", spec.Name, err)
		}
		if found := apply.Live; found != nil && (spec.WorkspaceTemplateApplyRef.IsDefined() || found.Labels[naming.SerializeLabel] == naming.FargateProfilesGroup || metav1.IsControlledBy(found, controlPlane)) {
			f.Obsolete = append(f.Obsolete, Profile{Name: spec.Name, Apply: apply})
		}
	}
	slices.SortFunc(f.Obsolete, byName)
	return nil
}

func byName(a, b Profile) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Apply.Live.Name, b.Apply.Live.Name))
}

// confirmObsolete reads the control plane from the API server before a profile is deleted because spec does not have it. The caches of a new
// leader may already have a profile that its predecessor created, and still have the spec from before the profile was added. No check is needed while the control plane is being deleted, which cannot
// be reverted.
func (r Reader) confirmObsolete(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) error {
	notDeleted := func(p Profile) bool { return p.Apply.Live.DeletionTimestamp.IsZero() }
	if !controlPlane.DeletionTimestamp.IsZero() || !slices.ContainsFunc(f.Obsolete, notDeleted) {
		return nil
	}
	live, err := engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(controlPlane), &controlplanev1.CAPTControlPlane{})
	switch {
	case err != nil:
		return fmt.Errorf("reading the control plane: %w", err)
	case live == nil || live.UID != controlPlane.UID || live.Generation != controlPlane.Generation:
		return apierrors.NewConflict(controlplanev1.GroupVersion.WithResource("captcontrolplanes").GroupResource(), controlPlane.Name,
			errors.New("spec changed after the cache was read")) // The event of the change causes the next reconcile.
	}
	return nil
}
