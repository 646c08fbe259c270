// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func pool(change func(*infrav1.CAPTMachinePool)) builder.Option { return builder.With(change) }

// nodesRun returns an option that records the version of the nodes of a CAPTMachinePool.
func nodesRun(version string) builder.Option {
	return pool(func(p *infrav1.CAPTMachinePool) {
		p.Status.Version, p.Status.WorkspaceTemplateApply = version, &infrav1.WorkspaceTemplateApplySummary{Name: p.Name + "-nodegroup-apply"}
	})
}

// nodeGroupApply is the WorkspaceTemplateApply of a node group of Cluster demo.
func nodeGroupApply(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{of("", "nodegroup"),
		builder.WithVariables(map[string]string{"cluster_name": "demo", "nodegroup_name": "workers", "kubernetes_version": "1.34"})}, options...)...)
}

func (r row) machinePool(t *testing.T, name string) {
	t.Helper()
	object := builder.CAPTMachinePool(name, r.object...)
	template := builder.WorkspaceTemplate("nodegroup", builder.Consuming(validation.MachinePoolVariables()[1:]...)) // The builder adds cluster_name.
	existing := newFakeReader(append([]validation.Owner{template, object}, r.existing...)...)
	expect(t, r.refused, r.warnings...)(validation.ValidateCAPTMachinePool(t.Context(), existing, object))
}

func TestCAPTMachinePools(t *testing.T) {
	const namePath, refPath = "spec.nodeGroupName", "spec.workspaceTemplateApplyRef.name"
	named := func(name string) builder.Option {
		return pool(func(p *infrav1.CAPTMachinePool) { p.Spec.NodeGroupName = name })
	}
	demo := []validation.Owner{builder.Cluster("demo"), builder.CAPTControlPlane("demo")}
	for title, row := range map[string]row{
		"alone":                {},
		"with its MachinePool": {existing: append(demo, builder.MachinePool("workers"))},
		"with a variable that CAPT sets": {object: []builder.Option{pool(func(p *infrav1.CAPTMachinePool) {
			p.Spec.Variables = infrav1.TextVariables(map[string]string{"desired_size": "hunter2"})
		})}, warnings: []string{"spec.variables[desired_size]: has no effect: CAPT sets this variable"}},
		"whose MachinePool has no name for EKS": {existing: append(demo, builder.MachinePool("my.workers", builder.With(func(m *clusterv1.MachinePool) {
			m.Spec.Template.Spec.InfrastructureRef.Name = "workers"
		}))), refused: []finding{{namePath, field.ErrorTypeRequired, `EKS does not accept "my.workers"`}}},
		"with the name of another": {object: []builder.Option{named("blue")},
			existing: append(demo, builder.MachinePool("workers"), builder.MachinePool("blue"), builder.CAPTMachinePool("blue", nodesRun("v1.34.0"))),
			refused:  []finding{{namePath, field.ErrorTypeForbidden, "node group blue is that of CAPTMachinePool blue, and an EKS cluster has only one of a name"}}},
		"with the name of one of another Cluster": {object: []builder.Option{named("blue")},
			existing: append(demo, builder.MachinePool("workers"), builder.CAPTMachinePool("blue", nodesRun("v1.34.0")),
				builder.MachinePool("blue", builder.With(func(m *clusterv1.MachinePool) { m.Spec.ClusterName = "other" })))},
		"moved, with the name of another": {object: []builder.Option{named("blue"), builder.WithFinalizers(infrav1.CAPTMachinePoolFinalizer)},
			existing: append(demo, builder.MachinePool("workers"), builder.MachinePool("blue"), builder.CAPTMachinePool("blue", nodesRun("v1.34.0")))},
		"with an existing node group": {object: []builder.Option{builder.WithApplyRef("by-hand")},
			existing: append(demo, builder.MachinePool("workers"), nodeGroupApply("by-hand"))},
		"with that of another Cluster": {object: []builder.Option{builder.WithApplyRef("by-hand")},
			existing: append(demo, builder.MachinePool("workers"), nodeGroupApply("by-hand", builder.WithVariables(map[string]string{"cluster_name": "prod", "nodegroup_name": "workers"}))),
			refused:  refusedIf(refPath, "it has another cluster_name")},
		"with that of another name": {object: []builder.Option{builder.WithApplyRef("by-hand"), named("blue")},
			existing: append(demo, builder.MachinePool("workers"), nodeGroupApply("by-hand")),
			refused:  refusedIf(refPath, `it has nodegroup_name "workers" instead of "blue"`)},
		"with that of the control plane": {object: []builder.Option{builder.WithApplyRef("by-hand")},
			existing: append(demo[:1:1], builder.CAPTControlPlane("demo", builder.WithApplyRef("by-hand")), builder.MachinePool("workers"), nodeGroupApply("by-hand")),
			refused:  refusedIf(refPath, "WorkspaceTemplateApply by-hand is in use by CAPTControlPlane demo")},
		"with that of another pool": {object: []builder.Option{builder.WithApplyRef("by-hand")},
			existing: append(demo, builder.MachinePool("workers"), nodeGroupApply("by-hand"), builder.CAPTMachinePool("blue", builder.WithApplyRef("by-hand"))),
			refused:  refusedIf(refPath, "WorkspaceTemplateApply by-hand is in use by CAPTMachinePool blue")},
		"with one that another object controls": {object: []builder.Option{builder.WithApplyRef("by-hand")},
			existing: append(demo, builder.MachinePool("workers"), nodeGroupApply("by-hand", builder.OwnedBy(builder.CAPTControlPlane("demo")))),
			refused:  refusedIf(refPath, "WorkspaceTemplateApply by-hand belongs to CAPTControlPlane demo")},
	} {
		t.Run(title, func(t *testing.T) { row.machinePool(t, "workers") })
	}
}

func TestTheNameOfTheApplyOfANodeGroupIsReserved(t *testing.T) {
	workers := builder.CAPTMachinePool("workers")
	existing := newFakeReader(builder.Cluster("demo"), builder.CAPTControlPlane("demo"), builder.MachinePool("workers"), workers)
	name := "workers-nodegroup-apply"
	findings, err := validation.ValidateNewWorkspaceTemplateApply(t.Context(), existing, nodeGroupApply(name, of("", "eks")))
	require.NoError(t, err)
	assertRefused(t, findings.Errors, finding{"metadata.name", field.ErrorTypeForbidden, "CAPTMachinePool workers uses this name for its own WorkspaceTemplateApply"})
	findings, err = validation.ValidateNewWorkspaceTemplateApply(t.Context(), existing, nodeGroupApply(name))
	require.NoError(t, err)
	assert.Empty(t, findings.Errors, "it is as the pool would create it")
}

// TestAControlPlaneDoesNotLeaveItsNodesBehind tests the rules of EKS for an upgrade and a rollback of a cluster with node groups.
func TestAControlPlaneDoesNotLeaveItsNodesBehind(t *testing.T) {
	const path = "spec.version"
	existing := func(running string, pools ...validation.Owner) []validation.Owner {
		return append(pools, builder.Cluster("demo"), builder.WorkspaceTemplateApply("eks", builder.OwnedBy(builder.CAPTControlPlane("demo")), builder.UpToDate(nil),
			builder.WithVariables(map[string]string{"cluster_name": "demo", "kubernetes_version": running}), of("", "eks")))
	}
	blue := func(version string) []validation.Owner {
		return []validation.Owner{builder.MachinePool("blue"), builder.CAPTMachinePool("blue", nodesRun(version))}
	}
	beingUpgraded := []validation.Owner{builder.MachinePool("green"), builder.CAPTMachinePool("green", nodesRun("v1.33.0"), builder.WithApplyRef("green")), nodeGroupApply("green")}
	for title, row := range map[string]row{
		"nodes three minor versions older": {existing: existing("1.34", blue("v1.32.3")...), object: []builder.Option{version("1.35")}},
		"nodes that would be four older": {existing: existing("1.34", append(blue("v1.31.0"), beingUpgraded...)...), object: []builder.Option{version("1.35")},
			refused: refusedIf(path, "EKS does not upgrade the control plane to 1.35 while nodes would be more than 3 minor versions older: CAPTMachinePool blue (1.31). First upgrade these node groups to 1.32 or newer")},
		"no change": {existing: existing("1.35", blue("v1.31.0")...), object: []builder.Option{version("1.35")}},
		"a rollback below the nodes": {existing: existing("1.34", append(blue("v1.34.0"), beingUpgraded...)...), object: []builder.Option{version("1.33")},
			refused: refusedIf(path, "EKS does not roll the control plane back to 1.33 while nodes are newer: CAPTMachinePool blue (1.34), CAPTMachinePool green (1.34). First roll these node groups back to 1.33")},
		"a rollback after the nodes": {existing: existing("1.34", blue("v1.33.0")...), object: []builder.Option{version("1.33")},
			warnings: []string{path + ": the cluster runs 1.34. EKS rolls it back to 1.33 only within seven days"}},
		"nodes of another Cluster": {existing: existing("1.34", builder.CAPTMachinePool("blue", nodesRun("v1.31.0")),
			builder.MachinePool("blue", builder.With(func(m *clusterv1.MachinePool) { m.Spec.ClusterName = "other" }))), object: []builder.Option{version("1.35")}},
		"a pool without nodes yet": {existing: existing("1.34", builder.MachinePool("blue"), builder.CAPTMachinePool("blue")), object: []builder.Option{version("1.35")}},
	} {
		row.object = append(row.object, builder.WithApplyRef("eks"))
		t.Run(title, func(t *testing.T) { row.controlPlane(t) })
	}
}

func TestWhatCAPTWroteIntoAMachinePoolIsKept(t *testing.T) {
	old := builder.CAPTMachinePool("workers", builder.WithApplyRef("workers-nodegroup-apply"), pool(func(p *infrav1.CAPTMachinePool) {
		p.Spec.ProviderID, p.Spec.ProviderIDList = "arn:aws:eks", []string{"aws:///a/i-1"}
	}))
	replaced := builder.CAPTMachinePool("workers")
	validation.RestoreFields(old, replaced)
	assert.Equal(t, old.Spec, replaced.Spec)

	// A manifest that was exported earlier has the nodes of that time: Cluster API would delete the others from the cluster.
	exported := []string{"aws:///a/i-0"}
	replaced.Spec.ProviderIDList = exported
	validation.RestoreFields(old, replaced)
	assert.Equal(t, old.Spec, replaced.Spec)

	builder.WithAnnotation(clusterv1.ManagedByAnnotation, "another controller")(replaced)
	replaced.Spec.ProviderIDList = exported
	validation.RestoreFields(old, replaced)
	assert.Equal(t, exported, replaced.Spec.ProviderIDList)
}
