// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"slices"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// transitions says which states can follow a state. Before a control plane is initialized, it moves freely among the states of
// its making, since each of them can be left by what happens in the world: a Cluster that lets go of it, a VPC that is lost, a
// Terraform that comes through after its time. Once it was initialized, it never is in one of them again but for
// Provisioning, which is an update, and Configuring, while Terraform is at work on Fargate profiles; whatever goes wrong then, the
// cluster is Degraded and not Failed, since it answers. One that
// is found to have endpoint and kubeconfig, after a move or a restore, is initialized in that moment, and Degraded at once if
// anything else is missing.
// docs/status.md has the same table, and a test holds the two together.
var transitions = map[controlplanev1.State][]controlplanev1.State{
	controlplanev1.StatePending: {
		controlplanev1.StateValidating, controlplanev1.StateProvisioning, controlplanev1.StateConfiguring, controlplanev1.StateReady,
		controlplanev1.StateDegraded, controlplanev1.StateFailed,
	},
	controlplanev1.StateValidating: {
		controlplanev1.StatePending, controlplanev1.StateProvisioning, controlplanev1.StateConfiguring, controlplanev1.StateReady,
		controlplanev1.StateDegraded, controlplanev1.StateFailed,
	},
	controlplanev1.StateProvisioning: {
		controlplanev1.StatePending, controlplanev1.StateValidating, controlplanev1.StateConfiguring, controlplanev1.StateReady,
		controlplanev1.StateDegraded, controlplanev1.StateRecovering, controlplanev1.StateFailed,
	},
	controlplanev1.StateConfiguring: {
		controlplanev1.StatePending, controlplanev1.StateValidating, controlplanev1.StateProvisioning, controlplanev1.StateReady,
		controlplanev1.StateDegraded, controlplanev1.StateRecovering, controlplanev1.StateFailed,
	},
	controlplanev1.StateReady: {
		controlplanev1.StateProvisioning, controlplanev1.StateConfiguring, controlplanev1.StateDegraded, controlplanev1.StateRecovering,
	},
	controlplanev1.StateDegraded: {
		controlplanev1.StateProvisioning, controlplanev1.StateConfiguring, controlplanev1.StateReady, controlplanev1.StateRecovering,
	},
	controlplanev1.StateRecovering: {
		controlplanev1.StateProvisioning, controlplanev1.StateConfiguring, controlplanev1.StateReady, controlplanev1.StateDegraded,
		controlplanev1.StateFailed,
	},
	controlplanev1.StateFailed: {
		controlplanev1.StatePending, controlplanev1.StateValidating, controlplanev1.StateProvisioning, controlplanev1.StateConfiguring,
		controlplanev1.StateReady, controlplanev1.StateDegraded, controlplanev1.StateRecovering,
	},
}

// advance moves from a state to another one if the table allows it, and else stays. A control plane without a state is new, or
// has lost its status, and may be anywhere.
func advance(from, to controlplanev1.State) controlplanev1.State {
	if from == "" || from == to || slices.Contains(transitions[from], to) {
		return to
	}
	return from
}
