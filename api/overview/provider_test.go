// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
)

func TestWhatRunsIsNamedIfTheProviderDoesNotReport(t *testing.T) {
	running := func(name, reason string, minute int) infrav1.WorkspaceTemplateApply {
		found := *apply(name, condition("Ready", metav1.ConditionFalse, reason))
		found.Namespace, found.Status.StartedTime = "default", ptr.To(at(minute))
		return found
	}
	deleted := *apply("gone", condition("Deleting", metav1.ConditionTrue, infrav1.WaitingForWorkspaceDeletionReason))
	deleted.DeletionTimestamp = ptr.To(at(7))
	waiting := *apply("waiting", condition("Ready", metav1.ConditionFalse, infrav1.ProvisioningReason))
	provider := &overview.Provider{
		Pods:    []corev1.Pod{providerPod("provider", 60)},
		Applies: []infrav1.WorkspaceTemplateApply{running("eks", infrav1.NotReportedReason, 1), running("b", infrav1.ProvisioningReason, 8), running("a", infrav1.NotReportedReason, 2), running("failing", infrav1.ApplyFailedReason, 1), deleted, waiting},
	}
	for _, reason := range []string{infrav1.NotReportedReason, infrav1.WorkspaceNotReconciledReason} {
		o := ready()
		o.Applies[1].Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, reason)}
		c := overview.Of(o, at(10))
		require.NotNil(t, overview.NextStep(o, &c, at(10).Time), "without rights for the Pods")
		o.Provider = provider
		next := overview.NextStep(o, &c, at(10).Time)
		assert.Contains(t, next.Step, "Terraform may run for WorkspaceTemplateApply default/a (since 8m), /gone (since 3m), default/b (since 2m)")
		assert.Contains(t, next.Step, "runs since 1970-01-01T01:00:00Z")
		assert.Contains(t, strings.Join(next.Commands, "\n"), "logs provider --since=10m")
	}
	o := ready()
	o.Applies[1].Status.Conditions, o.Provider = []metav1.Condition{condition("Ready", metav1.ConditionFalse, infrav1.NotReportedReason)}, &overview.Provider{Pods: []corev1.Pod{}}
	c := overview.Of(o, at(10))
	assert.Equal(t, infrav1.StateReady, c.State, "Terraform may run")
	assert.Contains(t, overview.NextStep(o, &c, at(10).Time).Step, "No Pod with its label was found")
}

func TestAPlanOrADeletionThatTheProviderDoesNotReportOnNeedsTheProvider(t *testing.T) {
	o := ready()
	previewing := condition("Ready", metav1.ConditionFalse, infrav1.PreviewingChangeReason)
	previewing.LastTransitionTime = at(9)
	o.Applies[1].Status.Conditions = []metav1.Condition{previewing}
	c := overview.Of(o, at(10))
	assert.Nil(t, overview.NextStep(o, &c, at(10).Time), "it may be planning")
	assert.Contains(t, overview.NextStep(o, &c, at(12).Time).Step, "Check whether provider-terraform runs")

	deleting := condition("Ready", metav1.ConditionFalse, infrav1.DeletingReason)
	for reason, want := range map[string]string{infrav1.NotReportedReason: "Check whether provider-terraform runs", infrav1.WaitingForDependentsReason: "retain them"} {
		o.Applies[1].Status.Conditions = []metav1.Condition{deleting, condition("Deleting", metav1.ConditionTrue, reason)}
		c = overview.Of(o, at(10))
		assert.Contains(t, overview.NextStep(o, &c, at(10).Time).Step, want)
	}
}

func TestAnAddOnThatWaitsForWhatNothingProvidesMakesAClusterDegraded(t *testing.T) {
	waiting := condition("Ready", metav1.ConditionFalse, infrav1.WaitingForDependenciesReason)
	for name, row := range map[string]struct {
		minute int
		spoil  func(o *overview.Objects)
		want   infrav1.State
	}{
		"for long":           {3, func(*overview.Objects) {}, infrav1.StateDegraded},
		"since a moment ago": {2, func(*overview.Objects) {}, infrav1.StateReady},
		"and another one is being provided": {3, func(o *overview.Objects) {
			o.Applies = append(o.Applies, apply("other", condition("Ready", metav1.ConditionFalse, infrav1.ProvisioningReason)))
		}, infrav1.StateReady},
		"and another one waits, too": {3, func(o *overview.Objects) { o.Applies = append(o.Applies, apply("other", waiting)) }, infrav1.StateDegraded},
	} {
		o := ready()
		o.Applies = append(o.Applies, apply("addon", waiting))
		row.spoil(o)
		now := at(row.minute)
		now.Time = now.Add(-1)
		if row.want == infrav1.StateDegraded {
			now = at(row.minute)
		}
		c := overview.Of(o, now)
		assert.Equal(t, row.want, c.State, name)
		if row.want == infrav1.StateDegraded {
			assert.Equal(t, reasons.User, c.Cause.Actor)
			assert.Contains(t, overview.NextStep(o, &c, now.Time).Commands, "kubectl edit workspacetemplateapply -n default addon")
		}
	}
}

func TestATopologyThatCannotBeReconciledIsTheCause(t *testing.T) {
	o := &overview.Objects{Cluster: ready().Cluster}
	for reason, want := range map[string]bool{
		clusterv1.ClusterTopologyReconciledFailedReason: true, clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason: true, clusterv1.ClusterTopologyReconciledClusterUpgradingReason: false,
	} {
		o.Cluster.Status.Conditions = []metav1.Condition{condition(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, reason)}
		c := overview.Of(o, at(3))
		assert.Equal(t, want, c.Cause != nil, reason)
		if want {
			assert.Contains(t, overview.NextStep(o, &c, at(3).Time).Commands, "kubectl edit cluster -n default demo")
		}
	}
	o.Cluster.Status.Conditions[0].Reason = clusterv1.ClusterTopologyReconciledFailedReason
	o.Cluster.Status.Conditions[0].Message = `failed calling webhook "default.capt": tls: failed to verify certificate: x509: certificate has expired`
	c := overview.Of(o, at(3))
	assert.Contains(t, overview.NextStep(o, &c, at(3).Time).Step, "Renew its certificate")
}
