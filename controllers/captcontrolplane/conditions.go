// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
)

// parts are the conditions that the summaries derive from.
type parts struct {
	dependencies, workspace, endpoint, kubeconfig, fargate engine.Condition
	// profiles is what is told of the Fargate profiles.
	profiles fargate.Report
	// working is true while Terraform is at work and nothing is wrong.
	working bool
	// failed is true when a timeout has passed, or something is wrong that does not heal by itself.
	failed bool
	// idle is true while nothing was begun, because the object is paused.
	idle bool
}

func conditions(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) parts {
	c := parts{
		dependencies: engine.True(controlplanev1.DependenciesReadyCondition, controlplanev1.DependenciesReadyReason, ""),
		workspace:    f.Apply.Condition(controlplanev1.WorkspaceReadyCondition, controlplanev1.WorkspaceReadyReason, manager),
		endpoint:     endpointAvailable(controlPlane, f),
		kubeconfig:   kubeconfigReady(f),
		fargate:      engine.True(controlplanev1.FargateProfileReadyCondition, controlplanev1.FargateProfileReadyReason, ""),
		profiles:     f.Fargate.Report(),
		idle:         f.Paused != "" && f.Apply.Apply == nil,
	}
	if len(c.profiles.Conditions) > 0 {
		c.fargate = c.profiles.Conditions[0]
	}
	if blocked := blocked(controlPlane, f); blocked != nil {
		c.dependencies = *blocked
	}
	if c.idle && f.Apply.Claimed == "" {
		c.workspace = engine.False(controlplanev1.WorkspaceReadyCondition, clusterv1.PausedReason, "nothing is made while the object is paused: "+f.Paused)
	}
	c.failed = infrav1.Stands(c.worst().Reason)
	c.expire(controlPlane, f)
	c.working = !c.failed && c.inProgress(f)
	return c
}

// inProgress tells whether Terraform is at work on what is not met yet.
func (c *parts) inProgress(f *Facts) bool {
	switch c.first() {
	case &c.workspace:
		return f.Apply.Working()
	case &c.fargate:
		return c.profiles.Working
	}
	return false
}

// first is the first condition that is not met, from the one that must be met first to the last: what a person must look at.
// It is nil when all are.
func (c *parts) first() *engine.Condition {
	for _, condition := range []*engine.Condition{&c.dependencies, &c.workspace, &c.endpoint, &c.kubeconfig, &c.fargate} {
		if condition.Status != metav1.ConditionTrue {
			return condition
		}
	}
	return nil
}

func (c *parts) all() bool { return c.first() == nil }

// worst is the first condition that is not met, or none.
func (c *parts) worst() engine.Condition { return ptr.Deref(c.first(), engine.Condition{}) }

func endpointAvailable(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) engine.Condition {
	conditionType := controlplanev1.EndpointAvailableCondition
	written := owners.Endpoint(controlPlane.Spec.ControlPlaneEndpoint)
	known := written.IsValid()
	if !f.Apply.Ready(manager) {
		if known {
			return engine.True(conditionType, controlplanev1.EndpointKnownReason, "")
		}
		return engine.False(conditionType, controlplanev1.WaitingForWorkspaceReason, "the endpoint is known when Terraform has made the control plane")
	}
	endpoint, err := f.endpoint()
	switch {
	case err != nil:
		return engine.False(conditionType, controlplanev1.EndpointInvalidReason, fmt.Sprintf("output %q: %v", terraform.OutputClusterEndpoint, err))
	case endpoint.IsZero():
		return engine.False(conditionType, controlplanev1.EndpointMissingReason, fmt.Sprintf(
			"Terraform applied the template, but it has no output %q; add it to the module", terraform.OutputClusterEndpoint))
	case known && endpoint != written:
		return engine.False(conditionType, controlplanev1.EndpointChangedReason, fmt.Sprintf(
			"Terraform reports the endpoint %s, but spec.controlPlaneEndpoint is %s; if the cluster was replaced on purpose, set spec.controlPlaneEndpoint anew",
			endpoint.String(), written.String()))
	case !known:
		return engine.False(conditionType, controlplanev1.WaitingForWorkspaceReason, "the endpoint is about to be written")
	}
	return engine.True(conditionType, controlplanev1.EndpointKnownReason, f.otherEndpoint(written))
}

// otherEndpoint tells that the Cluster has another endpoint: Cluster API takes it over once, and keeps that of a control plane
// that was deleted and made anew.
func (f *Facts) otherEndpoint(written clusterv1.APIEndpoint) string {
	if f.Cluster == nil || !f.Cluster.Spec.ControlPlaneEndpoint.IsValid() || f.Cluster.Spec.ControlPlaneEndpoint == written {
		return ""
	}
	return fmt.Sprintf("Cluster %s still has the endpoint %s of an earlier control plane; set its spec.controlPlaneEndpoint to %s",
		f.Cluster.Name, f.Cluster.Spec.ControlPlaneEndpoint.String(), written.String())
}

func kubeconfigReady(f *Facts) engine.Condition {
	conditionType := controlplanev1.KubeconfigReadyCondition
	switch {
	case f.Cluster == nil, !f.Apply.Ready(manager) && f.Kubeconfig.Problem == "":
		return engine.False(conditionType, controlplanev1.WaitingForWorkspaceReason, "the kubeconfig is made when Terraform has made the control plane")
	case f.Kubeconfig.Problem != "":
		return engine.False(conditionType, f.Kubeconfig.Reason, f.Kubeconfig.Problem)
	case !f.Kubeconfig.Written:
		return engine.False(conditionType, controlplanev1.KubeconfigMissingReason, fmt.Sprintf("Secret %s is about to be written", naming.KubeconfigSecret(f.Cluster.Name)))
	}
	if f.Kubeconfig.Note != "" {
		return engine.True(conditionType, controlplanev1.KubeconfigReadyReason, f.Kubeconfig.Note)
	}
	if f.UserKubeconfig.Problem != "" {
		return engine.True(conditionType, controlplanev1.KubeconfigReadyReason, "there is no kubeconfig for people: "+f.UserKubeconfig.Problem)
	}
	return engine.True(conditionType, controlplanev1.KubeconfigReadyReason, "")
}

// warning tells which transitions need a person.
func warning(condition metav1.Condition) bool {
	switch condition.Reason {
	case controlplanev1.RegionConflictReason, controlplanev1.InvalidVersionReason,
		controlplanev1.EndpointMissingReason, controlplanev1.EndpointInvalidReason, controlplanev1.EndpointChangedReason,
		controlplanev1.KubeconfigMissingReason, controlplanev1.KubeconfigInvalidReason, controlplanev1.KubeconfigConflictReason,
		controlplanev1.VPCReadyTimeoutReason, controlplanev1.ControlPlaneTimeoutReason, controlplanev1.SecretTimeoutReason,
		controlplanev1.FargateProfileFailedReason, controlplanev1.FargateProfileDependencyReason, controlplanev1.DegradedReason:
		return true
	}
	return infrav1.NeedsPerson(condition.Reason)
}
