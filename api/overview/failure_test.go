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

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// providerPod is a Pod of provider-terraform whose container started at a time in minutes; negative if it does not run.
func providerPod(name string, started int) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crossplane-system", Name: name, Labels: map[string]string{terraform.ProviderPodLabel: "provider-terraform"}}}
	if started >= 0 {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(started)}}}}
	}
	return pod
}

// failing is the next step, and the cause, of a Cluster whose control plane fails.
func failing(found *overview.Failure) (*overview.Next, *overview.Cause) {
	o := ready()
	o.Applies[1].Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, infrav1.ApplyFailedReason)}
	o.Failure = found
	c := overview.Of(o, at(100))
	return overview.NextStep(o, &c, at(100).Time), c.Cause
}

func TestALockIsRemovedOnlyIfItsHolderHasEnded(t *testing.T) {
	const remove = "kubectl -n crossplane-system exec terraform-2 -- sh -c 'cd /tf/6f1c && terraform force-unlock -force 3b8c'"
	for name, row := range map[string]struct {
		pods    []corev1.Pod
		want    string
		command string
	}{
		"its Pod was replaced":      {[]corev1.Pod{providerPod("terraform-2", 20)}, "since 1970-01-01T00:10:00Z (90m ago) by root@terraform-1, a Pod that does not exist any more, so the run has ended.", remove},
		"its Pod was evicted":       {[]corev1.Pod{providerPod("terraform-1", -1), providerPod("terraform-2", 20)}, "a Pod that does not run any more", remove},
		"its Pod was restarted":     {[]corev1.Pod{providerPod("terraform-1", 20), providerPod("terraform-2", 1)}, "a Pod that has been restarted since, at 1970-01-01T00:20:00Z", remove},
		"its Pod runs":              {[]corev1.Pod{providerPod("terraform-1", 1), providerPod("terraform-2", 20)}, "a Pod that runs since 1970-01-01T00:01:00Z, so the run may be active: wait", "kubectl get pods"},
		"the Pods are not known":    {nil, "While the run that took the lock is active, wait", "kubectl get pods"},
		"no provider runs meantime": {[]corev1.Pod{providerPod("terraform-2", -1)}, "a Pod that does not exist any more", ""},
	} {
		found := &overview.Failure{Workspace: "6f1c", Pods: row.pods, Report: failure.Report{
			Class: failure.ClassLock, Object: failure.ObjectLock, Lock: failure.Lock{ID: "3b8c", Holder: "root@terraform-1", Created: at(10).Time.UTC()},
		}}
		next, cause := failing(found)
		assert.Contains(t, next.Step, row.want, name)
		if row.command == "" {
			assert.Empty(t, next.Commands, name)
		} else {
			assert.Contains(t, next.Commands[0], row.command, name)
		}
		assert.Equal(t, failure.ObjectLock, cause.LookAt)
	}
	next, _ := failing(&overview.Failure{Pods: []corev1.Pod{providerPod("terraform-2", 20)}, Report: failure.Report{Class: failure.ClassLock, Object: failure.ObjectLock}})
	assert.NotContains(t, next.Commands[0], "force-unlock", "it may be the lock of any client")
}

func TestPodsThatEndedAreNamed(t *testing.T) {
	evicted, killed := providerPod("terraform-1", -1), providerPod("terraform-2", 20)
	evicted.Status.Reason, evicted.Status.Message = "Evicted", "The node was low on resource: ephemeral-storage."
	killed.Status.ContainerStatuses[0].RestartCount = 3
	killed.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, FinishedAt: at(19)}
	for _, report := range []failure.Report{{Class: failure.ClassProviderPod, Object: failure.ObjectProviderPod}, {Class: failure.ClassInterrupted, Object: failure.ObjectState}} {
		found := &overview.Failure{Report: report, Pods: []corev1.Pod{evicted, killed}}
		require.True(t, found.NeedsPods())
		next, _ := failing(found)
		assert.Contains(t, next.Step, "Pod crossplane-system/terraform-1: Evicted. The node was low on resource: ephemeral-storage.")
		assert.Contains(t, next.Step, "Pod crossplane-system/terraform-2: the container ended at 1970-01-01T00:19:00Z with OOMKilled (exit code 137), and was restarted 3 times.")
	}
}

func TestTheNextStepIsAboutTheObjectOfTheError(t *testing.T) {
	for _, row := range []struct {
		report failure.Report
		actor  reasons.Actor
		want   string
		edits  bool
	}{
		{failure.Report{Class: failure.ClassConfig, Object: failure.ObjectTemplate}, reasons.User, "Correct what Terraform reports", true},
		{failure.Report{Class: failure.ClassUnknown, Object: failure.ObjectTemplate}, reasons.User, "Correct what Terraform reports", true},
		{failure.Report{Class: failure.ClassConfig, Object: failure.ObjectBackend}, reasons.User, "Look at the backend of the Terraform state, as the message says", false},
		{failure.Report{Class: failure.ClassConfig, Object: failure.ObjectExisting}, reasons.User, "Look at the resource that exists in AWS, as the message says. provider-terraform retries.", true},
		{failure.Report{Class: failure.ClassAuth, Object: failure.ObjectCredentials}, reasons.User, "Look at the credentials for AWS", false},
		{failure.Report{Class: failure.ClassAuth, Object: failure.ObjectModuleSource}, reasons.User, "Look at the address and the version of the module", true},
		{failure.Report{Class: failure.ClassConfig, Object: failure.ObjectVersion}, reasons.User, "Look at spec.version of the CAPTControlPlane", true},
		{failure.Report{Class: failure.ClassConfig, Object: failure.ObjectProviderPod}, reasons.User, "an image of provider-terraform that has the program", true},
		{failure.Report{Class: failure.ClassThrottle, Object: failure.ObjectAWS}, reasons.Waiting, "No action is needed yet: provider-terraform retries", false},
	} {
		next, cause := failing(&overview.Failure{Report: row.report})
		assert.Contains(t, next.Step, row.want)
		assert.Equal(t, row.actor, cause.Actor)
		assert.Equal(t, row.report.Object, cause.LookAt)
		assert.Equal(t, row.edits, len(next.Commands) > 1, next.Commands)
		assert.NotEmpty(t, row.report.Object.Description())
	}
}

func TestAProviderConfigThatIsNamedWronglyIsCorrectedInTheTemplate(t *testing.T) {
	o := ready()
	o.Applies[1].Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, infrav1.ProviderConfigFailedReason)}
	o.Applies[1].Spec.TemplateRef.Name = "eks"
	o.Failure = &overview.Failure{Report: failure.Report{Class: failure.ClassConfig, Object: failure.ObjectProviderConfig}}
	c := overview.Of(o, at(10))
	next := overview.NextStep(o, &c, at(10).Time)
	assert.Contains(t, next.Step, "If the WorkspaceTemplate names the wrong one, correct spec.template.spec.providerConfigRef")
	assert.Contains(t, strings.Join(next.Commands, " "), "kubectl edit workspacetemplate")
}

// A working directory can have the only state.
func TestAWorkingDirectoryIsRemovedOnlyIfTheBackendHasTheState(t *testing.T) {
	found := &overview.Failure{Workspace: "6f1c", ProviderConfig: "clusterproviderconfig.tf.m.upbound.io default", Pods: []corev1.Pod{providerPod("terraform-1", 1)}, Report: failure.Report{
		Class: failure.ClassConfig, Object: failure.ObjectBackend, Message: "remove the directory /tf/6f1c in the Pod",
	}}
	next, _ := failing(found)
	assert.Contains(t, next.Step, "Only if the backend is right and has the state, remove the working directory")
	assert.Equal(t, "kubectl -n crossplane-system exec terraform-1 -- rm -r /tf/6f1c", next.Commands[len(next.Commands)-1])
	for _, other := range []overview.Failure{{Workspace: "6f1c", Report: failure.Report{Message: "the bucket does not exist"}}, {Report: failure.Report{Message: "open /tf/6f1c"}}} {
		found.Workspace, found.Message = other.Workspace, other.Message
		next, _ = failing(found)
		assert.NotContains(t, strings.Join(next.Commands, " "), "rm -r")
	}
}

func TestAnInterruptedCreateIsContinuedByCAPTOrByACommand(t *testing.T) {
	o := ready()
	o.Applies[1].Namespace = "default"
	o.Applies[1].Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, infrav1.CreateInterruptedReason)}
	o.Applies[1].Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().String(), Kind: "Workspace", Namespace: "default", Name: "eks"}
	next := func() *overview.Next {
		c := overview.Of(o, at(10))
		return overview.NextStep(o, &c, at(10).Time)
	}
	assert.Contains(t, next().Commands[0], "kubectl -n default annotate workspaces.tf.m.upbound.io eks crossplane.io/external-create-pending- ")
	o.ControlPlane.Status.Conditions = append(o.ControlPlane.Status.Conditions, condition("Recovering", metav1.ConditionFalse, infrav1.WaitingForRetryReason))
	assert.Equal(t, "CAPT continues: about WaitingForRetry.", next().Step)
	assert.Empty(t, next().Commands)
}

func TestARunThatTakesTooLongCanBeEnded(t *testing.T) {
	for _, reason := range []string{controlplanev1.ControlPlaneTimeoutReason, infrav1.VPCReadyTimeoutReason, controlplanev1.FargateProfileFailedReason} {
		o := ready()
		o.ControlPlane.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, reason)}
		next := func() *overview.Next {
			c := overview.Of(o, at(10))
			return overview.NextStep(o, &c, at(10).Time)
		}
		assert.NotContains(t, strings.Join(next().Commands, "\n")+next().Step, "kill -INT", "nothing runs")
		o.Applies[1].Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, infrav1.ProvisioningReason)}
		o.Applies[1].Status.StartedTime = ptr.To(at(5))
		o.Applies[1].Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "eks", UID: "6f1c"}
		assert.Contains(t, next().Step, "The last command ends a run that does not end by itself")
		assert.Contains(t, next().Commands[len(next().Commands)-1], "in /tf/6f1c*) kill -INT $p;;")
		o.Applies[1].Status.WorkspaceRef.UID = ""
		assert.NotContains(t, strings.Join(next().Commands, "\n")+next().Step, "kill -INT", "it would end all runs")
	}
}

func TestReplicasOfATopologyAreRemoved(t *testing.T) {
	o := ready()
	o.Cluster.Spec.Topology.ControlPlane.Replicas = ptr.To[int32](3)
	o.Cluster.Status.Conditions = []metav1.Condition{condition(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, clusterv1.ClusterTopologyReconciledFailedReason)}
	o.ControlPlane, o.CAPTCluster, o.Applies = nil, nil, nil
	for labels, removed := range map[string]string{"": `/spec/topology/controlPlane"`, "team": `/spec/topology/controlPlane/replicas"`} {
		if labels != "" {
			o.Cluster.Spec.Topology.ControlPlane.Metadata.Labels = map[string]string{labels: "a"}
		}
		c := overview.Of(o, at(10))
		next := overview.NextStep(o, &c, at(10).Time)
		require.NotNil(t, next)
		assert.Contains(t, next.Step, "Remove spec.topology.controlPlane.replicas")
		assert.Contains(t, next.Commands[0], removed)
		o.Cluster.Spec.Topology.ControlPlane.Metadata.Labels = nil
	}
}
