// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

// histogram returns the count and the sum of the only histogram with a name.
func histogram(t *testing.T, registry *prometheus.Registry, name string) (count uint64, sum float64) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				count, sum = count+metric.GetHistogram().GetSampleCount(), sum+metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

func TestReconcilesMeasureTheLifeOfAnObject(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.NewReconciles(registry)
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	at := func(minutes int) time.Time { return builder.Created.Add(time.Duration(minutes) * time.Minute) }
	show := func(minute int, status, reason, class string) {
		showing([3]string{"Ready", status, reason})(apply)
		apply.Status.LastFailureClass = class
		m.StatusComputed(apply, true, at(minute))
		m.StatusComputed(apply, false, at(minute))
	}
	m.Observe(apply, at(0))
	show(1, "False", infrav1.ProvisioningReason, "")
	show(2, "False", infrav1.ApplyFailedReason, "Throttle")
	show(3, "False", infrav1.ApplyFailedReason, "Lock")
	show(4, "False", infrav1.ProvisioningReason, "")
	show(10, "True", infrav1.UpToDateReason, "")
	show(20, "False", infrav1.ProvisioningReason, "")
	show(25, "True", infrav1.UpToDateReason, "")
	apply.DeletionTimestamp = &metav1.Time{Time: at(30)}
	m.Observe(apply, at(31))
	m.Deleted(&infrav1.WorkspaceTemplateApply{}, client.ObjectKeyFromObject(apply), at(36))
	m.Deleted(&infrav1.WorkspaceTemplateApply{}, client.ObjectKeyFromObject(apply), at(40))

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_state_transitions_total Transitions of the states of objects.
# TYPE capt_state_transitions_total counter
capt_state_transitions_total{from="Failed",kind="WorkspaceTemplateApply",to="Provisioning"} 1
capt_state_transitions_total{from="Pending",kind="WorkspaceTemplateApply",to="Provisioning"} 1
capt_state_transitions_total{from="Provisioning",kind="WorkspaceTemplateApply",to="Failed"} 1
capt_state_transitions_total{from="Provisioning",kind="WorkspaceTemplateApply",to="Ready"} 2
capt_state_transitions_total{from="Ready",kind="WorkspaceTemplateApply",to="Deleting"} 1
capt_state_transitions_total{from="Ready",kind="WorkspaceTemplateApply",to="Provisioning"} 1
# HELP capt_status_writes_total Reconciles that computed a status, by whether it changed and was written.
# TYPE capt_status_writes_total counter
capt_status_writes_total{changed="false",kind="WorkspaceTemplateApply"} 7
capt_status_writes_total{changed="true",kind="WorkspaceTemplateApply"} 7
# HELP capt_workspace_errors_total Number of times that a Workspace began to fail, by class of the error.
# TYPE capt_workspace_errors_total counter
capt_workspace_errors_total{class="Lock"} 1
capt_workspace_errors_total{class="Throttle"} 1
`), "capt_state_transitions_total", "capt_status_writes_total", "capt_workspace_errors_total"))
	for name, expected := range map[string]struct {
		count   uint64
		minutes float64
	}{
		"capt_time_to_ready_seconds":     {1, 10}, // Only the first time.
		"capt_deletion_duration_seconds": {1, 6},
		"capt_state_duration_seconds":    {7, 31}, // All states until the deletion was observed.
	} {
		count, sum := histogram(t, registry, name)
		assert.Equal(t, expected.count, count, name)
		assert.InDelta(t, 60*expected.minutes, sum, 0.1, name)
	}
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestReconcilesDoNotMeasureWhatStartedBeforeTheProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.NewReconciles(registry)
	apply := builder.WorkspaceTemplateApply("demo-vpc", showing([3]string{"Ready", "False", infrav1.ApplyFailedReason}))
	apply.Status.LastFailureClass = "Lock"
	m.Observe(apply, builder.Created.Add(time.Hour))
	showing([3]string{"Ready", "True", infrav1.UpToDateReason})(apply)
	m.Observe(apply, builder.Created.Add(2*time.Hour))
	for _, name := range []string{"capt_time_to_ready_seconds", "capt_state_duration_seconds"} {
		count, _ := histogram(t, registry, name)
		assert.Zero(t, count, name)
	}
	assert.Equal(t, 1, testutil.CollectAndCount(registry, "capt_state_transitions_total"), "the transition itself was observed")
	assert.Zero(t, testutil.CollectAndCount(registry, "capt_workspace_errors_total"))
	(*metrics.Reconciles)(nil).Observe(apply, builder.Created)
}

func TestUnclaimedWorkspacesAndExpiringTokens(t *testing.T) {
	registry, key := prometheus.NewRegistry(), client.ObjectKey{Namespace: "team-a", Name: "demo"}
	unclaimed, kubeconfigs := metrics.NewUnclaimed(registry), metrics.NewKubeconfigs(registry)
	unclaimed.Report(key, time.Hour)
	kubeconfigs.Report(key, time.Unix(1000, 0))
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_kubeconfig_expiry_timestamp_seconds Time when the token in the kubeconfig of a CAPTControlPlane expires.
# TYPE capt_kubeconfig_expiry_timestamp_seconds gauge
capt_kubeconfig_expiry_timestamp_seconds{name="demo",namespace="team-a"} 1000
`), "capt_kubeconfig_expiry_timestamp_seconds"))
	assert.InDelta(t, 3600, testutil.ToFloat64(unclaimed), 60, "it grows between reconciles")
	unclaimed.Report(key, 0)
	kubeconfigs.Report(key, time.Time{})
	assert.Zero(t, testutil.CollectAndCount(registry))
}

func TestRolloutsAndPreviewsAreMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.NewReconciles(registry)
	started := metav1.NewTime(builder.Created)
	at := func(minutes int) time.Time { return builder.Created.Add(time.Duration(minutes) * time.Minute) }
	template := builder.WorkspaceTemplate("vpc")
	for minute, stage := range []infrav1.RolloutStage{"", infrav1.RolloutComplete, infrav1.RolloutCanary, infrav1.RolloutRemaining, infrav1.RolloutComplete, infrav1.RolloutComplete} {
		template.Status.Rollout.Stage, template.Status.Rollout.StartTime = stage, &started
		m.StatusComputed(template, true, at(minute))
	}
	count, sum := histogram(t, registry, "capt_rollout_duration_seconds")
	assert.Equal(t, uint64(1), count, "a template that is observed for the first time was not rolled out")
	assert.InDelta(t, 240, sum, 0)

	apply := builder.WorkspaceTemplateApply("demo-vpc")
	counted := func(action infrav1.PlanAction) *infrav1.PlannedChanges {
		return &infrav1.PlannedChanges{Counts: []infrav1.PlannedCount{{Action: action, Count: 1}}}
	}
	for minute, preview := range []infrav1.RevisionPreview{
		{}, {Result: infrav1.PreviewChanges, Changes: counted(infrav1.PlanUpdate)}, {Result: infrav1.PreviewChanges, Changes: counted(infrav1.PlanReplace)},
		{Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{Unknown: "the log is gone"}}, {Result: infrav1.PreviewEmpty}, {},
	} {
		if preview.Result != "" {
			preview.CompletionTime = &metav1.Time{Time: at(minute)}
		}
		apply.Status.Preview = preview
		m.StatusComputed(apply, true, at(minute))
		m.StatusComputed(apply, false, at(minute))
	}
	completed := metav1.NewTime(at(9))
	apply.Status.Change.Preview = infrav1.RevisionPreview{Result: infrav1.PreviewFailed, CompletionTime: &completed}
	m.StatusComputed(apply, true, at(9))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_previews_total Results of previews, by result.
# TYPE capt_previews_total counter
capt_previews_total{result="Changes"} 1
capt_previews_total{result="Destroys"} 1
capt_previews_total{result="Empty"} 1
capt_previews_total{result="Failed"} 1
capt_previews_total{result="Unknown"} 1
`), "capt_previews_total"))
}

func TestPlansThatWereReadAreMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := metrics.NewPlans(registry)
	m.Read(3 * time.Second)
	m.Read(-time.Second)
	m.Unknown("NoAccess")
	(*metrics.Plans)(nil).Read(0)
	(*metrics.Plans)(nil).Unknown("")
	count, sum := histogram(t, registry, "capt_plan_log_age_seconds")
	assert.Equal(t, uint64(2), count)
	assert.InDelta(t, 3, sum, 0, "the clock of the provider is ahead")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_plan_reads_total Previews whose plan was read from the log of provider-terraform (Read), or is not known, by reason.
# TYPE capt_plan_reads_total counter
capt_plan_reads_total{result="NoAccess"} 1
capt_plan_reads_total{result="Read"} 2
`), "capt_plan_reads_total"))
}

func TestRunningPreviewsAreReported(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics.NewPreviews(registry, func() (int, int) { return 5, 7 })
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_previews Number of objects with a preview, and of those that wait for one to end.
# TYPE capt_previews gauge
capt_previews{state="Running"} 5
capt_previews{state="Waiting"} 7
`), "capt_previews"))
}
