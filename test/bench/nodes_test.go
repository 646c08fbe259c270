// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/process"
)

const (
	// poolsEach is how many machine pools a cluster has, and nodesEach how many nodes a pool.
	poolsEach, nodesEach = 2, 50
	// heartbeats is for how long nodes send them, and heartbeatInterval how often each does at most: kubelets write every five minutes, and earlier if something
	// changes.
	heartbeats, heartbeatInterval = 2 * time.Minute, 30 * time.Second
)

// BenchmarkNodes makes clusters with two machine pools each, whose API servers are one server that lists and watches Nodes, and stops Cluster API, which is
// not measured. Then 50 nodes join each pool, and send heartbeats for two minutes. It fails if the manager writes meanwhile, lists nodes a second time, or
// opens more than one connection or watch per cluster for nodes. It reports, for each size,
//   - node-KiB: one Node, as its API server sends it
//   - heap-B/node: by how much each node makes the heap of the manager grow after a garbage collection, with the objects that name it, and with the references
//     that Cluster API writes into MachinePools; live-B/node: without the unused parts of the heap
//   - joined-s: from the first node until all pools are ready; joined-writes/pool: writes of the manager meanwhile
//   - rest-cpu-ms/s: of the manager, per second, before the heartbeats: that of its health checks
//   - heartbeats/s: how many nodes sent
//   - cpu-ms/1000-heartbeats: of the manager, beyond that at rest
//   - rss-MiB: memory of the manager at the end
func BenchmarkNodes(b *testing.B) {
	for _, size := range []int{20, 200} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				measureNodes(b, size)
			}
		})
	}
}

func measureNodes(b *testing.B, size int) {
	b.Helper()
	port, err := process.FreePort()
	require.NoError(b, err)
	w := newWorkloads(b)
	f := &nodeFleet{startFleet(b, size, "--profiler-address="+process.Loopback(port)), w, fmt.Sprintf("http://%s/debug/pprof/heap?gc=1", process.Loopback(port))}
	applyAll(b, f.c, w.template(), environments.NodeGroupTemplate(fixture.NodeGroupModule))
	f.createPools()
	heapBefore, liveBefore := f.memory()
	f.join()
	heap, live := f.memory()
	all := float64(size * poolsEach * nodesEach)
	f.report(float64(len(w.of("c0").render(0)))/1024, "node-KiB")
	f.report((heap-heapBefore)/all, "heap-B/node")
	f.report((live-liveBefore)/all, "live-B/node")
	f.beat()
	f.report(scrape(b, f.s).Sum("process_resident_memory_bytes")/(1<<20), "rss-MiB")
	f.lose()
	require.NoError(b, f.s.Stop(context.Background()))
}

// nodeFleet is a fleet of clusters with machine pools.
type nodeFleet struct {
	*fleet
	workloads *workloads
	// collect is where the manager collects garbage.
	collect string
}

// createPools makes the clusters and their pools, without nodes.
func (f *nodeFleet) createPools() {
	f.Helper()
	group, ctx := errgroup.WithContext(f.Context())
	group.SetLimit(makers)
	for i := range f.size {
		group.Go(func() error {
			name := fmt.Sprintf("c%d", i)
			documents := cluster(name)
			documents[1] = fixture.CAPTClusterWith(name, "{existingID: vpc-0123456789abcdef0}")
			for pool := range poolsEach {
				documents = append(documents, machinePool(name, poolName(name, pool))...)
			}
			for _, document := range documents {
				if err := f.c.Create(ctx, read(document)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(f, group.Wait())
	awaitEndpoints(f.B, f.c, f.size)
	f.awaitPools(func(pool *infrav1.CAPTMachinePool) bool {
		return ptr.Deref(pool.Status.Initialization.Provisioned, false) && conditions.IsTrue(pool, infrav1.NodesKnownCondition)
	})
	require.NoError(f, f.s.StopComponent(f.Context(), sandbox.ClusterAPI))
	awaitIdle(f.B, f.s)
}

// awaitPools waits until all pools are as wanted.
func (f *nodeFleet) awaitPools(wanted func(*infrav1.CAPTMachinePool) bool) {
	f.Helper()
	require.Eventually(f, func() bool {
		var list infrav1.CAPTMachinePoolList
		require.NoError(f, f.c.List(f.Context(), &list))
		for i := range list.Items {
			if !wanted(&list.Items[i]) {
				return false
			}
		}
		return len(list.Items) == f.size*poolsEach
	}, fleetPatience, time.Second, "not all pools are as wanted")
}

// memory returns the heap of the manager after a garbage collection, and what of it is used.
func (f *nodeFleet) memory() (heap, live float64) {
	f.Helper()
	for range 2 { // The first one runs finalizers.
		request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.collect, nil)
		require.NoError(f, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(f, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(f, response.Body.Close())
	}
	scraped := scrape(f.B, f.s)
	return scraped.Sum("go_memstats_heap_inuse_bytes"), scraped.Sum("go_memstats_heap_alloc_bytes")
}

// join lets the nodes of all pools join their clusters, and does what Cluster API would do about it.
func (f *nodeFleet) join() {
	f.Helper()
	began := time.Now()
	for i := range f.size {
		f.workloads.of(fmt.Sprintf("c%d", i)).join()
	}
	f.awaitPools(func(pool *infrav1.CAPTMachinePool) bool {
		return conditions.IsTrue(pool, infrav1.ReadyCondition) && len(pool.Spec.ProviderIDList) == nodesEach && len(pool.Status.Instances) == nodesEach
	})
	f.report(time.Since(began).Seconds(), "joined-s")
	var list clusterv1.MachinePoolList
	require.NoError(f, f.c.List(f.Context(), &list))
	for i := range list.Items {
		pool := &list.Items[i]
		before := pool.DeepCopy()
		for j := range nodesEach {
			name := nodeName(pool.Spec.ClusterName, i%poolsEach*nodesEach+j)
			pool.Status.NodeRefs = append(pool.Status.NodeRefs, corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: "0f4a6f4e-6a0b-4d56-9f55-2d6f7d6f1c11"})
		}
		require.NoError(f, f.c.Status().Patch(f.Context(), pool, client.MergeFrom(before)))
	}
	awaitIdle(f.B, f.s)
	f.report(float64(countWrites(f.B, f.s, began, shared...))/float64(f.size*poolsEach), "joined-writes/pool")
}

// beat lets all nodes send heartbeats.
func (f *nodeFleet) beat() {
	f.Helper()
	before, settled := f.cpu(), time.Now()
	<-time.After(fleetRest) // The measurement itself.
	atRest := (f.cpu() - before) / fleetRest.Seconds()
	f.report(1000*atRest, "rest-cpu-ms/s")

	lists, before, began := f.workloads.lists(), f.cpu(), time.Now()
	sent := f.workloads.beat(heartbeats)
	lasted := time.Since(began).Seconds()
	f.report(float64(sent)/lasted, "heartbeats/s")
	f.report(1e6*(f.cpu()-before-atRest*lasted)/float64(sent), "cpu-ms/1000-heartbeats")
	require.Zero(f, countWrites(f.B, f.s, settled, "leases"), "CAPT writes while nodes send heartbeats")
	require.Zero(f, countReads(f.B, f.s, settled), "CAPT reads while nodes send heartbeats")
	require.Equal(f, lists, f.workloads.lists(), "nodes are listed again")
	f.workloads.requireOneConnectionEach()
}

// lose lets a node of each cluster become NotReady. That is seen only by a manager that has read all heartbeats before it.
func (f *nodeFleet) lose() {
	f.Helper()
	for i := range f.size {
		w := f.workloads.of(fmt.Sprintf("c%d", i))
		w.status[0] = string(corev1.ConditionUnknown)
		w.send("MODIFIED", 0)
	}
	f.awaitPools(func(pool *infrav1.CAPTMachinePool) bool {
		ready := nodesEach
		if strings.HasSuffix(pool.Name, "-0") {
			ready--
		}
		return ptr.Deref(pool.Status.ReadyReplicas, 0) == int32(ready)
	})
}

func poolName(cluster string, pool int) string { return fmt.Sprintf("%s-%d", cluster, pool) }

func machinePool(cluster, name string) []string {
	return []string{fixture.MachinePool(cluster, name, nodesEach, ""), fixture.CAPTMachinePool(name, fixture.NodeGroupTemplate, "scaling: {minSize: 0, maxSize: 90}")}
}

// workloads is the API server of all clusters: the path of a request begins with the name of one.
type workloads struct {
	*testing.B
	*httptest.Server
	mu       sync.Mutex
	clusters map[string]*workload
}

func newWorkloads(b *testing.B) *workloads {
	b.Helper()
	w := &workloads{B: b, clusters: map[string]*workload{}}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.EnableHTTP2 = true
	w.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, conn)
	}
	w.StartTLS()
	b.Cleanup(func() { w.CloseClientConnections(); w.Close() })
	return w
}

// connection is the key of the connection of a request.
type connection struct{}

// template is that of control planes whose API server this is.
func (w *workloads) template() string {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: w.URL + "/${var.cluster_name}", CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "token"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	require.NoError(w, err)
	return environments.Template(fixture.ControlPlaneTemplate, fmt.Sprintf(`
variable "cluster_name" { type = string }
resource "terraform_data" "eks" { input = var.cluster_name }
output "cluster_endpoint" { value = %q }
output "kubeconfig" {
  sensitive = true
  value     = %q
}`, w.URL, data), "cluster_name")
}

// of returns a cluster.
func (w *workloads) of(name string) *workload {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clusters[name] == nil {
		w.clusters[name] = &workload{name: name, version: 1000, events: make(chan []byte), connections: map[any]bool{}}
	}
	return w.clusters[name]
}

func (w *workloads) serve(out http.ResponseWriter, r *http.Request) {
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case path == "readyz":
	case path == "version":
		_, _ = io.WriteString(out, `{"major": "1", "minor": "36"}`)
	case path == "api/v1/nodes" && r.URL.Query().Get("labelSelector") == nodes.NodeGroupLabel:
		w.of(name).serve(out, r)
	default: // Cluster API does not connect.
		out.WriteHeader(http.StatusNotFound)
	}
}

// lists counts the lists of nodes.
func (w *workloads) lists() (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		c.mu.Lock()
		count += c.lists
		c.mu.Unlock()
	}
	return count
}

func (w *workloads) requireOneConnectionEach() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.clusters {
		c.mu.Lock()
		require.Len(w, c.connections, 1, "connections of %s for nodes", name)
		require.Equal(w, 1, c.watches, "watches of %s at a time", name)
		c.mu.Unlock()
	}
}

// beat lets one node of each cluster after the other send a heartbeat for a time, and returns how many there were.
func (w *workloads) beat(lasting time.Duration) (sent int) {
	ticker := time.NewTicker(heartbeatInterval / (poolsEach * nodesEach))
	defer ticker.Stop()
	for end, i := time.Now().Add(lasting), 0; time.Now().Before(end); i++ {
		<-ticker.C
		for _, c := range w.clusters {
			c.send("MODIFIED", i%(poolsEach*nodesEach))
			sent++
		}
	}
	return sent
}

// workload is a cluster.
type workload struct {
	name string
	// events are those for the watch. Only the benchmark sends, so that version and status need no lock.
	events  chan []byte
	version int
	status  [poolsEach * nodesEach]string

	mu sync.Mutex
	// lists counts the lists. watching is how many watches there are, watches how many there were at the same time, and connections are those over which nodes
	// were requested.
	lists, watching, watches int
	connections              map[any]bool
}

func (w *workload) serve(out http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	watching := query.Get("watch") != ""
	w.mu.Lock()
	w.connections[r.Context().Value(connection{})] = true
	if watching {
		w.watching++
		w.watches = max(w.watches, w.watching)
	} else if query.Get("continue") == "" {
		w.lists++
	}
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	if !watching {
		// Nodes join later, so there is nothing to list.
		_, _ = fmt.Fprintf(out, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1000"},"items":[]}`)
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watching--
	}()
	flush := http.NewResponseController(out)
	_ = flush.Flush()
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	end := time.After(time.Duration(seconds) * time.Second)
	for {
		select {
		case event := <-w.events:
			_, _ = out.Write(event)
			_ = flush.Flush()
		case <-end:
			_, _ = fmt.Fprintf(out, `{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"1000"}}}`+"\n")
			return
		case <-r.Context().Done():
			return
		}
	}
}

// join adds all nodes.
func (w *workload) join() {
	for i := range w.status {
		w.status[i] = string(corev1.ConditionTrue)
		w.send("ADDED", i)
	}
}

// send sends an event for a node to the watch, and waits until it is sent.
func (w *workload) send(kind string, index int) {
	w.version++
	w.events <- fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", kind, w.render(index))
}

func nodeName(cluster string, index int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", len(cluster), index, index)
}

// render returns a node, as API servers send it.
func (w *workload) render(index int) []byte {
	replaced := strings.NewReplacer(
		"NODE_NAME", nodeName(w.name, index), "NODE_VERSION", strconv.Itoa(w.version), "NODE_INSTANCE", fmt.Sprintf("i-0%s%012d", w.name, index),
		"NODE_GROUP", poolName(w.name, index/nodesEach), "NODE_READY", w.status[index], "2001-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339))
	return []byte(replaced.Replace(nodeTemplate))
}

// nodeTemplate is a node of EKS, with as many images and managed fields as kubelets write.
var nodeTemplate = func() string {
	heartbeat := metav1.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	n := corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{
		Name: "NODE_NAME", UID: "0f4a6f4e-6a0b-4d56-9f55-2d6f7d6f1c11", ResourceVersion: "NODE_VERSION", CreationTimestamp: metav1.Now(),
		Labels: map[string]string{nodes.NodeGroupLabel: "NODE_GROUP", "kubernetes.io/hostname": "NODE_NAME"}, Annotations: map[string]string{},
	}}
	for i := range 20 {
		n.Labels[fmt.Sprintf("topology.example.com/label-%d", i)] = "value-of-the-label"
	}
	for i := range 5 {
		n.Annotations[fmt.Sprintf("csi.volume.kubernetes.io/annotation-%d", i)] = strings.Repeat("x", 60)
	}
	fields := `{"f:status":{` + strings.TrimSuffix(strings.Repeat(`"f:conditions":{"k:{\"type\":\"MemoryPressure\"}":{"f:lastHeartbeatTime":{}}},`, 30), ",") + `}}`
	for _, manager := range []string{"kubelet", "kubelet-status", "eks-node-controller"} {
		n.ManagedFields = append(n.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}})
	}
	n.Spec.ProviderID = "aws:///eu-central-1a/NODE_INSTANCE"
	n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("29")}
	n.Status.Allocatable = n.Status.Capacity
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "KernelReady", "NetworkingReady", "StorageReady", "ContainerRuntimeReady", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: "NODE_READY", LastHeartbeatTime: heartbeat, LastTransitionTime: heartbeat, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		})
	}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.2-eks-1234567", KubeProxyVersion: "v1.36.2-eks-1234567", OSImage: "Amazon Linux 2023.9.20260101", Architecture: "arm64", OperatingSystem: "linux"}
	for i := range 25 {
		image := fmt.Sprintf("602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/image-%d", i)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image + "@sha256:" + strings.Repeat("0", 64), image + ":v1.36.2"}, SizeBytes: 123456789})
	}
	data, err := json.Marshal(n)
	if err != nil {
		panic(err) // It is written above.
	}
	return string(data)
}()
