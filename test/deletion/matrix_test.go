// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// cell is one Cluster in one state that is deleted under one condition.
type cell struct {
	*fixture.Environment
	row    row
	column column
	// deleted is when the Cluster was deleted.
	deleted time.Time
}

func newCell(t *testing.T, s *fixture.Server, r row, c column) *cell {
	t.Helper()
	scope := c.scope
	if scope == "" {
		scope = terraform.ScopeNamespaced
	}
	return &cell{Environment: s.NewEnvironment(t, scope), row: r, column: c}
}

// in is the cell in a test of its own.
func (c *cell) in(t *testing.T) *cell {
	moved := *c
	moved.Environment = c.In(t)
	return &moved
}

// scriptControlPlane lets applies of the control plane go as a step says, and destroys as the column says.
func (c *cell) scriptControlPlane(apply scripted.Step) {
	c.Helper()
	c.SetScript(fixture.ControlPlane, scripted.Script{Apply: apply, Destroy: slowly(c.column.destroy)})
}

// scriptDestroy lets destroys go as a step says.
func (c *cell) scriptDestroy(destroy scripted.Step) {
	c.Helper()
	c.SetScript(fixture.VPC, scripted.Script{Destroy: destroy})
	c.SetScript(fixture.ControlPlane, scripted.Script{Destroy: slowly(destroy)})
}

// slowly is a destroy of a control plane that takes a while: who does not wait for it is caught.
func slowly(destroy scripted.Step) scripted.Step {
	destroy.Delay = time.Second
	return destroy
}

// release takes the finalizers of an object away.
func (c *cell) release(object client.Object) {
	c.Helper()
	err := c.Patch(c.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	require.NoError(c, client.IgnoreNotFound(err))
}

// build makes a Cluster in the state of the row, and creates the obstacle.
func (c *cell) build() {
	c.Helper()
	c.SetScript(fixture.VPC, scripted.Script{Destroy: c.column.destroy})
	c.row.build(c)
	c.AwaitState(c.row.state(), "")
	if c.column.obstruct != nil {
		c.column.obstruct(c)
	}
}

func (c *cell) delete() {
	c.Helper()
	c.deleted = time.Now()
	if c.column.namespace {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}
		require.NoError(c, sandbox.AllowDelete(c.Context(), c.Client, namespace))
		require.NoError(c, c.Delete(c.Context(), namespace))
		return
	}
	c.Remove(&clusterv1.Cluster{}, fixture.Demo, c.column.options...)
}

// finishApply lets Terraform end the apply that was running when the Cluster was deleted, once the deletion has reached it.
func (c *cell) finishApply() {
	c.Helper()
	if !c.row.apply.Hang {
		return
	}
	c.Eventually(func() string {
		workspace := c.Workspace(fixture.ControlPlane)
		return fixture.Unless(workspace == nil || workspace.GetDeletionTimestamp() != nil, "the Workspace is not deleted yet")
	})
	c.scriptControlPlane(scripted.Step{})
}

// awaitReported waits until the object concerned reports the obstacle. The log has how long that took: on an idle machine, less than a
// minute.
func (c *cell) awaitReported() {
	c.Helper()
	report := c.column.report(c.row)
	c.Await(report.object, report.name, report.condition, metav1.ConditionTrue, report.reason, report.message)
	took := time.Since(c.deleted)
	c.Logf("%s %s says %s after %s", report.kind, report.name, report.reason, took.Round(100*time.Millisecond))
	c.requireLed(report)
}

// awaitReportedOrGone is awaitReported where the deletion is a race between others, who also say how long it takes. It returns false
// when all of it has ended by itself: when the control plane has, the VPC may still be held up.
func (c *cell) awaitReportedOrGone() bool {
	c.Helper()
	for _, r := range []row{c.row, {}} {
		report, isReported := c.column.report(r), false
		c.Eventually(func() string {
			missing := c.MissingCondition(report.object, report.name, report.condition, metav1.ConditionTrue, report.reason, report.message)
			isReported = missing == ""
			return fixture.Unless(isReported || !c.Exists(report.object, report.name), "%s", missing)
		})
		if isReported {
			return true
		}
	}
	return false
}

// requireLed proves that the conditions of the Cluster name the object that reports the obstacle.
func (c *cell) requireLed(report *report) {
	c.Helper()
	if report.kind == "Cluster" {
		return
	}
	reason, kind := clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason, "CAPTCluster"
	if c.row.held {
		reason, kind = clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason, "CAPTControlPlane"
	}
	c.Await(&clusterv1.Cluster{}, fixture.Demo, clusterv1.ClusterDeletingCondition, metav1.ConditionTrue, reason, "Waiting for "+kind)
	if report.kind != "WorkspaceTemplateApply" {
		return
	}
	if c.row.held {
		c.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue,
			infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, fixture.ControlPlane, report.message)
		return
	}
	c.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue,
		infrav1.WaitingForWorkspaceTemplateApplyDeletionReason, fixture.VPC, report.message)
}

// requireEnd waits until nothing of the Cluster is left, in the API server and in the cloud, and proves that it went in order.
func (c *cell) requireEnd() {
	c.Helper()
	for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
		c.AwaitGone(&infrav1.WorkspaceTemplateApply{}, apply)
	}
	for _, object := range []client.Object{&controlplanev1.CAPTControlPlane{}, &infrav1.CAPTCluster{}, &clusterv1.Cluster{}} {
		c.AwaitGone(object, fixture.Demo)
	}
	for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
		require.Nil(c, c.Workspace(apply), "the Workspace of %s is left behind", apply)
	}
	if c.column.namespace {
		c.AwaitGone(&corev1.Namespace{}, c.Namespace)
	}
	if c.column.leavesCloud {
		return
	}
	c.RequireNothingLeft()
	require.NotEmpty(c, c.Operations(fixture.VPC, scripted.Destroy))
	require.Equal(c, c.row.held, len(c.Operations(fixture.ControlPlane, scripted.Destroy)) > 0)
	c.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
}

// TestDeletingAClusterNeverDeadlocks runs one state of each column, or the whole matrix (see fixture.Sample).
func TestDeletingAClusterNeverDeadlocks(t *testing.T) {
	t.Parallel()
	for i, col := range columns {
		for _, r := range fixture.Sample(i, 1, rows) {
			t.Run(r.name+"/"+col.name, func(t *testing.T) {
				t.Parallel()
				c := newCell(t, shared, r, col)
				c.build()
				c.delete()
				if !col.frozen {
					c.finishApply()
				}
				c.seeThrough()
				if col.frozen {
					c.finishApply()
				}
				c.requireEnd()
			})
		}
	}
}

// seeThrough waits until the deletion reports the obstacle, if there is one, and removes it.
func (c *cell) seeThrough() {
	c.Helper()
	switch {
	case c.column.report == nil:
	case c.column.mayEnd:
		if c.awaitReportedOrGone() {
			c.column.help(c)
		}
	default:
		c.awaitReported()
		c.column.help(c)
	}
}

// TestDeletingAClusterWhileTheProviderIsDown is the column of the matrix that all Clusters of the control plane share.
func TestDeletingAClusterWhileTheProviderIsDown(t *testing.T) {
	server := shared.Exclusive(t)
	var cells []*cell
	for _, r := range fixture.Sample(len(columns), 1, rows) {
		cells = append(cells, newCell(t, server, r, providerDown))
	}
	each(t, "Build", cells, (*cell).build)
	require.NoError(t, server.StopComponent(t.Context(), sandbox.Provider))
	started := false
	t.Cleanup(func() {
		if !started { // The other tests of this package need it too.
			require.NoError(t, server.StartComponent(context.Background(), sandbox.Provider))
		}
	})
	each(t, "Report", cells, func(c *cell) {
		c.delete()
		c.awaitReported()
	})
	require.NoError(t, server.StartComponent(t.Context(), sandbox.Provider))
	started = true
	each(t, "End", cells, func(c *cell) {
		c.repairCreate()
		c.requireEnd()
	})
}

// each does something with all cells at a time.
func each(t *testing.T, what string, cells []*cell, do func(*cell)) {
	t.Helper()
	require.True(t, t.Run(what, func(t *testing.T) {
		for _, c := range cells {
			t.Run(c.row.name, func(t *testing.T) {
				t.Parallel()
				do(c.in(t))
			})
		}
	}))
}

// repairCreate does what docs/provider-terraform.md says of an apply that the end of the provider has interrupted.
func (c *cell) repairCreate() {
	c.Helper()
	if !c.row.apply.Hang {
		return
	}
	c.Await(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.CreateInterruptedReason)
	patch := client.RawPatch(types.MergePatchType, []byte(
		`{"metadata":{"annotations":{"crossplane.io/external-create-pending":null,"capt.cluster.x-k8s.io/resumed":"now"}}}`))
	require.NoError(c, c.Patch(c.Context(), c.Workspace(fixture.ControlPlane), patch))
	c.scriptControlPlane(scripted.Step{})
}

// TestTheDocumentationHasTheMatrix compares docs/deletion-reference.md with the tables of the tests.
func TestTheDocumentationHasTheMatrix(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "deletion-reference.md"))
	require.NoError(t, err)
	for _, table := range []string{statesTable(), matrixTable(), helpTable()} {
		require.Contains(t, string(text), table, "docs/deletion-reference.md must hold this table:\n\n%s", table)
	}
}

// statesTable lists how the tests create each state.
func statesTable() string {
	lines := []string{"| state | how the test creates it |", "|---|---|"}
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("| `%s` | %s |", r.name, r.history))
	}
	return strings.Join(lines, "\n") + "\n"
}

// matrixTable lists the result of the deletion for each state and obstacle.
func matrixTable() string {
	head, rule := "| obstacle |", "|---|"
	for _, r := range rows {
		head, rule = head+" "+r.name+" |", rule+"---|"
	}
	lines := []string{head, rule}
	for _, c := range append(columns, providerDown) {
		line := "| " + c.name + " |"
		for _, r := range rows {
			line += " " + outcome(r, c) + " |"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n"
}

func outcome(r row, c column) string {
	switch {
	case c.report == nil:
		return "gone"
	case c.mayEnd:
		return "gone, or `" + c.report(r).reason + "`"
	}
	return "`" + c.report(r).reason + "`"
}

// helpTable lists where an obstacle is reported, and what resolves it.
func helpTable() string {
	lines := []string{"| obstacle | reported in | message contains | how to resolve it |", "|---|---|---|---|"}
	for _, c := range append(columns, providerDown) {
		if c.report == nil {
			continue
		}
		report := c.report(row{held: true})
		lines = append(lines, fmt.Sprintf("| %s | condition `%s` of the %s | %s | %s |", c.name, report.condition, report.kind, report.message, c.helpText))
	}
	return strings.Join(lines, "\n") + "\n"
}
