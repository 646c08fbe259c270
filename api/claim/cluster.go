// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// ClusterName returns the name of the Cluster that an object belongs to: the Cluster that owns it or, without an owner, the one in its label; empty
// if it names none.
func ClusterName(object metav1.Object) string {
	return cmp.Or(OwnerCluster(object), object.GetLabels()[clusterv1.ClusterNameLabel])
}

// OwnerCluster returns the name of the Cluster that owns an object; empty if none does.
func OwnerCluster(object metav1.Object) string { return ownerOfKind(object, "Cluster") }

func ownerOfKind(object metav1.Object, kind string) string {
	for _, ref := range object.GetOwnerReferences() {
		if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == kind && group == clusterv1.GroupVersion.Group {
			return ref.Name
		}
	}
	return ""
}

// ClusterIndex finds Clusters by the CAPTClusters and CAPTControlPlanes that they refer to, with the keys of ClusterKeys.
const ClusterIndex = "captReferences"

// ClusterKeys are the keys of ClusterIndex for a Cluster.
func ClusterKeys(cluster *clusterv1.Cluster) (keys []string) {
	for _, ref := range []clusterv1.ContractVersionedObjectReference{cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef} {
		if ref.IsDefined() {
			keys = append(keys, ClusterKey(ref))
		}
	}
	return keys
}

// ClusterKey is the key of ClusterIndex for a reference of Clusters.
func ClusterKey(ref clusterv1.ContractVersionedObjectReference) string {
	return ref.GroupKind().String() + "/" + ref.Name
}

// ReferenceTo is the reference of a Cluster to a CAPTCluster or a CAPTControlPlane, or of a MachinePool to a CAPTMachinePool; zero for other kinds.
func ReferenceTo(object metav1.Object) clusterv1.ContractVersionedObjectReference {
	switch object.(type) {
	case *infrav1.CAPTCluster:
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: object.GetName()}
	case *controlplanev1.CAPTControlPlane:
		return clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: object.GetName()}
	case *infrav1.CAPTMachinePool:
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool", Name: object.GetName()}
	}
	return clusterv1.ContractVersionedObjectReference{}
}

// RefersTo reports whether a Cluster refers to a CAPTCluster or a CAPTControlPlane.
func RefersTo(cluster *clusterv1.Cluster, object metav1.Object) bool {
	ref := ReferenceTo(object)
	return ref.IsDefined() && cluster.Namespace == object.GetNamespace() && (cluster.Spec.InfrastructureRef == ref || cluster.Spec.ControlPlaneRef == ref)
}

// OwnerMachinePool returns the name of the MachinePool that owns an object; empty if none does.
func OwnerMachinePool(object metav1.Object) string { return ownerOfKind(object, "MachinePool") }

// PoolOf returns the name of the CAPTMachinePool of a MachinePool; empty if that has another infrastructure.
func PoolOf(machinePool *clusterv1.MachinePool) string {
	if machinePool == nil {
		return ""
	}
	ref := machinePool.Spec.Template.Spec.InfrastructureRef
	if ref.APIGroup != infrav1.GroupVersion.Group || ref.Kind != "CAPTMachinePool" {
		return ""
	}
	return ref.Name
}
