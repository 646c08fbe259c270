// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
)

// at is a time in minutes.
func at(minutes int) metav1.Time { return metav1.Unix(int64(60*minutes), 0) }

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "about " + reason, LastTransitionTime: at(1)}
}

func apply(name string, conditions ...metav1.Condition) *infrav1.WorkspaceTemplateApply {
	return &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: infrav1.WorkspaceTemplateApplyStatus{Conditions: conditions}}
}

// ready has a Cluster whose objects are Ready.
func ready() *overview.Objects {
	isReady := condition("Ready", metav1.ConditionTrue, "Ready")
	o := &overview.Objects{
		Cluster:      &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", CreationTimestamp: at(0)}},
		CAPTCluster:  &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
		ControlPlane: &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "demo"}},
		Applies:      []*infrav1.WorkspaceTemplateApply{apply("vpc", isReady), apply("eks", isReady), apply("profile", isReady)},
	}
	o.CAPTCluster.Spec.WorkspaceTemplateApplyRef.Name, o.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name = "vpc", "eks"
	o.CAPTCluster.Status.Conditions = []metav1.Condition{isReady}
	o.ControlPlane.Spec.Version = "v1.35.0"
	o.ControlPlane.Status = controlplanev1.CAPTControlPlaneStatus{
		Lifecycle: infrav1.Lifecycle{State: infrav1.StateReady}, Version: "v1.35.0", Endpoint: "demo:443", Conditions: []metav1.Condition{isReady},
		Health:          &controlplanev1.Health{Overall: controlplanev1.HealthHealthy},
		FargateProfiles: []controlplanev1.FargateProfileStatus{{WorkspaceTemplateApplyName: "profile"}},
	}
	o.Applies[0].Status.LastAppliedTime, o.Applies[1].Status.LastAppliedTime = ptr.To(at(5)), ptr.To(at(9))
	return o
}

func TestAReadyClusterHasNoCause(t *testing.T) {
	assert.Equal(t, overview.Cluster{
		Namespace: "default", Name: "demo", State: "Ready", Version: "v1.35.0", Endpoint: "demo:443", Health: "Healthy", LastApplied: ptr.To(at(9)), Created: at(0),
	}, overview.Of(ready(), at(10)))
}

func TestTheCauseIsTheFirstObjectThatDoesNotWaitForAnother(t *testing.T) {
	fails := func(reason string) []metav1.Condition {
		return []metav1.Condition{condition("Ready", metav1.ConditionFalse, reason)}
	}
	deletes := func(reason string) []metav1.Condition {
		return append(fails("Deleting"), condition("Deleting", metav1.ConditionTrue, reason))
	}
	for name, row := range map[string]struct {
		spoil func(*overview.Objects)
		want  overview.Cause
		state infrav1.State
	}{
		"the VPC fails, and the others wait": {func(o *overview.Objects) {
			o.Applies[0].Status.Conditions, o.CAPTCluster.Status.Conditions = fails("ApplyFailed"), fails("ApplyFailed")
			o.Applies[1].Status.Conditions, o.ControlPlane.Status.Conditions = fails("WaitingForDependencies"), fails("WaitingForInfrastructure")
		}, overview.Cause{Kind: "WorkspaceTemplateApply", Name: "vpc", Condition: "Ready", Reason: "ApplyFailed"}, "Degraded"},
		"the CAPTCluster has no WorkspaceTemplateApply yet": {func(o *overview.Objects) {
			o.Applies = nil
			o.CAPTCluster.Status.Conditions, o.ControlPlane.Status.Conditions = fails("TemplateNotFound"), fails("WaitingForInfrastructure")
		}, overview.Cause{Kind: "CAPTCluster", Name: "demo", Condition: "Ready", Reason: "TemplateNotFound"}, "Degraded"},
		"a Fargate profile fails": {func(o *overview.Objects) {
			o.Applies[2].Status.Conditions, o.ControlPlane.Status.Conditions = fails("ApplyFailed"), fails("FargateProfileFailed")
		}, overview.Cause{Kind: "WorkspaceTemplateApply", Name: "profile", Condition: "Ready", Reason: "ApplyFailed"}, "Degraded"},
		"the API server does not answer": {func(o *overview.Objects) {
			o.ControlPlane.Status.Conditions, o.ControlPlane.Status.State = fails("APIServerNotAnswering"), "Degraded"
		}, overview.Cause{Kind: "CAPTControlPlane", Name: "demo", Condition: "Ready", Reason: "APIServerNotAnswering"}, "Degraded"},
		"it timed out, and Terraform still runs": {func(o *overview.Objects) {
			o.Applies[1].Status.Conditions, o.ControlPlane.Status.Conditions = fails("Provisioning"), fails("ControlPlaneTimeout")
		}, overview.Cause{Kind: "CAPTControlPlane", Name: "demo", Condition: "Ready", Reason: "ControlPlaneTimeout"}, "Degraded"},
		"it is unhealthy, and a Fargate profile waits for it": {func(o *overview.Objects) {
			o.Applies[2].Status.Conditions, o.ControlPlane.Status.Conditions = fails("WaitingForDependencies"), fails("HealthCheckFailed")
		}, overview.Cause{Kind: "CAPTControlPlane", Name: "demo", Condition: "Ready", Reason: "HealthCheckFailed"}, "Degraded"},
		"Terraform runs": {func(o *overview.Objects) {
			o.Applies[1].Status.Conditions, o.ControlPlane.Status.Conditions = fails("Provisioning"), fails("Provisioning")
		}, overview.Cause{Kind: "WorkspaceTemplateApply", Name: "eks", Condition: "Ready", Reason: "Provisioning"}, "Ready"},
		"it awaits adoption, and is Ready": {func(o *overview.Objects) {
			o.ControlPlane.Status.Conditions = append(o.ControlPlane.Status.Conditions, condition("AdoptionRequired", metav1.ConditionTrue, "AdoptionRequired"))
		}, overview.Cause{Kind: "CAPTControlPlane", Name: "demo", Condition: "AdoptionRequired", Reason: "AdoptionRequired"}, "Ready"},
		"it is being deleted, profiles first": {func(o *overview.Objects) {
			o.Cluster.DeletionTimestamp = ptr.To(at(8))
			o.ControlPlane.Status.Conditions = deletes("WaitingForWorkspaceTemplateApplyDeletion")
			o.Applies[2].Status.Conditions = deletes("DestroyFailed")
		}, overview.Cause{Kind: "WorkspaceTemplateApply", Name: "profile", Condition: "Deleting", Reason: "DestroyFailed"}, "Deleting"},
		"the first Fargate profile to be deleted waits for another one": {func(o *overview.Objects) {
			o.Cluster.DeletionTimestamp = ptr.To(at(8))
			o.ControlPlane.Status.Conditions = deletes("FargateProfileDeleting")
			other := o.Applies[2].DeepCopy()
			other.Name, other.Status.Conditions = "profile-2", deletes("Queued")
			o.ControlPlane.Status.FargateProfiles = append(o.ControlPlane.Status.FargateProfiles, controlplanev1.FargateProfileStatus{WorkspaceTemplateApplyName: other.Name})
			o.Applies[2].Status.Conditions = deletes("WaitingForWorkspaceDeletion")
			o.Applies = append(o.Applies, other)
		}, overview.Cause{Kind: "WorkspaceTemplateApply", Name: "profile", Condition: "Deleting", Reason: "WaitingForWorkspaceDeletion"}, "Deleting"},
		"a deletion policy conflicts while a profile is destroyed": {func(o *overview.Objects) {
			o.Cluster.DeletionTimestamp = ptr.To(at(8))
			o.CAPTCluster.Status.Conditions = deletes("DeletionPolicyConflict")
			o.Applies[2].Status.Conditions = deletes("WaitingForWorkspaceDeletion")
		}, overview.Cause{Kind: "CAPTCluster", Name: "demo", Condition: "Deleting", Reason: "DeletionPolicyConflict"}, "Deleting"},
		"the control plane is deleted, and only the VPC is left": {func(o *overview.Objects) {
			o.Cluster.DeletionTimestamp = ptr.To(at(8))
			o.ControlPlane, o.Applies = nil, o.Applies[:1]
			o.CAPTCluster.Status.Conditions = deletes("WaitingForWorkspaceTemplateApplyDeletion")
			o.Applies[0].Status.Conditions = deletes("WaitingForWorkspaceDeletion")
		}, overview.Cause{Kind: "WorkspaceTemplateApply", Name: "vpc", Condition: "Deleting", Reason: "WaitingForWorkspaceDeletion"}, "Deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			o := ready()
			row.spoil(o)
			got := overview.Of(o, at(10))
			row.want.Message, row.want.Since, row.want.Actor = "about "+row.want.Reason, at(1), reasons.Of(row.want.Reason).Actor
			assert.Equal(t, &row.want, got.Cause)
			assert.Equal(t, row.state, got.State)
		})
	}
}

func TestADeletionHasWhatIsDestroyedAndWhatWaits(t *testing.T) {
	o := ready()
	assert.Nil(t, overview.Of(o, at(10)).Deletion)
	o.Cluster.DeletionTimestamp = ptr.To(at(8))
	o.Applies[2].Status.Conditions = []metav1.Condition{condition("Deleting", metav1.ConditionTrue, "WaitingForWorkspaceDeletion")}
	o.Applies[1].Status.Conditions = []metav1.Condition{condition("Deleting", metav1.ConditionTrue, "WaitingForDependents")}
	addOn := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "addon"}}
	o.Applies = append(o.Applies, addOn)
	assert.Equal(t, &overview.Deletion{Destroying: []string{"profile"}, Waiting: []string{"eks", "vpc"}}, overview.Of(o, at(10)).Deletion, "an add-on is not deleted with its Cluster")
	addOn.DeletionTimestamp = ptr.To(at(8))
	o.Applies[0].Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	assert.Equal(t, &overview.Deletion{Destroying: []string{"profile"}, Waiting: []string{"addon", "eks"}}, overview.Of(o, at(10)).Deletion, "a VPC that is retained is not destroyed")
}

func TestAClusterWithoutObjects(t *testing.T) {
	o := &overview.Objects{Cluster: ready().Cluster}
	assert.Equal(t, overview.Cluster{Namespace: "default", Name: "demo", Created: at(0)}, overview.Of(o, at(10)))
	o.Cluster.DeletionTimestamp = ptr.To(at(8))
	assert.Equal(t, overview.StateDeleting, overview.Of(o, at(10)).State)
	assert.Equal(t, &overview.Deletion{}, overview.Of(o, at(10)).Deletion)
	o.Cluster.DeletionTimestamp = nil

	o.Cluster.Spec.ControlPlaneRef.APIGroup, o.Cluster.Spec.ControlPlaneRef.Kind, o.Cluster.Spec.ControlPlaneRef.Name = controlplanev1.GroupVersion.Group, "CAPTControlPlane", "demo"
	assert.Equal(t, "NotFound", overview.Of(o, at(10)).Cause.Reason)
	o.Cluster.DeletionTimestamp = ptr.To(at(8))
	assert.Nil(t, overview.Of(o, at(10)).Cause, "it is deleted already")
	o.Cluster.DeletionTimestamp = nil
	o.ControlPlane = &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	assert.Equal(t, overview.NotReconciledReason, overview.Of(o, at(10)).Cause.Reason)

	helper := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Name: "demo-spot-role-create"}}
	helper.Status.Conditions = []metav1.Condition{condition(infrav1.AdoptionRequiredCondition, metav1.ConditionFalse, infrav1.NotManagedReason)}
	o = ready()
	o.Applies = append(o.Applies, helper)
	assert.Nil(t, overview.Of(o, at(10)).Cause, "no action is needed")
}

// The VPC waits for a control plane that does not exist.
func TestAClusterWithoutControlPlaneHasTheFailureOfItsVPC(t *testing.T) {
	o := ready()
	o.ControlPlane, o.CAPTCluster.Status.State = nil, infrav1.StateFailed
	assert.Equal(t, infrav1.StateFailed, overview.Of(o, at(10)).State)
}

// The next step is about what the reason is about, with the command for it.
func TestWhatHelpsANewClusterThatCannotWork(t *testing.T) {
	for reason, want := range map[string]struct {
		vpc      bool
		step     string
		commands []string
	}{
		infrav1.InvalidEKSClusterNameReason:       {true, "Set `spec.eksClusterName`", []string{"kubectl edit captcontrolplane -n default demo"}},
		infrav1.EKSClusterNameConflictReason:      {true, "Set `spec.eksClusterName`", []string{"kubectl edit captcontrolplane -n default demo"}},
		infrav1.TemplateDeletingReason:            {true, "Correct the template", []string{"kubectl edit captcluster -n default demo"}},
		infrav1.FieldNotConsumedReason:            {false, "Declare the variable", []string{"kubectl edit workspacetemplate -n default eks", "kubectl edit captcontrolplane -n default demo"}},
		controlplanev1.RegionConflictReason:       {false, "Change the field", []string{"kubectl edit captcontrolplane -n default demo"}},
		controlplanev1.SecretTimeoutReason:        {false, "Create what the message names", []string{"kubectl edit workspacetemplate -n default eks", "kubectl edit captcontrolplane -n default demo"}},
		infrav1.WorkspaceRejectedReason:           {false, "what rejects or changes the Workspace", []string{"kubectl edit workspacetemplate -n default eks", "kubectl edit captcontrolplane -n default demo", "captctl reconcile default/demo"}},
		infrav1.WriteRefusedReason:                {false, "a policy, webhook, quota or role", []string{"captctl reconcile default/demo"}},
		controlplanev1.FargateProfileFailedReason: {false, "Correct what the message names", []string{"captctl logs default/demo", "kubectl edit workspacetemplate -n default eks", "kubectl edit captcontrolplane -n default demo"}},
		infrav1.WaitTimeoutReason:                 {false, "CAPT continues by itself", nil},
	} {
		t.Run(reason, func(t *testing.T) {
			o := ready()
			o.CAPTCluster.Namespace, o.ControlPlane.Namespace = "default", "default"
			o.CAPTCluster.Spec.VPC.Template.Ref.Name, o.ControlPlane.Spec.WorkspaceTemplateRef.Name = "vpc", "eks"
			failed := []metav1.Condition{condition("Ready", metav1.ConditionFalse, reason)}
			if o.ControlPlane.Status.Conditions = failed; want.vpc {
				o.CAPTCluster.Status.Conditions = failed
			}
			o.ControlPlane.Status.State = infrav1.StateFailed
			c := overview.Of(o, at(10))
			next := overview.NextStep(o, &c, at(10).Time)
			require.NotNil(t, next)
			assert.Contains(t, next.Step, want.step)
			assert.Equal(t, want.commands, next.Commands)
		})
	}
}

func TestTheNextStepNamesWhatTheMessageIsAbout(t *testing.T) {
	for reason, row := range map[string]struct{ message, command string }{
		controlplanev1.FargateProfileDependencyReason: {"Add an output of that name to the template of the VPC", "kubectl edit workspacetemplate -n default vpc"},
		controlplanev1.FargateProfileFailedReason:     {"failed Fargate profile default (WorkspaceTemplateApply x: no subnets)", "kubectl edit workspacetemplate -n default fargate"},
		infrav1.WorkspacePausedReason: {"another client has set spec.managementPolicies of Workspace demo-vpc to [Observe]",
			`kubectl -n default patch workspaces.tf.m.upbound.io demo-vpc --type=json -p '[{"op":"remove","path":"/spec/managementPolicies"}]'`},
	} {
		o := ready()
		o.CAPTCluster.Namespace, o.CAPTCluster.Spec.VPC.Template.Ref.Name = "default", "vpc"
		o.ControlPlane.Namespace = "default"
		o.ControlPlane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "default", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
		fails := condition("Ready", metav1.ConditionFalse, reason)
		fails.Message = row.message
		if o.ControlPlane.Status.Conditions = []metav1.Condition{fails}; reason == infrav1.WorkspacePausedReason {
			o.ControlPlane.Status.Conditions = nil
			o.Applies[0].Status.Conditions, o.Applies[0].Namespace = []metav1.Condition{fails}, "default"
			o.Applies[0].Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.m.upbound.io/v1beta1", Kind: "Workspace", Name: "demo-vpc", Namespace: "default"}
		}
		c := overview.Of(o, at(10))
		assert.Contains(t, overview.NextStep(o, &c, at(10).Time).Commands, row.command)
	}
}

func TestPausedObjects(t *testing.T) {
	for name, pause := range map[string]func(*overview.Objects){
		"the Cluster": func(o *overview.Objects) { o.Cluster.Spec.Paused = ptr.To(true) },
		"a WorkspaceTemplateApply": func(o *overview.Objects) {
			o.Applies[2].Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
	} {
		o := ready()
		pause(o)
		assert.True(t, overview.Of(o, at(10)).Paused, name)
	}
}

// updating is an update from minute 10 to 30.
func updating() *infrav1.Progress {
	return &infrav1.Progress{
		CurrentOperation: infrav1.OperationUpdate, PercentComplete: ptr.To[int32](40), EstimatedCompletionTime: ptr.To(at(30)),
		History: []infrav1.OperationRecord{{Name: infrav1.OperationUpdate, StartTime: ptr.To(at(10))}},
	}
}

// Status has 40 % since the control plane was applied, and the estimate of 20 minutes from the start.
func TestProgressBetweenTwoStepsGrowsWithTime(t *testing.T) {
	o := ready()
	o.ControlPlane.Spec.Version = "v1.36.0"
	o.ControlPlane.Status.Progress = updating()
	for minute, want := range map[int]int32{9: 40, 10: 40, 15: 40, 20: 50, 29: 95, 30: 99, 31: 99} {
		got := overview.Of(o, at(minute))
		require.NotNil(t, got.Progress)
		assert.Equal(t, want, got.Progress.PercentComplete, "minute %d", minute)
		assert.Equal(t, minute > 30, got.Progress.Overdue, "minute %d", minute)
		assert.Equal(t, time.Duration(max(0, 30-minute))*time.Minute, got.Progress.Remaining(at(minute).Time))
		assert.Equal(t, "v1.36.0", got.DesiredVersion)
	}
	o.Applies[0].Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, "ApplyFailed")}
	stalled := overview.Of(o, at(31)).Progress
	assert.EqualValues(t, 40, stalled.PercentComplete, "time does not complete what waits for the user")
	assert.False(t, stalled.Overdue)
	assert.Zero(t, stalled.Remaining(at(29).Time))
	o.Applies[0].Status.Conditions = nil
	o.ControlPlane.Status.Progress.EstimatedCompletionTime = nil
	assert.EqualValues(t, 40, overview.Of(o, at(29)).Progress.PercentComplete, "there is no estimate without an earlier operation")
	o.ControlPlane.Status.Progress.CurrentOperation = ""
	assert.Nil(t, overview.Of(o, at(29)).Progress)
}

func TestConditionsAreThoseThatAReadyClusterDoesNotHave(t *testing.T) {
	o := ready()
	assert.Empty(t, o.Conditions())
	o.Applies[0].Status.Conditions = append(o.Applies[0].Status.Conditions, condition("WorkspaceConflict", metav1.ConditionTrue, "Conflict"), condition("Rendered", metav1.ConditionTrue, "Rendered"))
	o.ControlPlane.Status.Conditions = []metav1.Condition{
		condition("Ready", metav1.ConditionFalse, "Wrong"), condition("Degraded", metav1.ConditionTrue, "Wrong"), condition("Paused", metav1.ConditionFalse, "NotPaused"),
		condition("EndpointAvailable", metav1.ConditionUnknown, "Waiting"), condition("Recovering", metav1.ConditionFalse, "RecoveryBlocked"),
		condition("Recovering", metav1.ConditionFalse, "NotRecovering"),
	}
	o.Cluster.Status.Conditions = []metav1.Condition{condition("RemoteConnectionProbe", metav1.ConditionFalse, "ProbeFailed"), condition("Available", metav1.ConditionFalse, "NotAvailable")}
	var found []string
	for _, c := range o.Conditions() {
		found = append(found, c.Kind+" "+c.Name+" "+c.Type+" "+string(c.Status))
	}
	assert.Equal(t, []string{
		"WorkspaceTemplateApply vpc WorkspaceConflict True", "CAPTControlPlane demo Ready False", "CAPTControlPlane demo Degraded True",
		"CAPTControlPlane demo EndpointAvailable Unknown", "CAPTControlPlane demo Recovering False", "Cluster demo RemoteConnectionProbe False",
	}, found)
}

func TestAnEndpointThatChangedIsFollowedByTwoCommands(t *testing.T) {
	o := ready()
	o.ControlPlane.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, controlplanev1.EndpointChangedReason)}
	o.ControlPlane.Status.WorkspaceTemplateApply = &controlplanev1.WorkspaceTemplateApplyStatus{Outputs: map[string]string{"cluster_endpoint": "https://new.example.com"}}
	c := overview.Of(o, at(10))
	const endpoint = ` --type merge -p '{"spec":{"controlPlaneEndpoint":{"host":"new.example.com","port":443}}}'`
	assert.Equal(t, []string{"kubectl patch -n default captcontrolplane demo" + endpoint, "kubectl patch -n default cluster demo" + endpoint}, overview.NextStep(o, &c, at(10).Time).Commands)
}

func TestWarningsOfObjectsThatAreReady(t *testing.T) {
	o := ready()
	published := condition("KubeconfigReady", metav1.ConditionTrue, "KubeconfigReady")
	published.Message = ""
	o.ControlPlane.Status.Conditions = append(o.ControlPlane.Status.Conditions, published, condition("Degraded", metav1.ConditionFalse, "NotDegraded"))
	assert.Empty(t, o.Warnings())
	published.Message = "Cluster API cannot connect"
	o.ControlPlane.Status.Conditions = append(o.ControlPlane.Status.Conditions, published, condition("FieldsConsumed", metav1.ConditionFalse, "FieldsWithoutEffect"))
	var found []string
	for _, c := range o.Warnings() {
		found = append(found, c.Kind+" "+c.Reason+": "+c.Message)
	}
	assert.Equal(t, []string{"CAPTControlPlane KubeconfigReady: Cluster API cannot connect", "CAPTControlPlane FieldsWithoutEffect: about FieldsWithoutEffect"}, found)
	assert.Len(t, o.Conditions(), 2)
}

// The status of an object that CAPT does not reconcile is of before: it may be Ready.
func TestAnObjectThatIsNotReconciledIsTheCause(t *testing.T) {
	written := []metav1.ManagedFieldsEntry{{Time: ptr.To(at(7))}, {Time: ptr.To(at(9)), Subresource: "status"}}
	for name, row := range map[string]struct {
		now    int
		change func(o *overview.Objects)
		cause  bool
		next   string
	}{
		"up to date":          {10, func(o *overview.Objects) { o.ControlPlane.Generation = 1 }, false, ""},
		"changed just now":    {8, func(*overview.Objects) {}, false, ""},
		"changed long ago":    {10, func(*overview.Objects) {}, true, "kubectl -n capt-system logs deployment/capt-manager"},
		"status of CAPT v0.3": {10, func(o *overview.Objects) { o.ControlPlane.Status.Conditions[0].ObservedGeneration = 0 }, false, ""},
		"managed by another controller": {8, func(o *overview.Objects) {
			o.ControlPlane.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "x"}
		}, true, "kubectl annotate -n default captcontrolplane demo cluster.x-k8s.io/managed-by-"},
		"its deletion": {20, func(o *overview.Objects) {
			o.Cluster.DeletionTimestamp, o.ControlPlane.DeletionTimestamp = ptr.To(at(12)), ptr.To(at(12))
		}, true, "kubectl -n capt-system logs deployment/capt-manager"},
		"its deletion, just now": {13, func(o *overview.Objects) {
			o.Cluster.DeletionTimestamp, o.ControlPlane.DeletionTimestamp = ptr.To(at(12)), ptr.To(at(12))
		}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := ready()
			o.ControlPlane.Generation, o.ControlPlane.ManagedFields = 2, written
			o.ControlPlane.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 1}}
			row.change(o)
			of := overview.Of(o, at(row.now))
			if !row.cause {
				assert.True(t, of.Cause == nil || of.Cause.Reason != overview.NotReconciledReason, "%+v", of.Cause)
				return
			}
			require.NotNil(t, of.Cause)
			assert.Equal(t, "CAPTControlPlane demo NotReconciled", of.Cause.Kind+" "+of.Cause.Name+" "+of.Cause.Reason)
			assert.True(t, of.NeedsAction)
			next := overview.NextStep(o, &of, at(row.now).Time)
			require.NotNil(t, next)
			assert.Contains(t, strings.Join(next.Commands, "\n"), row.next)
		})
	}
}

func TestTheNextStepIsTheCommandOfTheMessage(t *testing.T) {
	const remove = "kubectl delete workspacetemplateapply -n default addon"
	for name, row := range map[string]struct {
		reason, message, want string
		deleted               bool
		actor                 reasons.Actor
	}{
		"dependents without an owner": {infrav1.WaitingForDependentsReason, "waiting for addon. Nothing deletes addon: delete it with " + remove, remove, true, reasons.User},
		"dependents that are deleted": {infrav1.WaitingForDependentsReason, "waiting for addon", "", true, reasons.Waiting},
		"a change that may destroy":   {infrav1.WaitingForApprovalReason, "set the annotations " + naming.ApproveAnnotation + " and " + naming.ApproveDestroyAnnotation, "captctl template approve-change default/eks --allow-destroy", false, reasons.User},
		"a change that is not known":  {infrav1.WaitingForApprovalReason, "set the annotation " + naming.ApproveAnnotation, "captctl template approve-change default/eks", false, reasons.User},
	} {
		o := ready()
		o.Applies[1].Namespace, o.Applies[1].Spec.TemplateRef.Name = "default", "eks"
		of := condition("Ready", metav1.ConditionFalse, row.reason)
		if row.deleted {
			o.Cluster.DeletionTimestamp = ptr.To(at(8))
			of = condition("Deleting", metav1.ConditionTrue, row.reason)
		}
		of.Message = row.message
		o.Applies[1].Status.Conditions = []metav1.Condition{of}
		c := overview.Of(o, at(10))
		assert.Equal(t, row.actor, c.Cause.Actor, name)
		next := overview.NextStep(o, &c, at(10).Time)
		if row.want == "" {
			assert.Nil(t, next, name)
			continue
		}
		assert.Equal(t, []string{row.want}, next.Commands, name)
	}
}
