// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// row is a state of the control plane, and how a Cluster comes to be in it.
type row struct {
	name string
	// story is how it came to this, for the documentation.
	story string
	build func(c *cell)
	// impossible says why nothing can be in this state; empty when something can.
	impossible string
	// held reports whether the control plane has a WorkspaceTemplateApply.
	held bool
	// apply is how the apply of the control plane goes that brings it there. One that hangs ends after the deletion.
	apply scripted.Step
}

var rows = []row{
	{name: "Pending", build: pending, story: "the control plane is paused before Terraform starts to create it; the VPC exists"},
	{name: "Validating", build: validating, story: "the control plane waits for a VPC whose template has no output `vpc_id`"},
	{name: "Provisioning", build: ready, held: true, apply: scripted.Step{Hang: true}, story: "Terraform applies the control plane for the first time, and continues after the deletion request"},
	{name: "Configuring", build: configuring, held: true, story: "Terraform has finished, but the template has no output `cluster_endpoint`"},
	{name: "Ready", build: ready, held: true, story: "everything is ready"},
	{name: "Degraded", build: degraded, held: true, apply: scripted.Step{Stderr: refused}, story: "an update of the control plane fails"},
	{name: "Failed", build: failed, held: true, apply: scripted.Step{Stderr: refused, Partial: true}, story: "the first apply of the control plane fails until its timeout, after it created a part of the resources"},
	{name: "Recovering", impossible: "recovery actions are not implemented yet, so this state is not reported"},
}

// state is what status.state says.
func (r row) state() controlplanev1.State { return controlplanev1.State(r.name) }

func pending(c *cell) {
	c.User(append(c.Templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo))...)
	c.User(fixture.CAPTControlPlane(fixture.Demo))
	c.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, pause)
	c.AwaitVPC()
}

func validating(c *cell) {
	c.User(c.VPCTemplate(`
variable "vpc_name" { type = string }
resource "terraform_data" "vpc" { input = var.vpc_name }
`), c.ControlPlaneTemplate(fixture.ControlPlaneModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	c.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.VPCIDMissingReason)
}

func configuring(c *cell) {
	c.playControlPlane(c.row.apply)
	c.User(c.VPCTemplate(fixture.VPCModule), c.ControlPlaneTemplate(`
variable "cluster_name" { type = string }
variable "tags" { type = string }
resource "terraform_data" "eks" { input = var.cluster_name }
`), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
}

// ready makes a Cluster that becomes Ready, unless the row's apply does not let it.
func ready(c *cell) {
	c.playControlPlane(c.row.apply)
	c.User(c.Everything()...)
	if c.row.apply.Hang {
		c.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	}
}

func degraded(c *cell) {
	c.playControlPlane(scripted.Step{})
	c.User(c.Everything()...)
	c.AwaitState(controlplanev1.StateReady, "")
	c.playControlPlane(c.row.apply)
	c.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"Team":"other"}}}`)
}

func failed(c *cell) {
	c.playControlPlane(c.row.apply)
	c.User(append(c.Templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {controlPlaneSeconds: 10}"))...)
	c.AwaitState(controlplanev1.StateFailed, controlplanev1.ControlPlaneTimeoutReason)
}

const (
	// refused is the error of AWS without permission.
	refused = "\nError: creating EKS Cluster (demo): AccessDeniedException: User is not authorized to perform: eks:CreateCluster\n"
	// inUse is what AWS reports for a VPC that still has a load balancer.
	inUse = "\nError: deleting EC2 VPC (vpc-1): DependencyViolation: The vpc 'vpc-1' has dependencies and cannot be deleted.\n"
	// pause and resume are edits of an object.
	pause  = `{"metadata":{"annotations":{"` + clusterv1.PausedAnnotation + `":""}}}`
	resume = `{"metadata":{"annotations":{"` + clusterv1.PausedAnnotation + `":null}}}`
)
