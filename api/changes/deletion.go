// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
)

// deleting reports whether the WorkspaceTemplateApply is being deleted, or its owner deletes it.
func (u *Unit) deleting() bool {
	return u.Live != nil && (u.Obsolete || !u.Live.DeletionTimestamp.IsZero() || u.ownerDeleted())
}

// ownerDeleted reports whether the owner is being deleted, and deletes it then.
func (u *Unit) ownerDeleted() bool {
	return u.Owner != nil && u.Owner.GetDeletionTimestamp() != nil && (u.Live == nil || !u.kept)
}

// compareDeletion sets what happens to the Workspace of a WorkspaceTemplateApply that is being deleted, or that its owner deletes.
func (f *Fleet) compareDeletion(u *Unit, w *Workspace) error {
	u.Blocked, u.Desired = nil, u.Live
	if paused := f.pausedBy(u); paused != "" {
		w.Reason, w.Message = clusterv1.PausedReason, "deleted when it is no longer paused: "+paused
		return nil
	}
	for _, held := range []func(*Unit) *desired.Blocked{f.ownerHeld, f.ownerWaits, f.applyHeld} {
		if blocked := held(u); blocked != nil {
			w.because(blocked)
			return nil
		}
	}
	if u.Live.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain {
		w.Reason, w.Message = infrav1.DeletingReason, "deletionPolicy is Retain, so the Workspace and its resources are kept"
		return nil
	}
	subject, err := f.workspace(u, false)
	switch {
	case err != nil:
		return err
	case subject.Live == nil:
		w.Reason, w.Message = infrav1.DeletingReason, "the Workspace does not exist"
	case !subject.Owned():
		w.Reason, w.Message = infrav1.DeletingReason, fmt.Sprintf("Workspace %s is kept: it is not recorded for this object", subject.Name)
	case subject.Live.GetDeletionTimestamp() != nil:
		w.Reason, w.Message = infrav1.WaitingForWorkspaceDeletionReason, "the Workspace is being deleted"
	default:
		if waiting := desired.WaitingForDependents(u.Live, f.in(u.Live.Namespace)); waiting != nil {
			w.because(waiting)
			return nil
		}
		w.Action, w.Message = ActionDestroy, u.whyDeleted()
	}
	return nil
}

func (u *Unit) whyDeleted() string {
	switch {
	case u.Obsolete && !u.ownerDeleted():
		return "spec of the CAPTControlPlane no longer has the Fargate profile"
	case u.Live.DeletionTimestamp.IsZero():
		return "its owner is being deleted"
	}
	return "WorkspaceTemplateApply " + u.Live.Name + " is being deleted"
}

// ownerHeld returns why the owner, which is being deleted, deletes nothing.
func (f *Fleet) ownerHeld(u *Unit) *desired.Blocked {
	if !u.ownerDeleted() {
		return nil
	}
	if desired.IsDeletionProtected(u.Owner) {
		return desired.DeletionProtected("")
	}
	if desired.AllowsDelete(u.Owner) {
		return nil
	}
	if pool, ok := u.Owner.(*infrav1.CAPTMachinePool); ok {
		return desired.HeldByMachinePools(sorted(f.MachinePools), pool, "this object")
	}
	return desired.HeldByClusters(f.referring(u.Owner), "this object")
}

func (f *Fleet) referring(object metav1.Object) (found []*clusterv1.Cluster) {
	for i := range f.Clusters {
		if claim.RefersTo(&f.Clusters[i], object) {
			found = append(found, &f.Clusters[i])
		}
	}
	slices.SortFunc(found, func(a, b *clusterv1.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// ownerWaits returns what the owner deletes before the WorkspaceTemplateApply: the control planes before the VPC, Fargate profiles before the
// control plane.
func (f *Fleet) ownerWaits(u *Unit) *desired.Blocked {
	if !u.ownerDeleted() || !u.Live.DeletionTimestamp.IsZero() {
		return nil
	}
	if owner, ok := u.Owner.(*infrav1.CAPTCluster); ok {
		if waiting := desired.WaitingForControlPlanes(f.controlPlanesOf(owner)); waiting != nil {
			return waiting
		}
	}
	var helpers []infrav1.WorkspaceTemplateApply
	for _, apply := range f.in(u.Live.Namespace) {
		if u.Obsolete || apply.Name == u.Live.Name || !metav1.IsControlledBy(&apply, u.Owner) {
			continue
		}
		if apply.Labels[naming.SerializeLabel] == naming.FargateProfilesGroup {
			return &desired.Blocked{Reason: controlplanev1.FargateProfileDeletingReason, Message: "the control plane is deleted after its Fargate profiles"}
		}
		helpers = append(helpers, apply)
	}
	if next := desired.NextToDelete(u.Live, helpers); !slices.Contains(next, u.Live) {
		return desired.WaitingForDeletion(next)
	}
	return nil
}

func (f *Fleet) controlPlanesOf(c *infrav1.CAPTCluster) (names []string) {
	label, referred := c.Labels[clusterv1.ClusterNameLabel], ""
	for _, cluster := range f.referring(c) {
		if cluster.Spec.ControlPlaneRef.Kind == "CAPTControlPlane" {
			referred = cluster.Spec.ControlPlaneRef.Name
		}
	}
	for _, controlPlane := range sorted(f.ControlPlanes) {
		labeled := label != "" && controlPlane.Labels[clusterv1.ClusterNameLabel] == label
		if controlPlane.Namespace == c.Namespace && (labeled || controlPlane.Name == referred) {
			names = append(names, controlPlane.Name)
		}
	}
	return names
}

// applyHeld returns why the deletion of the WorkspaceTemplateApply destroys nothing.
func (f *Fleet) applyHeld(u *Unit) *desired.Blocked {
	apply := u.Live
	if conflict := validation.RetainConflict(apply, f.in(apply.Namespace)); conflict != "" {
		return &desired.Blocked{Reason: infrav1.DeletionPolicyConflictReason, Message: conflict}
	}
	if own := u.Owner != nil && !u.Obsolete; own && desired.IsDeletionProtected(u.Owner) {
		controller := metav1.GetControllerOf(apply)
		if controller != nil && controller.UID == u.Owner.GetUID() {
			return desired.DeletionProtected(controller.Kind + " " + controller.Name)
		}
	}
	return nil
}
