// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/sandbox/eks"
)

// second is another profile, to be added to the sample: its list of profiles is at the end.
const second = `    - name: batch
      selectors:
        - namespace: batch
      workspaceTemplateRef:
        name: sandbox-fargate
`

// TestFargateProfiles makes two profiles with real Terraform, edits one, takes it away, and deletes the cluster. What stands for
// EKS refuses two at a time, and a cluster that has profiles.
func TestFargateProfiles(t *testing.T) {
	w := newWorld(t, "--max-reconcile-rate=10") // Else the provider itself would do one thing at a time.
	sample := filepath.Join(samples, "workload-cluster.yaml")
	text, err := os.ReadFile(sample)
	require.NoError(t, err)
	both := filepath.Join(t.TempDir(), "cluster.yaml")
	require.NoError(t, os.WriteFile(both, append(text, second...), 0o600))

	// Two profiles, made in the order of spec, the second when the first is there.
	w.kubectl("apply", "-f", samples)
	w.kubectl("apply", "-f", both)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	w.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition, controlplanev1.FargateProfileReadyCondition)
	w.awaitProfiles(controlPlane, "default", "batch")
	require.Equal(t, map[string]string{"default": "ACTIVE", "batch": "ACTIVE"}, w.listed("demo"))
	_, made := w.creation("demo-default-fargate")
	began, _ := w.creation("demo-batch-fargate")
	require.False(t, began.Before(made), "batch was begun at %s, and default was made at %s", began, made)

	// An edit replaces the one, and leaves the other alone.
	before, other := w.arn("batch"), w.arn("default")
	w.kubectl("patch", "captcontrolplane", "demo", "--type=json", "-p", `[{"op": "replace", "path": "/spec/fargateProfiles/1/selectors/0/namespace", "value": "jobs"}]`)
	w.await(controlPlane, "demo", func() string {
		if w.arn("batch") == before {
			return "batch was not replaced"
		}
		return ""
	})
	w.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	require.Equal(t, other, w.arn("default"))

	// One that is taken out of the manifest goes.
	w.kubectl("apply", "-f", sample)
	w.awaitGone(&infrav1.WorkspaceTemplateApply{}, "demo-batch-fargate-apply")
	w.awaitProfiles(controlPlane, "default")
	require.Equal(t, map[string]string{"default": "ACTIVE"}, w.listed("demo"))
	w.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	w.requireNeverRefused()

	w.kubectl("delete", "cluster", "demo", "--timeout=4m")
	w.requireDestroyedInOrder("demo-batch-fargate", "demo-default-fargate", "demo-eks-controlplane", "demo-vpc")
	w.requireNothingLeft("demo")
	w.requireNothingForbidden()
}

// awaitProfiles waits until status has these profiles, in this order, and all are ready.
func (w *world) awaitProfiles(controlPlane *controlplanev1.CAPTControlPlane, names ...string) {
	w.Helper()
	w.await(controlPlane, controlPlane.Name, func() string {
		statuses := controlPlane.Status.FargateProfiles
		if len(statuses) != len(names) {
			return "there are others"
		}
		for i, name := range names {
			if statuses[i].Name != name || statuses[i].Ready != metav1.ConditionTrue {
				return name + " is not ready"
			}
		}
		return ""
	})
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

// creation is when the provider began to create what a Workspace stands for, and when it was done, as it writes down itself.
func (w *world) creation(name string) (began, done time.Time) {
	w.Helper()
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	w.await(workspace, name, func() string { return "" })
	at := func(annotation string) time.Time {
		at, err := time.Parse(time.RFC3339, workspace.GetAnnotations()[annotation])
		require.NoError(w, err)
		return at
	}
	return at("crossplane.io/external-create-pending"), at("crossplane.io/external-create-succeeded")
}

// requireNeverRefused: a failure of Terraform would have been told, as EKS refuses two at a time.
func (w *world) requireNeverRefused() {
	w.Helper()
	told := &eventsv1.EventList{}
	require.NoError(w, w.List(w.Context(), told))
	require.NotEmpty(w, told.Items)
	for i := range told.Items {
		require.NotContains(w, told.Items[i].Note, "ResourceInUseException")
		require.NotEqual(w, infrav1.ApplyFailedReason, told.Items[i].Reason, told.Items[i].Note)
		require.NotEqual(w, infrav1.DestroyFailedReason, told.Items[i].Reason, told.Items[i].Note)
	}
}
