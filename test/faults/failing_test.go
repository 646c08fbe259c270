// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/provider/failures"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	throttled   = "\nError: creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 503, api error RequestLimitExceeded: Request limit exceeded.\n"
	unsupported = "\nError: Unsupported argument\n\n  on main.tf line 6, in resource \"aws_vpc\" \"this\":\n   6:   cidr = var.cidr\n\nAn argument named \"cidr\" is not expected here.\n"
)

// samples are failures of each class, under names for WorkspaceTemplateApplies; each provider gets others. Runs that were
// killed without output cannot be scripted.
func (env *environment) samples() map[string]failures.Sample {
	byClass := map[string][]failures.Sample{}
	for _, sample := range failures.Samples() {
		if sample.Stderr != "" && sample.Name != stateNotSaved {
			byClass[sample.Class] = append(byClass[sample.Class], sample)
		}
	}
	turn := 0
	if env.Scope == terraform.ScopeCluster {
		turn++
	}
	if env.control.conditions == withoutGenerations {
		turn++
	}
	mine := map[string]failures.Sample{}
	for class, samples := range byClass {
		for i := turn % len(samples); i < len(samples); i += 3 {
			mine[strings.ToLower(class)+"-"+samples[i].Name] = samples[i]
		}
	}
	return mine
}

func TestAFailedApplyIsReportedByItsClassAndRetried(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template())
		samples, classes := env.samples(), map[string]bool{}
		for name, sample := range samples {
			classes[sample.Class] = true
			env.setScript(name, scripted.Script{Apply: scripted.Step{Stderr: sample.Stderr}})
			env.user(workspaceTemplateApply(name, before))
		}
		require.Len(env, classes, 10)
		for name, sample := range samples {
			failed := env.awaitNotReady(name, infrav1.ApplyFailedReason, "Terraform apply failed", "provider-terraform retries")
			require.Equal(env, sample.Class, failed.Status.LastFailureClass, name)
			require.NotEmpty(env, failed.Status.LastFailedRevision)
			require.Empty(env, failed.Status.LastAppliedRevision)
			require.Empty(env, failed.Status.Applied)
			env.await(name, infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason, failed.Status.LastFailureMessage)
			env.clearScript(name)
		}
		for name := range samples {
			env.awaitReady(name, before)
			require.GreaterOrEqual(env, env.count(name, scripted.Apply), 2)
			require.Len(env, env.writes(name), 1, "the provider tries again, not CAPT")
		}
		env.end(slices.Collect(maps.Keys(samples))...)
	})
}

// provider-terraform takes such a Workspace for one that does not exist, and applies it again and again.
func TestAModuleThatCreatesNothingIsReportedUntilItHasAnOutput(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.templateWith(sandbox.ProviderConfigName, "\nvariable \"cidr\" { type = string }"))
		env.user(workspaceTemplateApply("demo", before))
		env.awaitNotReady("demo", infrav1.NothingCreatedReason, "Add an output that is not null")
		env.user(env.template())
		env.awaitReady("demo", before)
		env.end("demo")
	})
}

const stateNotSaved = "state-not-saved"

// Each run of the provider would create all resources again.
func TestAWorkspaceWhoseStateCannotBeSavedIsPaused(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		samples := failures.Samples()
		i := slices.IndexFunc(samples, func(sample failures.Sample) bool { return sample.Name == stateNotSaved })
		require.GreaterOrEqual(env, i, 0)
		env.user(env.template())
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Stderr: samples[i].Stderr}})
		env.user(workspaceTemplateApply("demo", before))
		paused := env.awaitNotReady("demo", infrav1.StateNotSavedReason, "could not save its state", "CAPT has paused Workspace", "crossplane.io/paused-")
		require.Equal(env, samples[i].Class, paused.Status.LastFailureClass)
		runs := env.count("demo", scripted.Apply)
		require.LessOrEqual(env, runs, 5, "those that began before CAPT noticed")

		// A change is written, and runs when the user has corrected the state. It is paused again if that did not help.
		env.user(workspaceTemplateApply("demo", after))
		env.awaitWorkspace("demo", varIs(after))
		require.Equal(env, runs, env.count("demo", scripted.Apply))
		const resume = `{"metadata":{"annotations":{"crossplane.io/paused":null,"capt.cluster.x-k8s.io/state-not-saved":null}}}`
		env.edit("demo", resume)
		env.awaitOperation("demo", scripted.Apply, runs+1)
		env.awaitWorkspace("demo", func(workspace *unstructured.Unstructured) string {
			return fixture.Unless(workspace.GetAnnotations()["crossplane.io/paused"] == "true", "it is not paused again")
		})
		env.clearScript("demo")
		env.edit("demo", resume)
		env.awaitReady("demo", after)
		env.end("demo")
	})
}

// After an update that failed, the Workspace still says Ready.
func TestAFailedUpdateIsReportedAndRetried(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Stderr: throttled}})

		env.user(workspaceTemplateApply("demo", after))
		failed := env.awaitNotReady("demo", infrav1.ApplyFailedReason, "Terraform apply failed", "AWS limits the rate of requests", "RequestLimitExceeded")
		env.requireWorkspaceCondition("demo", "Ready", metav1.ConditionTrue)
		require.Equal(env, "Throttle", failed.Status.LastFailureClass)
		require.Equal(env, first.Status.LastAppliedRevision, failed.Status.LastAppliedRevision)
		require.NotEqual(env, first.Status.LastAppliedRevision, failed.Status.LastFailedRevision)
		require.Equal(env, before, failed.Status.Outputs["cidr"])
		require.Equal(env, metav1.ConditionTrue, failed.Status.Applied)

		env.clearScript("demo")
		last := env.awaitReady("demo", after)
		require.Equal(env, failed.Status.LastFailedRevision, last.Status.LastAppliedRevision)
		require.Len(env, env.writes("demo"), 2, "one to make it, and one to change it")
		env.end("demo")
	})
}

// The provider tries again and again. That it still fails is nothing new.
func TestAFailureThatRepeatsIsReportedOnce(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		env.user(env.template(), workspaceTemplateApply("demo", before))
		env.awaitNotReady("demo", infrav1.ApplyFailedReason)
		reported := env.awaitEvent("demo", infrav1.ApplyFailedReason)
		since, tried := time.Now(), env.count("demo", scripted.Apply)
		env.awaitOperation("demo", scripted.Apply, tried+2)
		require.Empty(env, env.allWrites(since))
		require.Len(env, reported, 1)
		require.Nil(env, reported[0].Series)
		require.Equal(env, "Warning", reported[0].Type)
		require.Contains(env, reported[0].Note, "RequestLimitExceeded")
		env.end("demo")
	})
}

// A failed update is replaced by another one. The error of the first one no longer matters then.
func TestAFailedUpdateIsCorrectedByAnother(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		env.user(workspaceTemplateApply("demo", "10.9.0.0/16"))
		env.awaitNotReady("demo", infrav1.ApplyFailedReason)

		env.setScript("demo", scripted.Script{Plan: scripted.Step{Hang: true}})
		env.user(workspaceTemplateApply("demo", after))
		if env.control.conditions == withGenerations { // Without them, the generation of an error is unknown.
			env.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		}
		env.clearScript("demo")
		env.awaitReady("demo", after)
		require.Len(env, env.writes("demo"), 3)
		env.end("demo")
	})
}

func TestAFailedInitOrPlanIsReportedAndRetried(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.setScript("init", scripted.Script{Init: scripted.Step{Stderr: "\nError: Failed to install provider\n"}})
		env.setScript("plan", scripted.Script{Plan: scripted.Step{Stderr: unsupported}})
		env.user(env.template(), workspaceTemplateApply("init", before), workspaceTemplateApply("plan", before))
		env.awaitNotReady("init", infrav1.PlanFailedReason, "Failed to install provider")
		planned := env.awaitNotReady("plan", infrav1.PlanFailedReason, "Terraform plan failed", "Correct the WorkspaceTemplate or the variables", "Unsupported argument")
		require.Equal(env, "Config", planned.Status.LastFailureClass)
		env.clearScript("init", "plan")
		env.awaitReady("init", before)
		first := env.awaitReady("plan", before)

		// One that is at rest shows Ready while its plan fails.
		env.setScript("plan", scripted.Script{Plan: scripted.Step{Stderr: unsupported}})
		env.edit("plan", `{"metadata":{"annotations":{"look":"again"}}}`)
		failed := env.awaitNotReady("plan", infrav1.PlanFailedReason, "Unsupported argument")
		env.requireWorkspaceCondition("plan", "Ready", metav1.ConditionTrue)
		require.Equal(env, before, failed.Status.Outputs["cidr"])
		env.clearScript("plan")
		require.Equal(env, uid(first), uid(env.awaitReady("plan", before)))
		require.Equal(env, 1, env.count("plan", scripted.Apply))
		require.Len(env, env.writes("plan"), 1)
		env.end("init", "plan")
	})
}

func TestAMissingProviderConfigIsReportedUntilItExists(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.templateWith(env.Namespace, module), workspaceTemplateApply("demo", before))
		env.awaitNotReady("demo", infrav1.ProviderConfigFailedReason, "Create or correct the ProviderConfig", "not found")
		require.Zero(env, env.count("demo", scripted.Init))

		env.user(env.ProviderConfig())
		env.awaitReady("demo", before)
		require.Len(env, env.writes("demo"), 1)
		env.end("demo")
	})
}

// Terraform quotes its input. Input from a Secret is not reported.
func TestAnErrorThatQuotesASecretIsReportedWithoutIt(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.secret("account", map[string]string{"value": canary})
		env.setScript("demo", scripted.Script{Apply: scripted.Step{Stderr: "\nError: creating EC2 VPC with " + canary + ": VpcLimitExceeded\n"}})
		env.user(strings.Replace(env.template(), "source: Inline",
			"source: Inline\n        env: [{name: ACCOUNT, secretKeyRef: {namespace: "+env.Namespace+", name: account, key: value}}]", 1),
			workspaceTemplateApply("demo", before))
		env.awaitNotReady("demo", infrav1.ApplyFailedReason, "creating EC2 VPC with", "VpcLimitExceeded")
		env.clearScript("demo")
		env.awaitReady("demo", before)
		env.end("demo")
	})
}
