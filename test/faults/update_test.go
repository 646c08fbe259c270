// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	before = "10.0.0.0/16"
	after  = "10.1.0.0/16"
)

// A Workspace stays Ready while an update is being applied. CAPT says that it is not up to date until it is.
func TestAnUpdateIsWrittenOnceAndReportedWhenItIsApplied(t *testing.T) {
	withEachProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Apply: scripted.Step{Hang: true}})

		w.user(workspaceTemplateApply("demo", after))
		w.awaitOperation("demo", scripted.Apply, 2)
		w.requireWorkspaceCondition("demo", "Ready", metav1.ConditionTrue)
		w.requireWorkspaceCondition("demo", "Synced", metav1.ConditionTrue)
		applying := w.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		require.Equal(t, first.Status.LastAppliedRevision, applying.Status.LastAppliedRevision)
		require.Never(w, func() bool { return w.ready("demo") }, 1500*time.Millisecond, tick, "Ready although the update is not applied")

		w.clearScript("demo")
		last := w.awaitReady("demo", after)
		require.NotEqual(t, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		require.Equal(t, uid(first), uid(last))
		for _, version := range w.history.applyVersions(w.applyKey("demo")) {
			if version.Status.ObservedGeneration == last.Generation && isReady(version) {
				require.Equal(w, after, version.Status.Outputs["cidr"], "Ready before the update was applied")
			}
		}
		require.Equal(t, 2, w.count("demo", scripted.Apply))
		require.EqualValues(t, 2, w.workspace("demo").GetGeneration())
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to change it")
		w.end("demo")
	})
}

func (w *world) ready(name string) bool {
	apply := w.get(name)
	return apply != nil && apply.Status.ObservedGeneration == apply.Generation && isReady(apply)
}

func isReady(apply *infrav1.WorkspaceTemplateApply) bool {
	return meta.IsStatusConditionTrue(apply.Status.Conditions, infrav1.ReadyCondition)
}

// workspaceCondition is a condition of a Workspace; nil when there is none.
func workspaceCondition(workspace *unstructured.Unstructured, conditionType string) *metav1.Condition {
	typed := &terraform.Workspace{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(workspace.Object, typed); err != nil {
		panic(fmt.Sprintf("decoding a Workspace: %v", err))
	}
	return meta.FindStatusCondition(typed.Status.Conditions, conditionType)
}

func (w *world) requireWorkspaceCondition(name, conditionType string, status metav1.ConditionStatus) {
	w.Helper()
	workspace := w.workspace(name)
	require.NotNil(w, workspace)
	condition := workspaceCondition(workspace, conditionType)
	require.NotNil(w, condition, conditionType)
	require.Equal(w, status, condition.Status, condition.Message)
}

// The first apply may take long, and what it applies may change in the meantime.
func TestASlowFirstApplyIsWaitedForAndOvertakenByNothing(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("demo", scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(w.template(), workspaceTemplateApply("demo", before))
		slow := w.awaitNotReady("demo", infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
		require.Empty(w, slow.Status.Applied)
		require.Empty(w, slow.Status.Outputs)

		w.user(workspaceTemplateApply("demo", after))
		w.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
			if workspace.GetGeneration() == 2 {
				return ""
			}
			return "the change was not written"
		})
		w.awaitNotReady("demo", infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
		require.Equal(w, 1, w.count("demo", scripted.Apply), "one apply at a time")

		w.clearScript("demo")
		fast := w.awaitReady("demo", after)
		require.Equal(w, uid(slow), uid(fast))
		require.Equal(w, 2, w.count("demo", scripted.Apply))
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to change it")
		w.end("demo")
	})
}

// Drift is the provider's business. It shows only when it cannot be repaired.
func TestDriftIsReportedWhenItCannotBeRepaired(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)

		w.play("demo", scripted.Script{Drift: "a route is gone", Apply: scripted.Step{Hang: true}})
		w.edit("demo", `{"metadata":{"annotations":{"look":"again"}}}`)
		w.awaitOperation("demo", scripted.Apply, 2)
		require.True(w, w.ready("demo"), "nothing shows while drift is being repaired")

		w.play("demo", scripted.Script{Drift: "a route is gone", Apply: scripted.Step{Stderr: "\nError: creating EC2 Route: RouteLimitExceeded\n"}})
		failed := w.awaitNotReady("demo", infrav1.ApplyFailedReason, "RouteLimitExceeded")
		require.Equal(w, first.Status.LastAppliedRevision, failed.Status.LastAppliedRevision)
		w.requireWorkspaceCondition("demo", "Ready", metav1.ConditionTrue)

		w.play("demo", scripted.Script{Drift: "a route is gone"})
		repaired := w.awaitReady("demo", before)
		require.Equal(w, uid(first), uid(repaired))
		require.EqualValues(w, 1, w.workspace("demo").GetGeneration())
		require.Len(w, w.writes("demo"), 1, "only to make it")
		w.end("demo")
	})
}

// A change for which Terraform has nothing to do moves no condition before v1. The message says how to find out.
func TestAnUpdateWithoutEffectIsReportedAsApplied(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)

		w.user(workspaceTemplateApply("demo", before, "writeConnectionSecretToRef: {name: connection}"))
		if w.conditions == withoutGenerations {
			w.awaitNotReady("demo", infrav1.ProvisioningReason, "set the annotation crossplane.io/paused=true on the Workspace", "remove it when its condition Synced is False")
			w.edit("demo", `{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`)
			w.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
				if c := workspaceCondition(workspace, "Synced"); c != nil && c.Status == metav1.ConditionFalse {
					return ""
				}
				return "it is not paused"
			})
			w.edit("demo", `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`)
		}
		last := w.awaitReady("demo", before)
		require.NotEqual(w, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		require.Equal(w, 1, w.count("demo", scripted.Apply))
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to change it")
		w.end("demo")
	})
}

// silent is a module whose outputs do not show what was applied.
const silent = `
variable "cidr" {
  type = string
}
resource "terraform_data" "vpc" {
  input = var.cidr
}
output "cidr" {
  value = "10.0.0.0/16"
}
`

// Before v1 such an update moves neither a condition nor an output.
func TestAnUpdateThatChangesNoOutputIsReportedWhenItIsApplied(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.templateWith(templateName, sandbox.ProviderConfigName, silent), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(workspaceTemplateApply("demo", after))
		w.awaitOperation("demo", scripted.Apply, 2)
		w.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		require.Never(w, func() bool { return w.ready("demo") }, 1500*time.Millisecond, tick, "Ready although the update is not applied")

		w.clearScript("demo")
		last := w.awaitReady("demo", before)
		require.NotEqual(w, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		// The next look of the provider shows again what it had shown before the update.
		w.edit("demo", `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)
		w.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
			if checksum, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "checksum"); checksum == "" {
				return "the provider has not looked again"
			}
			return ""
		})
		require.Never(w, func() bool { return !w.ready("demo") }, 1500*time.Millisecond, tick, "what was reported as applied stays so")
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to change it")
		w.end("demo")
	})
}

// A field that the CRD does not have is found by the API server only. It is asked once.
func TestARefusedUpdateIsReportedAndNotSentAgain(t *testing.T) {
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitReady("demo", before)
		w.user(strings.Replace(w.template(), "source: Inline", "source: Inline\n        modul: misspelled", 1))
		w.awaitNotReady("demo", infrav1.WorkspaceRejectedReason, "modul", "Correct the WorkspaceTemplate")
		sent := len(w.writes("demo"))
		require.Never(w, func() bool { return len(w.writes("demo")) > sent }, 2*time.Second, 10*tick, "a refused write was sent again")

		w.user(w.template())
		w.awaitReady("demo", before)
		require.EqualValues(w, 1, w.workspace("demo").GetGeneration(), "nothing of it was ever written")
		w.end("demo")
	})
}
