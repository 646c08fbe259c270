// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/test/provider/executor"
)

// fleetNow is the time of the tests.
var fleetNow = time.Date(2026, 10, 22, 10, 0, 0, 0, time.UTC)

// before is a time some minutes ago.
func before(minutes int) metav1.Time {
	return metav1.NewTime(fleetNow.Add(-time.Duration(minutes) * time.Minute))
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: before(60)}
}

func readyCondition(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: message, LastTransitionTime: before(5)}}
}

// capt is a Cluster of CAPT with its objects, the control plane in a state.
func capt(name string, state infrav1.State, change func(*controlplanev1.CAPTControlPlane, *infrav1.WorkspaceTemplateApply)) []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: named(name)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTCluster", Name: name}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group, Kind: "CAPTControlPlane", Name: name}
	captCluster := &infrav1.CAPTCluster{ObjectMeta: named(name)}
	captCluster.Status.Conditions = readyCondition(metav1.ConditionTrue, "Ready", "")
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named(name + "-eks")}
	apply.Status = infrav1.WorkspaceTemplateApplyStatus{Conditions: readyCondition(metav1.ConditionTrue, "Ready", ""), LastAppliedTime: ptr.To(before(10))}
	controlPlane := &controlplanev1.CAPTControlPlane{ObjectMeta: named(name)}
	controlPlane.Spec.WorkspaceTemplateRef.Name = "eks"
	controlPlane.Spec.Version, controlPlane.Spec.WorkspaceTemplateApplyRef.Name = "v1.36.0", apply.Name
	controlPlane.Status = controlplanev1.CAPTControlPlaneStatus{
		Lifecycle: infrav1.Lifecycle{State: state}, Version: "v1.36.0", Endpoint: name + ".example.com:443", Conditions: readyCondition(metav1.ConditionTrue, "Ready", ""),
		Health: &controlplanev1.Health{Overall: controlplanev1.HealthHealthy, Checks: []controlplanev1.HealthCheck{
			{Name: "APIServer", Status: controlplanev1.HealthHealthy, LastTransitionTime: ptr.To(before(20))}}},
	}
	change(controlPlane, apply)
	return []client.Object{cluster, captCluster, apply, controlPlane}
}

// denied is the error of Terraform for the Cluster that failed.
const denied = "AccessDenied: not allowed to create a cluster\n\x1b[31mred"

// aFleet has a Ready Cluster, one that is updated, one that failed, and one of another provider.
func aFleet() *environment {
	objects := capt("good", infrav1.StateReady, func(*controlplanev1.CAPTControlPlane, *infrav1.WorkspaceTemplateApply) {})
	objects = append(objects, capt("growing", infrav1.StateConfiguring, func(c *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
		c.Status.Version = "v1.35.0"
		c.Status.Progress = &infrav1.Progress{
			CurrentOperation: infrav1.OperationUpdate, PercentComplete: ptr.To[int32](10), EstimatedCompletionTime: ptr.To(metav1.NewTime(fleetNow.Add(12 * time.Minute))),
			History: []infrav1.OperationRecord{
				{Name: infrav1.OperationCreation, StartTime: ptr.To(before(50)), CompletionTime: ptr.To(before(30)), Outcome: infrav1.OutcomeSucceeded},
				{Name: infrav1.OperationUpdate, StartTime: ptr.To(before(8))},
			},
		}
		apply.Status.Conditions = readyCondition(metav1.ConditionFalse, "Provisioning", "waiting for Terraform to apply a change")
		c.Status.Conditions = readyCondition(metav1.ConditionFalse, "Provisioning", "waiting for Terraform to apply a change")
	})...)
	objects = append(objects, capt("broken", infrav1.StateFailed, func(c *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Conditions = readyCondition(metav1.ConditionFalse, "ApplyFailed", denied)
		c.Status.Conditions = readyCondition(metav1.ConditionFalse, "ApplyFailed", "see the WorkspaceTemplateApply")
		c.Status.Health, c.Status.Version = nil, ""
	})...)
	objects = append(objects, &clusterv1.Cluster{ObjectMeta: named("another-providers")},
		&eventsv1.Event{
			ObjectMeta: named("event"), EventTime: metav1.NewMicroTime(before(4).Time), Type: corev1.EventTypeWarning, Reason: "ApplyFailed", Note: denied,
			Regarding: corev1.ObjectReference{Kind: "WorkspaceTemplateApply", Name: "broken-eks", UID: "uid-of-broken-eks"},
		},
		&eventsv1.Event{ObjectMeta: named("other-event"), Regarding: corev1.ObjectReference{Kind: "Pod", Name: "another", UID: "another"}})
	return &environment{objects: objects}
}

func TestGetListsTheFleet(t *testing.T) {
	out, _, err := aFleet().run(t, "get")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimLeft(`
NAMESPACE   NAME      STATE         VERSION            HEALTH    NODES   PROGRESS   APPLIED   AGE   MESSAGE
team-a      broken    Failed        v1.36.0            -         -       -          10m       60m   AccessDenied: not allowed to create a cluster ^[[31mred
team-a      good      Ready         v1.36.0            Healthy   -       -          10m       60m   -
team-a      growing   Configuring   v1.35.0->v1.36.0   Healthy   -       40% 12m    10m       60m   waiting for Terraform to apply a change

3 Clusters: 1 Failed, 1 Configuring, 1 Ready
Needs action: team-a/broken
`, "\n"), out)

	out, _, err = aFleet().run(t, "get", "-o", "json")
	require.NoError(t, err)
	var list fleet.ClusterList
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Len(t, list.Clusters, 3)
	assert.Equal(t, "ApplyFailed", list.Clusters[0].Cause.Reason)
	assert.EqualValues(t, 40, list.Clusters[2].Progress.PercentComplete)

	out, _, err = aFleet().run(t, "get", "--namespace", "team-b", "-A")
	require.NoError(t, err)
	assert.Contains(t, out, "3 Clusters:")

	out, _, err = aFleet().run(t, "get", "--namespace", "team-b")
	require.NoError(t, err)
	assert.Equal(t, "There is no namespace team-b. captctl get -A lists the Clusters of all namespaces.\n", out)
	env := &environment{objects: []client.Object{namespace("team-b")}}
	out, _, err = env.run(t, "get", "--namespace", "team-b")
	require.NoError(t, err)
	assert.Equal(t, "There are no Clusters of CAPT in namespace team-b. captctl get -A lists those of all namespaces.\n", out)
	out, _, err = env.run(t, "get", "-A")
	require.NoError(t, err)
	assert.Contains(t, out, "There are no Clusters of CAPT. Create one as described in docs/quickstart.md")
}

// However many Clusters the namespace has, only what belongs to one is requested.
func TestDescribeAndLogsRequestOneClusterOnly(t *testing.T) {
	for command, most := range map[string]int{"describe": 9, "logs": 9} {
		env := aFleet()
		var requests atomic.Int32
		for i := range 50 {
			env.objects = append(env.objects, capt(fmt.Sprintf("other-%d", i), infrav1.StateReady, func(*controlplanev1.CAPTControlPlane, *infrav1.WorkspaceTemplateApply) {})...)
		}
		env.funcs = interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				requests.Add(1)
				assert.Contains(t, key.Name, "broken")
				return c.Get(ctx, key, object, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				requests.Add(1)
				var of client.ListOptions
				of.ApplyOptions(options)
				byLabel := of.LabelSelector != nil && of.LabelSelector.Matches(labels.Set{clusterv1.ClusterNameLabel: "broken"})
				byName := of.FieldSelector != nil && strings.Contains(of.FieldSelector.String(), "regarding.name=broken") && of.Limit > 0
				assert.True(t, byLabel || byName, "%T", list)
				return c.List(ctx, list, options...)
			},
		}
		_, _, err := env.run(t, command, "team-a/broken")
		require.NoError(t, err)
		assert.LessOrEqual(t, int(requests.Load()), most, command)
	}
}

func TestDescribeReadsAllPagesOfEvents(t *testing.T) {
	env := aFleet()
	var pages atomic.Int32
	env.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		err := c.List(ctx, list, options...)
		if events, is := list.(*eventsv1.EventList); is && err == nil {
			var of client.ListOptions
			of.ApplyOptions(options)
			pages.Add(1)
			if of.Continue == "" && len(events.Items) > 0 {
				events.Continue, events.Items = "more", nil
			}
		}
		return err
	}
	out, _, err := env.run(t, "describe", "team-a/broken")
	require.NoError(t, err)
	assert.Contains(t, out, "Warning   ApplyFailed   WorkspaceTemplateApply broken-eks")
	assert.EqualValues(t, 3, pages.Load())
}

func TestDescribeShowsTheCauseAndTheNextStep(t *testing.T) {
	out, _, err := aFleet().run(t, "describe", "team-a/broken")
	require.NoError(t, err)
	assert.Equal(t, strings.TrimLeft(`
Cluster:   team-a/broken
State:     Failed
Version:   v1.36.0
Endpoint:  broken.example.com:443
Age:       60m

Cause: WorkspaceTemplateApply broken-eks: ApplyFailed (not Ready for 5m)
  AccessDenied: not allowed to create a cluster
  ^[[31mred

Next step: Correct what Terraform reports: the module of the WorkspaceTemplate, a variable of the Cluster, or something in AWS. An edit starts Terraform immediately; without one, provider-terraform retries.
  captctl logs team-a/broken
  kubectl edit captcontrolplane -n team-a broken

OBJECT                              READY   REASON        AGE
CAPTCluster/broken                  True    Ready         60m
WorkspaceTemplateApply/broken-eks   False   ApplyFailed   60m
CAPTControlPlane/broken             False   ApplyFailed   60m

AGE   TYPE      REASON        OBJECT                              MESSAGE
4m    Warning   ApplyFailed   WorkspaceTemplateApply broken-eks   see the cause
`, "\n"), out)
}

func TestDescribeShowsWarningsOfAReadyCluster(t *testing.T) {
	env := aFleet()
	for _, object := range env.objects {
		if controlPlane, is := object.(*controlplanev1.CAPTControlPlane); is {
			controlPlane.Status.Conditions = append(controlPlane.Status.Conditions, metav1.Condition{
				Type: controlplanev1.KubeconfigReadyCondition, Status: metav1.ConditionTrue, Reason: controlplanev1.KubeconfigReadyReason, Message: "Cluster API cannot connect",
			})
		}
	}
	out, _, err := env.run(t, "describe", "team-a/growing")
	require.NoError(t, err)
	assert.Contains(t, out, "\nWarning: CAPTControlPlane growing: KubeconfigReady\n  Cluster API cannot connect\n")
}

func TestDescribeShowsWhatADeletionWaitsFor(t *testing.T) {
	env := aFleet()
	for _, object := range env.objects {
		switch of := object.(type) {
		case *clusterv1.Cluster:
			of.DeletionTimestamp, of.Finalizers = ptr.To(before(7)), []string{"cluster.cluster.x-k8s.io"}
		case *controlplanev1.CAPTControlPlane:
			of.Status.FargateProfiles = []controlplanev1.FargateProfileStatus{{Name: "jobs", WorkspaceTemplateApplyName: "broken-jobs"}}
		case *infrav1.WorkspaceTemplateApply:
			of.Status.Conditions = append(of.Status.Conditions, metav1.Condition{Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.WaitingForDependentsReason})
		}
	}
	jobs := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("broken-jobs")}
	jobs.Status.Conditions = []metav1.Condition{{Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.WaitingForWorkspaceDeletionReason,
		Message: "waiting for Terraform to destroy the resources of Workspace jobs", LastTransitionTime: before(3)}}
	env.objects = append(env.objects, jobs)
	out, _, err := env.run(t, "describe", "team-a/broken")
	require.NoError(t, err)
	assert.Contains(t, out, `
Cause: WorkspaceTemplateApply broken-jobs: WaitingForWorkspaceDeletion (for 3m)
  waiting for Terraform to destroy the resources of Workspace jobs
Being destroyed: broken-jobs
Destroyed afterwards: broken-eks
`)
}

func TestDescribeShowsProgress(t *testing.T) {
	out, _, err := aFleet().run(t, "describe", "growing", "--namespace", "team-a")
	require.NoError(t, err)
	assert.Contains(t, out, "Progress:  [########............] 40% of Update, about 12m left\n")
	assert.Regexp(t, `Creation +Succeeded +50m +20m`, out)
	assert.Regexp(t, `Update +in progress +8m`, out)
	assert.Regexp(t, `APIServer +Healthy +20m`, out)
}

func TestDescribeNeedsAClusterThatExists(t *testing.T) {
	for argument, want := range map[string]string{
		"team-a/nowhere": "there is no Cluster nowhere of CAPT in namespace team-a; captctl get lists all Clusters",
		"broken":         "there is no Cluster broken of CAPT in namespace default; did you mean team-a/broken?",
		"a/b/c":          `"a/b/c": must be CLUSTER or NAMESPACE/CLUSTER`,
		"/b":             `"/b": must be CLUSTER or NAMESPACE/CLUSTER`,
	} {
		_, _, err := aFleet().run(t, "describe", argument)
		assert.EqualError(t, err, want, argument)
	}
}

func TestGetIsShownAgainWhenAnEstimateMovesOrAnObjectChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := aFleet()
		env.clock = testclock.NewFakeClock(fleetNow)
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan string)
		go func() {
			out, _, err := env.runIn(ctx, t, "get", "--watch")
			assert.NoError(t, err, "to be interrupted is not an error")
			ended <- out
		}()
		synctest.Wait()
		env.clock.Step(3 * time.Minute)
		synctest.Wait()
		require.NoError(t, env.connected.Delete(ctx, &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "broken"}}))
		synctest.Wait()
		env.clock.Step(time.Minute)
		synctest.Wait()
		interrupt()
		out := <-ended
		assert.Contains(t, out, "40% 12m")
		assert.Contains(t, out, "55% 9m")
		assert.Contains(t, out, "1 Configuring, 1 Unknown, 1 Ready", "the control plane that was deleted has no state")
	})
}

func TestWatchKeepsTheScrollbackOfTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := aFleet()
		env.clock, env.screen = testclock.NewFakeClock(fleetNow), &output.Screen{Columns: 120, Lines: 7}
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, _, err := env.runIn(ctx, t, "get", "--watch")
			ended <- err
		}()
		synctest.Wait()
		env.clock.Step(3 * time.Minute)
		synctest.Wait()
		interrupt()
		require.NoError(t, <-ended)
		printed := env.screen.String()
		assert.True(t, strings.HasPrefix(printed, "\x1b[?1049h\x1b[H\x1b[2J2026-10-22T10:00:00Z\n"), "%q", printed)
		assert.Equal(t, 1, strings.Count(printed, "\x1b[?1049h"))
		assert.NotContains(t, printed, "\x1b[3J", "the scrollback is not cleared")
		drawn, left, _ := strings.Cut(printed, "\x1b[?1049l")
		assert.Contains(t, drawn, " more lines\n\x1b[38;5;196mNeeds action: team-a/broken\x1b[0m\n", "it fits the screen")
		assert.Contains(t, left, "growing", "what was shown last is complete")
		assert.NotContains(t, left, " more lines")
	})
}

// Changes that follow each other are one read, and an event alone is a change.
func TestDescribeReadsAtMostOncePerSecondAndNoticesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := aFleet()
		env.clock = testclock.NewFakeClock(fleetNow)
		var reads atomic.Int32
		env.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*infrav1.WorkspaceTemplateApplyList); is {
				reads.Add(1)
			}
			return c.List(ctx, list, options...)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan string)
		go func() {
			out, _, err := env.runIn(ctx, t, "describe", "team-a/broken", "--watch")
			assert.NoError(t, err)
			ended <- out
		}()
		synctest.Wait()
		send := func(name string) {
			require.NoError(t, env.connected.Create(ctx, &eventsv1.Event{
				ObjectMeta: named(name), EventTime: metav1.NewMicroTime(fleetNow), Type: corev1.EventTypeNormal, Reason: name,
				Regarding: corev1.ObjectReference{Kind: "WorkspaceTemplateApply", Name: "broken-eks", UID: "uid-of-broken-eks"},
			}))
			synctest.Wait()
		}
		second := func() { env.clock.Step(time.Second); synctest.Wait() }
		assert.EqualValues(t, 1, reads.Load())
		second() // What changed before the objects were watched is read.
		assert.EqualValues(t, 2, reads.Load())
		second()
		assert.EqualValues(t, 2, reads.Load(), "nothing has changed")
		for _, name := range []string{"First", "Second", "Third"} {
			send(name)
		}
		assert.EqualValues(t, 3, reads.Load(), "the first change is shown immediately")
		second()
		assert.EqualValues(t, 4, reads.Load())
		interrupt()
		out := <-ended
		assert.Regexp(t, `Normal +First`, out)
		assert.Regexp(t, `Normal +Third`, out)
	})
}

func TestTheNextStepDependsOnTheReason(t *testing.T) {
	for reason, want := range map[string]string{
		infrav1.WaitingForApprovalReason:   "\n  captctl template approve-change team-a/broken-eks\n",
		infrav1.VPCIDMissingReason:         "Correct the output that the message names in the module of the WorkspaceTemplate",
		infrav1.VPCReadyTimeoutReason:      "raise the timeout that the message names",
		infrav1.ProviderConfigFailedReason: "captctl describe then shows the command that permits the other one",
	} {
		env := aFleet()
		for _, object := range env.objects {
			if reporter, is := object.(interface{ GetConditions() []metav1.Condition }); is {
				for i, condition := range reporter.GetConditions() {
					if condition.Reason == infrav1.ApplyFailedReason {
						reporter.GetConditions()[i].Reason = reason
					}
				}
			}
		}
		out, _, err := env.run(t, "describe", "team-a/broken")
		require.NoError(t, err)
		assert.Contains(t, out, want)
	}
}

// The Workspace has what status does not: the object to look at, the holder of a lock, and the Pods that may explain it.
func TestDescribeShowsWhatToLookAt(t *testing.T) {
	env := aFleet()
	workspace := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Synced", "status": "False", "reason": "ReconcileError", "lastTransitionTime": before(1).UTC().Format(time.RFC3339),
		"message": "update failed: cannot apply Terraform configuration: " + executor.Failure("\nError: Error acquiring the state lock\n\nLock Info:\n  ID:        3b8c0f3e-cc52-4390-b7a5-ae1faa9d0102\n"+
			"  Who:       root@provider-terraform-1\n  Created:   "+before(30).UTC().Format("2006-01-02 15:04:05.000000001")+" +0000 UTC\n").Error(),
	}}}}}
	workspace.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	workspace.SetNamespace("team-a")
	workspace.SetName("broken-eks")
	workspace.SetUID("uid-of-workspace")
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: before(20)}}}
	for _, object := range env.objects {
		if apply, is := object.(*infrav1.WorkspaceTemplateApply); is && apply.Name == "broken-eks" {
			apply.Status.WorkspaceRef = render.ReferenceTo(workspace)
		}
	}
	env.objects = append(env.objects, workspace,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crossplane-system", Name: "provider-terraform-2", Labels: map[string]string{terraform.ProviderPodLabel: "provider-terraform"}}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "crossplane-system", Name: "provider-aws-1", Labels: map[string]string{terraform.ProviderPodLabel: "provider-aws"}}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running}}})
	out, _, err := env.run(t, "describe", "team-a/broken")
	require.NoError(t, err)
	assert.Contains(t, out, "Look at: the lock of the Terraform state (provider-terraform retries)\n")
	assert.Contains(t, out, "(30m ago) by root@provider-terraform-1, a Pod that does not exist any more, so the run has ended.")
	assert.Contains(t, out, "  kubectl -n crossplane-system exec provider-terraform-2 -- sh -c 'cd /tf/uid-of-workspace && terraform force-unlock -force 3b8c0f3e-cc52-4390-b7a5-ae1faa9d0102'\n")

	env.connected = nil
	env.funcs = interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, pods := list.(*corev1.PodList); pods {
			return apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
		}
		return c.List(ctx, list, options...)
	}}
	out, _, err = env.run(t, "describe", "team-a/broken")
	require.NoError(t, err)
	assert.Contains(t, out, "While the run that took the lock is active, wait")
	assert.Contains(t, out, "  kubectl -n crossplane-system exec POD -- sh -c 'cd /tf/uid-of-workspace && terraform force-unlock -force 3b8c0f3e-cc52-4390-b7a5-ae1faa9d0102'\n")
}

func TestTheNextStepDependsOnTheClassOfTheError(t *testing.T) {
	for class, want := range map[string]string{"Auth": "Remove the cause that the message names", "Config": "Correct what Terraform reports"} {
		env := aFleet()
		for _, object := range env.objects {
			if apply, is := object.(*infrav1.WorkspaceTemplateApply); is {
				apply.Status.LastFailureClass = class
			}
		}
		out, _, err := env.run(t, "describe", "team-a/broken")
		require.NoError(t, err)
		assert.Contains(t, out, want)
	}
}
