// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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
