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

// Reasons of events that are of no condition.
const (
	// deletedReason: a profile is gone.
	deletedReason = "FargateProfileDeleted"
	action        = "FargateProfile"
)

// Notes are the events that the story of each profile is told with: what became of it between two statuses.
func Notes(before, after *controlplanev1.CAPTControlPlane) (notes []engine.Note) {
	for i := range after.Status.FargateProfiles {
		is := after.Status.FargateProfiles[i]
		if note := became(after, find(before.Status.FargateProfiles, is.Name), is); note.Reason != "" {
			note.Related = part(after, is.Name)
			notes = append(notes, note)
		}
	}
	for _, was := range before.Status.FargateProfiles {
		if gone := find(after.Status.FargateProfiles, was.Name).Name == ""; gone && was.WorkspaceTemplateApplyName != "" {
			note := note(corev1.EventTypeNormal, deletedReason, "Fargate profile %s is gone", was.Name)
			note.Related = part(after, was.Name)
			notes = append(notes, note)
		}
	}
	return notes
}

// part refers to the part of a control plane that a profile is, as events about a Pod refer to a container of it.
func part(controlPlane *controlplanev1.CAPTControlPlane, profile string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: controlplanev1.GroupVersion.String(), Kind: "CAPTControlPlane", UID: controlPlane.UID,
		Namespace: controlPlane.Namespace, Name: controlPlane.Name, FieldPath: fmt.Sprintf("spec.fargateProfiles{%s}", profile),
	}
}

func note(kind, reason, format string, args ...any) engine.Note {
	return engine.Note{Type: kind, Reason: reason, Action: action, Message: fmt.Sprintf(format, args...)}
}

// became says what became of a profile; nothing when that is not new.
func became(controlPlane *controlplanev1.CAPTControlPlane, was, is controlplanev1.FargateProfileStatus) engine.Note {
	wasReady, isReady := was.Ready == metav1.ConditionTrue, is.Ready == metav1.ConditionTrue
	leaves := !controlPlane.DeletionTimestamp.IsZero() || !inSpec(controlPlane, is.Name)
	switch {
	case is.FailureReason != "" && is.FailureReason != was.FailureReason:
		return note(corev1.EventTypeWarning, is.FailureReason, "Fargate profile %s: %s", is.Name, is.FailureMessage)
	case isReady && !wasReady:
		return note(corev1.EventTypeNormal, controlplanev1.FargateProfileReadyReason, "Fargate profile %s is ready", is.Name)
	case isReady == wasReady && !begun(was, is) && (!leaves || !mended(was, is)):
		return engine.Note{}
	case leaves:
		return note(corev1.EventTypeNormal, controlplanev1.FargateProfileDeletingReason, "Fargate profile %s is being deleted", is.Name)
	case wasReady:
		return note(corev1.EventTypeNormal, controlplanev1.FargateProfileCreatingReason, "Fargate profile %s is being changed; see WorkspaceTemplateApply %s",
			is.Name, is.WorkspaceTemplateApplyName)
	}
	return note(corev1.EventTypeNormal, controlplanev1.FargateProfileCreatingReason, "Fargate profile %s is being made; see WorkspaceTemplateApply %s",
		is.Name, is.WorkspaceTemplateApplyName)
}

func begun(was, is controlplanev1.FargateProfileStatus) bool {
	return was.WorkspaceTemplateApplyName == "" && is.WorkspaceTemplateApplyName != ""
}

func mended(was, is controlplanev1.FargateProfileStatus) bool {
	return was.FailureReason != "" && is.FailureReason == ""
}

func inSpec(controlPlane *controlplanev1.CAPTControlPlane, name string) bool {
	return slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool { return p.Name == name })
}

// find returns the status of a profile, the zero value if there is none.
func find(statuses []controlplanev1.FargateProfileStatus, name string) controlplanev1.FargateProfileStatus {
	i := slices.IndexFunc(statuses, func(s controlplanev1.FargateProfileStatus) bool { return s.Name == name })
	if i < 0 {
		return controlplanev1.FargateProfileStatus{}
	}
	return statuses[i]
}
