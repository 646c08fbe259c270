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
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	before = "10.0.0.0/16"
	after  = "10.1.0.0/16"
)

// A Workspace stays Ready while an update is being applied. CAPT says that it is not up to date until it is.
func TestAnUpdateIsWrittenOnceAndReportedWhenItIsApplied(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Hang: true}})

		env.user(workspaceTemplateApply("demo", after))
		env.awaitOperation("demo", scripted.Apply, 2)
		env.requireWorkspaceCondition("demo", "Ready", metav1.ConditionTrue)
		env.requireWorkspaceCondition("demo", "Synced", metav1.ConditionTrue)
		applying := env.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		require.Equal(t, first.Status.LastAppliedRevision, applying.Status.LastAppliedRevision)
		require.Never(env, func() bool { return env.ready("demo") }, 1500*time.Millisecond, tick, "Ready although the update is not applied")

		env.clearScript("demo")
		last := env.awaitReady("demo", after)
		require.NotEqual(t, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		require.Equal(t, uid(first), uid(last))
		for _, version := range env.control.history.applyVersions(env.applyKey("demo")) {
			if version.Status.ObservedGeneration == last.Generation && isReady(version) {
				require.Equal(env, after, version.Status.Outputs["cidr"], "Ready before the update was applied")
			}
		}
		require.Equal(t, 2, env.count("demo", scripted.Apply))
		require.EqualValues(t, 2, env.Workspace("demo").GetGeneration())
		require.Len(env, env.writes("demo"), 2, "one to make it, and one to change it")
		env.end("demo")
	})
}

func (env *environment) ready(name string) bool {
	apply := env.get(name)
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

func (env *environment) requireWorkspaceCondition(name, conditionType string, status metav1.ConditionStatus) {
	env.Helper()
	workspace := env.Workspace(name)
	require.NotNil(env, workspace)
	condition := workspaceCondition(workspace, conditionType)
	require.NotNil(env, condition, conditionType)
	require.Equal(env, status, condition.Status, condition.Message)
}

// The first apply may take long, and what it applies may change in the meantime.
func TestASlowFirstApplyIsWaitedForAndOvertakenByNothing(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Hang: true}})
		env.user(env.template(), workspaceTemplateApply("demo", before))
		slow := env.awaitNotReady("demo", infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
		require.Empty(env, slow.Status.Applied)
		require.Empty(env, slow.Status.Outputs)

		env.user(workspaceTemplateApply("demo", after))
		env.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
			return fixture.Unless(workspace.GetGeneration() == 2, "the change was not written")
		})
		env.awaitNotReady("demo", infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
		require.Equal(env, 1, env.count("demo", scripted.Apply), "one apply at a time")

		env.clearScript("demo")
		fast := env.awaitReady("demo", after)
		require.Equal(env, uid(slow), uid(fast))
		require.Equal(env, 2, env.count("demo", scripted.Apply))
		require.Len(env, env.writes("demo"), 2, "one to make it, and one to change it")
		env.end("demo")
	})
}

// Drift is the provider's business. It shows only when it cannot be repaired.
func TestDriftIsReportedWhenItCannotBeRepaired(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)

		env.setScript("demo", scripted.Script{Drift: "a route is gone", Apply: scripted.Step{Hang: true}})
		env.edit("demo", `{"metadata":{"annotations":{"look":"again"}}}`)
		env.awaitOperation("demo", scripted.Apply, 2)
		require.True(env, env.ready("demo"), "nothing shows while drift is being repaired")

		env.setScript("demo", scripted.Script{Drift: "a route is gone", Apply: scripted.Step{Stderr: "\nError: creating EC2 Route: RouteLimitExceeded\n"}})
		failed := env.awaitNotReady("demo", infrav1.ApplyFailedReason, "RouteLimitExceeded")
		require.Equal(env, first.Status.LastAppliedRevision, failed.Status.LastAppliedRevision)
		env.requireWorkspaceCondition("demo", "Ready", metav1.ConditionTrue)

		env.setScript("demo", scripted.Script{Drift: "a route is gone"})
		repaired := env.awaitReady("demo", before)
		require.Equal(env, uid(first), uid(repaired))
		require.EqualValues(env, 1, env.Workspace("demo").GetGeneration())
		require.Len(env, env.writes("demo"), 1, "only to make it")
		env.end("demo")
	})
}

// A change for which Terraform has nothing to do moves no condition before v1. The message says how to find out.
func TestAnUpdateWithoutEffectIsReportedAsApplied(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)

		env.user(workspaceTemplateApply("demo", before, "writeConnectionSecretToRef: {name: connection}"))
		if env.control.conditions == withoutGenerations {
			env.awaitNotReady("demo", infrav1.ProvisioningReason, "set the annotation crossplane.io/paused=true on the Workspace", "remove it when its condition Synced is False")
			env.edit("demo", `{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`)
			env.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
				c := workspaceCondition(workspace, "Synced")
				return fixture.Unless(c != nil && c.Status == metav1.ConditionFalse, "it is not paused")
			})
			env.edit("demo", `{"metadata":{"annotations":{"crossplane.io/paused":null}}}`)
		}
		last := env.awaitReady("demo", before)
		require.NotEqual(env, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		require.Equal(env, 1, env.count("demo", scripted.Apply))
		require.Len(env, env.writes("demo"), 2, "one to make it, and one to change it")
		env.end("demo")
	})
}

// silent is a module whose outputs do not show what was applied.
const silent = `
variable "cidr" { type = string }
resource "terraform_data" "vpc" { input = var.cidr }
output "cidr" { value = "10.0.0.0/16" }
`

// Before v1 such an update moves neither a condition nor an output.
func TestAnUpdateThatChangesNoOutputIsReportedWhenItIsApplied(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.templateWith(sandbox.ProviderConfigName, silent), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Hang: true}})
		env.user(workspaceTemplateApply("demo", after))
		env.awaitOperation("demo", scripted.Apply, 2)
		env.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		require.Never(env, func() bool { return env.ready("demo") }, 1500*time.Millisecond, tick, "Ready although the update is not applied")

		env.clearScript("demo")
		last := env.awaitReady("demo", before)
		require.NotEqual(env, first.Status.LastAppliedRevision, last.Status.LastAppliedRevision)
		// The next look of the provider shows again what it had shown before the update.
		env.edit("demo", `{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)
		env.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
			checksum, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "checksum")
			return fixture.Unless(checksum != "", "the provider has not looked again")
		})
		require.Never(env, func() bool { return !env.ready("demo") }, 1500*time.Millisecond, tick, "what was reported as applied stays so")
		require.Len(env, env.writes("demo"), 2, "one to make it, and one to change it")
		env.end("demo")
	})
}

// A field that the CRD does not have is found by the API server only. It is asked once.
func TestARefusedUpdateIsReportedAndNotSentAgain(t *testing.T) {
	inEitherScope(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		env.awaitReady("demo", before)
		env.user(strings.Replace(env.template(), "source: Inline", "source: Inline\n        modul: misspelled", 1))
		env.awaitNotReady("demo", infrav1.WorkspaceRejectedReason, "modul", "Correct the WorkspaceTemplate")
		sent := len(env.writes("demo"))
		require.Never(env, func() bool { return len(env.writes("demo")) > sent }, 2*time.Second, 10*tick, "a refused write was sent again")

		env.user(env.template())
		env.awaitReady("demo", before)
		require.EqualValues(env, 1, env.Workspace("demo").GetGeneration(), "nothing of it was ever written")
		env.end("demo")
	})
}
