// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// StateOf returns the state of an object of CAPT: Deleting, status.state of a CAPTControlPlane, or the state that the summary of another kind
// corresponds to. It is never empty.
func StateOf(object graph.Object) controlplanev1.State {
	node := graph.NodeOf(object)
	controlPlane, isControlPlane := object.(*controlplanev1.CAPTControlPlane)
	switch {
	case !object.GetDeletionTimestamp().IsZero():
		return StateDeleting
	case isControlPlane:
		return cmp.Or(controlPlane.Status.State, controlplanev1.StatePending)
	case node.Ready == metav1.ConditionTrue:
		return controlplanev1.StateReady
	case node.Reason == "":
		return controlplanev1.StatePending
	case node.Reason == infrav1.VPCReplacedReason: // Both VPCs may exist.
		return controlplanev1.StateDegraded
	case infrav1.RequiresUserAction(node.Reason):
		return controlplanev1.StateFailed
	}
	return controlplanev1.StateProvisioning
}
