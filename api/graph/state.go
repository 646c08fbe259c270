// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Kinds of nodes.
const (
	clusterKind      = "Cluster"
	captClusterKind  = "CAPTCluster"
	controlPlaneKind = "CAPTControlPlane"
	applyKind        = "WorkspaceTemplateApply"
	workspaceKind    = "Workspace"
	// TemplateKind and SecretKind are the kinds whose objects a reader looks for, once edges name them.
	TemplateKind = "WorkspaceTemplate"
	SecretKind   = "Secret"
)

// Reasons of nodes that have no condition.
const (
	// NotFoundReason is the reason of an object that does not exist.
	NotFoundReason = "NotFound"
	// NotReadyReason is the reason of a Secret or a Workspace that does not have what another object waits for.
	NotReadyReason = "NotReady"
)

// Object has conditions.
type Object interface {
	metav1.Object
	GetConditions() []metav1.Condition
}

// NodeOf returns an object as a node. A Cluster is ready once it is initialized: its condition Available changes with its workers, and each
// change would be a status write.
func NodeOf(object Object) Node {
	kind, condition := "", infrav1.ReadyCondition
	initialized := false
	switch object := object.(type) {
	case *clusterv1.Cluster:
		kind, condition = clusterKind, ""
		initialized = ptr.Deref(object.Status.Initialization.ControlPlaneInitialized, false)
	case *infrav1.CAPTCluster:
		kind = captClusterKind
	case *controlplanev1.CAPTControlPlane:
		kind = controlPlaneKind
	case *infrav1.WorkspaceTemplateApply:
		kind = applyKind
	case *infrav1.WorkspaceTemplate:
		kind, condition = TemplateKind, infrav1.ValidCondition
	}
	node := Node{Key: Key{kind, object.GetNamespace(), object.GetName()}}
	switch found := meta.FindStatusCondition(object.GetConditions(), condition); {
	case !object.GetDeletionTimestamp().IsZero():
		node.Ready, node.Reason = metav1.ConditionFalse, infrav1.DeletingReason
	case initialized:
		node.Ready = metav1.ConditionTrue
	case kind == clusterKind:
		node.Ready, node.Reason = metav1.ConditionFalse, infrav1.ProvisioningReason
	case found == nil:
		node.Ready = metav1.ConditionUnknown
	case found.Status == metav1.ConditionTrue:
		node.Ready = metav1.ConditionTrue
	default:
		node.Ready, node.Reason = found.Status, reason(found.Reason)
	}
	return node
}

// reason returns one reason for all steps on the way to Ready: each would be a status write of every object that depends on this one.
func reason(of string) string {
	switch of {
	case infrav1.WorkspaceNotFoundReason, infrav1.QueuedReason, infrav1.WaitingForOwnerReason:
		return infrav1.ProvisioningReason
	}
	return of
}

// waitsFor reports whether a WorkspaceTemplateApply reports a Secret or Workspace as missing or not ready.
func waitsFor(apply *infrav1.WorkspaceTemplateApply, kind, name string) bool {
	return slices.ContainsFunc(apply.Status.MissingDependencies, func(m infrav1.MissingDependency) bool { return m.Kind == kind && m.Name == name })
}

// SameState reports whether two versions of an object have the same state in the graph of a control plane. Their dependencies may differ.
func SameState(before, after Object) bool {
	if NodeOf(before) != NodeOf(after) {
		return false
	}
	was, isApply := before.(*infrav1.WorkspaceTemplateApply)
	is, alsoApply := after.(*infrav1.WorkspaceTemplateApply)
	return !isApply || !alsoApply || slices.EqualFunc(was.Status.MissingDependencies, is.Status.MissingDependencies,
		func(a, b infrav1.MissingDependency) bool { return a.Kind == b.Kind && a.Name == b.Name })
}
