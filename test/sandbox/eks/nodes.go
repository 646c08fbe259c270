// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/process"
)

const (
	// GroupLabel has the name of a node's group.
	GroupLabel = "eks.amazonaws.com/nodegroup"
	// notReady is the annotation of a node that kwok keeps NotReady.
	notReady = "sandbox/not-ready"
)

// kwokConfig is what kwok does with nodes.
//
//go:embed kwok.yaml
var kwokConfig []byte

// startKwok ensures that kwok runs. It is stopped with the cluster.
func (s Server) startKwok(ctx context.Context, cluster *process.State) error {
	sandbox, err := process.Load(s.Dir)
	if err != nil {
		return fmt.Errorf("found no sandbox in %s: %w", s.Dir, err)
	}
	name := "kwok of cluster " + s.Name
	if kwok := cluster.Process(name); kwok != nil && kwok.Alive() {
		return nil
	}
	if err := process.WriteFile(s.file("kwok.yaml"), kwokConfig); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		port, err := process.FreePort()
		if err != nil {
			return err
		}
		address := process.Loopback(port)
		kwok := process.Recorded{Health: "http://" + address + "/healthz", Spec: process.Spec{
			Name: name, Path: sandbox.Binaries[binaries.Kwok], Dir: s.Dir, Log: s.file("kwok.log"),
			Args: []string{
				"--kubeconfig=" + s.file("kubeconfig"), "--config=" + s.file("kwok.yaml"), "--server-address=" + address,
				"--manage-nodes-with-label-selector=" + GroupLabel, "--node-lease-duration-seconds=40",
			},
		}}
		_, err = kwok.Run(ctx, func(p *process.Process) error {
			kwok.ID = p.ID()
			cluster.Record(kwok)
			return cluster.Save(s.Folder())
		})
		if err == nil || attempt == attempts || !process.PortTaken(err) {
			return err
		}
	}
}

// Client returns an administrator's client of the cluster.
func (s Server) Client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.file("kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // The API server has its own limits.
	return kubernetes.NewForConfig(config)
}

// fleet are the nodes of one group during an operation.
type fleet struct {
	server Server
	client kubernetes.Interface
	group  NodeGroup
	takes  time.Duration
}

// rollOut makes the nodes those of the group. previous is the group as it was.
func (s Server) rollOut(ctx context.Context, group, previous NodeGroup, takes time.Duration) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	f := fleet{server: s, client: client, group: group, takes: takes}
	nodes, err := f.nodes(ctx)
	for _, node := range nodes {
		err = errors.Join(err, f.configure(ctx, node.Name, previous.Labels))
	}
	for ; err == nil; nodes, err = f.nodes(ctx) {
		create, remove := step(nodes, group)
		if create == 0 && len(remove) == 0 {
			return nil
		}
		if err := f.hang(ctx); err != nil {
			return err
		}
		if err := f.create(ctx, create, nodes); err != nil {
			return err
		}
		if err := f.remove(ctx, remove); err != nil {
			return err
		}
	}
	return err
}

// step returns what is done next: missing and superfluous nodes at once, outdated nodes one by one, after their replacement is Ready.
func step(nodes []corev1.Node, group NodeGroup) (create int, remove []corev1.Node) {
	// Outdated nodes go first, then the oldest.
	rank := func(node corev1.Node) int {
		if outdated(node, group) {
			return 0
		}
		return 1
	}
	nodes = slices.SortedStableFunc(slices.Values(nodes), func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	switch surplus := len(nodes) - group.Scaling.Desired; {
	case surplus < 0:
		return -surplus, nil
	case surplus == 0 && len(nodes) > 0 && outdated(nodes[0], group):
		return 1, nil
	default:
		return 0, nodes[:surplus]
	}
}

func outdated(node corev1.Node, group NodeGroup) bool {
	return node.Status.NodeInfo.KubeletVersion != kubeletVersion(group.Version)
}

func (f fleet) nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: GroupLabel + "=" + f.group.Name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// hang waits while the user of the sandbox makes operations hang.
func (f fleet) hang(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		return !f.server.failing(f.group.Name, FailHang), nil
	})
}

// create adds nodes to those that exist, and waits until they are Ready. Nodes that fail to join the cluster have no Node objects.
func (f fleet) create(ctx context.Context, count int, nodes []corev1.Node) error {
	if count == 0 {
		return nil
	}
	var names, instances []string
	failing := f.server.failing(f.group.Name, FailCreate)
	for range count {
		node := newNode(f.group, emptiestZone(f.group, nodes))
		nodes = append(nodes, node)
		names, instances = append(names, node.Name), append(instances, filepath.Base(node.Spec.ProviderID))
		if failing {
			continue
		}
		if _, err := f.client.CoreV1().Nodes().Create(ctx, &node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := pause(ctx, f.takes); err != nil {
		return err
	}
	if failing {
		return failure{fmt.Sprintf("waiting for EKS Node Group (%s:%s) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. "+
			"last error: %s: NodeCreationFailure: Instances failed to join the kubernetes cluster", f.server.Name, f.group.Name, strings.Join(instances, ", "))}
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		nodes, err := f.nodes(ctx)
		ready := slices.DeleteFunc(nodes, func(node corev1.Node) bool { return !isReady(node) || !slices.Contains(names, node.Name) })
		return len(ready) == count, err
	})
	for _, name := range names {
		err = errors.Join(err, f.configure(ctx, name, nil))
	}
	return err
}

// readyTimeout limits how long kwok may take to change nodes on a busy machine.
const readyTimeout = 2 * time.Minute

func isReady(node corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (f fleet) remove(ctx context.Context, nodes []corev1.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	for _, node := range nodes {
		if err := f.patch(ctx, node.Name, `{"spec":{"unschedulable":true}}`); err != nil {
			return err
		}
	}
	if err := pause(ctx, f.takes); err != nil {
		return err
	}
	if f.group.Status == Updating && f.server.failing(f.group.Name, FailUpdate) {
		return failure{fmt.Sprintf("waiting for EKS Node Group (%s:%s) version update: unexpected state 'Failed', wanted target 'Successful'. "+
			"last error: %s: PodEvictionFailure: Reached max retries while trying to evict pods from nodes in node group %[2]s",
			f.server.Name, f.group.Name, nodes[0].Name)}
	}
	for _, node := range nodes {
		err := f.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
		if err == nil {
			// The cluster has no garbage collector.
			err = f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, node.Name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (f fleet) patch(ctx context.Context, node, patch string) error {
	_, err := f.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// configure gives a node the labels and taints of its group, without replacing it. This removes the taint that the API server gives to new
// nodes, as the node lifecycle controller does.
func (f fleet) configure(ctx context.Context, node string, previous map[string]string) error {
	labels := map[string]any{}
	for key := range previous {
		labels[key] = nil
	}
	for key, value := range f.group.Labels {
		labels[key] = value
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"taints": taints(f.group)}})
	if err != nil {
		return err
	}
	return f.patch(ctx, node, string(patch))
}

func taints(group NodeGroup) (taints []corev1.Taint) {
	effects := map[string]corev1.TaintEffect{
		"NO_SCHEDULE": corev1.TaintEffectNoSchedule, "NO_EXECUTE": corev1.TaintEffectNoExecute, "PREFER_NO_SCHEDULE": corev1.TaintEffectPreferNoSchedule,
	}
	for _, taint := range group.Taints {
		taints = append(taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: effects[taint.Effect]})
	}
	return taints
}

func digits(count int) string {
	random := make([]byte, (count+1)/2)
	_, _ = rand.Read(random) // It never fails.
	return hex.EncodeToString(random)[:count]
}

// kubeletVersion looks as EKS's.
func kubeletVersion(minor string) string {
	hash := sha256.Sum256([]byte(minor))
	return fmt.Sprintf("v%s.2-eks-%s", minor, hex.EncodeToString(hash[:])[:7])
}

// graviton matches instance types such as m7g.large.
var graviton = regexp.MustCompile(`^[a-z]+\d+g`)

// emptiestZone is the zone of a group that has the fewest nodes that are not outdated. There is one zone for each subnet.
func emptiestZone(group NodeGroup, nodes []corev1.Node) string {
	var zones []string
	used := map[string]int{}
	for i := range max(len(group.Subnets), 1) {
		zones = append(zones, cmp.Or(group.Region, "us-east-1")+string(rune('a'+i)))
	}
	for _, node := range nodes {
		if !outdated(node, group) {
			used[node.Labels[corev1.LabelTopologyZone]]++
		}
	}
	return slices.MinFunc(zones, func(a, b string) int { return cmp.Compare(used[a], used[b]) })
}

// newNode returns a node as a kubelet of EKS registers it.
func newNode(group NodeGroup, zone string) corev1.Node {
	random := digits(6)
	var address [3]byte
	_, _ = hex.Decode(address[:], []byte(random))
	ip := fmt.Sprintf("10.%d.%d.%d", address[0], address[1], address[2])
	region := zone[:len(zone)-1]
	name := fmt.Sprintf("ip-%s.%s.compute.internal", strings.ReplaceAll(ip, ".", "-"), region)
	instance, arch := "m7g.large", "amd64"
	if len(group.InstanceTypes) > 0 {
		instance = group.InstanceTypes[0]
	}
	if graviton.MatchString(instance) {
		arch = "arm64"
	}
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("29"),
	}
	labels := map[string]string{
		GroupLabel:                       group.Name,
		"eks.amazonaws.com/capacityType": "ON_DEMAND",
		corev1.LabelArchStable:           arch,
		corev1.LabelOSStable:             "linux",
		corev1.LabelHostname:             name,
		corev1.LabelInstanceTypeStable:   instance,
		corev1.LabelTopologyRegion:       region,
		corev1.LabelTopologyZone:         zone,
	}
	maps.Copy(labels, group.Labels)
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/i-0" + digits(16), Taints: taints(group)},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "container runtime network not ready",
				LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
			}},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: arch, OperatingSystem: "linux", OSImage: "Amazon Linux 2023", KernelVersion: "6.12.40-64.114.amzn2023",
				ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: kubeletVersion(group.Version),
				MachineID: digits(32), SystemUUID: digits(32), BootID: digits(32),
			},
		},
	}
}

// BreakNode makes a node NotReady, or Ready again, and waits until it is. It stays as it is.
func (s Server) BreakNode(ctx context.Context, name string, broken bool) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	value := "null"
	if broken {
		value = `"broken with the sandbox command"`
	}
	if err := (fleet{client: client}).patch(ctx, name, `{"metadata":{"annotations":{"`+notReady+`":`+value+`}}}`); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && isReady(*node) != broken, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("kwok did not change node %s; see %s: %w", name, s.file("kwok.log"), err)
	}
	return err
}
