// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// machinePool makes a pool with three nodes that nothing blocks; its control plane runs 1.31.
func machinePool(changes ...func(*MachinePool)) *MachinePool {
	controlPlane := builder.CAPTControlPlane("plane", builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Initialization.ControlPlaneInitialized, c.Status.Version = ptr.To(true), "v1.31.0"
	}))
	captCluster := builder.CAPTCluster("net", builder.With(func(c *infrav1.CAPTCluster) {
		c.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: "net-vpc", WorkspaceName: "net-vpc"}
	}))
	cluster := builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef.Name, c.Spec.InfrastructureRef.Name = "plane", "net"
	}))
	m := &MachinePool{
		Pool: builder.CAPTMachinePool("workers"), MachinePool: builder.MachinePool("pool", builder.WithReplicas(3)),
		ControlPlane: NewControlPlane(controlPlane, cluster, captCluster), Template: &TemplateFacts{},
	}
	m.ControlPlane.Apply = builder.WorkspaceTemplateApply("plane-eks", builder.WithWorkspaceName("plane-workspace"),
		builder.WithConnectionSecret("plane-secret", builder.Namespace), builder.WithVariables(map[string]string{"cluster_name": "eks-demo", "region": "eu-west-1"}))
	for _, change := range changes {
		change(m)
	}
	return m
}

// of changes the objects of a pool with options of builders.
func of(pool, machinePool []builder.Option) func(*MachinePool) {
	return func(m *MachinePool) {
		for _, option := range pool {
			option(m.Pool)
		}
		for _, option := range machinePool {
			option(m.MachinePool)
		}
	}
}

func TestTheSizeOfANodeGroup(t *testing.T) {
	limits := func(lower, upper *int32) []builder.Option {
		return []builder.Option{builder.With(func(pool *infrav1.CAPTMachinePool) {
			pool.Spec.Scaling = infrav1.MachinePoolScaling{MinSize: lower, MaxSize: upper}
		})}
	}
	least := func(value string) builder.Option {
		return builder.WithAnnotation(clusterv1.AutoscalerMinSizeAnnotation, value)
	}
	most := func(value string) builder.Option {
		return builder.WithAnnotation(clusterv1.AutoscalerMaxSizeAnnotation, value)
	}
	by := func(value string) builder.Option {
		return builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, value)
	}
	without := builder.With(func(m *clusterv1.MachinePool) { m.Spec.Replicas = nil })
	n, replicas := ptr.To[int32], builder.WithReplicas
	for name, row := range map[string]struct {
		pool, machinePool []builder.Option
		lower, upper      int32
		wanted            *int32
		outOfBounds       bool
		overridden        []string
		err               string
	}{
		"replicas alone":               {nil, nil, 3, 3, n(3), false, nil, ""},
		"no nodes":                     {nil, []builder.Option{replicas(0)}, 0, 1, n(0), false, nil, ""},
		"limits":                       {limits(n(1), n(10)), nil, 1, 10, n(3), false, nil, ""},
		"at the limits":                {limits(n(3), n(3)), nil, 3, 3, n(3), false, nil, ""},
		"only a minimum":               {limits(n(1), nil), nil, 1, 3, n(3), false, nil, ""},
		"only a maximum":               {limits(nil, n(10)), nil, 3, 10, n(3), false, nil, ""},
		"a minimum of 0":               {limits(n(0), n(5)), []builder.Option{replicas(0)}, 0, 5, n(0), false, nil, ""},
		"no replicas":                  {nil, []builder.Option{without}, 1, 1, n(1), false, nil, ""},
		"no replicas, a minimum":       {limits(n(2), n(4)), []builder.Option{without}, 2, 4, n(2), false, nil, ""},
		"no replicas, a minimum of 0":  {limits(n(0), nil), []builder.Option{without}, 0, 1, n(0), false, nil, ""},
		"no replicas, annotated":       {nil, []builder.Option{without, least("4")}, 4, 4, n(4), false, nil, ""},
		"below the minimum":            {limits(n(5), n(10)), nil, 5, 10, n(5), true, nil, ""},
		"below, without maximum":       {limits(n(5), nil), nil, 5, 5, n(5), true, nil, ""},
		"above the maximum":            {limits(n(1), n(2)), nil, 1, 2, n(2), true, nil, ""},
		"above, without minimum":       {limits(nil, n(2)), nil, 2, 2, n(2), true, nil, ""},
		"annotations":                  {nil, []builder.Option{least("2"), most("8")}, 2, 8, n(3), false, nil, ""},
		"annotations win":              {limits(n(1), n(4)), []builder.Option{least("2"), most("8")}, 2, 8, n(3), false, []string{"spec.scaling.minSize", "spec.scaling.maxSize"}, ""},
		"annotations that agree":       {limits(n(2), n(8)), []builder.Option{least("2"), most("8")}, 2, 8, n(3), false, nil, ""},
		"out of the annotations":       {limits(n(1), n(9)), []builder.Option{most("2")}, 1, 2, n(2), true, []string{"spec.scaling.maxSize"}, ""},
		"managed externally":           {limits(n(1), n(9)), []builder.Option{by("autoscaler")}, 1, 9, nil, false, nil, ""},
		"externally, by an empty name": {limits(n(1), n(9)), []builder.Option{by("")}, 1, 9, nil, false, nil, ""},
		"externally, beyond":           {limits(n(1), n(2)), []builder.Option{by("x"), replicas(30)}, 1, 2, nil, false, nil, ""},
		"externally, only a maximum":   {limits(nil, n(9)), []builder.Option{by("x")}, 0, 9, nil, false, nil, ""},
		"externally, by annotations":   {nil, []builder.Option{by("x"), most("7")}, 0, 7, nil, false, nil, ""},
		"by Cluster API, annotated":    {limits(n(1), n(9)), []builder.Option{by("false")}, 1, 9, n(3), false, nil, ""},

		"externally, without maximum": {limits(n(1), nil), []builder.Option{by("x")}, 0, 0, nil, false, nil, "spec.scaling.maxSize is required: the annotation cluster.x-k8s.io/replicas-managed-by of MachinePool pool says that another client manages the replicas"},
		"the minimum above":           {limits(nil, n(2)), []builder.Option{least("5")}, 0, 0, nil, false, nil, "the minimum size 5 is above the maximum size 2. Correct spec.scaling, or the annotations"},
		"above, externally":           {limits(n(5), n(2)), []builder.Option{by("x")}, 0, 0, nil, false, nil, "the minimum size 5 is above the maximum size 2"},
		"no number":                   {nil, []builder.Option{least("two")}, 0, 0, nil, false, nil, "annotation " + clusterv1.AutoscalerMinSizeAnnotation + " of MachinePool pool is not a number of nodes. Correct or remove it"},
		"negative":                    {nil, []builder.Option{most("-1")}, 0, 0, nil, false, nil, "annotation " + clusterv1.AutoscalerMaxSizeAnnotation},
		"too many":                    {nil, []builder.Option{most("2147483648")}, 0, 0, nil, false, nil, "is not a number of nodes"},
		"a maximum of 0":              {nil, []builder.Option{most("0"), replicas(0)}, 0, 0, nil, false, nil, "is not a number of nodes"},
		"empty":                       {nil, []builder.Option{most("")}, 0, 0, nil, false, nil, "is not a number of nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machinePool(of(row.pool, row.machinePool))
			got, err := m.Size()
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				assert.Equal(t, infrav1.InvalidScalingReason, m.Blocked().Reason)
				return
			}
			require.NoError(t, err)
			assert.Nil(t, m.Blocked())
			assert.Equal(t, []int32{row.lower, row.upper}, []int32{got.Min, got.Max})
			assert.Equal(t, row.wanted, got.Desired)
			assert.Equal(t, row.outOfBounds, got.OutOfBounds != "", got.OutOfBounds)
			var overridden []string
			for _, e := range got.Overridden {
				overridden = append(overridden, e.Field)
				assert.Contains(t, e.Detail, "has no effect: annotation ")
			}
			assert.Equal(t, row.overridden, overridden)
		})
	}
	got, err := machinePool(of(limits(n(5), n(10)), nil)).Size()
	require.NoError(t, err)
	assert.Equal(t, "MachinePool pool has 3 replicas, and its node group may have 5 to 10: the nearest size is 5. Scale the MachinePool, or change spec.scaling of CAPTMachinePool workers", got.OutOfBounds)
}

func TestWhatBlocksANodeGroup(t *testing.T) {
	deleting := TemplateFacts{Template: builder.WorkspaceTemplate("nodegroup", builder.Deleting())}
	// The rows are in the order of the rules: each row has what all rows below it have, too, so that it is reported first.
	rows := []struct {
		reason, message string
		change          func(*MachinePool)
	}{
		{infrav1.InvalidVersionReason, "spec.template.spec.version of MachinePool pool: ", func(m *MachinePool) { m.MachinePool.Spec.Template.Spec.Version = "v1.99.0" }},
		{infrav1.InvalidScalingReason, "is not a number of nodes", func(m *MachinePool) {
			m.MachinePool.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "x"}
		}},
		{infrav1.WaitingForControlPlaneReason, "waiting for CAPTControlPlane plane to be initialized", func(m *MachinePool) {
			m.ControlPlane.ControlPlane.Status.Initialization.ControlPlaneInitialized = nil
		}},
		{infrav1.TemplateDeletingReason, "", func(m *MachinePool) { m.Template = &deleting }},
		{infrav1.ReferenceConflictReason, "of another", func(m *MachinePool) { m.Conflict = "of another" }},
		{infrav1.AdoptionRequiredReason, "decide", func(m *MachinePool) { m.Undecided = "decide" }},
		{infrav1.InvalidNodeGroupNameReason, `EKS does not accept "pool.blue" as the name of a node group`, func(m *MachinePool) { m.MachinePool.Name = "pool.blue" }},
		{infrav1.WaitingForOwnerReason, "no MachinePool owns this object. Create a MachinePool whose spec.template.spec.infrastructureRef names it", func(m *MachinePool) { m.MachinePool = nil }},
	}
	m := machinePool()
	assert.Nil(t, m.Blocked())
	for _, row := range rows {
		row.change(m)
		blocked := m.Blocked()
		require.NotNil(t, blocked, row.reason)
		assert.Equal(t, row.reason, blocked.Reason)
		assert.Contains(t, blocked.Message, row.message)
	}
	assert.True(t, m.TemplateBlocks())

	m = machinePool()
	m.Conflict, m.ControlPlane.Apply = "of another", nil
	assert.Equal(t, infrav1.WaitingForControlPlaneReason, m.Blocked().Reason, "its WorkspaceTemplateApply may have the name of the EKS cluster")
	assert.False(t, m.ControlPlaneReady())
	assert.True(t, machinePool().ControlPlaneReady())
	assert.False(t, machinePool().TemplateBlocks())
}

func TestATemplateInDeletionBlocksOnlyNewPools(t *testing.T) {
	key := infrav1.WorkspaceTemplateReference{Name: "nodegroup"}.Key(builder.Namespace)
	for name, row := range map[string]struct {
		change func(*MachinePool)
		blocks bool
	}{
		"new": {func(*MachinePool) {}, true},
		"it uses it": {func(m *MachinePool) {
			m.Apply = builder.WorkspaceTemplateApply("x")
			m.Apply.Spec.TemplateRef.Name = "nodegroup"
		}, false},
		"it uses another":       {func(m *MachinePool) { m.Apply = builder.WorkspaceTemplateApply("x") }, true},
		"its node group exists": {func(m *MachinePool) { m.Pool.Spec.ProviderID = "arn" }, false},
		"it is being deleted":   {func(m *MachinePool) { builder.Deleting()(m.Pool) }, false},
	} {
		m := machinePool(row.change)
		m.Template = &TemplateFacts{Key: key, Template: builder.WorkspaceTemplate("nodegroup", builder.Deleting())}
		assert.Equal(t, row.blocks, m.TemplateBlocks(), name)
	}
}

func TestWhatAPoolWaitsForAtItsControlPlane(t *testing.T) {
	for want, change := range map[string]func(*MachinePool){
		"waiting for Cluster demo, which does not exist. Create it, or correct spec.clusterName of the MachinePool": func(m *MachinePool) { m.ControlPlane = nil },
		"waiting for Cluster demo, which does not exist. ":                                                          func(m *MachinePool) { m.ControlPlane = &ControlPlane{} },
		"the control plane of Cluster demo is not a CAPTControlPlane, and CAPT creates node groups only for its":    func(m *MachinePool) { m.ControlPlane.Cluster.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane" },
		"waiting for CAPTControlPlane plane, which does not exist. Create it, or correct spec.controlPlaneRef":      func(m *MachinePool) { m.ControlPlane.ControlPlane = nil },
		"waiting for CAPTControlPlane plane to be initialized":                                                      func(m *MachinePool) { m.ControlPlane.Apply = nil },
		"CAPTControlPlane plane to be initialized":                                                                  func(m *MachinePool) { m.ControlPlane.Apply.Spec.WorkspaceName = "" },
	} {
		m := machinePool(change)
		blocked := m.Blocked()
		require.NotNil(t, blocked, want)
		assert.Equal(t, infrav1.WaitingForControlPlaneReason, blocked.Reason)
		assert.Contains(t, blocked.Message, want)
		assert.False(t, m.ControlPlaneReady(), want)
	}
}

func TestTheVersionOfANodeGroup(t *testing.T) {
	for name, row := range map[string]struct {
		pool, applied, runs, wanted string
		eks, reason, message        string
	}{
		"that of the control plane":        {"", "", "v1.31.4", "v1.31.4", "1.31", "", ""},
		"empty during an upgrade":          {"", "", "v1.31.0", "v1.32.0", "1.31", "", ""},
		"before the first status":          {"", "", "", "v1.31.0", "1.31", "", ""},
		"its own":                          {"v1.30.2", "", "v1.31.0", "v1.31.0", "1.30", "", ""},
		"three minors older":               {"v1.28.0", "", "v1.31.0", "v1.31.0", "1.28", "", ""},
		"four minors older":                {"v1.27.0", "", "v1.31.0", "v1.31.0", "", infrav1.InvalidVersionReason, "spec.template.spec.version of MachinePool pool: the control plane has 1.31, and nodes can be at most 3 minor versions older. Use 1.28 or newer"},
		"newer":                            {"v1.32.0", "", "v1.31.0", "v1.31.0", "", infrav1.InvalidVersionReason, "Upgrade the control plane to 1.32 first"},
		"newer, and an upgrade runs":       {"v1.32.0", "", "v1.31.0", "v1.32.0", "", infrav1.WaitingForVersionReason, "waiting for CAPTControlPlane plane to run 1.32: the control plane has 1.31"},
		"newer than the upgrade":           {"v1.33.0", "", "v1.31.0", "v1.32.0", "", infrav1.InvalidVersionReason, "Upgrade the control plane to 1.33 first"},
		"applied already, so no change":    {"v1.32.0", "1.32", "v1.31.0", "v1.31.0", "1.32", "", ""},
		"another one is applied":           {"v1.32.0", "1.31", "v1.31.0", "v1.31.0", "", infrav1.InvalidVersionReason, "nodes cannot be newer"},
		"no version":                       {"latest", "", "v1.31.0", "v1.31.0", "", infrav1.InvalidVersionReason, "spec.template.spec.version of MachinePool pool: "},
		"the one of a rollback by a minor": {"", "1.32", "v1.31.0", "v1.31.0", "1.31", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := machinePool(func(m *MachinePool) {
				m.MachinePool.Spec.Template.Spec.Version = row.pool
				m.ControlPlane.ControlPlane.Status.Version, m.ControlPlane.ControlPlane.Spec.Version = row.runs, row.wanted
				if row.applied != "" {
					m.Apply = builder.WorkspaceTemplateApply("x", builder.OwnedBy(m.Pool), builder.WithVariables(map[string]string{naming.VersionVariable: row.applied}))
				}
			})
			blocked := m.Blocked()
			if row.reason == "" {
				require.Nil(t, blocked)
				assert.Equal(t, row.eks, m.Want().Intent.Variables.Text(naming.VersionVariable))
				return
			}
			require.NotNil(t, blocked)
			assert.Equal(t, row.reason, blocked.Reason)
			assert.Contains(t, blocked.Message, row.message)
		})
	}
}

func TestTheWorkspaceTemplateApplyOfANodeGroup(t *testing.T) {
	users := map[string]string{"instance_types": "m7g.large"}
	for _, variable := range validation.MachinePoolVariables() {
		users[variable] = "of the user"
	}
	m := machinePool(of([]builder.Option{builder.WithVariables(users), builder.WithScaling(1, 10)}, nil))
	before := m.Pool.DeepCopy()
	want := m.Want()
	assert.Equal(t, before, m.Pool)
	variables := map[string]string{}
	for name, value := range want.Intent.Variables {
		variables[name] = string(value.Raw)
	}
	assert.Equal(t, map[string]string{
		"cluster_name": `"eks-demo"`, "region": `"eu-west-1"`, "nodegroup_name": `"pool"`, "kubernetes_version": `"1.31"`, "instance_types": `"m7g.large"`,
		"min_size": "1", "max_size": "10", "desired_size": "3", naming.EKSConnectionVariable: `"plane-secret"`, naming.VPCConnectionVariable: `"net-vpc-connection"`,
	}, variables, "sizes are numbers, and CAPT's own win")
	assert.ElementsMatch(t, append(validation.MachinePoolVariables(), "instance_types"), slices.Collect(maps.Keys(variables)), "admission warns of variables that have no effect")
	assert.Equal(t, []infrav1.WorkspaceDependency{{Name: "plane-workspace", Namespace: "default"}, {Name: "net-vpc", Namespace: "default"}}, want.WaitForWorkspaces)
	assert.Equal(t, []infrav1.SecretDependency{{Name: "net-vpc-connection", Namespace: "default", Keys: []string{terraform.OutputVPCConfig}}}, want.WaitForSecrets)
	assert.Equal(t, []string{naming.MachinePoolWorkspaceTemplateApply("workers"), "demo", "nodegroup", naming.MachinePoolConnectionSecret("workers")},
		[]string{want.ApplyName(), want.ClusterName, want.Template.Name, want.Intent.ConnectionSecret})
	assert.Empty(t, want.DeletionPolicy)

	external := machinePool(of([]builder.Option{builder.WithScaling(1, 10), builder.WithVariables(map[string]string{"desired_size": "5"})},
		[]builder.Option{builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, "autoscaler")})).Want()
	assert.False(t, external.Intent.Variables.Has("desired_size"), "not even that of the user, which would reset the autoscaler's")
	encoded, err := json.Marshal(external.Intent.Variables)
	require.NoError(t, err)
	assert.Contains(t, string(encoded), `"max_size":10,"min_size":1`)

	named := machinePool(func(m *MachinePool) {
		m.Pool.Spec.NodeGroupName, m.Pool.Spec.WorkspaceTemplateApplyRef.Name, m.ControlPlane.CAPTCluster = "blue", "by-hand", nil
		m.ControlPlane.ControlPlane.Spec.Region = "eu-west-1"
	}).Want()
	assert.Equal(t, []string{"blue", "by-hand"}, []string{named.Intent.Variables.Text("nodegroup_name"), named.ApplyName()})
	assert.Equal(t, []infrav1.WorkspaceDependency{{Name: "plane-workspace", Namespace: "default"}}, named.WaitForWorkspaces, "the VPC is of another provider")
	assert.Empty(t, named.WaitForSecrets)
}

func TestTheNameOfANodeGroup(t *testing.T) {
	assert.Equal(t, "pool", machinePool().NodeGroupName())
	unowned := machinePool(func(m *MachinePool) { m.MachinePool = nil })
	assert.Empty(t, unowned.NodeGroupName())
	unowned.Pool.Spec.NodeGroupName = "blue"
	assert.Equal(t, "blue", unowned.NodeGroupName())
}
