// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// canary is what must not be reported anywhere.
const canary = "canary-token"

var (
	demo    = client.ObjectKey{Namespace: "default", Name: "demo"}
	workers = client.ObjectKey{Namespace: "default", Name: "workers"}
	others  = client.ObjectKey{Namespace: "default", Name: "others"}
)

// apiServer has Nodes, and answers requests for those with the label of node groups.
type apiServer struct {
	*testing.T
	*httptest.Server
	// refuse answers a request instead; it may be nil. It is set before the first request.
	refuse func(w http.ResponseWriter, r *http.Request) bool
	// page is the number of Nodes per page of a list.
	page int

	mu       sync.Mutex
	nodes    map[string]*corev1.Node
	version  int
	watches  map[chan metav1.WatchEvent]bool
	requests []*http.Request
	open     map[net.Conn]bool
}

func newServer(t *testing.T, nodes ...*corev1.Node) *apiServer {
	t.Helper()
	s := &apiServer{T: t, page: 2, nodes: map[string]*corev1.Node{}, watches: map[chan metav1.WatchEvent]bool{}, open: map[net.Conn]bool{}, version: 100}
	for _, node := range nodes {
		s.nodes[node.Name] = node
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Server.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[conn] = true; state == http.StateClosed {
			delete(s.open, conn)
		}
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.endWatches()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	query := r.URL.Query()
	switch {
	case s.refuse != nil && s.refuse(w, r):
	case r.URL.Path != "/api/v1/nodes" || query.Get("labelSelector") != NodeGroupLabel:
		w.WriteHeader(http.StatusTeapot)
	case query.Get("watch") != "":
		s.serveWatch(w, r)
	default:
		s.serveList(w, query.Get("continue"))
	}
}

func (s *apiServer) serveList(w http.ResponseWriter, from string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
	list.ResourceVersion = strconv.Itoa(s.version)
	names := make([]string, 0, len(s.nodes))
	for name := range s.nodes {
		if name > from {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > s.page {
		names = names[:s.page]
		list.Continue = names[s.page-1]
	}
	for _, name := range names {
		list.Items = append(list.Items, *s.nodes[name])
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

func (s *apiServer) serveWatch(w http.ResponseWriter, r *http.Request) {
	events := make(chan metav1.WatchEvent, 100)
	s.mu.Lock()
	s.watches[events] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case event, ok := <-events:
			if !ok {
				return
			}
			_ = json.NewEncoder(w).Encode(event)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// send sends events to all watches, and changes the Nodes accordingly.
func (s *apiServer) send(kind watch.EventType, nodes ...*corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range nodes {
		s.version++
		node = node.DeepCopy()
		node.ResourceVersion = strconv.Itoa(s.version)
		if s.nodes[node.Name] = node; kind == watch.Deleted {
			delete(s.nodes, node.Name)
		}
		for events := range s.watches {
			events <- metav1.WatchEvent{Type: string(kind), Object: apiruntime.RawExtension{Object: node}}
		}
	}
}

// endWatches ends all watches, as API servers do from time to time.
func (s *apiServer) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.watches {
		close(events)
	}
	clear(s.watches)
}

// count returns the numbers of lists and of watches that were requested, and the token of the last request.
func (s *apiServer) count() (lists, watches int, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		switch query := r.URL.Query(); {
		case query.Get("watch") != "":
			watches++
		case query.Get("continue") == "":
			lists++
		}
		token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	return lists, watches, token
}

func (s *apiServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// kubeconfig returns a kubeconfig for the server.
func (s *apiServer) kubeconfig(changes ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	return kubeconfigFor(s.T, s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), changes...)
}

func kubeconfigFor(t *testing.T, address string, authority []byte, changes ...func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server, cluster.CertificateAuthorityData, user.Token = address, authority, canary
	for _, change := range changes {
		change(cluster, user)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.AuthInfos["u"], config.CurrentContext = cluster, user, "x"
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	data, err := clientcmd.Write(*config)
	require.NoError(t, err)
	return data
}

func withToken(token string) func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
	return func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) { user.Token = token }
}

// node makes a ready Node of a node group.
func node(name, group string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{NodeGroupLabel: group, "x": "y"}}}
	n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion = "aws:///a/"+name, "v1.35.0"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func notReady(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }

func heartbeat(n *corev1.Node) {
	n.Status.Conditions[1].LastHeartbeatTime = metav1.Now()
	n.Annotations = map[string]string{"time": time.Now().String()}
}

// kept is what is known of a node that is as node makes it.
func kept(name string) Node {
	return Node{Name: name, ProviderID: "aws:///a/" + name, Version: "v1.35.0", Ready: true}
}

// environment is a watcher that runs, and counts its notifications.
type environment struct {
	*testing.T
	*Watcher
	notified atomic.Int32
	stop     func()
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	env := &environment{T: t, Watcher: NewWatcher()}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- env.Start(ctx) }()
	go func() {
		for {
			select {
			case changed := <-env.Changes():
				assert.Equal(t, demo, client.ObjectKeyFromObject(changed.Object))
				env.notified.Add(1)
			case <-ctx.Done():
				return
			}
		}
	}()
	env.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-stopped)
	})
	t.Cleanup(env.stop)
	return env
}

const (
	limit    = 20 * time.Second
	interval = 10 * time.Millisecond
)

// awaits waits until a node group has nodes.
func (env *environment) awaits(group string, want ...Node) {
	env.Helper()
	require.EventuallyWithT(env, func(c *assert.CollectT) { assert.Equal(c, Nodes{List: want}, env.NodesOf(demo, group)) }, limit, interval)
}

// notifies waits for pending notifications, and returns how many there were since.
func (env *environment) notifies() int {
	time.Sleep(notifyDelay + notifyDelay/2)
	return int(env.notified.Swap(0))
}

func TestTheNodesOfANodeGroup(t *testing.T) {
	t.Parallel()
	leaving := func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) }
	server := newServer(t, node("e", "workers"), node("c", "workers", notReady), node("a", "workers"), node("d", "workers", leaving), node("b", "others"))
	env := newEnvironment(t)
	assert.Equal(t, Nodes{Problem: "waiting for the kubeconfig of the cluster", Pending: true}, env.NodesOf(demo, "workers"))
	env.Track(demo, workers, "1", server.kubeconfig())
	unready, left := kept("c"), kept("d")
	unready.Ready, left.Ready = false, false
	env.awaits("workers", kept("a"), unready, left, kept("e"))
	env.awaits("others", kept("b"))
	env.awaits("unknown")
	assert.Equal(t, 1, env.notifies())

	server.mu.Lock()
	first := server.requests[0].URL.Query()
	server.mu.Unlock()
	assert.Equal(t, []string{"100", ""}, []string{first.Get("limit"), first.Get("resourceVersion")}, "API servers ignore the limit of a list with a resource version")
	lists, watches, token := server.count()
	assert.Equal(t, []any{1, 1, canary}, []any{lists, watches, token})
	assert.Equal(t, 1, server.connections())
}

func TestOnlyChangesOfWhatIsKnownNotify(t *testing.T) {
	t.Parallel()
	server := newServer(t, node("a", "workers"), node("b", "workers"))
	env := newEnvironment(t)
	env.Track(demo, workers, "1", server.kubeconfig())
	env.awaits("workers", kept("a"), kept("b"))
	require.Equal(t, 1, env.notifies())

	for range 20 {
		server.send(watch.Modified, node("a", "workers", heartbeat), node("b", "workers", heartbeat))
	}
	server.send(watch.Bookmark, &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}})
	assert.Zero(t, env.notifies(), "heartbeats")

	for _, name := range []string{"c", "d", "e"} {
		server.send(watch.Added, node(name, "workers"))
	}
	env.awaits("workers", kept("a"), kept("b"), kept("c"), kept("d"), kept("e"))
	assert.Equal(t, 1, env.notifies(), "three that are added")
	server.send(watch.Deleted, node("d", "workers"), node("e", "another label"))
	env.awaits("workers", kept("a"), kept("b"), kept("c"))
	assert.Equal(t, 1, env.notifies(), "two that are removed")
	server.send(watch.Modified, node("a", "workers", notReady))
	unready := kept("a")
	unready.Ready = false
	env.awaits("workers", unready, kept("b"), kept("c"))
	assert.Equal(t, 1, env.notifies(), "one that is not ready")
	server.send(watch.Modified, node("a", "others"))
	env.awaits("others", kept("a"))
	env.awaits("workers", kept("b"), kept("c"))
	assert.Equal(t, 1, env.notifies(), "one of another node group now")

	server.send(watch.Deleted, node("unknown", "workers"))
	server.endWatches()
	assert.Zero(t, env.notifies(), "a watch that goes on")
	lists, watches, _ := server.count()
	assert.Equal(t, 1, lists)
	assert.Greater(t, watches, 1)
}

func TestAnotherTokenContinuesTheWatch(t *testing.T) {
	t.Parallel()
	server := newServer(t, node("a", "workers"))
	env := newEnvironment(t)
	env.Track(demo, workers, "1", server.kubeconfig())
	env.awaits("workers", kept("a"))
	assert.True(t, env.Tracks(demo, workers, "1"))
	assert.False(t, env.Tracks(demo, workers, "2"), "of another version")
	assert.False(t, env.Tracks(demo, others, "1"), "for another pool")

	env.Track(demo, others, "2", server.kubeconfig(withToken("renewed")))
	assert.True(t, env.Tracks(demo, workers, "2"), "a pool profits from what another one read")
	assert.True(t, env.Tracks(demo, others, "2"))
	server.send(watch.Modified, node("a", "workers", heartbeat)) // A short watch without events would be followed by a list.
	server.endWatches()
	require.Eventually(t, func() bool { _, _, token := server.count(); return token == "renewed" }, limit, interval)
	env.Track(demo, workers, "3", server.kubeconfig(withToken("renewed again")))
	server.send(watch.Modified, node("a", "workers", heartbeat))
	server.endWatches()
	require.Eventually(t, func() bool { _, _, token := server.count(); return token == "renewed again" }, limit, interval)
	lists, _, _ := server.count()
	assert.Equal(t, 1, lists)
	assert.Equal(t, 1, env.notifies(), "that of the list")
}

// What differs in more than the token is another connection.
func TestOnlyATokenIsRenewed(t *testing.T) {
	server := newServer(t)
	for name, change := range map[string]func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo){
		"address":        func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.Server += "/x" },
		"authority":      func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = nil },
		"server name":    func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.TLSServerName = "elsewhere" },
		"proxy":          func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.ProxyURL = "http://proxy.example.com" },
		"certificate":    func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.ClientCertificateData = []byte("x") },
		"password":       func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Username, u.Password = "u", "p" },
		"impersonation":  func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Impersonate = "u" },
		"no token":       func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) { u.Token = "" },
		"no certificate": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.InsecureSkipTLSVerify = true },
	} {
		c := newCluster(server.kubeconfig(), func(time.Duration) {})
		require.NotNil(t, c.client)
		assert.False(t, c.renew(server.kubeconfig(withToken("other"), change)), name)
		assert.Equal(t, canary, *c.token.Load(), name)
		assert.True(t, c.renew(server.kubeconfig(withToken("other"))))
		assert.Equal(t, "other", *c.token.Load())
	}
}

func TestAnotherAddressRestartsTheWatch(t *testing.T) {
	t.Parallel()
	before, after := newServer(t, node("a", "workers")), newServer(t, node("b", "workers"))
	env := newEnvironment(t)
	env.Track(demo, workers, "1", before.kubeconfig())
	env.awaits("workers", kept("a"))
	env.Track(demo, others, "2", after.kubeconfig())
	env.awaits("workers", kept("b"))
	assert.True(t, env.Tracks(demo, workers, "2"))
	require.Eventually(t, func() bool { return before.connections() == 0 }, limit, interval, "the connection is closed")
	assert.Equal(t, 1, after.connections())
}

func TestWhyNodesAreNotKnown(t *testing.T) {
	t.Parallel()
	answers := func(status int) *apiServer {
		server := newServer(t)
		server.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Location", "/"+canary)
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, canary, r.RemoteAddr)
			return true
		}
		return server
	}
	closed := newServer(t)
	unreachable := closed.kubeconfig()
	closed.Close()
	foreign, text := newServer(t), newServer(t)
	text.refuse = func(w http.ResponseWriter, _ *http.Request) bool { _, _ = fmt.Fprint(w, canary); return true }
	for name, row := range map[string]struct {
		kubeconfig []byte
		want       string
	}{
		"unauthorized":      {answers(401).kubeconfig(), "the API server rejects the credentials of the kubeconfig (401)"},
		"forbidden":         {answers(403).kubeconfig(), "the user of the kubeconfig may not list and watch Nodes (403)"},
		"a redirect":        {answers(302).kubeconfig(), "the API server answers with status 302"},
		"not found":         {answers(404).kubeconfig(), "the API server answers with status 404"},
		"not Kubernetes":    {text.kubeconfig(), "the API server of the cluster cannot be read"},
		"unreachable":       {unreachable, "the API server of the cluster cannot be reached"},
		"another authority": {foreign.kubeconfig(func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.TLSServerName = "elsewhere.invalid" }), "the API server of the cluster cannot be reached"},
		"not a kubeconfig":  {[]byte(canary), "kubeconfig"},
		"no kubeconfig":     {nil, "kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t)
			env.Track(demo, workers, "1", row.kubeconfig)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.Contains(c, env.NodesOf(demo, "workers").Problem, row.want)
			}, limit, interval)
			got := env.NodesOf(demo, "workers")
			assert.False(t, got.Pending)
			assert.NotContains(t, got.Problem, canary)
			assert.NotContains(t, got.Problem, "127.0.0.1")
			env.Track(demo, workers, "1", row.kubeconfig)
			assert.LessOrEqual(t, env.notifies(), 1, "the same problem is reported once")
		})
	}
}

func TestAnUnsafeKubeconfigIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo){
		"insecure": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil
		},
		"without TLS": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			c.Server = strings.Replace(c.Server, "https", "http", 1)
		},
		"a command": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.Exec = "", &clientcmdapi.ExecConfig{Command: "/bin/" + canary, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}
		},
		"a file": func(_ *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo) {
			u.Token, u.TokenFile = "", "/etc/hostname"
		},
		"bad certificates": func(c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) { c.CertificateAuthorityData = []byte(canary) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, env := newServer(t), newEnvironment(t)
			env.Track(demo, workers, "1", server.kubeconfig(change))
			got := env.NodesOf(demo, "workers")
			assert.NotEmpty(t, got.Problem)
			assert.False(t, got.Pending)
			assert.NotContains(t, got.Problem, canary)
			env.Track(demo, workers, "2", server.kubeconfig(change)) // It is not renewed either.
			env.Track(demo, workers, "3", server.kubeconfig(change, func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {}))
			time.Sleep(100 * time.Millisecond)
			assert.Zero(t, server.connections())

			env.Track(demo, workers, "4", server.kubeconfig())
			env.awaits("workers")
		})
	}
}

// The pager of client-go would take the first page for the whole list, and Cluster API deletes the Nodes that a pool does not list.
func TestAListWhoseNextPageExpiredIsRepeated(t *testing.T) {
	t.Parallel()
	var expired atomic.Int32
	server := newServer(t, node("a", "workers"), node("b", "workers"), node("c", "workers"))
	server.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("continue") == "" || expired.Add(1) > 1 {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410})
		return true
	}
	env := newEnvironment(t)
	env.Track(demo, workers, "1", server.kubeconfig())
	require.Eventually(t, func() bool {
		list := env.NodesOf(demo, "workers").List
		require.NotContains(t, []int{1, 2}, len(list))
		return len(list) == 3
	}, limit, time.Millisecond)
}

func TestTheLastPoolEndsTheWatch(t *testing.T) { // Not parallel: it counts goroutines.
	server := newServer(t, node("a", "workers"))
	env := newEnvironment(t)
	env.queue.Add(demo)
	require.Eventually(t, func() bool { return env.notified.Swap(0) == 1 }, limit, interval, "it runs")
	before := runtime.NumGoroutine()
	env.Track(demo, workers, "1", server.kubeconfig())
	env.Track(demo, others, "1", server.kubeconfig())
	env.awaits("workers", kept("a"))
	require.Equal(t, 1, server.connections())

	env.Release(workers)
	env.Release(client.ObjectKey{Namespace: "default", Name: "unknown"})
	env.awaits("workers", kept("a"))
	env.Release(others)
	assert.Equal(t, Nodes{Problem: "waiting for the kubeconfig of the cluster", Pending: true}, env.NodesOf(demo, "workers"))
	assert.False(t, env.Tracks(demo, others, "1"))
	server.requireNoTraces(before)
	assert.Empty(t, env.clusters)
}

func TestStartReturnsWhenNoWatchRuns(t *testing.T) { // Not parallel: it counts goroutines.
	server := newServer(t, node("a", "workers"))
	before := runtime.NumGoroutine()
	w := NewWatcher()
	w.Track(demo, workers, "1", server.kubeconfig())
	time.Sleep(50 * time.Millisecond)
	assert.Zero(t, server.connections(), "it has not started")
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- w.Start(ctx) }()
	require.Eventually(t, func() bool { return len(w.NodesOf(demo, "workers").List) == 1 }, limit, interval)
	time.Sleep(notifyDelay + 100*time.Millisecond) // The notification is not received.
	stop()
	require.NoError(t, <-stopped)
	w.Track(demo, workers, "2", server.kubeconfig(withToken("late")))
	server.requireNoTraces(before)
}

// requireNoTraces requires that no connection is left, and no goroutine. It runs none for itself.
func (s *apiServer) requireNoTraces(goroutines int) {
	s.Helper()
	for began := time.Now(); s.connections() > 0 || runtime.NumGoroutine() > goroutines; time.Sleep(interval) {
		require.Less(s, time.Since(began), limit, "%d connections, %d goroutines more", s.connections(), runtime.NumGoroutine()-goroutines)
	}
}

// client-go logs the errors of requests, with what the server sent.
func TestNothingIsLogged(t *testing.T) { // Not parallel: the log is that of the process.
	var logs bytes.Buffer
	state := klog.CaptureState()
	klog.LogToStderr(false)
	klog.SetOutput(&logs)
	server := newServer(t, node("a", "workers"))
	server.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, canary)
		return true
	}
	env := newEnvironment(t)
	env.Track(demo, workers, "1", server.kubeconfig())
	require.Eventually(t, func() bool { lists, _, _ := server.count(); return lists > 1 }, limit, interval)
	env.stop()
	klog.Flush()
	state.Restore()
	assert.Empty(t, logs.String())
}
