// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleets builds the objects of fleets as controllers leave them, for tests of what captctl shows.
package fleets

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// Namespace of the Clusters.
const Namespace = "team-a"

// Cluster is a Cluster with its objects.
type Cluster struct {
	*graph.Objects
	VPC, EKS, Fargate *infrav1.WorkspaceTemplateApply

	now time.Time
}

// States are those that Clusters of New have.
func States() []string { return []string{"Ready", "Provisioning", "Degraded", "Failed", "Deleting"} }

// New returns Clusters. The states of States repeat in their order.
func New(clusters int, now time.Time) (fleet []*Cluster) {
	for i := range clusters {
		state := States()[i%len(States())]
		c := Ready(fmt.Sprintf("%s-%d", map[string]string{
			"Ready": "payments-production", "Provisioning": "search", "Degraded": "orders", "Failed": "checkout", "Deleting": "old",
		}[state], i), now)
		switch state {
		case "Provisioning":
			c.provisions()
		case "Degraded":
			c.degrades()
		case "Failed":
			c.fails()
		case "Deleting":
			c.deletes()
		}
		c.ControlPlane.Status.Dependencies = c.Dependencies()
		fleet = append(fleet, c)
	}
	return fleet
}

// Objects returns the objects of Clusters as they are in an API server.
func Objects(fleet []*Cluster) (objects []client.Object) {
	for _, c := range fleet {
		objects = append(objects, c.Objects.Cluster, c.CAPTCluster, c.ControlPlane)
		for _, apply := range c.Applies {
			objects = append(objects, apply)
		}
	}
	return objects
}

// Ready is a Ready Cluster with a Fargate profile.
func Ready(name string, now time.Time) *Cluster {
	c := &Cluster{now: now}
	c.VPC, c.EKS = c.apply(name+"-vpc", "vpc"), c.apply(naming.ControlPlaneWorkspaceTemplateApply(name), "eks")
	c.Fargate = c.apply(naming.FargateWorkspaceTemplateApply(name, "default"), "fargate")
	c.Objects = &graph.Objects{
		Cluster: builder.Cluster(name), CAPTCluster: builder.CAPTCluster(name, builder.WithApplyRef(c.VPC.Name)),
		ControlPlane: builder.CAPTControlPlane(name, builder.WithApplyRef(c.EKS.Name)),
		Applies:      []*infrav1.WorkspaceTemplateApply{c.VPC, c.EKS, c.Fargate},
		Templates:    map[types.NamespacedName]*infrav1.WorkspaceTemplate{},
		Secrets:      sets.New(naming.ControlPlaneConnectionSecret(name), naming.KubeconfigSecret(name), naming.UserKubeconfigSecret(name)),
	}
	for _, template := range []string{"vpc", "eks", "fargate"} {
		key := types.NamespacedName{Namespace: Namespace, Name: template}
		c.Templates[key] = &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: template}}
		c.Templates[key].Status.Conditions = c.condition(infrav1.ValidCondition, metav1.ConditionTrue, "Valid", "")
	}
	for _, object := range Objects([]*Cluster{c}) {
		object.SetNamespace(Namespace)
		object.SetResourceVersion("")
		object.SetCreationTimestamp(c.before(60 * 24 * 12))
	}
	c.CAPTCluster.Status.Conditions = c.ready()
	c.Objects.Cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	c.ControlPlane.Spec.Version = "v1.35.0"
	c.ControlPlane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "default", WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"}}}
	c.ControlPlane.Status = controlplanev1.CAPTControlPlaneStatus{
		Lifecycle: infrav1.Lifecycle{State: infrav1.StateReady}, Version: "v1.35.0", Endpoint: "https://0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com:443", Conditions: c.ready(),
		FargateProfiles: []controlplanev1.FargateProfileStatus{{
			Name: "default", Ready: metav1.ConditionTrue, State: controlplanev1.FargateProfileStateReady, WorkspaceTemplateApplyName: c.Fargate.Name, LastTransitionTime: ptr.To(c.before(40)),
		}},
	}
	c.health(controlplanev1.HealthHealthy, "")
	return c
}

func (c *Cluster) before(minutes int) metav1.Time {
	return metav1.NewTime(c.now.Add(-time.Duration(minutes) * time.Minute))
}

func (c *Cluster) condition(kind string, status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: c.before(7)}}
}

func (c *Cluster) ready() []metav1.Condition {
	return c.condition(infrav1.ReadyCondition, metav1.ConditionTrue, "Ready", "")
}

func (c *Cluster) notReady(reason, message string) []metav1.Condition {
	return c.condition(infrav1.ReadyCondition, metav1.ConditionFalse, reason, message)
}

func (c *Cluster) apply(name, template string) *infrav1.WorkspaceTemplateApply {
	apply := builder.WorkspaceTemplateApply(name, builder.WithWorkspaceName(name))
	apply.Namespace, apply.Spec.TemplateRef.Name = Namespace, template
	apply.Status = infrav1.WorkspaceTemplateApplyStatus{Conditions: c.ready(), LastAppliedTime: ptr.To(c.before(42))}
	return apply
}

func (c *Cluster) health(state controlplanev1.HealthState, message string) {
	c.ControlPlane.Status.Health = &controlplanev1.Health{Overall: state, Checks: []controlplanev1.HealthCheck{
		{Name: "APIServer", Status: state, Message: message, LastTransitionTime: ptr.To(c.before(20))},
		{Name: "Terraform", Status: controlplanev1.HealthHealthy, LastTransitionTime: ptr.To(c.before(40))},
	}}
}

func (c *Cluster) provisions() {
	status := &c.ControlPlane.Status
	*status = controlplanev1.CAPTControlPlaneStatus{
		Conditions: c.notReady("Provisioning", "waiting for Terraform to create the control plane"),
		Lifecycle: infrav1.Lifecycle{State: infrav1.StateProvisioning, Progress: &infrav1.Progress{
			CurrentOperation: infrav1.OperationCreation, PercentComplete: ptr.To[int32](25), EstimatedCompletionTime: ptr.To(metav1.NewTime(c.now.Add(8 * time.Minute))),
			History: []infrav1.OperationRecord{{Name: infrav1.OperationCreation, StartTime: ptr.To(c.before(6))}},
		}},
	}
	c.ControlPlane.Status.Conditions = append(status.Conditions, c.condition(controlplanev1.CreatingCondition, metav1.ConditionTrue, "Provisioning", "")...)
	c.EKS.Status = infrav1.WorkspaceTemplateApplyStatus{Conditions: c.notReady("Provisioning", "waiting for Terraform to apply a change")}
	c.Objects.Cluster.Status.Initialization.ControlPlaneInitialized = nil
	c.Applies, c.Secrets = c.Applies[:2], nil
}

func (c *Cluster) degrades() {
	c.ControlPlane.Status.State = infrav1.StateDegraded
	message := "the API server has not answered since 10m: dial tcp 10.0.3.17:443: i/o timeout"
	c.health(controlplanev1.HealthUnhealthy, message)
	c.ControlPlane.Status.Conditions = append(c.notReady("APIServerNotAnswering", message), c.condition(infrav1.DegradedCondition, metav1.ConditionTrue, "APIServerNotAnswering", message)...)
	profile := &c.ControlPlane.Status.FargateProfiles[0]
	profile.Ready, profile.State, profile.FailureReason = metav1.ConditionFalse, controlplanev1.FargateProfileStateDependencyMissing, "FargateProfileDependencyNotReady"
	profile.FailureMessage = "WorkspaceTemplate fargate does not exist, or does not allow this namespace"
	c.Fargate.Status.Conditions = c.notReady("TemplateNotFound", profile.FailureMessage)
	c.Templates[types.NamespacedName{Namespace: Namespace, Name: "fargate"}] = nil
}

func (c *Cluster) fails() {
	const message = `Terraform failed: Error: creating EKS Cluster (checkout)

  with module.eks.aws_eks_cluster.this[0],
  on .terraform/modules/eks/main.tf line 35, in resource "aws_eks_cluster" "this":
  35: resource "aws_eks_cluster" "this" {

operation error EKS: CreateCluster, https response error StatusCode: 403, AccessDeniedException: User is not authorized to perform: eks:CreateCluster`
	c.EKS.Status.Conditions = c.notReady("ApplyFailed", message)
	c.ControlPlane.Status = controlplanev1.CAPTControlPlaneStatus{Lifecycle: infrav1.Lifecycle{State: infrav1.StateFailed}, Conditions: append(
		c.notReady("ApplyFailed", "WorkspaceTemplateApply "+c.EKS.Name+" failed"), c.condition(infrav1.FailedCondition, metav1.ConditionTrue, "ApplyFailed", "The user must act")...)}
	c.Objects.Cluster.Status.Initialization.ControlPlaneInitialized = nil
	c.Applies, c.Secrets = c.Applies[:2], nil
}

func (c *Cluster) deletes() {
	message := "waiting for Terraform to destroy the Fargate profile default"
	for _, object := range []client.Object{c.Objects.Cluster, c.ControlPlane, c.Fargate} {
		object.SetDeletionTimestamp(ptr.To(c.before(3)))
		object.SetFinalizers([]string{"example.com/test"})
	}
	c.Fargate.Status.Conditions = append(c.notReady("Deleting", message), c.condition(infrav1.DeletingCondition, metav1.ConditionTrue, "WaitingForDestroy", message)...)
	c.ControlPlane.Status.Conditions = append(c.notReady("Deleting", message), c.condition(infrav1.DeletingCondition, metav1.ConditionTrue, "WaitingForFargateProfiles", message)...)
	c.ControlPlane.Status.FargateProfiles[0].State = controlplanev1.FargateProfileStateDeleting
}
