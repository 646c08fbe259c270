// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/progress"
	"github.com/capt-provider/capt/controllers/workspace/failure"
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

// failsNew returns how long an error of Terraform must persist before a control plane that was never initialized is Failed. Retries do not
// help for these classes. An error of class Config can be of an object that is being corrected or created, and is confirmed first. Other
// classes fail a control plane with spec.timeouts only. docs/status.md has the same table.
func failsNew() map[failure.Class]time.Duration {
	return map[failure.Class]time.Duration{
		failure.ClassAuth:   0,
		failure.ClassQuota:  0,
		failure.ClassConfig: 2 * time.Minute,
	}
}

// failsIn returns the duration until the error that a condition reports fails a new control plane; false if it does not.
func (f *Facts) failsIn(controlPlane *controlplanev1.CAPTControlPlane, condition *engine.Condition) (time.Duration, bool) {
	if condition == nil || condition.Type != controlplanev1.WorkspaceReadyCondition || f.Apply.Apply == nil || f.Paused != "" ||
		f.Running.Failing == notRunning || ptr.Deref(controlPlane.Status.Initialization.ControlPlaneInitialized, false) {
		return 0, false
	}
	switch condition.Reason {
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason:
		after, ok := failsNew()[failure.Class(f.Apply.Apply.Status.LastFailureClass)]
		return after - f.Running.Failing, ok
	}
	return 0, false
}

// observedProgress returns what the progress is computed from. It is called when the state is known.
func observedProgress(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, c conditionSet) *progress.Observed {
	s, first := &controlPlane.Status, c.firstUnmet()
	initialized := ptr.Deref(s.Initialization.ControlPlaneInitialized, false)
	in := &progress.Observed{Step: stepOf(first), Paused: f.Paused != "", Now: f.Now, Earlier: f.Earlier, Started: ptr.Deref(f.controlPlaneStarted(), metav1.Time{}).Time}
	if first != nil {
		in.Message = first.Message
	}
	if f.Apply.Apply != nil {
		in.Revision = f.Apply.Apply.Generation
	}
	if initialized {
		in.Operation, in.Failed = operationOf(s.State, first), !c.working
		return in
	}
	if first == nil {
		in.Step = progress.APIServer
	}
	// After a move or a restore, status does not have what happened before, and an endpoint shows that it is not a creation.
	lost := s.Progress == nil && owners.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint).IsValid()
	if s.State != controlplanev1.StatePending && !lost {
		in.Operation = controlplanev1.OperationCreation
	}
	in.Failed = s.State == controlplanev1.StateFailed
	return in
}

// operationOf returns the operation that an initialized control plane needs; empty if it is none of its own.
func operationOf(state controlplanev1.State, first *engine.Condition) controlplanev1.Operation {
	switch {
	case first == nil:
	case first.Type == controlplanev1.FargateProfileReadyCondition:
		return controlplanev1.OperationFargateProfileUpdate
	case first.Type != controlplanev1.WorkspaceReadyCondition:
	case state == controlplanev1.StateProvisioning:
		return controlplanev1.OperationRecreation
	default:
		return controlplanev1.OperationUpdate
	}
	return ""
}

// stepOf returns the step of an operation that a condition reports, if it is the first that is not True.
func stepOf(first *engine.Condition) progress.Step {
	switch {
	case first == nil:
		return progress.Done
	case first.Reason == controlplanev1.WaitingForInfrastructureReason, first.Reason == controlplanev1.VPCReadyTimeoutReason:
		return progress.Infrastructure
	}
	return map[string]progress.Step{
		controlplanev1.DependenciesReadyCondition: progress.Validation, controlplanev1.WorkspaceReadyCondition: progress.ControlPlane,
		controlplanev1.EndpointAvailableCondition: progress.Endpoint, controlplanev1.KubeconfigReadyCondition: progress.Kubeconfig,
		controlplanev1.FargateProfileReadyCondition: progress.FargateProfiles,
	}[first.Type]
}
