// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/test/sandbox/process"
)

func existing(status Status, version string, worker process.ID) *NodeGroup {
	return &NodeGroup{
		Name: "workers", operation: operation{Status: status, Worker: worker}, Version: version, Scaling: Scaling{Min: 1, Max: 3, Desired: 3},
		InstanceTypes: []string{"m7g.large"},
	}
}

func TestNodeGroupsFollowTheRulesOfEKS(t *testing.T) {
	self, err := process.Identify(os.Getpid())
	require.NoError(t, err)
	const version = "InvalidParameterException: Nodegroup Kubernetes version should be equal to Cluster kubernetes version 1.35"
	const busy = "ResourceInUseException: Nodegroup cannot be updated as it is currently not in Active State"
	idle := process.ID{}
	for name, test := range map[string]struct {
		existing *NodeGroup
		version  string
		size     Scaling
		refused  string
		status   Status
	}{
		"new":                       {size: Scaling{1, 3, 2}, status: Creating},
		"new and empty":             {size: Scaling{0, 3, 0}, status: Creating},
		"new and three versions":    {version: "v1.32.1", size: Scaling{1, 3, 2}, status: Creating},
		"new and too old":           {version: "1.31", size: Scaling{1, 3, 2}, refused: version},
		"new and too new":           {version: "1.36", size: Scaling{1, 3, 2}, refused: version},
		"new and below its bound":   {size: Scaling{2, 3, 1}, refused: "InvalidParameterException: minSize can't be greater than desiredSize"},
		"new and without a maximum": {size: Scaling{0, 0, 0}, refused: "InvalidParameterException: minSize must be at least 0, and maxSize at least 1"},
		"updated":                   {existing: existing(Active, "1.34", idle), size: Scaling{1, 3, 2}, status: Updating},
		"rolled back":               {existing: existing(Active, "1.35", idle), version: "1.34", size: Scaling{1, 3, 3}, status: Updating},
		"updated too far": {existing: existing(Active, "1.34", idle), version: "1.36", size: Scaling{1, 3, 3},
			refused: version + " or NodeGroup kubernetes version 1.34"},
		"updated below its bound": {existing: existing(Active, "1.35", idle), size: Scaling{5, 5, 3},
			refused: "InvalidParameterException: Minimum capacity 5 can't be greater than desired size 3"},
		"updated above its bound": {existing: existing(Active, "1.35", idle), size: Scaling{1, 3, 4},
			refused: "InvalidParameterException: desiredSize can't be greater than maxSize"},
		"two updates":               {existing: existing(Updating, "1.35", self), size: Scaling{1, 3, 2}, refused: busy},
		"degraded":                  {existing: existing(Degraded, "1.35", idle), size: Scaling{1, 3, 2}, refused: busy},
		"after an update was lost":  {existing: existing(Updating, "1.35", idle), size: Scaling{1, 3, 2}, status: Updating},
		"after a failed creation":   {existing: existing(CreateFailed, "1.35", idle), size: Scaling{1, 3, 2}, status: Creating},
		"after a creation was lost": {existing: existing(Creating, "1.35", idle), size: Scaling{1, 3, 2}, status: Creating},
	} {
		t.Run(name, func(t *testing.T) {
			group, err := admit(test.existing, NodeGroup{Name: "workers", Version: test.version, Scaling: test.size, InstanceTypes: []string{"m7i.large"}}, "1.35")
			if test.refused != "" {
				require.EqualError(t, err, test.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.status, group.Status)
			require.Contains(t, []string{"1.32", "1.34", "1.35"}, group.Version)
			if test.existing != nil {
				require.Equal(t, test.existing.InstanceTypes, group.InstanceTypes, "EKS cannot change them")
			}
		})
	}
}

// server has an endpoint and node groups, which is all that the rules for clusters require.
func server(t *testing.T, groups ...*NodeGroup) Server {
	t.Helper()
	s := Server{Dir: t.TempDir(), Name: "demo"}
	for _, group := range groups {
		require.NoError(t, s.groups().write(group.Name, *group))
	}
	require.NoError(t, os.MkdirAll(s.Folder(), 0o700))
	require.NoError(t, process.WriteFile(s.file("endpoint"), []byte("https://127.0.0.1:1")))
	return s
}

func TestTheControlPlaneFitsToItsNodes(t *testing.T) {
	old, current := existing(Active, "1.31", process.ID{}), existing(Active, "1.34", process.ID{})
	old.Name = "old"
	s := server(t, current, old)
	require.NoError(t, s.requireNodesFor("1.34", "1.33"))
	require.EqualError(t, s.requireNodesFor("1.35", "1.34"),
		"InvalidParameterException: Nodegroups old must be updated to match cluster version 1.34 before updating cluster version")
	require.EqualError(t, s.requireNodesFor("1.33", "1.34"),
		"InvalidRequestException: Nodegroups workers must be rolled back to version 1.33 before rolling back the cluster version")
	require.EqualError(t, s.Stop(t.Context()), "ResourceInUseException: Cluster has nodegroups attached")
	require.FileExists(t, s.file("endpoint"))
}

func TestNodeGroupsNeedAClusterAndAValidName(t *testing.T) {
	s := Server{Dir: t.TempDir(), Name: "demo"}
	ctx := t.Context()
	require.EqualError(t, s.ApplyNodeGroup(ctx, NodeGroup{Name: "workers"}, 0), "ResourceNotFoundException: No cluster found for name: demo")
	require.NoError(t, s.DeleteNodeGroup(ctx, "workers", 0), "deleting is not idempotent")
	for _, name := range []string{"", "../demo", "a/b", "-a"} {
		require.ErrorContains(t, s.ApplyNodeGroup(ctx, NodeGroup{Name: name}, 0), "is not a name of a node group")
		require.ErrorContains(t, server(t).BreakNodeGroup(ctx, name, FailCreate), "is not a name of a node group")
	}
	_, err := s.NodeGroup("workers")
	require.EqualError(t, err, "ResourceNotFoundException: No node group found for name: workers.")
}

func TestANodeGroupIsDegradedUntilItIsRepaired(t *testing.T) {
	s := server(t, existing(Active, "1.35", process.ID{}))
	for failure, want := range map[Failure]Status{FailHealth: Degraded, FailNothing: Active} {
		require.NoError(t, s.BreakNodeGroup(t.Context(), "workers", failure))
		group, err := s.NodeGroup("workers")
		require.NoError(t, err)
		require.Equal(t, want, group.Status)
		require.Equal(t, failure == FailHealth, len(group.Issues) > 0)
	}
}

func TestNodesAreReplacedOneByOne(t *testing.T) {
	node := func(name, version string, minute int) corev1.Node {
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(minute)*60, 0)}}
		node.Status.NodeInfo.KubeletVersion = kubeletVersion(version)
		return node
	}
	a, b, c, d := node("a", "1.35", 1), node("b", "1.35", 2), node("c", "1.35", 3), node("d", "1.34", 4)
	for name, test := range map[string]struct {
		nodes   []corev1.Node
		desired int
		create  int
		remove  []corev1.Node
	}{
		"missing":                {nodes: []corev1.Node{a}, desired: 3, create: 2},
		"complete":               {nodes: []corev1.Node{a, b}, desired: 2},
		"too many":               {nodes: []corev1.Node{c, b, a}, desired: 1, remove: []corev1.Node{a, b}},
		"outdated":               {nodes: []corev1.Node{a, d}, desired: 2, create: 1},
		"outdated and replaced":  {nodes: []corev1.Node{a, b, d}, desired: 2, remove: []corev1.Node{d}},
		"deleted":                {nodes: []corev1.Node{d, a}, desired: 0, remove: []corev1.Node{d, a}},
		"nothing, and no desire": {},
	} {
		t.Run(name, func(t *testing.T) {
			create, remove := step(test.nodes, NodeGroup{Version: "1.35", Scaling: Scaling{Desired: test.desired}})
			require.Equal(t, test.create, create)
			require.ElementsMatch(t, test.remove, remove)
		})
	}
}

func TestNewNodesLookAsThoseOfEKS(t *testing.T) {
	group := NodeGroup{Name: "workers", Version: "1.35", Region: "eu-west-1", Subnets: []string{"subnet-1", "subnet-2"}, InstanceTypes: []string{"m7g.large"}}
	var nodes []corev1.Node
	for range 4 {
		nodes = append(nodes, newNode(group, emptiestZone(group, nodes)))
	}
	zones := map[string]int{}
	for _, node := range nodes {
		zone := node.Labels[corev1.LabelTopologyZone]
		zones[zone]++
		require.Regexp(t, "^aws:///"+zone+"/i-0[0-9a-f]{16}$", node.Spec.ProviderID)
		require.Regexp(t, `^v1\.35\.\d+-eks-[0-9a-f]{7}$`, node.Status.NodeInfo.KubeletVersion)
		require.Equal(t, "arm64", node.Labels[corev1.LabelArchStable])
	}
	require.Equal(t, map[string]int{"eu-west-1a": 2, "eu-west-1b": 2}, zones)
}
