// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/metrics"
)

func (env *environment) measured() metrics.Families {
	env.Helper()
	families, err := metrics.Read(env.Context(), env.MetricsURL(sandbox.Manager))
	require.NoError(env, err)
	return families
}

// profilesByState is the gauge, for this environment alone.
func (env *environment) profilesByState() map[string]float64 {
	env.Helper()
	states := map[string]float64{}
	for _, metric := range env.measured()["capt_fargate_profiles"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["namespace"] == env.Namespace {
			states[labels["state"]] = metric.GetGauge().GetValue()
		}
	}
	return states
}

// awaitReported waits until the leader reports a state of the control plane; empty means that it has no series.
func (env *environment) awaitReported(state string) {
	env.Helper()
	require.EventuallyWithT(env, func(t *assert.CollectT) {
		reported := ""
		for _, metric := range env.measured()["capt_resource_state"].GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["namespace"] == env.Namespace && labels["kind"] == "CAPTControlPlane" {
				assert.Equal(t, fixture.Demo, labels["cluster_name"])
				reported += labels["state"]
			}
		}
		assert.Equal(t, state, reported)
	}, fixture.Timeout, 100*time.Millisecond)
}

// durations counts what the histograms have measured in the whole process.
func (env *environment) durations() (created, deleted uint64) {
	env.Helper()
	families := env.measured()
	count := func(name string) uint64 { return families.Histogram(name, "", "").GetSampleCount() }
	return count("capt_fargate_profile_creation_duration_seconds"), count("capt_fargate_profile_deletion_duration_seconds")
}

// awaitMeasured waits until the metrics are as wanted.
func (env *environment) awaitMeasured(created, deleted uint64, states map[string]float64) {
	env.Helper()
	require.EventuallyWithT(env, func(t *assert.CollectT) {
		c, d := env.durations()
		assert.Equal(t, []uint64{created, deleted}, []uint64{c, d}, "created and deleted")
		assert.Equal(t, states, env.profilesByState())
	}, fixture.Timeout, 100*time.Millisecond)
}

// awaitSeen waits until the manager has seen Terraform begin with a profile. What it has not seen it does not measure, and an
// apply that takes no time can be over before it looks.
func (env *environment) awaitSeen(profile string) {
	env.Helper()
	env.Eventually(func() string {
		begun := &infrav1.WorkspaceTemplateApply{}
		return fixture.Unless(env.Exists(begun, apply(profile)) && begun.Status.StartedTime != nil,
			"Terraform has not begun with profile %s", profile)
	})
	looks := func() float64 {
		return env.measured().By("controller_runtime_reconcile_total", "controller")["captcontrolplane"]
	}
	before := looks()
	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"metadata":{"annotations":{"example.com/seen":"`+profile+`"}}}`)
	env.Eventually(func() string {
		return fixture.Unless(looks() > before, "the manager has not looked at the control plane since")
	})
}

// The histograms are those of all clusters.
func TestMetricsOfProfiles(t *testing.T) {
	env := &environment{shared.Exclusive(t).NewEnvironment(t, "Namespaced")}
	created, deleted := env.durations()
	held := scripted.Script{Apply: scripted.Step{Hang: true}}
	env.SetScript(apply("a"), held)
	env.SetScript(apply("b"), held)
	env.start("a", "b")
	env.awaitSeen("a")
	env.SetScript(apply("a"), scripted.Script{})
	env.awaitSeen("b")
	env.SetScript(apply("b"), scripted.Script{Apply: scripted.Step{Stderr: quota}})
	env.AwaitState(infrav1.StateDegraded, controlplanev1.FargateProfileFailedReason)
	env.awaitMeasured(created+1, deleted, map[string]float64{"active": 2, "ready": 1, "failed": 1})
	env.awaitReported("Degraded")

	env.SetScript(apply("b"), scripted.Script{})
	env.AwaitState(infrav1.StateReady, "")
	env.awaitMeasured(created+2, deleted, map[string]float64{"active": 2, "ready": 2, "failed": 0}) // What failed first was created, too.

	env.User(controlPlane("a"))
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply("b"))
	env.AwaitState(infrav1.StateReady, "")
	env.awaitMeasured(created+2, deleted+1, map[string]float64{"active": 1, "ready": 1, "failed": 0})

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.awaitMeasured(created+2, deleted+2, map[string]float64{}) // Deleted profiles have no metrics.
	env.awaitReported("")
}
