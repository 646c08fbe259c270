// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox/eks"
)

// requireProfilesChange edits one of three profiles and removes it. The simulated EKS refuses to change two at a time.
func (w *world) requireProfilesChange() {
	w.Helper()
	batch, other := w.arn("batch"), w.arn("default")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	w.kubectl("patch", "captcontrolplane", "demo", "--type=json", "-p", `[{"op": "replace", "path": "/spec/fargateProfiles/2/selectors/0/namespace", "value": "jobs"}]`)
	w.await(controlPlane, "demo", func() string {
		if w.arn("batch") == batch {
			return "batch was not replaced"
		}
		return ""
	})
	w.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	require.Equal(w, other, w.arn("default"))

	w.kubectl("patch", "captcontrolplane", "demo", "--type=json", "-p", `[{"op": "remove", "path": "/spec/fargateProfiles/2"}]`)
	w.awaitGone(&infrav1.WorkspaceTemplateApply{}, "demo-batch-fargate-apply")
	w.await(controlPlane, "demo", func() string {
		if len(controlPlane.Status.FargateProfiles) != 2 {
			return "status still has batch"
		}
		return ""
	})
	require.Equal(w, map[string]string{"default": "ACTIVE", "apps": "ACTIVE"}, w.listed("demo"))
	w.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	w.requireNeverRefused()
}

// listed are the profiles that EKS has, with their status.
func (w *world) listed(cluster string) map[string]string {
	w.Helper()
	profiles, err := eks.Server{Dir: w.Dir(), Name: cluster}.FargateProfiles()
	require.NoError(w, err)
	listed := map[string]string{}
	for _, profile := range profiles {
		listed[profile.Name] = string(profile.Status)
	}
	return listed
}

// arn of a profile, which is another one for each that was made.
func (w *world) arn(profile string) string {
	w.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	w.await(apply, "demo-"+profile+"-fargate-apply", func() string { return "" })
	return apply.Status.Outputs["fargate_profile_arn"]
}

// requireNeverRefused: a failure of Terraform would have been reported, since EKS refuses two at a time.
func (w *world) requireNeverRefused() {
	w.Helper()
	events := &eventsv1.EventList{}
	require.NoError(w, w.List(w.Context(), events))
	require.NotEmpty(w, events.Items)
	for i := range events.Items {
		require.NotContains(w, events.Items[i].Note, "ResourceInUseException")
		require.NotEqual(w, infrav1.ApplyFailedReason, events.Items[i].Reason, events.Items[i].Note)
		require.NotEqual(w, infrav1.DestroyFailedReason, events.Items[i].Reason, events.Items[i].Note)
	}
}
