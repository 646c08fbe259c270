// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func controlPlaneStatusToHub(in *controlplanev1beta1.CAPTControlPlane) controlplanev1.CAPTControlPlaneStatus {
	status := in.Status
	status.ConversionData = "" // It has only the fields that the other version does not have.
	if reflect.ValueOf(status).IsZero() {
		return controlplanev1.CAPTControlPlaneStatus{}
	}
	external := true // Part of the contract; it has no field in v1beta1.
	return controlplanev1.CAPTControlPlaneStatus{
		Conditions:                  controlPlaneConditionsToHub(in),
		Initialization:              controlplanev1.CAPTControlPlaneInitializationStatus{ControlPlaneInitialized: copyPointer(status.Initialized)},
		ExternalManagedControlPlane: &external,
		Phase:                       controlplanev1.Phase(deref(status.Phase)),
		WorkspaceTemplateApply:      controlPlaneSummaryToHub(in),
		FargateProfiles: convertList(status.FargateProfileStatuses, func(p controlplanev1beta1.FargateProfileStatus) controlplanev1.FargateProfileStatus {
			return controlplanev1.FargateProfileStatus{
				Name: p.Name, Ready: statusToHub(p.Ready), WorkspaceTemplateApplyName: deref(p.WorkspaceTemplateApplyName),
				FailureReason: deref(p.FailureReason), FailureMessage: deref(p.FailureMessage),
			}
		}),
	}
}

func controlPlaneStatusToSpoke(in *controlplanev1.CAPTControlPlane) controlplanev1beta1.CAPTControlPlaneStatus {
	status := in.Status
	status.ConversionData = "" // It has only the fields that the other version does not have.
	if reflect.ValueOf(status).IsZero() {
		return controlplanev1beta1.CAPTControlPlaneStatus{}
	}
	secretsReady := meta.IsStatusConditionTrue(status.Conditions, controlplanev1.KubeconfigReadyCondition)
	out := controlplanev1beta1.CAPTControlPlaneStatus{
		Initialized:  copyPointer(status.Initialization.ControlPlaneInitialized),
		SecretsReady: &secretsReady,
		Phase:        optional(string(status.Phase)),
		Conditions:   controlPlaneConditionsToSpoke(in),
		FargateProfileStatuses: convertList(status.FargateProfiles, func(p controlplanev1.FargateProfileStatus) controlplanev1beta1.FargateProfileStatus {
			return controlplanev1beta1.FargateProfileStatus{
				Name: p.Name, Ready: statusToSpoke(p.Ready), WorkspaceTemplateApplyName: optional(p.WorkspaceTemplateApplyName),
				FailureReason: optional(p.FailureReason), FailureMessage: optional(p.FailureMessage),
			}
		}),
	}
	if available := availableCondition(status.Conditions); available != nil {
		ready := available.Status == metav1.ConditionTrue
		out.Ready = &ready
	}
	if failed := meta.FindStatusCondition(status.Conditions, controlplanev1.FailedCondition); failed != nil && failed.Status == metav1.ConditionTrue {
		out.FailureReason, out.FailureMessage = optional(failed.Reason), optional(failed.Message)
	}
	if apply := status.WorkspaceTemplateApply; apply != nil {
		// CAPT v0.3 reported only the state of the Workspace, and left the state of the WorkspaceTemplateApply empty.
		out.WorkspaceTemplateStatus = &controlplanev1beta1.WorkspaceTemplateStatus{
			Ready:               statusToSpoke(apply.Ready),
			LastAppliedRevision: optional(apply.LastAppliedRevision),
			LastFailedRevision:  optional(apply.LastFailedRevision),
			LastFailureMessage:  optional(apply.LastFailureMessage),
			Outputs:             copyMap(apply.Outputs),
		}
		out.WorkspaceStatus = &controlplanev1beta1.WorkspaceStatus{Ready: statusToSpoke(apply.Ready), State: optional(apply.State)}
	}
	return out
}

// controlPlaneConditionsToHub returns the conditions of v1beta1, with conditions for its fields ready, secretsReady and failureReason.
func controlPlaneConditionsToHub(in *controlplanev1beta1.CAPTControlPlane) []metav1.Condition {
	conditions := conditionsToHub(in.Status.Conditions)
	since := in.CreationTimestamp
	if deref(in.Status.Ready) && availableCondition(conditions) == nil {
		conditions = withCondition(conditions, readySince(since))
	}
	if deref(in.Status.SecretsReady) && meta.FindStatusCondition(conditions, controlplanev1.KubeconfigReadyCondition) == nil {
		conditions = withCondition(conditions, secretsReadySince(since))
	}
	failed, ok := failureCondition(controlplanev1.FailedCondition, metav1.ConditionTrue, in.Status.FailureReason, in.Status.FailureMessage, since)
	if ok {
		conditions = withCondition(conditions, failed)
	}
	return conditions
}

// controlPlaneConditionsToSpoke returns the conditions of the hub without those that only repeat ready and secretsReady.
func controlPlaneConditionsToSpoke(in *controlplanev1.CAPTControlPlane) []metav1.Condition {
	ready, secretsReady := readySince(in.CreationTimestamp), secretsReadySince(in.CreationTimestamp)
	out := make([]metav1.Condition, 0, len(in.Status.Conditions))
	for i := range in.Status.Conditions {
		if c := &in.Status.Conditions[i]; !isSame(c, &ready) && !isSame(c, &secretsReady) {
			out = append(out, *c)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// isSame reports whether two conditions are equal in all fields.
func isSame(a, b *metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// readySince and secretsReadySince return the conditions for the fields ready and secretsReady of v1beta1, which have no transition time.
func readySince(since metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: controlplanev1.ReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: since, Reason: controlplanev1.ReadyReason,
	}
}

func secretsReadySince(since metav1.Time) metav1.Condition {
	return metav1.Condition{
		Type: controlplanev1.KubeconfigReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: since,
		Reason: controlplanev1.KubeconfigReadyReason,
	}
}

// availableCondition returns the condition that corresponds to the field ready of v1beta1: Available or, for objects of CAPT v0.3, Ready.
func availableCondition(conditions []metav1.Condition) *metav1.Condition {
	if available := meta.FindStatusCondition(conditions, controlplanev1.AvailableCondition); available != nil {
		return available
	}
	return meta.FindStatusCondition(conditions, controlplanev1.ReadyCondition)
}

// controlPlaneSummaryToHub converts the state of the WorkspaceTemplateApply and its Workspace; nil when v1beta1 has neither.
func controlPlaneSummaryToHub(in *controlplanev1beta1.CAPTControlPlane) *controlplanev1.WorkspaceTemplateApplyStatus {
	template, workspace := in.Status.WorkspaceTemplateStatus, in.Status.WorkspaceStatus
	if template == nil && workspace == nil {
		return nil
	}
	out := &controlplanev1.WorkspaceTemplateApplyStatus{
		WorkspaceTemplateApplySummary: infrav1.WorkspaceTemplateApplySummary{Name: deref(in.Spec.WorkspaceTemplateApplyName)},
	}
	if workspace != nil {
		out.Ready, out.State = statusToHub(workspace.Ready), deref(workspace.State)
	}
	if template == nil {
		return out
	}
	if template.Ready != nil {
		out.Ready = statusToHub(template.Ready)
	}
	if state := deref(template.State); state != "" {
		out.State = state
	}
	out.LastAppliedRevision = deref(template.LastAppliedRevision)
	out.LastFailedRevision = deref(template.LastFailedRevision)
	out.LastFailureMessage = deref(template.LastFailureMessage)
	out.Outputs = copyMap(template.Outputs)
	return out
}
