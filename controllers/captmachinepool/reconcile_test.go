// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// workload is the API server of a cluster, with Nodes of node group workers.
type workload struct {
	*httptest.Server
	mu     sync.Mutex
	names  []string
	ended  chan struct{}
	status int
	// version is that of the Nodes: a watch of an older one ends at once, because it would miss a change.
	version int
}

func newWorkload(t *testing.T, names ...string) *workload {
	t.Helper()
	w := &workload{names: names, ended: make(chan struct{})}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	w.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.StartTLS()
	t.Cleanup(func() { w.set(http.StatusGone); w.CloseClientConnections(); w.Close() })
	return w
}

func (w *workload) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	names, ended, status, version := w.names, w.ended, w.status, strconv.Itoa(w.version)
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	switch {
	case status != 0:
		out.WriteHeader(status)
	case r.URL.Query().Get("watch") != "" && r.URL.Query().Get("resourceVersion") != version:
	case r.URL.Query().Get("watch") != "":
		_ = http.NewResponseController(out).Flush()
		select { // A watch that ends early is followed by a list.
		case <-ended:
		case <-r.Context().Done():
		}
	default:
		list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
		list.ResourceVersion = version
		for _, node := range known(names...).List {
			n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: map[string]string{nodes.NodeGroupLabel: "workers"}}}
			n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion = node.ProviderID, node.Version
			if node.Ready {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}
			list.Items = append(list.Items, n)
		}
		_ = json.NewEncoder(out).Encode(list)
	}
}

// set changes the Nodes, or what is answered.
func (w *workload) set(status int, names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.names = status, names
	w.version++
	close(w.ended)
	w.ended = make(chan struct{})
}

// kubeconfig returns the Secret with the kubeconfig of the cluster.
func (w *workload) kubeconfig(t *testing.T, token string) *corev1.Secret {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
	return builder.SecretWith("demo-kubeconfig", map[string]string{"value": kubeconfigWith(t, w.URL, ca, token)})
}

// environment is a reconciler with an API server.
type environment struct {
	*testing.T
	*Reconciler
	*builder.API
	clock *builder.Clock
}

var owned = builder.OwnedBy(builder.MachinePool("workers"))

// pool makes a CAPTMachinePool as Cluster API leaves it.
func poolOf(options ...builder.Option) *infrav1.CAPTMachinePool {
	return builder.CAPTMachinePool("workers", append([]builder.Option{builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), owned}, options...)...)
}

func three(options ...builder.Option) *clusterv1.MachinePool {
	return builder.MachinePool("workers", append([]builder.Option{builder.WithReplicas(3)}, options...)...)
}

// newEnvironment has the objects of a pool without a Cluster, and those of a Cluster whose control plane is initialized.
func newEnvironment(t *testing.T, objects ...client.Object) *environment {
	t.Helper()
	return newEnvironmentOf(t, append(objects, builder.Cluster("demo"), builder.CAPTCluster("demo"), initialized(), eksApply())...)
}

func newEnvironmentOf(t *testing.T, objects ...client.Object) *environment {
	t.Helper()
	clients := builder.Clients(objects...).WithStatusSubresource(&infrav1.CAPTMachinePool{})
	require.NoError(t, RegisterIndexes(t.Context(), builder.Indexes{ClientBuilder: clients}))
	api := builder.NewAPI(clients)
	env := &environment{T: t, API: api, clock: builder.NewClock(), Reconciler: &Reconciler{Nodes: nodes.NewWatcher(), Reconciler: owner.Reconciler{
		Engine: engine.Engine{Client: api, Recorder: events.NewFakeRecorder(64), State: &engine.StateCache{}, Gate: &adoption.Gate{Client: api, Uncached: api}, Uncached: api, Secrets: engine.NewSecrets(api, api)},
	}}}
	env.State.Clock = env.clock
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- env.Nodes.Start(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-stopped) })
	return env
}

var request = ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "workers"}}

// reconcile returns the writes of one reconcile, and when the next one is due.
func (env *environment) reconcileAfter() ([]string, time.Duration) {
	env.Helper()
	env.Writes = nil
	got, err := env.Reconcile(env.T.Context(), request)
	require.NoError(env, err)
	return env.Writes, got.RequeueAfter
}

func (env *environment) reconcile() []string {
	env.Helper()
	writes, _ := env.reconcileAfter()
	return writes
}

// settles reconciles until a condition has a status and reason, and then until nothing is written. A pool can be Ready before its nodes are listed.
func (env *environment) settles(condition, want string) *infrav1.CAPTMachinePool {
	env.Helper()
	env.reconcile()
	unlisted := func() bool { return want == "True Ready" && env.summary()["NodesKnown"] == "False WaitingForNodes" }
	for began := time.Now(); env.summary()[condition] != want || len(env.Writes) > 0 || unlisted(); time.Sleep(5 * time.Millisecond) {
		require.Less(env, time.Since(began), 20*time.Second, "%s is %s: %s", condition, env.summary()[condition], conditions.GetMessage(env.get(), condition))
		env.clock.Pass(nodesDelay)
		env.reconcile()
	}
	return env.get()
}

func (env *environment) get() *infrav1.CAPTMachinePool {
	env.Helper()
	pool, err := engine.Get(env.T.Context(), env.API, request.NamespacedName, &infrav1.CAPTMachinePool{})
	require.NoError(env, err)
	return pool
}

func (env *environment) summary() map[string]string {
	env.Helper()
	return builder.ConditionSummary(env.get().Status.Conditions)
}

func (env *environment) message(condition string) string {
	env.Helper()
	return conditions.GetMessage(env.get(), condition)
}

func (env *environment) apply() *infrav1.WorkspaceTemplateApply {
	env.Helper()
	apply, err := engine.Get(env.T.Context(), env.API, client.ObjectKey{Namespace: builder.Namespace, Name: "workers-nodegroup-apply"}, &infrav1.WorkspaceTemplateApply{})
	require.NoError(env, err)
	return apply
}

// update changes an object as its user does.
func update[O client.Object](env *environment, object O, change func(O)) {
	env.Helper()
	require.NoError(env, env.Get(env.T.Context(), client.ObjectKeyFromObject(object), object))
	change(object)
	require.NoError(env, env.Update(env.T.Context(), object))
}

func (env *environment) remove(object client.Object) {
	env.Helper()
	require.NoError(env, env.Delete(env.T.Context(), object))
}

// created reconciles until Terraform has created the node group, of which the API server has nodes.
func created(t *testing.T, server *workload, objects ...client.Object) *environment {
	t.Helper()
	env := newEnvironment(t, append(objects, server.kubeconfig(t, "token"))...)
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.UpToDate(map[string]string{"node_group_arn": arn, "node_group_size": "3", "node_group_version": "1.31"})(apply)
	})
	return env
}

// Without the reference, a crash between the two writes could lead to a second node group.
func TestTheReferenceIsWrittenBeforeTheApply(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	env.FailOn("apply workers-nodegroup-apply", errors.New("killed"))
	_, err := env.Reconcile(t.Context(), request)
	require.ErrorContains(t, err, "killed")
	assert.Equal(t, infrav1.WorkspaceTemplateApplyReference{Name: "workers-nodegroup-apply"}, env.get().Spec.WorkspaceTemplateApplyRef)
	assert.Equal(t, []string{infrav1.CAPTMachinePoolFinalizer}, env.get().Finalizers)

	env.Refuse = nil
	assert.Contains(t, env.reconcile(), "apply workers-nodegroup-apply")
	assert.Equal(t, "demo", env.apply().Labels[clusterv1.ClusterNameLabel])
	assert.Equal(t, builder.UID("CAPTMachinePool", "workers"), env.apply().OwnerReferences[0].UID)
	assert.Equal(t, "CAPTMachinePool", env.apply().OwnerReferences[0].Kind)
	assert.Equal(t, []infrav1.WorkspaceDependency{{Name: "demo-eks", Namespace: "default"}}, env.apply().Spec.WaitForWorkspaces)
	env.reconcile()
	assert.Empty(t, env.reconcile(), "at rest nothing is written")
	assert.Equal(t, "False Provisioning", env.summary()["Ready"])
}

func TestANodeGroupAndItsNodes(t *testing.T) {
	env := created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	pool := env.settles("NodesReady", "True NodesReady")
	assert.Equal(t, []string{"aws:///a", "aws:///b", "aws:///c"}, pool.Spec.ProviderIDList)
	assert.Equal(t, arn, pool.Spec.ProviderID)
	s := pool.Status
	assert.Equal(t, []any{ptr.To(true), ptr.To(true), ptr.To[int32](3), ptr.To[int32](3), ptr.To[int32](3), "v1.31.0"},
		[]any{s.Initialization.Provisioned, s.Ready, s.Replicas, s.ReadyReplicas, s.WantedReplicas, s.Version})
	assert.Len(t, s.Instances, 3)
	assert.Equal(t, ptr.To[int32](3), get(env, three()).Spec.Replicas)
	writes, after := env.reconcileAfter()
	assert.Empty(t, writes, "at rest nothing is written")
	assert.Zero(t, after, "nor is there a next reconcile")
}

// watches reports whether the nodes of the Cluster are watched.
func (env *environment) watches() bool {
	return !env.Nodes.NodesOf(client.ObjectKey{Namespace: "default", Name: "demo"}, "workers").Pending
}

func get[O client.Object](env *environment, object O) O {
	env.Helper()
	require.NoError(env, env.Get(env.T.Context(), client.ObjectKeyFromObject(object), object))
	return object
}

// Cluster API deletes the Nodes that are not in the list.
func TestProviderIDsStayWhileTheNodesAreNotKnown(t *testing.T) {
	all := []string{"aws:///a", "aws:///b", "aws:///c"}
	secret := func() *corev1.Secret { return builder.SecretWith("demo-kubeconfig", nil) }
	absent := apierrors.NewNotFound(corev1.Resource("secrets"), "demo-kubeconfig")
	for name, row := range map[string]struct {
		lose func(env *environment, server *workload)
		want string
	}{
		"the Secret is deleted": {func(env *environment, _ *workload) { env.remove(secret()) }, "False WaitingForNodes"},
		"the Secret is deleted, but in the cache": {func(env *environment, _ *workload) {
			update(env, secret(), func(s *corev1.Secret) { s.Labels = map[string]string{"x": "y"} })
			env.Secrets = engine.NewSecrets(env.API, builder.FailingGet[*corev1.Secret](env.API, absent))
		}, "False WaitingForNodes"},
		"another kubeconfig": {func(env *environment, _ *workload) {
			update(env, secret(), func(s *corev1.Secret) { s.Data["value"] = []byte("spoiled") })
		}, "False NodesUnreachable"},
		"another API server refuses": {func(env *environment, _ *workload) {
			other := newWorkload(env.T)
			other.status = http.StatusUnauthorized
			update(env, secret(), func(s *corev1.Secret) { s.Data = other.kubeconfig(env.T, "x").Data })
		}, "False NodesUnreachable"},
		"it restarts": {func(_ *environment, server *workload) { server.set(http.StatusServiceUnavailable) }, "True NodesKnown"},
		"paused": {func(env *environment, server *workload) {
			update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { builder.Paused()(pool) })
			server.set(0)
		}, "True NodesKnown"},
		"the Cluster is gone": {func(env *environment, _ *workload) { env.remove(builder.Cluster("demo")) }, "False WaitingForNodes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newWorkload(t, "a", "b", "c")
			env := created(t, server, three(), poolOf())
			require.Equal(t, all, env.settles("NodesReady", "True NodesReady").Spec.ProviderIDList)
			row.lose(env, server)
			for range 5 { // A list takes a moment.
				env.reconcile()
				require.Equal(t, all, env.get().Spec.ProviderIDList)
				time.Sleep(20 * time.Millisecond)
			}
			pool := env.settles("NodesKnown", row.want)
			assert.Equal(t, all, pool.Spec.ProviderIDList)
			assert.Len(t, pool.Status.Instances, 3)
			assert.Equal(t, row.want == "True NodesKnown", pool.Status.ReadyReplicas != nil)
			assert.Equal(t, row.want != "False WaitingForNodes", env.watches(), "nothing is watched without a kubeconfig")
		})
	}
}

// Users disable the probes of clusters to which CAPT is not meant to connect.
func TestNodesAreNotReadWhileTheProbesAreDisabled(t *testing.T) {
	env := created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	all := env.settles("NodesReady", "True NodesReady").Spec.ProviderIDList
	probe := func(value controlplanev1.EndpointProbe) {
		update(env, initialized(), func(c *controlplanev1.CAPTControlPlane) { c.Spec.EndpointProbe = value })
	}
	probe(controlplanev1.EndpointProbeDisabled)
	pool := env.settles("NodesKnown", "False HealthProbesDisabled")
	assert.False(t, env.watches())
	assert.Contains(t, env.message("NodesKnown"), "spec.endpointProbe of CAPTControlPlane demo is Disabled, so CAPT does not connect to the cluster. Set it to BestEffort")
	assert.Equal(t, all, pool.Spec.ProviderIDList)
	assert.Nil(t, pool.Status.ReadyReplicas)
	assert.Equal(t, "True Ready", env.summary()["Ready"])
	assert.Empty(t, env.reconcile())
	probe(controlplanev1.EndpointProbeBestEffort)
	env.settles("NodesKnown", "True NodesKnown")
}

func TestWhatIsKnownStaysWhileTheSecretCannotBeRead(t *testing.T) {
	env := created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	before := env.settles("NodesReady", "True NodesReady")
	secrets := env.Secrets
	env.Secrets = engine.NewSecrets(env.API, builder.FailingGet[*corev1.Secret](env.API, errors.New("timeout")))
	assert.Empty(t, env.reconcile(), "a Secret with which nodes are watched is not read again")
	update(env, builder.SecretWith("demo-kubeconfig", nil), func(s *corev1.Secret) { s.Labels = map[string]string{"x": "y"} })
	_, err := env.Reconcile(t.Context(), request)
	require.ErrorContains(t, err, "reading Secret demo-kubeconfig: timeout")
	assert.Equal(t, before, env.get())
	env.Secrets = secrets
	assert.Empty(t, env.reconcile())
}

func TestProviderIDsFollowTheNodes(t *testing.T) {
	server := newWorkload(t, "a", "b", "c")
	env := created(t, server, three(), poolOf())
	env.settles("NodesReady", "True NodesReady")
	server.set(0, "a", "d!", "e")
	pool := env.settles("Ready", "False NodesNotReady")
	assert.Equal(t, []string{"aws:///a", "aws:///d", "aws:///e"}, pool.Spec.ProviderIDList)
	assert.Equal(t, "d", pool.Status.Instances[1].Name)
	server.set(0)
	require.Eventually(t, func() bool {
		return len(env.Nodes.NodesOf(client.ObjectKey{Namespace: "default", Name: "demo"}, "workers").List) == 0
	}, 20*time.Second, time.Millisecond)
	env.reconcile()
	assert.Empty(t, env.get().Spec.ProviderIDList)
}

// EKS may refuse the next change for hours, and nodes come and go meanwhile. Those of a node group that is being created may still be replaced.
func TestProviderIDsFollowTheNodesOfANodeGroupThatExists(t *testing.T) {
	server := newWorkload(t, "a", "b", "c")
	env := newEnvironment(t, three(), poolOf(), server.kubeconfig(t, "token"))
	env.reconcile()
	fails := func() {
		update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
			builder.NotUpToDate(infrav1.ApplyFailedReason, "no capacity")(apply)
		})
	}
	fails()
	assert.Empty(t, env.settles("NodesKnown", "True NodesKnown").Spec.ProviderIDList)
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) { builder.UpToDate(nil)(apply) })
	assert.Len(t, env.settles("NodesReady", "True NodesReady").Spec.ProviderIDList, 3)
	fails()
	server.set(0, "a", "b!")
	env.settles("NodesReady", "False NodesNotReady")
	assert.Equal(t, []string{"aws:///a", "aws:///b"}, env.get().Spec.ProviderIDList)
	assert.Equal(t, "False ApplyFailed", env.summary()["Ready"])
}

// The list of instances waits for more changes; the numbers do not.
func TestInstancesAreDetails(t *testing.T) {
	server := newWorkload(t, "a", "b", "c")
	env := created(t, server, three(), poolOf())
	env.settles("NodesReady", "True NodesReady")
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "v1.31.0" })
	cluster := client.ObjectKey{Namespace: "default", Name: "demo"}
	is := func(names ...string) {
		t.Helper()
		server.set(0, names...)
		require.Eventually(t, func() bool { return assert.ObjectsAreEqual(known(names...), env.Nodes.NodesOf(cluster, "workers")) }, 20*time.Second, time.Millisecond)
	}
	is("a", "b", "x")
	writes, after := env.reconcileAfter()
	assert.Equal(t, []string{"patch"}, writes, "the provider IDs")
	assert.Equal(t, nodesDelay, after)
	assert.Equal(t, "c", env.get().Status.Instances[2].Name)
	env.clock.Pass(after)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "x", env.get().Status.Instances[2].Name)

	is("a", "b", "x!")
	assert.Equal(t, []string{"status"}, env.reconcile(), "a node that is not ready is reported at once")
	assert.Equal(t, ptr.To[int32](2), env.get().Status.ReadyReplicas)
	assert.Equal(t, "False NodesNotReady", env.summary()["Ready"])
}

func TestReplicasAreWrittenOnlyIfAnotherClientManagesThem(t *testing.T) {
	by := builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, "autoscaler")
	limits := builder.WithScaling(1, 9)
	env := created(t, newWorkload(t, "a", "b"), three(by), poolOf(limits))
	assert.False(t, env.apply().Spec.Variables.Has(naming.DesiredSizeVariable))
	env.settles("NodesReady", "True NodesReady")
	machinePool := get(env, three())
	assert.Equal(t, ptr.To[int32](2), machinePool.Spec.Replicas)
	env.reconcile()
	assert.Equal(t, machinePool.ResourceVersion, get(env, three()).ResourceVersion, "only on change")

	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Replicas = ptr.To[int32](9) })
	env.reconcile()
	assert.Equal(t, ptr.To[int32](2), get(env, three()).Spec.Replicas, "the number of nodes, of which status has details")

	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { builder.Paused()(pool) })
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Replicas = ptr.To[int32](7) })
	env.reconcile()
	assert.Equal(t, ptr.To[int32](7), get(env, three()).Spec.Replicas, "paused")

	env = created(t, newWorkload(t, "a", "b"), three(), poolOf(limits))
	env.settles("Ready", "False NodesNotReady")
	assert.Equal(t, ptr.To[int32](3), get(env, three()).Spec.Replicas, "the user manages them")

	env = newEnvironment(t, three(by), poolOf(limits))
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.UpToDate(map[string]string{"node_group_size": "5"})(apply)
	})
	env.reconcile()
	assert.Equal(t, ptr.To[int32](5), get(env, three()).Spec.Replicas, "without knowledge of nodes, as Terraform returns it")
	assert.Equal(t, ptr.To[int32](5), env.get().Status.Replicas)
}

// CAPA#5746 and CAPA#4134.
func TestScaling(t *testing.T) {
	env := created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	env.settles("NodesReady", "True NodesReady")
	desiredSize := func() string { return env.apply().Spec.Variables.Text(naming.DesiredSizeVariable) }
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Replicas = ptr.To[int32](5) })
	env.reconcile()
	assert.Equal(t, "5", desiredSize())
	assert.Equal(t, ptr.To[int32](5), env.get().Status.WantedReplicas)
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { builder.WithScaling(7, 9)(pool) })
	env.reconcile()
	assert.Equal(t, []string{"7", "7"}, []string{desiredSize(), env.apply().Spec.Variables.Text(naming.MinSizeVariable)}, "in the same change")
	assert.Equal(t, "True ReplicasOutOfBounds", env.summary()["ReplicasOutOfBounds"])
	assert.Contains(t, env.message("ReplicasOutOfBounds"), "MachinePool workers has 5 replicas, and its node group may have 7 to 9")
}

func TestAPausedPoolIsNotWritten(t *testing.T) {
	for name, paused := range map[string]builder.Option{"new": builder.Paused(), "deleted": builder.Deleting()} {
		options := []builder.Option{builder.Paused(), paused}
		if name == "deleted" {
			options = append(options, builder.WithFinalizers(infrav1.CAPTMachinePoolFinalizer))
		}
		env := newEnvironment(t, three(), poolOf(options...))
		if name == "deleted" {
			env.remove(three())
		}
		assert.Equal(t, []string{"status"}, env.reconcile(), name)
		assert.Equal(t, "True Paused", env.summary()["Paused"], name)
		assert.Empty(t, env.reconcile(), name)
		assert.Nil(t, env.apply(), name)
	}
	env := created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	env.settles("NodesReady", "True NodesReady")
	before := env.apply()
	cluster := get(env, builder.Cluster("demo"))
	update(env, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Replicas = ptr.To[int32](9) })
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, before, env.apply())
	assert.Equal(t, "True Ready", env.summary()["NodesReady"][:4]+" Ready", "as it was")
	update(env, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	assert.Contains(t, env.reconcile(), "apply workers-nodegroup-apply")
}

func TestDeletion(t *testing.T) {
	held := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = []string{"held/by-the-test"} })
	deletedMachinePool := func() *environment {
		env := created(t, newWorkload(t, "a", "b", "c"), three(builder.WithFinalizers("held/by-core")), poolOf())
		env.settles("NodesReady", "True NodesReady")
		update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) { held(apply) })
		return env
	}
	t.Run("with its MachinePool", func(t *testing.T) {
		env := deletedMachinePool()
		env.remove(three())
		env.remove(env.get())
		assert.Equal(t, []string{"delete workers-nodegroup-apply", "status"}, env.reconcile())
		assert.Equal(t, "waiting for WorkspaceTemplateApply workers-nodegroup-apply to be deleted", env.message("Ready"))
		assert.False(t, env.watches(), "the nodes are no longer watched")
		assert.Len(t, env.get().Spec.ProviderIDList, 3)
		assert.Empty(t, env.reconcile())
		update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) { apply.Finalizers = nil })
		env.reconcile()
		assert.Nil(t, env.get(), "it is released")
	})
	t.Run("alone", func(t *testing.T) {
		env := deletedMachinePool()
		env.remove(env.get())
		assert.Equal(t, []string{"status"}, env.reconcile())
		assert.Equal(t, "True UsedByMachinePool", env.summary()["Deleting"])
		assert.Contains(t, env.message("Deleting"), "To destroy the node group, delete MachinePool workers")
		assert.Empty(t, env.reconcile())
		assert.Nil(t, env.apply().DeletionTimestamp)
		env.clock.Pass(time.Hour)
		env.reconcile()
		assert.Equal(t, "True DeletionTimeout", env.summary()["DeletionTimedOut"])
		env.remove(three())
		assert.Contains(t, env.reconcile(), "delete workers-nodegroup-apply")
	})
	t.Run("protected", func(t *testing.T) {
		env := deletedMachinePool()
		update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Spec.DeletionProtection = infrav1.DeletionProtectionEnabled })
		env.reconcile()
		env.remove(three())
		env.remove(env.get())
		assert.Equal(t, []string{"status"}, env.reconcile())
		assert.Equal(t, "True "+infrav1.DeletionProtectedReason, env.summary()["Deleting"])
		assert.Nil(t, env.apply().DeletionTimestamp)
	})
	t.Run("it is gone", func(t *testing.T) {
		env := deletedMachinePool()
		update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Finalizers = nil })
		env.remove(env.get())
		env.reconcile()
		assert.False(t, env.watches())
	})
}

func TestTimeoutsCauseAReconcile(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.StartedTime = ptr.To(metav1.NewTime(env.clock.Now()))
		builder.NotUpToDate(infrav1.ProvisioningReason, "")(apply)
	})
	env.reconcile()
	env.clock.Pass(nodesDelay)
	assert.Equal(t, []string{"status"}, env.reconcile(), "that Terraform has started is a detail")
	env.clock.Pass(10 * time.Minute)
	writes, after := env.reconcileAfter()
	assert.Empty(t, writes)
	assert.Greater(t, after, 19*time.Minute)
	assert.LessOrEqual(t, after, 20*time.Minute+time.Second)
	env.clock.Pass(after)
	writes, after = env.reconcileAfter()
	assert.Equal(t, []string{"status"}, writes)
	assert.Zero(t, after)
	assert.Equal(t, "False NodeGroupTimeout", env.summary()["Ready"])
	env.State = &engine.StateCache{Clock: env.clock}
	assert.Empty(t, env.reconcile(), "a restart of the manager does not revert it")
}

// What a pool waits for may never exist. A control plane that exists has timeouts of its own.
func TestAPoolDoesNotWaitForEver(t *testing.T) {
	seconds := builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Spec.Timeouts.WaitSeconds = 60 })
	for name, objects := range map[string][]client.Object{
		"a MachinePool":   {poolOf(seconds), builder.Cluster("demo")},
		"a control plane": {poolOf(seconds), three(), builder.Cluster("demo")},
	} {
		env := newEnvironmentOf(t, objects...)
		_, after := env.reconcileAfter()
		assert.Equal(t, time.Minute, after, name)
		env.clock.Pass(after)
		env.reconcile()
		assert.Equal(t, "True WaitTimeout", env.summary()["Failed"], name)
		assert.Contains(t, env.message("Failed"), "timed out after 60s (spec.timeouts.waitSeconds)", name)
	}
	env := newEnvironmentOf(t, poolOf(seconds), three(), builder.Cluster("demo"), builder.CAPTControlPlane("demo"))
	_, after := env.reconcileAfter()
	assert.Zero(t, after)

	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { builder.Paused()(pool) })
	env.remove(three())
	_, after = env.reconcileAfter()
	assert.Zero(t, after, "nothing takes too long during a pause")
}

// The user decides what is recovered, and how often.
func TestTheStrategyOfANodeGroup(t *testing.T) {
	none := builder.With(func(pool *infrav1.CAPTMachinePool) {
		pool.Spec.Recovery = &infrav1.RecoveryStrategy{MaxRetries: ptr.To[int32](0)}
	})
	env := newEnvironment(t, three(), poolOf(none))
	env.Recovery = metrics.NewRecovery(prometheus.NewRegistry())
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = apply.Name, &infrav1.WorkspaceReference{UID: "workspace"}
		builder.NotUpToDate(infrav1.ApplyFailedReason, "AWS says no")(apply)
		apply.Status.LastFailureClass, apply.Status.FailureInputs = "Throttle", "1"
	})
	env.reconcile()
	env.clock.Pass(time.Hour)
	env.reconcile()
	assert.Empty(t, env.apply().Annotations[naming.RecoveryAnnotation])
}

// A write that is refused is repeated.
func TestRefusedWritesOfAPoolAreErrors(t *testing.T) {
	refused := errors.New("refused")
	try := func(env *environment) error {
		env.FailOn("patch", refused)
		_, err := env.Reconcile(t.Context(), request)
		return err
	}
	env := newEnvironment(t, three(), poolOf())
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.UpToDate(map[string]string{"node_group_arn": arn, "node_group_size": "3"})(apply)
	})
	require.ErrorIs(t, try(env), refused, "the ARN")

	by := builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, "autoscaler")
	env = newEnvironment(t, three(by), poolOf(builder.WithScaling(1, 9)))
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.UpToDate(map[string]string{"node_group_size": "5"})(apply)
	})
	require.ErrorIs(t, try(env), refused, "the replicas")
	env.Refuse = nil
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) { builder.UpToDate(nil)(apply) })
	env.reconcile()
	assert.Equal(t, ptr.To[int32](5), get(env, three()).Spec.Replicas, "a size that is not known replaces none")
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.UpToDate(map[string]string{"node_group_arn": arn, "node_group_size": "7"})(apply)
	})
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Finalizers = []string{infrav1.CAPTMachinePoolFinalizer} })
	env.remove(env.get())
	require.NoError(t, try(env), "a pool that is being deleted publishes nothing")
	assert.Empty(t, env.get().Spec.ProviderID)
}

// A WorkspaceTemplateApply can be deleted by another client, while something blocks a new one.
func TestAPoolWithoutItsWorkspaceTemplateApplyPublishesNothing(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	env.reconcile()
	update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
		builder.UpToDate(map[string]string{"node_group_arn": arn})(apply)
	})
	env.reconcile()
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "v1.99.0" })
	env.remove(env.apply())
	env.reconcile()
	assert.Nil(t, env.apply())
	assert.Equal(t, arn, env.get().Spec.ProviderID)
}

// The control plane has a kubeconfig, and the pool is blocked.
func TestWithoutItsWorkspaceTemplateApplyAPoolWatchesNoNodes(t *testing.T) {
	env := newEnvironment(t, three(builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "v1.99.0" })), poolOf(), newWorkload(t, "a").kubeconfig(t, "token"))
	env.reconcile()
	assert.Equal(t, "False InvalidVersion", env.summary()["Ready"])
	assert.False(t, env.watches())
}

// What a reconcile waits for has its own time, which is not that of what goes on meanwhile.
func TestWhenAPoolIsReconciledAgain(t *testing.T) {
	late := func(seconds int32, running time.Duration) func(*infrav1.CAPTMachinePool, *Facts) {
		return func(pool *infrav1.CAPTMachinePool, f *Facts) {
			applied(builder.NotUpToDate(infrav1.ProvisioningReason, "why"))(f)
			pool.Spec.Timeouts.NodeGroupSeconds, f.Running.Terraform = seconds, ptr.To(running)
		}
	}
	unready := func(pool *infrav1.CAPTMachinePool, f *Facts) {
		made()(f)
		f.Nodes = known("a", "b!", "c")
		pool.Status.Conditions = []metav1.Condition{{Type: infrav1.NodesReadyCondition, Status: "False", Reason: "x", LastTransitionTime: metav1.NewTime(f.Now.Add(-5 * time.Minute))}}
	}
	deleted := func(pool *infrav1.CAPTMachinePool, f *Facts) {
		builder.Deleting()(pool)
		f.Running.Deletion = ptr.To(time.Minute)
	}
	invalid := func(_ *infrav1.CAPTMachinePool, f *Facts) {
		f.MachinePool.Spec.Template.Spec.Version = "v1.40.0"
		f.Running.Reason, f.Running.Persists = infrav1.InvalidVersionReason, time.Second
	}
	provisioned := func(pool *infrav1.CAPTMachinePool, _ *Facts) { pool.Status.Initialization.Provisioned = ptr.To(true) }
	paused := func(_ *infrav1.CAPTMachinePool, f *Facts) { f.Paused = "annotation" }
	for name, row := range map[string]struct {
		is   []func(*infrav1.CAPTMachinePool, *Facts)
		want time.Duration
	}{
		"at rest":                  {nil, 0},
		"Terraform runs":           {[]func(*infrav1.CAPTMachinePool, *Facts){late(60, 20*time.Second)}, 40 * time.Second},
		"nodes are not ready":      {[]func(*infrav1.CAPTMachinePool, *Facts){unready, provisioned}, 10*time.Minute + time.Second},
		"nothing during a pause":   {[]func(*infrav1.CAPTMachinePool, *Facts){unready, provisioned, paused}, 0},
		"a deletion":               {[]func(*infrav1.CAPTMachinePool, *Facts){late(60, 20*time.Second), deleted}, 59 * time.Minute},
		"a new pool is invalid":    {[]func(*infrav1.CAPTMachinePool, *Facts){invalid}, time.Minute + 59*time.Second},
		"one that exists, invalid": {[]func(*infrav1.CAPTMachinePool, *Facts){invalid, provisioned}, 0},
	} {
		pool, f := builder.CAPTMachinePool("workers"), ofPool(made())
		for _, is := range row.is {
			is(pool, f)
		}
		p, err := plan(pool, f)
		require.NoError(t, err)
		p.Differs = false
		r := &Reconciler{Reconciler: owner.Reconciler{Engine: engine.Engine{State: &engine.StateCache{}}}}
		if err := r.await(t.Context(), pool, f, p); row.want == 0 {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, "next reconcile in "+row.want.String(), name)
		}
	}
}

func TestADegradedPool(t *testing.T) {
	env := created(t, newWorkload(t, "a", "b!", "c"), three(), poolOf())
	env.State.Clock = nil // Conditions have the time of the machine.
	seconds := builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Spec.Timeouts.NodesReadySeconds = 10 })
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { seconds(pool) })
	var after time.Duration
	require.Eventually(t, func() bool {
		_, after = env.reconcileAfter()
		return env.summary()["NodesReady"] == "False NodesNotReady"
	}, 20*time.Second, 10*time.Millisecond)
	_, after = env.reconcileAfter()
	assert.Greater(t, after, time.Second)
	assert.LessOrEqual(t, after, 11*time.Second)
	assert.NotContains(t, env.summary(), "Degraded")
	pool := env.get()
	for i := range pool.Status.Conditions {
		pool.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	}
	require.NoError(t, env.Status().Update(t.Context(), pool))
	_, after = env.reconcileAfter()
	assert.Zero(t, after)
	assert.Equal(t, "True NodesNotReady", env.summary()["Degraded"])
	assert.Empty(t, env.reconcile())
}

// No watch reports that a template of another namespace no longer blocks.
func TestABlockingTemplateOfAnotherNamespaceIsReadAgain(t *testing.T) {
	shared := builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Namespace, template.Spec.AllowedNamespaces.Names = "shared", []string{builder.Namespace}
	})
	env := newEnvironment(t, three(), builder.WorkspaceTemplate("nodegroup", shared, builder.Deleting(), builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)),
		poolOf(builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Spec.WorkspaceTemplateRef.Namespace = "shared" })))
	_, after := env.reconcileAfter()
	assert.Equal(t, owner.TemplateInterval, after)
	assert.Equal(t, "False TemplateDeleting", env.summary()["Ready"])
}

func TestAReferencedApplyIsUsedOnlyIfItMatches(t *testing.T) {
	ofGroup := func(cluster, group, template string) []builder.Option {
		return []builder.Option{builder.WithVariables(map[string]string{"cluster_name": cluster, "nodegroup_name": group}),
			builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = template })}
	}
	for name, row := range map[string]struct {
		options []builder.Option
		want    string
	}{
		"its own":                           {append(ofGroup("demo", "workers", "nodegroup"), builder.OwnedBy(poolOf())), ""},
		"one made by hand":                  {ofGroup("demo", "workers", "nodegroup"), infrav1.ReferenceConflictReason}, // Its template is not known.
		"another node group":                {ofGroup("demo", "others", "nodegroup"), infrav1.ReferenceConflictReason},
		"the node group of another cluster": {ofGroup("another", "workers", "nodegroup"), infrav1.ReferenceConflictReason},
		"of another template":               {ofGroup("demo", "workers", "vpc"), infrav1.ReferenceConflictReason},
		"of another pool":                   {append(ofGroup("demo", "workers", "nodegroup"), builder.OwnedBy(builder.CAPTMachinePool("others"))), infrav1.ReferenceConflictReason},
	} {
		t.Run(name, func(t *testing.T) {
			there := builder.WorkspaceTemplateApply("workers-nodegroup-apply", row.options...)
			env := newEnvironment(t, three(), there, poolOf(builder.WithApplyRef("workers-nodegroup-apply")))
			writes := env.reconcile()
			if row.want == "" {
				assert.Contains(t, writes, "apply workers-nodegroup-apply")
				assert.Equal(t, builder.UID("CAPTMachinePool", "workers"), env.apply().OwnerReferences[0].UID)
				return
			}
			assert.NotContains(t, writes, "apply workers-nodegroup-apply")
			assert.Equal(t, "False "+row.want, env.summary()["Ready"])
			assert.Equal(t, there.Spec, env.apply().Spec)
		})
	}
}

func TestACandidateNeedsADecision(t *testing.T) {
	byHand := builder.WorkspaceTemplateApply("workers-nodegroup-apply", builder.WithVariables(map[string]string{"cluster_name": "demo", "nodegroup_name": "workers"}),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "nodegroup" }))
	env := newEnvironment(t, three(), byHand, poolOf())
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])
	assert.Contains(t, env.message("NodeGroupReady"), "WorkspaceTemplateApply workers-nodegroup-apply")
	assert.Equal(t, byHand.Spec, env.apply().Spec)
	assert.Empty(t, env.reconcile())

	env = newEnvironment(t, three(), poolOf(builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Spec.ProviderID = arn })))
	assert.Equal(t, []string{"status"}, env.reconcile(), "the node group exists, so none is created a second time")
	assert.Contains(t, env.message("AdoptionRequired"), "spec.providerID is set")
	assert.Equal(t, "True AdoptionRequired", env.summary()["Degraded"], "it may serve")
}

func TestAPoolFollowsTheVersionOfItsControlPlane(t *testing.T) {
	env := created(t, newWorkload(t, "a", "b", "c"), three(), poolOf())
	env.settles("NodesReady", "True NodesReady")
	version := func() string { return env.apply().Spec.Variables.Text(naming.VersionVariable) }
	update(env, initialized(), func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = "v1.32.0" })
	assert.Empty(t, env.reconcile(), "the control plane goes first")
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "v1.32.0" })
	env.reconcile()
	assert.Equal(t, "False WaitingForVersion", env.summary()["Ready"])
	assert.Equal(t, "1.31", version())
	update(env, initialized(), func(c *controlplanev1.CAPTControlPlane) { c.Status.Version = "v1.32.0" })
	env.reconcile()
	assert.Equal(t, "1.32", version())
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "" })
	env.reconcile()
	assert.Equal(t, "1.32", version(), "without a version, that of the control plane")
}

func TestWhatAPoolNeedsBeforeItsNodeGroupIsCreated(t *testing.T) {
	other := builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane" })
	elsewhere := builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.InfrastructureRef.Name = "x" })
	for name, row := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a MachinePool":                       {[]client.Object{poolOf()}, "False WaitingForOwner"},
		"a MachinePool that refers to it":     {[]client.Object{poolOf(), three(elsewhere)}, "False WaitingForOwner"},
		"a MachinePool that owns it":          {[]client.Object{builder.CAPTMachinePool("workers", builder.WithLabel(clusterv1.ClusterNameLabel, "demo")), three()}, "False WaitingForOwner"},
		"a Cluster":                           {[]client.Object{poolOf(), three()}, "False WaitingForControlPlane"},
		"a Cluster of CAPT":                   {[]client.Object{poolOf(), three(), builder.Cluster("demo", other)}, "False WaitingForControlPlane"},
		"a control plane":                     {[]client.Object{poolOf(), three(), builder.Cluster("demo")}, "False WaitingForControlPlane"},
		"a control plane that is initialized": {[]client.Object{poolOf(), three(), builder.Cluster("demo"), builder.CAPTControlPlane("demo")}, "False WaitingForControlPlane"},
		"the WorkspaceTemplateApply of that":  {[]client.Object{poolOf(), three(), builder.Cluster("demo"), initialized()}, "False WaitingForControlPlane"},
	} {
		env := newEnvironmentOf(t, row.objects...)
		assert.Equal(t, []string{"status"}, env.reconcile(), name)
		assert.Equal(t, row.want, env.summary()["Ready"], name)
		assert.Empty(t, env.reconcile(), name)
		assert.False(t, env.watches(), name)
	}
}

func TestAControlPlaneOfAnotherProviderIsNotTakenForOne(t *testing.T) {
	other := builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Kind = "KubeadmControlPlane" })
	env := newEnvironmentOf(t, poolOf(), three(), builder.Cluster("demo", other), initialized(), eksApply()) // Of the same name.
	f, err := env.observe(t.Context(), env.get(), engine.GateDecision{})
	require.NoError(t, err)
	assert.Nil(t, f.ControlPlane.ControlPlane)
	assert.Nil(t, f.ControlPlane.Apply)
}

// The owner reference says that the MachinePool exists. Nothing else would wake the pool before the resync.
func TestAMachinePoolThatReachesTheCacheLateIsNotWaitedFor(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	absent := apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("machinepools").GroupResource(), "workers")
	env.Client = builder.FailingGet[*clusterv1.MachinePool](env.API, absent)
	assert.Contains(t, env.reconcile(), "apply workers-nodegroup-apply")
}

func TestWithoutConnectionsToClusters(t *testing.T) {
	env := created(t, newWorkload(t), three(), poolOf())
	env.Reconciler.Nodes = nil
	env.reconcile()
	assert.Equal(t, "True Ready", env.summary()["Ready"])
	assert.Equal(t, "False HealthProbesDisabled", env.summary()["NodesKnown"])
	assert.Equal(t, ptr.To[int32](3), env.get().Status.Replicas)
	assert.Empty(t, env.get().Spec.ProviderIDList)
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Finalizers = nil })
	env.remove(env.get())
	assert.Empty(t, env.reconcile())
}

// EKS names a cluster that was adopted, or that spec names, otherwise than Cluster API.
func TestTheNameOfTheEKSCluster(t *testing.T) {
	f := ofPool()
	assert.Equal(t, "demo", f.eksName())
	f.ControlPlane.Apply.Spec.Variables = infrav1.TextVariables(map[string]string{"cluster_name": "legacy"})
	assert.Equal(t, "legacy", f.eksName())
	f.ControlPlane.Apply.Spec.Variables, f.ControlPlane.ControlPlane.Spec.EKSClusterName = nil, "named"
	assert.Equal(t, "named", f.eksName())
	f.ControlPlane.Apply = nil
	assert.Equal(t, "named", f.eksName())
	f.ControlPlane = nil
	assert.Empty(t, f.eksName())
}

func TestWhichPoolsAnEventConcerns(t *testing.T) {
	label := func(cluster string) builder.Option { return builder.WithLabel(clusterv1.ClusterNameLabel, cluster) }
	env := newEnvironmentOf(t, poolOf(), builder.CAPTMachinePool("others", label("demo")), builder.CAPTMachinePool("third", label("x")), builder.CAPTMachinePool("elsewhere", label("demo"), builder.WithNamespace("x")))
	names := func(requests []ctrl.Request) (names []string) {
		for _, r := range requests {
			assert.Equal(t, builder.Namespace, r.Namespace)
			names = append(names, r.Name)
		}
		return names
	}
	ofDemo := []string{"others", "workers"}
	assert.ElementsMatch(t, ofDemo, names(env.ofCluster(t.Context(), builder.Cluster("demo"))))
	assert.ElementsMatch(t, ofDemo, names(env.ofControlPlane(t.Context(), builder.CAPTControlPlane("plane", builder.OwnedBy(builder.Cluster("demo"))))))
	assert.ElementsMatch(t, ofDemo, names(env.ofControlPlane(t.Context(), builder.CAPTCluster("net", builder.OwnedBy(builder.Cluster("demo"))))))
	assert.Empty(t, env.ofControlPlane(t.Context(), builder.CAPTControlPlane("plane")))
	assert.ElementsMatch(t, ofDemo, names(env.ofSecret(t.Context(), builder.SecretWith("demo-kubeconfig", nil))))
	assert.Empty(t, env.ofSecret(t.Context(), builder.SecretWith("demo", nil)))
	assert.Equal(t, []string{"workers"}, names(ofMachinePool(t.Context(), three())))
	assert.Empty(t, ofMachinePool(t.Context(), three(builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.InfrastructureRef.Kind = "DockerMachinePool" }))))

	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Spec.WorkspaceTemplateApplyRef.Name = "by-hand" })
	assert.Equal(t, []string{"workers"}, names(env.requests().ReferringTo(t.Context(), builder.WorkspaceTemplateApply("by-hand"))))
	after := func(apply string) []string {
		return names(env.requests().AfterDeletion(t.Context(), builder.WorkspaceTemplateApply(apply)))
	}
	assert.ElementsMatch(t, []string{"others", "third", "workers"}, after("by-hand"), "two refer to none yet")
	assert.ElementsMatch(t, []string{"others", "third"}, after("another"))
}

func TestWhichChangesOfControlPlanesWakePools(t *testing.T) {
	of := func(change func(*controlplanev1.CAPTControlPlane)) bool {
		before, after := initialized(), initialized()
		change(after)
		return controlPlaneChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	for name, row := range map[string]struct {
		change func(*controlplanev1.CAPTControlPlane)
		want   bool
	}{
		"nothing":         {func(*controlplanev1.CAPTControlPlane) {}, false},
		"a heartbeat":     {func(c *controlplanev1.CAPTControlPlane) { c.Status.ObservedGeneration = 7 }, false},
		"running version": {func(c *controlplanev1.CAPTControlPlane) { c.Status.Version = "v1.32.0" }, true},
		"initialization":  {func(c *controlplanev1.CAPTControlPlane) { c.Status.Initialization.ControlPlaneInitialized = nil }, true},
	} {
		assert.Equal(t, row.want, of(row.change), name)
	}
	waiting, failed := builder.CAPTControlPlane("demo"), builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Status.State = infrav1.StateFailed }))
	for _, controlPlane := range []client.Object{waiting, failed} {
		assert.False(t, controlPlaneChanged().Update(event.UpdateEvent{ObjectOld: controlPlane, ObjectNew: controlPlane}), "what stays wakes none")
	}
}

func TestWhatIsWrittenOfProvidersIsLimited(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	pool := env.get()
	f := ofPool(made(), func(f *Facts) {
		f.Nodes.List = nil
		for range maxProviderIDs + 2 {
			f.Nodes.List = append(f.Nodes.List, nodes.Node{ProviderID: "x"})
		}
		f.Nodes.List[0].ProviderID = "" // The cloud controller has not set it yet.
	})
	p, err := plan(pool, f)
	require.NoError(t, err)
	p.Differs = false
	require.NoError(t, env.publishNodes(t.Context(), pool, f, p))
	assert.Len(t, pool.Spec.ProviderIDList, maxProviderIDs)
	assert.NotContains(t, pool.Spec.ProviderIDList, "")
	assert.Equal(t, ptr.To[int32](maxProviderIDs), f.size(p))

	for _, none := range []string{"", "null"} { // Terraform has no ARN.
		f.Apply.Live.Status.Outputs = map[string]string{"node_group_arn": none}
		require.NoError(t, env.publishNodes(t.Context(), pool, f, p))
		assert.Equal(t, arn, pool.Spec.ProviderID)
	}
}

// Its address is that of the server, and it needs no more than what it has.
func kubeconfigWith(t *testing.T, address string, ca []byte, token string) string {
	t.Helper()
	data, err := kubeconfig.ForToken("demo", address, base64.StdEncoding.EncodeToString(ca), token)
	require.NoError(t, err)
	return string(data)
}

// A node group is recovered as a VPC is: controllers/captcluster and controllers/recovery test each rule.
func TestANodeGroupIsRecovered(t *testing.T) {
	env := newEnvironment(t, three(), poolOf())
	registry := prometheus.NewRegistry()
	env.Recovery = metrics.NewRecovery(registry)
	env.reconcile()
	terraform := func(options ...builder.Option) {
		update(env, env.apply(), func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = apply.Name, &infrav1.WorkspaceReference{UID: "workspace"}
			for _, option := range options {
				option(apply)
			}
		})
	}
	throttled := func() {
		terraform(builder.NotUpToDate(infrav1.ApplyFailedReason, "AWS says no"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.LastFailureClass, apply.Status.FailureInputs = "Throttle", "1"
		}))
	}
	throttled()
	pool := env.settles("Recovering", "False WaitingForRetry")
	assert.Equal(t, infrav1.StateProvisioning, pool.Status.State)
	assert.Equal(t, infrav1.OperationCreation, pool.Status.Progress.CurrentOperation)
	assert.Contains(t, env.message("Ready"), "AWS says no (recovery attempt 1 of 5 (Reapply) starts at")

	env.clock.Pass(3 * time.Minute)
	refused := errors.New("refused")
	env.FailOn("patch", refused)
	_, err := env.Reconcile(t.Context(), request)
	require.ErrorIs(t, err, refused, "a request that is refused is repeated")
	env.Refuse = nil
	assert.Equal(t, infrav1.StateRecovering, env.settles("Recovering", "True Recovering").Status.State)
	assert.True(t, strings.HasPrefix(env.apply().Annotations[naming.RecoveryAnnotation], "Reapply/workspace/"))

	terraform(builder.NotUpToDate(infrav1.ProvisioningReason, ""))
	assert.Empty(t, env.settles("Recovering", "True Recovering").Status.Recovery.LastOutcome, "Terraform still runs")
	terraform(builder.UpToDate(map[string]string{"node_group_arn": arn}))
	pool = env.settles("Recovering", "False Recovered")
	assert.Equal(t, "Succeeded", pool.Status.Recovery.LastOutcome)
	assert.NotEqual(t, infrav1.StateRecovering, pool.Status.State)

	planned := func() int {
		count, err := testutil.GatherAndCount(registry, "capt_recovery_next_attempt_timestamp_seconds")
		require.NoError(t, err)
		return count
	}
	throttled()
	env.settles("Recovering", "False WaitingForRetry")
	assert.Equal(t, 1, planned())
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.Finalizers = nil })
	env.remove(env.get())
	env.reconcile()
	assert.Zero(t, planned(), "a pool that is gone has no metrics")
}
