// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

const (
	// deletedReason is the reason of an event for which there is no condition.
	deletedReason = "FargateProfileDeleted"
	action        = "FargateProfile"
)

// Events returns an event for each profile whose status changed.
func Events(before, after *controlplanev1.CAPTControlPlane) (events []engine.Event) {
	for i := range after.Status.FargateProfiles {
		is := after.Status.FargateProfiles[i]
		if event := profileEvent(after, statusOf(before.Status.FargateProfiles, is.Name), is); event.Reason != "" {
			event.Related = fieldOf(after, is.Name)
			events = append(events, event)
		}
	}
	for _, was := range before.Status.FargateProfiles {
		if deleted := statusOf(after.Status.FargateProfiles, was.Name).Name == ""; deleted && was.WorkspaceTemplateApplyName != "" {
			event := newEvent(corev1.EventTypeNormal, deletedReason, "Fargate profile %s was deleted", was.Name)
			event.Related = fieldOf(after, was.Name)
			events = append(events, event)
		}
	}
	return events
}

// fieldOf returns a reference to the field of a profile, in the way in which events of a Pod refer to a container.
func fieldOf(controlPlane *controlplanev1.CAPTControlPlane, profile string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "CAPTControlPlane", UID: controlPlane.UID,
		Namespace: controlPlane.Namespace, Name: controlPlane.Name, FieldPath: fmt.Sprintf("spec.fargateProfiles{%s}", profile),
	}
}

func newEvent(eventType, reason, format string, args ...any) engine.Event {
	return engine.Event{Type: eventType, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

// profileEvent is the event for the change of a profile's status; empty when there is none.
func profileEvent(controlPlane *controlplanev1.CAPTControlPlane, was, is controlplanev1.FargateProfileStatus) engine.Event {
	wasReady, isReady := was.Ready == metav1.ConditionTrue, is.Ready == metav1.ConditionTrue
	obsolete := !controlPlane.DeletionTimestamp.IsZero() || !specHasProfile(controlPlane, is.Name)
	switch {
	case is.FailureReason != "" && is.FailureReason != was.FailureReason:
		return newEvent(corev1.EventTypeWarning, is.FailureReason, "Fargate profile %s: %s", is.Name, is.FailureMessage)
	case isReady && !wasReady:
		return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileReadyReason, "Fargate profile %s is ready", is.Name)
	case isReady == wasReady && !started(was, is) && (!obsolete || !recovered(was, is)):
		return engine.Event{}
	case obsolete:
		return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileDeletingReason, "deleting Fargate profile %s", is.Name)
	case wasReady:
		return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileCreatingReason, "updating Fargate profile %s; see WorkspaceTemplateApply %s",
			is.Name, is.WorkspaceTemplateApplyName)
	}
	return newEvent(corev1.EventTypeNormal, controlplanev1.FargateProfileCreatingReason, "creating Fargate profile %s; see WorkspaceTemplateApply %s",
		is.Name, is.WorkspaceTemplateApplyName)
}

// started reports whether the WorkspaceTemplateApply of a profile was created or found since.
func started(was, is controlplanev1.FargateProfileStatus) bool {
	return was.WorkspaceTemplateApplyName == "" && is.WorkspaceTemplateApplyName != ""
}

// recovered reports whether a profile failed before, and does not any more.
func recovered(was, is controlplanev1.FargateProfileStatus) bool {
	return was.FailureReason != "" && is.FailureReason == ""
}

func specHasProfile(controlPlane *controlplanev1.CAPTControlPlane, name string) bool {
	return slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool { return p.Name == name })
}

// statusOf returns the status of a profile, the zero value if there is none.
func statusOf(statuses []controlplanev1.FargateProfileStatus, name string) controlplanev1.FargateProfileStatus {
	i := slices.IndexFunc(statuses, func(s controlplanev1.FargateProfileStatus) bool { return s.Name == name })
	if i < 0 {
		return controlplanev1.FargateProfileStatus{}
	}
	return statuses[i]
}
