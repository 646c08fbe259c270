// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"slices"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// transitions returns the states that can follow a state. Before a control plane is initialized, it can move between most states,
// because each depends on objects that can change in any order. Once initialized, it is Provisioning only if the cluster is destroyed and
// recreated, and any problem makes it Degraded, not Failed. A control plane that has endpoint and kubeconfig after a move or a restore is
// initialized immediately, and Degraded if anything else is missing. docs/status.md has the same table.
func transitions() map[controlplanev1.State][]controlplanev1.State {
	return map[controlplanev1.State][]controlplanev1.State{
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
}

// nextState returns the next state if the table allows it, and else the current one. A control plane without a state is new, or has lost
// its status, and may be in any.
func nextState(from, to controlplanev1.State) controlplanev1.State {
	if from == "" || from == to || slices.Contains(transitions()[from], to) {
		return to
	}
	return from
}
