// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// DeleteForMoveAnnotation is clusterctl's: the object is deleted because it was moved.
const DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

// Paused explains why an object is paused, by its Cluster or by its own annotation; empty means that it is not. It follows Cluster
// API's pause rule. Cluster API's helper (util/paused) writes the condition by itself, in a second status write.
//
// An object that clusterctl move deletes is paused, too, because its cloud resources are kept. clusterctl removes all other
// annotations, including the one that paused it.
func Paused(cluster *clusterv1.Cluster, object metav1.Object) string {
	var why []string
	if cluster != nil && ptr.Deref(cluster.Spec.Paused, false) {
		why = append(why, "Cluster spec.paused is set to true")
	}
	if _, ok := object.GetAnnotations()[clusterv1.PausedAnnotation]; ok {
		why = append(why, "the object has the cluster.x-k8s.io/paused annotation")
	}
	if _, ok := object.GetAnnotations()[DeleteForMoveAnnotation]; ok {
		why = append(why, "clusterctl move is moving the object to another management cluster")
	}
	return strings.Join(why, ", ")
}

// AllowsDelete reports whether a user allowed the deletion of an object by its annotation. That of clusterctl move allows none: a moved object is
// paused, so nothing of it is destroyed, and clusterctl itself removes the finalizers.
func AllowsDelete(object metav1.Object) bool {
	return object.GetAnnotations()[naming.AllowDeleteAnnotation] == "true"
}

// IsDeletionProtected reports whether an object is protected from deletion by its spec.
func IsDeletionProtected(object metav1.Object) bool {
	owner, ok := object.(interface{ IsDeletionProtected() bool })
	return ok && owner.IsDeletionProtected()
}

// HeldByClusters returns why an object is not destroyed although it is being deleted: Clusters that refer to it are not. name is how the message
// names the object.
func HeldByClusters(clusters []*clusterv1.Cluster, name string) *Blocked {
	var live, deleted []string
	for _, cluster := range clusters {
		if cluster.DeletionTimestamp.IsZero() {
			live = append(live, cluster.Name)
		} else {
			deleted = append(deleted, cluster.Name)
		}
	}
	if len(live) == 0 {
		return nil
	}
	message := fmt.Sprintf("Cluster %s refers to %s and is not being deleted, so nothing is destroyed.", strings.Join(live, ", "), name)
	if len(deleted) > 0 {
		message += fmt.Sprintf(" Cluster %s refers to it too, and waits for its deletion. To let only that Cluster go, change the names in its spec.infrastructureRef and spec.controlPlaneRef.",
			strings.Join(deleted, ", "))
	}
	return &Blocked{infrav1.UsedByClusterReason, fmt.Sprintf(
		"%s The deletion of %s was accepted and cannot be reverted. To destroy its cloud resources, delete Cluster %s. %s set the annotation %s of %s to \"true\": %s, and it can be created again",
		message, name, strings.Join(live, ", "), HowToKeep, naming.AllowDeleteAnnotation, name, DeletionContinues)}
}

// HeldByMachinePools returns why a CAPTMachinePool is not destroyed although it is being deleted: a MachinePool that refers to it is not. Its owner
// references do not count, because users can remove them. name is how the message names the object.
func HeldByMachinePools(machinePools []*clusterv1.MachinePool, pool metav1.Object, name string) *Blocked {
	var live []string
	for _, m := range machinePools {
		if m.Namespace == pool.GetNamespace() && claim.PoolOf(m) == pool.GetName() && m.DeletionTimestamp.IsZero() {
			live = append(live, m.Name)
		}
	}
	if len(live) == 0 {
		return nil
	}
	slices.Sort(live)
	return &Blocked{infrav1.UsedByMachinePoolReason, fmt.Sprintf(
		"MachinePool %[1]s refers to %[2]s and is not being deleted, so nothing is destroyed. The deletion of %[2]s was accepted and cannot be reverted. To destroy the node group, delete MachinePool %[1]s. "+
			"To keep it, first set spec.deletionPolicy of its WorkspaceTemplateApply to Retain. Then set the annotation %[3]s of %[2]s to \"true\": %[4]s, and it can be created again",
		strings.Join(live, ", "), name, naming.AllowDeleteAnnotation, DeletionContinues)}
}

// The parts of messages about the ways to continue.
const (
	HowToKeep = "To keep the cloud resources, first set spec.vpc.template.deletionPolicy of the CAPTClusters and spec.deletionPolicy of the " +
		"WorkspaceTemplateApplies to Retain. Then"
	DeletionContinues = "the deletion continues, and everything without Retain is destroyed"
)

// DeletionProtected is why an object that is being deleted is not destroyed if it is protected, by its own spec or by its controller.
func DeletionProtected(controller string) *Blocked {
	of := ""
	if controller != "" {
		of = " of " + controller + ", which controls this object,"
	}
	return &Blocked{infrav1.DeletionProtectedReason, fmt.Sprintf(
		"spec.deletionProtection%s is Enabled, so nothing is destroyed. The deletion of this object was accepted and cannot be reverted. %s set spec.deletionProtection to Disabled: %s",
		of, HowToKeep, DeletionContinues)}
}

// WaitingForControlPlanes is why the VPC of a CAPTCluster that is being deleted is not destroyed; nil if no control plane is left.
func WaitingForControlPlanes(names []string) *Blocked {
	if len(names) == 0 {
		return nil
	}
	return &Blocked{infrav1.WaitingForControlPlaneDeletionReason, fmt.Sprintf("waiting for the deletion of CAPTControlPlane %s, which uses the VPC", strings.Join(names, ", "))}
}

// AcceptedWithoutCluster ends the message of a VPC that waits for a control plane which nothing deletes, because only the CAPTCluster is being deleted.
func AcceptedWithoutCluster(cluster string) string {
	return fmt.Sprintf(". The deletion of the CAPTCluster was accepted and cannot be reverted. It continues when Cluster %[1]s is deleted, which destroys the EKS cluster and the VPC. "+
		"%[2]s delete Cluster %[1]s and create it again: each WorkspaceTemplateApply then names the Workspace to take over", cluster, HowToKeep)
}

// NextToDelete returns the WorkspaceTemplateApplies that an owner in deletion deletes next: first the helpers, which may use resources of the owner's
// own WorkspaceTemplateApply, which may be nil; then the owner's own; then the helpers that the owner's own depends on. Garbage collection of the
// helpers would be a deadlock: it begins after the owner is deleted, the owner waits for its own WorkspaceTemplateApply, and that waits for the helpers.
func NextToDelete(own *infrav1.WorkspaceTemplateApply, helpers []infrav1.WorkspaceTemplateApply) (next []*infrav1.WorkspaceTemplateApply) {
	prerequisites := prerequisitesOf(own, helpers)
	for i := range helpers {
		if !prerequisites.Has(helpers[i].UID) {
			next = append(next, &helpers[i])
		}
	}
	if len(next) == 0 && own != nil {
		next = append(next, own)
	}
	return next
}

// prerequisitesOf are the helpers whose Workspaces the owner's own WorkspaceTemplateApply waits for, directly or through others.
func prerequisitesOf(own *infrav1.WorkspaceTemplateApply, helpers []infrav1.WorkspaceTemplateApply) sets.Set[types.UID] {
	found, needed := sets.New[types.UID](), sets.New[types.NamespacedName]()
	need := func(apply *infrav1.WorkspaceTemplateApply) {
		for _, dependency := range apply.Spec.WaitForWorkspaces {
			needed.Insert(apply.DependencyKey(dependency))
		}
	}
	if own == nil {
		return found
	}
	need(own)
	for before := -1; before < found.Len(); {
		before = found.Len()
		for i := range helpers {
			if needed.Has(types.NamespacedName{Namespace: helpers[i].Namespace, Name: helpers[i].Spec.WorkspaceName}) {
				found.Insert(helpers[i].UID)
				need(&helpers[i])
			}
		}
	}
	return found
}

// WaitingForDeletion reports what WorkspaceTemplateApplies wait for that are being deleted, or are deleted next; nil without any.
func WaitingForDeletion(awaited []*infrav1.WorkspaceTemplateApply) *Blocked {
	if len(awaited) == 0 {
		return nil
	}
	messages := make([]string, len(awaited))
	for i, apply := range awaited {
		messages[i] = fmt.Sprintf("waiting for WorkspaceTemplateApply %s%s", apply.Name, cmp.Or(DeletionCause(apply), " to be deleted"))
	}
	return &Blocked{infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, strings.Join(messages, "; ")}
}

// DeletionCause is what the deletion of a WorkspaceTemplateApply waits for, after a colon; empty if it does not report that.
func DeletionCause(apply *infrav1.WorkspaceTemplateApply) string {
	deleting := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition)
	if deleting == nil || deleting.Message == "" || deleting.Reason == infrav1.NotDeletingReason {
		return ""
	}
	return ": " + deleting.Message
}

// WaitingForDependents is why a Workspace is not destroyed: WorkspaceTemplateApplies of the same namespace have Workspaces that depend on it. It is nil if
// none of the others does. The garbage collector and the namespace controller delete everything at once, so the order is kept here. Objects of
// other namespaces must not be able to block the deletion.
func WaitingForDependents(apply *infrav1.WorkspaceTemplateApply, others []infrav1.WorkspaceTemplateApply) *Blocked {
	var names, alone []string
	for i := range others {
		other := &others[i]
		waits := slices.ContainsFunc(other.Spec.WaitForWorkspaces, func(d infrav1.WorkspaceDependency) bool {
			return other.DependencyKey(d) == types.NamespacedName{Namespace: apply.Namespace, Name: apply.Spec.WorkspaceName}
		})
		// It may have created a Workspace that status does not record yet. Its finalizer is added before.
		mayHaveOne := slices.Contains(other.Finalizers, infrav1.WorkspaceTemplateApplyFinalizer)
		if waits && other.Namespace == apply.Namespace && other.UID != apply.UID && (other.Status.WorkspaceRef != nil || mayHaveOne) {
			names = append(names, other.Name)
			if other.DeletionTimestamp.IsZero() && metav1.GetControllerOf(other) == nil { // An owner deletes its own.
				alone = append(alone, other.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names) // Lists from caches are unordered, and the message must not change.
	slices.Sort(alone)
	message := fmt.Sprintf("Workspace %s is destroyed after its dependents: waiting for the deletion of WorkspaceTemplateApply %s", apply.Spec.WorkspaceName, strings.Join(names, ", "))
	if len(alone) > 0 {
		message += fmt.Sprintf(". Nothing deletes %s: delete it with kubectl delete workspacetemplateapply -n %s %s", strings.Join(alone, ", "), apply.Namespace, strings.Join(alone, " "))
	}
	return &Blocked{infrav1.WaitingForDependentsReason, message}
}
