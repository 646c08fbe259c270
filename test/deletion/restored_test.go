// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// backup is an object as kubectl get -o yaml gives it.
type backup struct {
	kind client.Object
	*unstructured.Unstructured
}

func backUp(c *cell, kind client.Object, name string) backup {
	c.Helper()
	gvk, err := c.GroupVersionKindFor(kind)
	require.NoError(c, err)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	require.NoError(c, c.Get(c.Context(), client.ObjectKey{Namespace: c.Namespace, Name: name}, object))
	return backup{kind, object}
}

// lose removes an object as the loss of a management cluster does: no controller sees it go.
func (c *cell) lose(b backup) {
	c.Helper()
	c.Edit(b.kind, b.GetName(), `{"metadata":{"annotations":{"capt.cluster.x-k8s.io/allow-delete":"true"}}}`)
	c.Remove(b.kind, b.GetName())
	c.release(b.DeepCopy())
	c.AwaitGone(b.kind, b.GetName())
}

// restore creates the object again. The webhooks remove owners that do not exist, unless the request has a field manager of CAPT's controllers.
func (c *cell) restore(b backup, options ...client.CreateOption) {
	c.Helper()
	object := b.DeepCopy()
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetManagedFields(nil)
	if err := c.Create(c.Context(), object, options...); !apierrors.IsAlreadyExists(err) { // Owners create what they miss.
		require.NoError(c, err)
	}
}

// A management cluster is lost and its objects are restored from manifests. Their owners have other UIDs now, so that the garbage
// collector deletes those that keep their owner references. What Terraform created must outlive that.
func TestCollectedCopiesDestroyNothing(t *testing.T) {
	t.Parallel()
	c := newCell(t, shared, rows[4], column{name: "restored with the UIDs of owners that are gone"})
	c.build()
	before := map[string]types.UID{}
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
		before[name] = c.Workspace(name).GetUID()
	}
	backups := []backup{
		backUp(c, &infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane),
		backUp(c, &infrav1.WorkspaceTemplateApply{}, fixture.VPC),
		backUp(c, &controlplanev1.CAPTControlPlane{}, fixture.Demo),
		backUp(c, &infrav1.CAPTCluster{}, fixture.Demo),
		backUp(c, &clusterv1.Cluster{}, fixture.Demo),
	}
	pauseCluster(c)
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
		c.Await(&infrav1.WorkspaceTemplateApply{}, name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	}
	for _, b := range backups {
		c.lose(b)
	}
	applies, owners := backups[:2], backups[2:4]
	// Without the Cluster: while that exists, the API server rejects the deletion of its objects, also by the garbage collector.
	for _, restored := range [][]backup{applies, slices.Concat(owners, applies)} {
		for _, b := range restored {
			c.restore(b, client.FieldOwner(naming.CAPTClusterFieldManager))
		}
		for _, b := range slices.Concat(owners, applies) {
			c.AwaitGone(b.kind, b.GetName())
		}
		c.requireUntouched(before)
	}

	for _, b := range backups[:2] {
		c.restore(b)
		c.Await(&infrav1.WorkspaceTemplateApply{}, b.GetName(), infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	}
	c.requireUntouched(before)
}

// requireUntouched checks that Workspaces are those of before, and that nothing was destroyed.
func (c *cell) requireUntouched(before map[string]types.UID) {
	c.Helper()
	for name, uid := range before {
		workspace := c.Workspace(name)
		require.NotNil(c, workspace, name)
		require.Equal(c, uid, workspace.GetUID(), name)
		require.Nil(c, workspace.GetDeletionTimestamp(), name)
		require.Empty(c, c.Operations(name, scripted.Destroy), name)
	}
}

// row is a state of the control plane, and how a Cluster comes to be in it.
type row struct {
	name string
	// history is how it came to this, for the documentation.
	history string
	build   func(c *cell)
	// held reports whether the control plane has a WorkspaceTemplateApply.
	held bool
	// apply is how the apply of the control plane goes that brings it there. One that hangs ends after the deletion.
	apply scripted.Step
}

var rows = []row{
	{name: "Pending", build: pending, history: "the control plane is paused before Terraform starts to create it; the VPC exists"},
	{name: "Validating", build: validating, history: "the control plane waits for a VPC whose template has no output `vpc_id`"},
	{name: "Provisioning", build: ready, held: true, apply: scripted.Step{Hang: true}, history: "Terraform applies the control plane for the first time, and continues after the deletion request"},
	{name: "Configuring", build: configuring, held: true, history: "Terraform has finished, but the template has no output `cluster_endpoint`"},
	{name: "Ready", build: ready, held: true, history: "everything is ready"},
	{name: "Degraded", build: degraded, held: true, apply: scripted.Step{Stderr: refused}, history: "an update of the control plane fails"},
	{name: "Failed", build: failed, held: true, apply: scripted.Step{Stderr: refused, Partial: true}, history: "the first apply of the control plane fails until its timeout, after it created a part of the resources"},
	{name: "Recovering", build: recovering, held: true, apply: scripted.Step{Stderr: throttled, Partial: true}, history: "a recovery action runs, because the first apply of the control plane was throttled after it created a part of the resources"},
}

// state is what status.state says.
func (r row) state() infrav1.State { return infrav1.State(r.name) }

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
	c.scriptControlPlane(c.row.apply)
	c.User(c.VPCTemplate(fixture.VPCModule), c.ControlPlaneTemplate(`
variable "cluster_name" { type = string }
variable "tags" { type = string }
resource "terraform_data" "eks" { input = var.cluster_name }
`), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
}

// ready makes a Cluster that becomes Ready, unless the row's apply does not let it.
func ready(c *cell) {
	c.scriptControlPlane(c.row.apply)
	c.User(c.Everything()...)
	if c.row.apply.Hang {
		c.AwaitOperation(fixture.ControlPlane, scripted.Apply)
	}
}

func degraded(c *cell) {
	c.scriptControlPlane(scripted.Step{})
	c.User(c.Everything()...)
	c.AwaitState(infrav1.StateReady, "")
	c.scriptControlPlane(c.row.apply)
	c.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"spec":{"additionalTags":{"Team":"other"}}}`)
}

func failed(c *cell) {
	c.scriptControlPlane(c.row.apply)
	c.User(append(c.Templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo, "timeouts: {controlPlaneSeconds: 10}"))...)
	c.AwaitState(infrav1.StateFailed, controlplanev1.ControlPlaneTimeoutReason)
}

func recovering(c *cell) {
	c.scriptControlPlane(c.row.apply)
	c.User(append(c.Templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo),
		fixture.CAPTControlPlane(fixture.Demo, "recovery: {backoff: {initialSeconds: 1}, actions: [{type: Reapply, timeoutSeconds: 3600}]}"))...)
}

const (
	// throttled is the error of AWS after too many requests.
	throttled = "\nError: creating EKS Cluster (demo): ThrottlingException: Rate exceeded\n"
	// refused is the error of AWS without permission.
	refused = "\nError: creating EKS Cluster (demo): AccessDeniedException: User is not authorized to perform: eks:CreateCluster\n"
	// inUse is what AWS reports for a VPC that still has a load balancer.
	inUse = "\nError: deleting EC2 VPC (vpc-1): DependencyViolation: The vpc 'vpc-1' has dependencies and cannot be deleted.\n"
	// pause and resume are edits of an object.
	pause  = `{"metadata":{"annotations":{"` + clusterv1.PausedAnnotation + `":""}}}`
	resume = `{"metadata":{"annotations":{"` + clusterv1.PausedAnnotation + `":null}}}`
)
