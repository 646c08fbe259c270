// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/provider/failures"
)

const (
	throttled   = "\nError: creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 503, api error RequestLimitExceeded: Request limit exceeded.\n"
	unsupported = "\nError: Unsupported argument\n\n  on main.tf line 6, in resource \"aws_vpc\" \"this\":\n   6:   cidr = var.cidr\n\nAn argument named \"cidr\" is not expected here.\n"
)

// samples are failures of each class, under names for WorkspaceTemplateApplies; each provider gets others. Runs that were
// killed without output cannot be scripted.
func (w *world) samples() map[string]failures.Sample {
	byClass := map[string][]failures.Sample{}
	for _, sample := range failures.Samples() {
		if sample.Stderr != "" {
			byClass[sample.Class] = append(byClass[sample.Class], sample)
		}
	}
	turn := 0
	if w.scope == terraform.ScopeCluster {
		turn++
	}
	if w.conditions == withoutGenerations {
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
	withAnyProvider(t, func(w *world) {
		w.user(w.template())
		samples, classes := w.samples(), map[string]bool{}
		for name, sample := range samples {
			classes[sample.Class] = true
			w.play(name, scripted.Script{Apply: scripted.Step{Stderr: sample.Stderr}})
			w.user(workspaceTemplateApply(name, before))
		}
		require.Len(w, classes, 9)
		for name, sample := range samples {
			failed := w.awaitNotReady(name, infrav1.ApplyFailedReason, "Terraform apply failed", "provider-terraform retries")
			require.Equal(w, sample.Class, failed.Status.LastFailureClass, name)
			require.NotEmpty(w, failed.Status.LastFailedRevision)
			require.Empty(w, failed.Status.LastAppliedRevision)
			require.Empty(w, failed.Status.Applied)
			w.await(name, infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason, failed.Status.LastFailureMessage)
			w.clearScript(name)
		}
		for name := range samples {
			w.awaitReady(name, before)
			require.GreaterOrEqual(w, w.count(name, scripted.Apply), 2)
			require.Len(w, w.writes(name), 1, "the provider tries again, not CAPT")
		}
		w.end(slices.Collect(maps.Keys(samples))...)
	})
}

// After an update that failed, the Workspace still says Ready.
func TestAFailedUpdateIsReportedAndRetried(t *testing.T) {
	withEachProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Apply: scripted.Step{Stderr: throttled}})

		w.user(workspaceTemplateApply("demo", after))
		failed := w.awaitNotReady("demo", infrav1.ApplyFailedReason, "Terraform apply failed", "AWS limits the rate of requests", "RequestLimitExceeded")
		w.requireWorkspaceCondition("demo", "Ready", metav1.ConditionTrue)
		require.Equal(w, "Throttle", failed.Status.LastFailureClass)
		require.Equal(w, first.Status.LastAppliedRevision, failed.Status.LastAppliedRevision)
		require.NotEqual(w, first.Status.LastAppliedRevision, failed.Status.LastFailedRevision)
		require.Equal(w, before, failed.Status.Outputs["cidr"])
		require.Equal(w, metav1.ConditionTrue, failed.Status.Applied)

		w.clearScript("demo")
		last := w.awaitReady("demo", after)
		require.Equal(w, failed.Status.LastFailedRevision, last.Status.LastAppliedRevision)
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to change it")
		w.end("demo")
	})
}

// The provider tries again and again. That it still fails is nothing new.
func TestAFailureThatRepeatsIsReportedOnce(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("demo", scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitNotReady("demo", infrav1.ApplyFailedReason)
		var reported []eventsv1.Event
		w.insist(slowTick, func() string {
			reported = slices.DeleteFunc(w.events("demo"), func(e eventsv1.Event) bool { return e.Reason != infrav1.ApplyFailedReason })
			if len(reported) == 0 {
				return "no event reports it"
			}
			return ""
		})
		since, tried := time.Now(), w.count("demo", scripted.Apply)
		w.awaitOperation("demo", scripted.Apply, tried+2)
		require.Empty(w, w.allWrites(since))
		require.Len(w, reported, 1)
		require.Nil(w, reported[0].Series)
		require.Equal(w, "Warning", reported[0].Type)
		require.Contains(w, reported[0].Note, "RequestLimitExceeded")
		w.end("demo")
	})
}

// A failed update is replaced by another one. The error of the first one no longer matters then.
func TestAFailedUpdateIsCorrectedByAnother(t *testing.T) {
	withEachProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Apply: scripted.Step{Stderr: throttled}})
		w.user(workspaceTemplateApply("demo", "10.9.0.0/16"))
		w.awaitNotReady("demo", infrav1.ApplyFailedReason)

		w.play("demo", scripted.Script{Plan: scripted.Step{Hang: true}})
		w.user(workspaceTemplateApply("demo", after))
		if w.conditions == withGenerations { // Without them, the generation of an error is unknown.
			w.awaitNotReady("demo", infrav1.ProvisioningReason, "has not reported on it yet")
		}
		w.clearScript("demo")
		w.awaitReady("demo", after)
		require.Len(w, w.writes("demo"), 3)
		w.end("demo")
	})
}

func TestAFailedInitOrPlanIsReportedAndRetried(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("init", scripted.Script{Init: scripted.Step{Stderr: "\nError: Failed to install provider\n"}})
		w.play("plan", scripted.Script{Plan: scripted.Step{Stderr: unsupported}})
		w.user(w.template(), workspaceTemplateApply("init", before), workspaceTemplateApply("plan", before))
		w.awaitNotReady("init", infrav1.PlanFailedReason, "Failed to install provider")
		planned := w.awaitNotReady("plan", infrav1.PlanFailedReason, "Terraform plan failed", "Correct the WorkspaceTemplate or the variables", "Unsupported argument")
		require.Equal(w, "Config", planned.Status.LastFailureClass)
		w.clearScript("init")
		w.clearScript("plan")
		w.awaitReady("init", before)
		first := w.awaitReady("plan", before)

		// One that is at rest shows Ready while its plan fails.
		w.play("plan", scripted.Script{Plan: scripted.Step{Stderr: unsupported}})
		w.edit("plan", `{"metadata":{"annotations":{"look":"again"}}}`)
		failed := w.awaitNotReady("plan", infrav1.PlanFailedReason, "Unsupported argument")
		w.requireWorkspaceCondition("plan", "Ready", metav1.ConditionTrue)
		require.Equal(w, before, failed.Status.Outputs["cidr"])
		w.clearScript("plan")
		require.Equal(w, uid(first), uid(w.awaitReady("plan", before)))
		require.Equal(w, 1, w.count("plan", scripted.Apply))
		require.Len(w, w.writes("plan"), 1)
		w.end("init", "plan")
	})
}

func TestAMissingProviderConfigIsReportedUntilItExists(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.templateWith(templateName, w.namespace, module), workspaceTemplateApply("demo", before))
		w.awaitNotReady("demo", infrav1.ProviderConfigFailedReason, "Create or correct the ProviderConfig", "not found")
		require.Zero(w, w.count("demo", scripted.Init))

		kind, group := "ClusterProviderConfig", "tf.m.upbound.io"
		if w.scope == terraform.ScopeCluster {
			kind, group = "ProviderConfig", "tf.upbound.io"
		}
		w.user(fmt.Sprintf("{apiVersion: %s/v1beta1, kind: %s, metadata: {name: %s}, spec: {pluginCache: false}}", group, kind, w.namespace))
		w.awaitReady("demo", before)
		require.Len(w, w.writes("demo"), 1)
		w.end("demo")
	})
}

// Terraform quotes its input. Input from a Secret is not reported.
func TestAnErrorThatQuotesASecretIsReportedWithoutIt(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		require.NoError(w, w.Create(w.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "account"}, StringData: map[string]string{"value": canary},
		}))
		w.play("demo", scripted.Script{Apply: scripted.Step{Stderr: "\nError: creating EC2 VPC with " + canary + ": VpcLimitExceeded\n"}})
		w.user(strings.Replace(w.template(), "source: Inline",
			"source: Inline\n        env: [{name: ACCOUNT, secretKeyRef: {namespace: "+w.namespace+", name: account, key: value}}]", 1),
			workspaceTemplateApply("demo", before))
		w.awaitNotReady("demo", infrav1.ApplyFailedReason, "creating EC2 VPC with", "VpcLimitExceeded")
		w.clearScript("demo")
		w.awaitReady("demo", before)
		w.end("demo")
	})
}
