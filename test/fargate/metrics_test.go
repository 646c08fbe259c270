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

func (w *world) measured() metrics.Families {
	w.Helper()
	url, err := w.MetricsURL(sandbox.Manager)
	require.NoError(w, err)
	families, err := metrics.Read(w.Context(), url)
	require.NoError(w, err)
	return families
}

// profilesByState is the gauge, for this world alone.
func (w *world) profilesByState() map[string]float64 {
	w.Helper()
	states := map[string]float64{}
	for _, metric := range w.measured()["capt_fargate_profiles"].GetMetric() {
		labels := map[string]string{}
		for _, pair := range metric.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if labels["namespace"] == w.Namespace {
			states[labels["state"]] = metric.GetGauge().GetValue()
		}
	}
	return states
}

// durations counts what the histograms have measured in the whole process.
func (w *world) durations() (created, deleted uint64) {
	w.Helper()
	families := w.measured()
	count := func(name string) uint64 { return families.Histogram(name, "", "").GetSampleCount() }
	return count("capt_fargate_profile_creation_duration_seconds"), count("capt_fargate_profile_deletion_duration_seconds")
}

// awaitMeasured waits until the metrics are as wanted.
func (w *world) awaitMeasured(created, deleted uint64, states map[string]float64) {
	w.Helper()
	require.EventuallyWithT(w, func(t *assert.CollectT) {
		c, d := w.durations()
		assert.Equal(t, []uint64{created, deleted}, []uint64{c, d}, "created and deleted")
		assert.Equal(t, states, w.profilesByState())
	}, fixture.Patience, 100*time.Millisecond)
}

// awaitSeen waits until the manager has seen Terraform begin with a profile. What it has not seen it does not measure, and an
// apply that takes no time can be over before it looks.
func (w *world) awaitSeen(profile string) {
	w.Helper()
	w.Insist(func() string {
		begun := &infrav1.WorkspaceTemplateApply{}
		if !w.Exists(begun, apply(profile)) || begun.Status.StartedTime == nil {
			return "Terraform has not begun with profile " + profile
		}
		return ""
	})
	looks := func() float64 {
		return w.measured().By("controller_runtime_reconcile_total", "controller")["captcontrolplane"]
	}
	before := looks()
	w.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"metadata":{"annotations":{"example.com/seen":"`+profile+`"}}}`)
	w.Insist(func() string {
		if looks() <= before {
			return "the manager has not looked at the control plane since"
		}
		return ""
	})
}

// The histograms are those of all clusters.
func TestMetricsOfProfiles(t *testing.T) {
	w := &world{shared.Exclusive(t).NewWorld(t, "Namespaced")}
	created, deleted := w.durations()
	held := scripted.Script{Apply: scripted.Step{Hang: true}}
	w.Play(apply("a"), held)
	w.Play(apply("b"), held)
	w.start("a", "b")
	w.awaitSeen("a")
	w.Play(apply("a"), scripted.Script{})
	w.awaitSeen("b")
	w.Play(apply("b"), scripted.Script{Apply: scripted.Step{Stderr: quota}})
	w.AwaitState(controlplanev1.StateDegraded, controlplanev1.FargateProfileFailedReason)
	w.awaitMeasured(created+1, deleted, map[string]float64{"active": 2, "ready": 1, "failed": 1})

	w.Play(apply("b"), scripted.Script{})
	w.AwaitState(controlplanev1.StateReady, "")
	w.awaitMeasured(created+2, deleted, map[string]float64{"active": 2, "ready": 2, "failed": 0}) // What failed first was created, too.

	w.User(controlPlane("a"))
	w.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply("b"))
	w.AwaitState(controlplanev1.StateReady, "")
	w.awaitMeasured(created+2, deleted+1, map[string]float64{"active": 1, "ready": 1, "failed": 0})

	w.Remove(&clusterv1.Cluster{}, fixture.Demo)
	w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	w.awaitMeasured(created+2, deleted+2, map[string]float64{}) // Deleted profiles have no metrics.
}
