// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func plane(deleted bool, spec []string, statuses ...controlplanev1.FargateProfileStatus) *controlplanev1.CAPTControlPlane {
	controlPlane := builder.CAPTControlPlane("demo")
	if deleted {
		builder.Deleting()(controlPlane)
	}
	for _, name := range spec {
		controlPlane.Spec.FargateProfiles = append(controlPlane.Spec.FargateProfiles, controlplanev1.FargateProfile{Name: name})
	}
	controlPlane.Status.FargateProfiles = statuses
	return controlPlane
}

func TestEvents(t *testing.T) {
	is := func(isReady bool, reason, message string) controlplanev1.FargateProfileStatus {
		return controlplanev1.FargateProfileStatus{Name: "a", Ready: infrav1.ConditionStatus(isReady), WorkspaceTemplateApplyName: "wta", FailureReason: reason, FailureMessage: message}
	}
	unmade := controlplanev1.FargateProfileStatus{Name: "a", Ready: metav1.ConditionFalse}
	lacking := controlplanev1.FargateProfileStatus{Name: "a", Ready: metav1.ConditionFalse, FailureReason: controlplanev1.FargateProfileDependencyReason, FailureMessage: "no Secret"}
	inSpec, none := []string{"a"}, []controlplanev1.FargateProfileStatus(nil)
	all := func(s ...controlplanev1.FargateProfileStatus) []controlplanev1.FargateProfileStatus { return s }
	for name, row := range map[string]struct {
		before, after []controlplanev1.FargateProfileStatus
		spec          []string
		deleted       bool
		want          string
	}{
		"being made":                 {none, all(is(false, "", "")), inSpec, false, "Normal FargateProfileCreating: creating Fargate profile a; see WorkspaceTemplateApply wta"},
		"made after a Secret came":   {all(lacking), all(is(false, "", "")), inSpec, false, "Normal FargateProfileCreating: creating Fargate profile a; see WorkspaceTemplateApply wta"},
		"ready":                      {all(is(false, "", "")), all(is(true, "", "")), inSpec, false, "Normal FargateProfileReady: Fargate profile a is ready"},
		"failed":                     {all(is(false, "", "")), all(is(false, "FargateProfileFailed", "limit")), inSpec, false, "Warning FargateProfileFailed: Fargate profile a: limit"},
		"failed in other words":      {all(is(false, "FargateProfileFailed", "x")), all(is(false, "FargateProfileFailed", "y")), inSpec, false, ""},
		"ready after all":            {all(is(false, "FargateProfileFailed", "limit")), all(is(true, "", "")), inSpec, false, "Normal FargateProfileReady: Fargate profile a is ready"},
		"a Secret is missing":        {none, all(lacking), inSpec, false, "Warning FargateProfileDependencyNotReady: Fargate profile a: no Secret"},
		"about to be made":           {none, all(unmade), inSpec, false, ""},
		"an edit":                    {all(is(true, "", "")), all(is(false, "", "")), inSpec, false, "Normal FargateProfileCreating: updating Fargate profile a; see WorkspaceTemplateApply wta"},
		"taken out of spec":          {all(is(true, "", "")), all(is(false, "", "")), nil, false, "Normal FargateProfileDeleting: deleting Fargate profile a"},
		"taken out after it failed":  {all(is(false, "FargateProfileFailed", "limit")), all(is(false, "", "")), nil, false, "Normal FargateProfileDeleting: deleting Fargate profile a"},
		"gone with the cluster":      {all(is(true, "", "")), all(is(false, "", "")), inSpec, true, "Normal FargateProfileDeleting: deleting Fargate profile a"},
		"gone":                       {all(is(false, "", "")), none, nil, false, "Normal FargateProfileDeleted: Fargate profile a was deleted"},
		"never made, and not wanted": {all(lacking), none, nil, false, ""},
		"at rest":                    {all(is(true, "", "")), all(is(true, "", "")), inSpec, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, note := range Events(plane(false, row.spec, row.before...), plane(row.deleted, row.spec, row.after...)) {
				assert.Equal(t, "spec.fargateProfiles{a}", note.Related.(*corev1.ObjectReference).FieldPath)
				got += note.Type + " " + note.Reason + ": " + note.Message
			}
			assert.Equal(t, row.want, got)
		})
	}
}
