// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// running is a control plane that runs 1.34, with all that it has.
func running() []validation.Owner {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("eks"), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.Version, c.Status.Version, c.Status.Initialization.ControlPlaneInitialized = "v1.34.0", "v1.34.0", ptr.To(true)
	}))
	apply := builder.WorkspaceTemplateApply("eks", builder.OwnedBy(controlPlane), builder.WithWorkspaceName("eks"), builder.WithConnectionSecret("demo-eks", "default"),
		builder.WithVariables(map[string]string{"cluster_name": "prod", "region": "eu-west-1", "kubernetes_version": "1.34"}))
	captCluster := builder.CAPTCluster("demo", builder.WithRegion("eu-west-1"), builder.With(func(c *infrav1.CAPTCluster) {
		c.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "demo-vpc", WorkspaceName: "demo-vpc"}
	}))
	template := builder.WorkspaceTemplate("nodegroup", builder.Consuming(append(validation.MachinePoolVariables()[1:], "labels")...))
	return []validation.Owner{builder.Cluster("demo"), captCluster, controlPlane, apply, template}
}

func with(objects ...validation.Owner) validation.Objects { return append(running(), objects...) }

// nodeGroup is a pool with what running returns.
func nodeGroup(t *testing.T, machinePool *clusterv1.MachinePool, pool *infrav1.CAPTMachinePool, apply *infrav1.WorkspaceTemplateApply) *desired.MachinePool {
	t.Helper()
	objects := with()
	controlPlane := desired.NewControlPlane(objects[2].(*controlplanev1.CAPTControlPlane), objects[0].(*clusterv1.Cluster), objects[1].(*infrav1.CAPTCluster))
	controlPlane.Apply = objects[3].(*infrav1.WorkspaceTemplateApply)
	m := &desired.MachinePool{Pool: pool, MachinePool: machinePool, ControlPlane: controlPlane, Existing: desired.Existing{Apply: apply}}
	facts := desired.Template(pool.Spec.WorkspaceTemplateRef.Key(pool.Namespace), objects[4].(*infrav1.WorkspaceTemplate), nil, nil)
	m.Template = &facts
	return m
}

func annotated(annotation, value string) builder.Option {
	return builder.WithAnnotation(annotation, value)
}

func TestTheApplyOfANodeGroup(t *testing.T) {
	pool := builder.CAPTMachinePool("workers", builder.WithScaling(1, 5), builder.With(func(p *infrav1.CAPTMachinePool) {
		p.Spec.WorkspaceTemplateRef.Namespace = "shared"
	}))
	m := nodeGroup(t, builder.MachinePool("workers"), pool, nil)
	require.Nil(t, m.Blocked())
	configuration, err := m.Want().Configuration(pool, metav1.NewControllerRef(pool, infrav1.GroupVersion.WithKind("CAPTMachinePool")), nil)
	require.NoError(t, err)
	assert.Equal(t, "workers-nodegroup-apply", configuration.GetName())
	assert.Equal(t, "demo", configuration.GetLabels()[clusterv1.ClusterNameLabel])
	apply, err := desired.Applied(nil, configuration, "x")
	require.NoError(t, err)
	assert.Equal(t, infrav1.WorkspaceTemplateReference{Name: "nodegroup", Namespace: "shared"}, apply.Spec.TemplateRef)
	assert.Equal(t, []infrav1.WorkspaceDependency{{Name: "eks", Namespace: "default"}, {Name: "demo-vpc", Namespace: "default"}}, apply.Spec.WaitForWorkspaces,
		"it is created after them, and destroyed before")
	assert.Equal(t, "workers-nodegroup-connection", apply.Spec.WriteConnectionSecretToRef.Name)

	pool.Spec.WorkspaceTemplateApplyRef.Name = "by-hand"
	assert.Equal(t, "by-hand", nodeGroup(t, builder.MachinePool("workers"), pool, nil).Want().ApplyName())
}

func TestVariablesOfANodeGroup(t *testing.T) {
	pool := builder.CAPTMachinePool("workers", builder.WithScaling(1, 5), builder.With(func(p *infrav1.CAPTMachinePool) {
		p.Spec.NodeGroupName, p.Spec.Variables = "blue", infrav1.TextVariables(map[string]string{"labels": "a", "desired_size": "9"})
	}))
	m := nodeGroup(t, builder.MachinePool("workers", builder.WithReplicas(3)), pool, nil)
	require.Nil(t, m.Blocked())
	assert.Equal(t, map[string]string{
		"cluster_name": "prod", "region": "eu-west-1", "nodegroup_name": "blue", "kubernetes_version": "1.34", "min_size": "1", "max_size": "5", "desired_size": "3",
		"eks_connection_secret": "demo-eks", "vpc_connection_secret": "demo-vpc-connection", "labels": "a",
	}, m.Want().Intent.Variables.Texts())
	m.Pool.Spec.NodeGroupName = ""
	m.MachinePool.Spec.Template.Spec.Version = "v1.33.2"
	assert.Equal(t, "workers", m.Want().Intent.Variables.Text("nodegroup_name"))
	assert.Equal(t, "1.33", m.Want().Intent.Variables.Text("kubernetes_version"))
}

func TestSizesOfANodeGroup(t *testing.T) {
	managed := annotated(clusterv1.ReplicasManagedByAnnotation, "autoscaler")
	for title, row := range map[string]struct {
		pool, machinePool []builder.Option
		lower, upper      int32
		desired           *int32
		outOfBounds, err  string
	}{
		"replicas only":              {machinePool: []builder.Option{builder.WithReplicas(3)}, lower: 3, upper: 3, desired: ptr.To[int32](3)},
		"none":                       {machinePool: []builder.Option{builder.WithReplicas(0)}, upper: 1, desired: ptr.To[int32](0)},
		"within the limits":          {pool: []builder.Option{builder.WithScaling(1, 5)}, machinePool: []builder.Option{builder.WithReplicas(3)}, lower: 1, upper: 5, desired: ptr.To[int32](3)},
		"absent replicas":            {pool: []builder.Option{builder.WithScaling(2, 5)}, lower: 2, upper: 5, desired: ptr.To[int32](2)},
		"a minimum above the size":   {pool: []builder.Option{builder.WithScaling(4, 5)}, machinePool: []builder.Option{builder.WithReplicas(3)}, lower: 4, upper: 5, desired: ptr.To[int32](4), outOfBounds: "MachinePool workers has 3 replicas, and its node group may have 4 to 5"},
		"annotations win":            {pool: []builder.Option{builder.WithScaling(4, 5)}, machinePool: []builder.Option{builder.WithReplicas(8), annotated(clusterv1.AutoscalerMaxSizeAnnotation, "9")}, lower: 4, upper: 9, desired: ptr.To[int32](8)},
		"another client":             {pool: []builder.Option{builder.WithScaling(1, 5)}, machinePool: []builder.Option{builder.WithReplicas(9), managed}, lower: 1, upper: 5},
		"another client, no maximum": {machinePool: []builder.Option{managed}, err: "spec.scaling.maxSize is required"},
		"not a number":               {machinePool: []builder.Option{annotated(clusterv1.AutoscalerMinSizeAnnotation, "many")}, err: "is not a number of nodes"},
		"contradicting limits":       {pool: []builder.Option{builder.WithScaling(4, 5)}, machinePool: []builder.Option{annotated(clusterv1.AutoscalerMaxSizeAnnotation, "3")}, err: "the minimum size 4 is above the maximum size 3"},
	} {
		t.Run(title, func(t *testing.T) {
			m := nodeGroup(t, builder.MachinePool("workers", row.machinePool...), builder.CAPTMachinePool("workers", row.pool...), nil)
			size, err := m.Size()
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []any{row.lower, row.upper, row.desired}, []any{size.Min, size.Max, size.Desired})
			if row.outOfBounds == "" {
				assert.Empty(t, size.OutOfBounds)
			}
			assert.Contains(t, size.OutOfBounds, row.outOfBounds)
		})
	}
}

// byHand is a node group that a user has created, with the variables of a pool with 3 nodes.
func byHand(change map[string]string) *infrav1.WorkspaceTemplateApply {
	variables := map[string]string{
		"cluster_name": "prod", "region": "eu-west-1", "nodegroup_name": "workers", "kubernetes_version": "1.34", "min_size": "3", "max_size": "3", "desired_size": "3",
		"eks_connection_secret": "demo-eks", "vpc_connection_secret": "demo-vpc-connection", "labels": "a", "unused": "x",
	}
	for name, value := range change {
		variables[name] = value
	}
	return builder.WorkspaceTemplateApply("by-hand", builder.WithVariables(variables), builder.WithWorkspaceName("by-hand"),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "nodegroup" }))
}

func TestANodeGroupThatExistsIsTakenOverOnlyUnchanged(t *testing.T) {
	pool := func(options ...builder.Option) *infrav1.CAPTMachinePool {
		return builder.CAPTMachinePool("workers", append(options, builder.WithApplyRef("by-hand"), builder.WithVariables(map[string]string{"labels": "a"}))...)
	}
	const path = "spec.workspaceTemplateApplyRef.name"
	for title, row := range map[string]struct {
		apply    *infrav1.WorkspaceTemplateApply
		replicas int32
		refused  []string
	}{
		"unchanged":         {apply: byHand(nil), replicas: 3},
		"without a use":     {apply: byHand(map[string]string{"unused": "y"}), replicas: 3},
		"another size":      {apply: byHand(nil), replicas: 2, refused: []string{"the use of WorkspaceTemplateApply by-hand would change what Terraform applies", `variable desired_size from "3" to "2"`, `variable min_size from "3" to "2"`}},
		"another value":     {apply: byHand(map[string]string{"labels": "hunter2"}), replicas: 3, refused: []string{"variable labels. Give"}},
		"no value":          {apply: byHand(map[string]string{"kubernetes_version": "1.33"}), replicas: 3, refused: []string{`variable kubernetes_version from "1.33" to "1.34"`}},
		"cannot be changed": {apply: byHand(map[string]string{"region": "eu-west-2"}), replicas: 3}, // It keeps its own.
	} {
		t.Run(title, func(t *testing.T) {
			machinePool := builder.MachinePool("workers", builder.WithReplicas(row.replicas))
			blocked := nodeGroup(t, machinePool, pool(), row.apply).Blocked()
			errs, err := desired.ValidateTakeover(t.Context(), with(machinePool, pool(), row.apply), pool())
			require.NoError(t, err)
			if row.refused == nil {
				assert.Nil(t, blocked)
				assert.Empty(t, errs)
				return
			}
			require.NotNil(t, blocked)
			require.Len(t, errs, 1, "admission and controller agree")
			assert.Equal(t, path, errs[0].Field)
			for _, part := range row.refused {
				assert.Contains(t, blocked.Message, part)
				assert.Contains(t, errs[0].Detail, part)
			}
			assert.NotContains(t, blocked.Message, "hunter2", "values of users may be secrets")
			row.apply.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pool(), infrav1.GroupVersion.WithKind("CAPTMachinePool"))}
			assert.Nil(t, nodeGroup(t, machinePool, pool(), row.apply).Blocked(), "the pool has it already")
		})
	}
}

func TestASecondPoolDoesNotGetTheNodeGroupOfAnother(t *testing.T) {
	older := validation.NodeGroup{MachinePool: builder.MachinePool("workers"), Pool: builder.CAPTMachinePool("a")}
	older.Pool.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "x"}
	m := nodeGroup(t, builder.MachinePool("workers"), builder.CAPTMachinePool("workers", builder.WithScaling(1, 2)), nil)
	require.Nil(t, m.Blocked())
	m.NodeGroups = []validation.NodeGroup{older}
	blocked := m.Blocked()
	require.NotNil(t, blocked)
	assert.Equal(t, infrav1.InvalidNodeGroupNameReason, blocked.Reason)
	assert.Contains(t, blocked.Message, "nothing is created: node group workers is that of CAPTMachinePool a")
}

func TestNodesBlockAVersionOfTheControlPlane(t *testing.T) {
	c := nodeGroup(t, builder.MachinePool("workers"), builder.CAPTMachinePool("workers"), nil).ControlPlane
	c.Cluster.Status.Initialization.InfrastructureProvisioned, c.CAPTCluster.Status.VPC.ID = ptr.To(true), "vpc-1"
	c.Template = &desired.TemplateFacts{Key: c.Apply.TemplateKey()}
	c.ControlPlane.Spec.Version = "v1.35.0"
	c = &desired.ControlPlane{ControlPlane: c.ControlPlane, Cluster: c.Cluster, CAPTCluster: c.CAPTCluster, Existing: c.Existing, Template: c.Template}
	c.Version, c.VersionError = validation.ParseKubernetesVersion(c.ControlPlane.Spec.Version)
	require.Nil(t, c.Blocked())
	old := builder.CAPTMachinePool("old")
	old.Status.Version = "v1.31.1"
	c.NodeGroups = []validation.NodeGroup{{Pool: old}}
	blocked := c.Blocked()
	require.NotNil(t, blocked)
	assert.Equal(t, infrav1.InvalidVersionReason, blocked.Reason)
	assert.Contains(t, blocked.Message, "spec.version: EKS does not upgrade the control plane to 1.35 while nodes would be more than 3 minor versions older: CAPTMachinePool old (1.31)")
}

// TestMachinePoolsThatCannotWork tests what the webhook for MachinePools of Cluster API refuses.
func TestMachinePoolsThatCannotWork(t *testing.T) {
	version := func(text string) builder.Option {
		return builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = text })
	}
	limited := builder.CAPTMachinePool("workers", builder.WithScaling(1, 5))
	for title, row := range map[string]struct {
		existing    []validation.Owner
		machinePool *clusterv1.MachinePool
		path, text  string
	}{
		"within the limits":            {existing: with(limited), machinePool: builder.MachinePool("workers", builder.WithReplicas(5), version("v1.34.1"))},
		"above the maximum":            {existing: with(limited), machinePool: builder.MachinePool("workers", builder.WithReplicas(6)), path: "spec.replicas", text: "MachinePool workers has 6 replicas, and its node group may have 1 to 5"},
		"below the minimum":            {existing: with(limited), machinePool: builder.MachinePool("workers", builder.WithReplicas(0)), path: "spec.replicas", text: "MachinePool workers has 0 replicas"},
		"before its CAPTMachinePool":   {existing: with(), machinePool: builder.MachinePool("workers", builder.WithReplicas(6))},
		"newer than the control plane": {existing: with(), machinePool: builder.MachinePool("workers", version("v1.35.0")), path: "spec.template.spec.version", text: "the control plane has 1.34, and nodes cannot be newer"},
		"too old":                      {existing: with(), machinePool: builder.MachinePool("workers", version("v1.30.0")), path: "spec.template.spec.version", text: "nodes can be at most 3 minor versions older"},
		"no version":                   {existing: with(), machinePool: builder.MachinePool("workers", version("latest")), path: "spec.template.spec.version", text: "is not a Kubernetes version"},
		"without a Cluster":            {machinePool: builder.MachinePool("workers", version("v1.35.0"))},
		"an invalid annotation":        {machinePool: builder.MachinePool("workers", annotated(clusterv1.AutoscalerMinSizeAnnotation, "-1")), path: "metadata.annotations", text: "is not a number of nodes"},
		"an autoscaler without limits": {existing: with(builder.CAPTMachinePool("workers")), machinePool: builder.MachinePool("workers", annotated(clusterv1.ReplicasManagedByAnnotation, "x")),
			path: "metadata.annotations", text: "spec.scaling.maxSize is required"},
		"a name that EKS refuses": {existing: with(builder.CAPTMachinePool("my.workers")), machinePool: builder.MachinePool("my.workers"), path: "metadata.name", text: `EKS does not accept "my.workers"`},
		"of another provider": {existing: with(limited), machinePool: builder.MachinePool("workers", builder.WithReplicas(6), builder.With(func(m *clusterv1.MachinePool) {
			m.Spec.Template.Spec.InfrastructureRef.Kind = "AWSMachinePool"
		}))},
	} {
		t.Run(title, func(t *testing.T) {
			errs, err := desired.ValidateMachinePool(t.Context(), validation.Objects(row.existing), row.machinePool)
			require.NoError(t, err)
			if row.text == "" {
				assert.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			assert.Equal(t, row.path, errs[0].Field)
			assert.Contains(t, errs[0].Detail, row.text)
		})
	}
}
