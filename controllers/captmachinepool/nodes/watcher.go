// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes knows the nodes of EKS node groups: it watches the Nodes with the label of EKS in each cluster that has machine pools, over one
// connection per cluster, with the credentials of the kubeconfig that Cluster API uses. It keeps of a Node only what pools report, so that
// heartbeats of Nodes cause nothing.
package nodes

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// NodeGroupLabel is the label that EKS gives to the Nodes of a managed node group: its name.
const NodeGroupLabel = "eks.amazonaws.com/nodegroup"

const (
	// notifyDelay collects changes of the nodes of a cluster, because a scaled pool changes many nodes at once.
	notifyDelay = time.Second
	// maxNodes limits the nodes that are kept per cluster: users of the cluster can create Nodes.
	maxNodes = 10_000
	// maxResponse limits one response of an API server, in bytes. A list is read in pages of pageSize Nodes.
	maxResponse = 64 << 20
	pageSize    = 500
	// callTimeout limits one list, in seconds.
	callTimeout = 60
	// graceful is for how long the nodes count as known after a request failed: API servers restart during upgrades.
	graceful = time.Minute
)

// Node is what is known of a node.
type Node struct {
	Name, ProviderID, Version string
	Ready                     bool
}

// Nodes are the nodes of a node group.
type Nodes struct {
	// List is sorted by name.
	List []Node
	// Problem is why the nodes are not known; empty when they are. Pending is true if they will be known soon.
	Problem string
	Pending bool
}

// Watcher watches the nodes of clusters.
type Watcher struct {
	queue   workqueue.TypedDelayingInterface[client.ObjectKey]
	changes chan event.GenericEvent

	mu       sync.Mutex
	clusters map[client.ObjectKey]*cluster
	// running is done when the watcher stops; nil before it starts.
	running context.Context //nolint:containedctx // Watches start in reconciles, and end with the manager.
	watches sync.WaitGroup
}

// NewWatcher returns a watcher without clusters.
func NewWatcher() *Watcher {
	return &Watcher{
		queue:   workqueue.NewTypedDelayingQueue[client.ObjectKey](),
		changes: make(chan event.GenericEvent), clusters: map[client.ObjectKey]*cluster{},
	}
}

// Changes receives the Clusters of which a node changed.
func (w *Watcher) Changes() <-chan event.GenericEvent { return w.changes }

// Start runs until the context is done, and returns when no watch runs any more. It implements manager.Runnable.
func (w *Watcher) Start(ctx context.Context) error {
	w.mu.Lock()
	w.running = ctx
	for _, c := range w.clusters {
		w.run(c)
	}
	w.mu.Unlock()
	notified := make(chan struct{})
	go func() {
		defer close(notified)
		for {
			key, stopped := w.queue.Get()
			if stopped {
				return
			}
			w.queue.Done(key)
			changed := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			select {
			case w.changes <- event.GenericEvent{Object: changed}:
			case <-ctx.Done():
			}
		}
	}()
	<-ctx.Done()
	w.queue.ShutDown()
	w.watches.Wait()
	<-notified
	return nil
}

// run starts the watch of a cluster. The mutex is held.
func (w *Watcher) run(c *cluster) {
	if w.running == nil || c.stop != nil || c.client == nil {
		return
	}
	ctx, stop := context.WithCancel(w.running)
	c.stop = stop
	w.watches.Go(func() {
		defer c.http.CloseIdleConnections()
		logger := logr.Discard() // It would log each failure of each cluster; conditions report them.
		cache.NewReflectorWithOptions(c.listWatch(), &corev1.Node{}, c, cache.ReflectorOptions{Name: c.key.String(), Logger: &logger}).RunWithContext(ctx)
	})
}

// Tracks reports whether the nodes of a cluster are watched for a pool, with a version of the kubeconfig Secret.
func (w *Watcher) Tracks(key, pool client.ObjectKey, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clusters[key]
	return c != nil && c.version == version && c.pools.Has(pool)
}

// Track watches the nodes of a cluster for a pool, with a version of the kubeconfig Secret and its kubeconfig. Another token of the same kubeconfig
// continues the watch.
func (w *Watcher) Track(key, pool client.ObjectKey, version string, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.clusters[key]
	if was != nil && (bytes.Equal(was.kubeconfig, data) || was.renew(data)) {
		was.version = version
		was.pools.Insert(pool)
		return
	}
	c := newCluster(key, data, func(after time.Duration) { w.queue.AddAfter(key, after) })
	c.version, c.pools = version, sets.New(pool)
	if was != nil {
		was.end()
		c.pools = was.pools.Insert(pool)
	}
	w.clusters[key] = c
	w.run(c)
}

// Release ends the watch for a pool, and with the last pool of a cluster that of its nodes.
func (w *Watcher) Release(pool client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, c := range w.clusters {
		if c.pools.Delete(pool); c.pools.Len() == 0 {
			c.end()
			delete(w.clusters, key)
		}
	}
}

// Watched is the number of clusters, and of nodes that are kept.
func (w *Watcher) Watched() (clusters, nodes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		nodes += c.size()
	}
	return len(w.clusters), nodes
}

// NodesOf returns the nodes of a node group.
func (w *Watcher) NodesOf(key client.ObjectKey, nodeGroup string) Nodes {
	w.mu.Lock()
	c := w.clusters[key]
	w.mu.Unlock()
	if c == nil {
		return Nodes{Problem: "waiting for the kubeconfig of the cluster", Pending: true}
	}
	return c.nodesOf(nodeGroup)
}

// cluster is a store of the nodes of one cluster, which a reflector fills. It implements cache.ReflectorStore.
type cluster struct {
	key client.ObjectKey
	// pools are the CAPTMachinePools that the cluster is watched for. version is that of the Secret with the kubeconfig.
	pools      sets.Set[client.ObjectKey]
	version    string
	kubeconfig []byte
	client     rest.Interface
	http       *http.Client
	token      *atomic.Pointer[string]
	notify     func(after time.Duration)
	stop       context.CancelFunc

	mu sync.Mutex
	// groups has the nodes by node group and name.
	groups map[string]map[string]Node
	count  int
	// listed is true once the nodes were listed. problem is why the last request failed, and failed when requests began to fail.
	listed  bool
	problem string
	failed  time.Time
}

func newCluster(key client.ObjectKey, data []byte, notify func(after time.Duration)) *cluster {
	c := &cluster{key: key, kubeconfig: data, notify: notify, groups: map[string]map[string]Node{}, token: &atomic.Pointer[string]{}}
	config, _, err := kubeconfig.ClientConfig(data)
	if err == nil {
		err = c.connect(config)
	}
	if err != nil {
		c.problem = err.Error()
	}
	return c
}

func (c *cluster) connect(config *rest.Config) (err error) {
	c.token.Store(&config.BearerToken)
	config = rest.CopyConfig(config)
	hasToken := config.BearerToken != ""
	config.BearerToken = ""
	config.UserAgent, config.QPS = "capt-manager", -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited{next, c.token, hasToken} })
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return errors.New("the certificates of the kubeconfig are invalid")
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	made, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return errors.New("the address in the kubeconfig is invalid")
	}
	c.client = made
	return nil
}

// renew uses the token of a kubeconfig that differs in nothing else, and reports whether it does.
func (c *cluster) renew(data []byte) bool {
	if c.client == nil {
		return false
	}
	was, _, err := kubeconfig.ClientConfig(c.kubeconfig)
	is, _, errNow := kubeconfig.ClientConfig(data)
	if err != nil || errNow != nil || was.BearerToken == "" || is.BearerToken == "" {
		return false
	}
	token := is.BearerToken
	was.BearerToken, is.BearerToken = "", ""
	if was.Host != is.Host || !bytes.Equal(was.CAData, is.CAData) || was.TLSClientConfig.String() != is.TLSClientConfig.String() || !bytes.Equal(was.KeyData, is.KeyData) ||
		was.Username != is.Username || was.Password != is.Password {
		return false
	}
	c.kubeconfig = data
	c.token.Store(&token)
	return true
}

// end stops the watch.
func (c *cluster) end() {
	if c.stop != nil {
		c.stop()
	}
}

// listWatch lists and watches the Nodes of all node groups, and records whether that works.
func (c *cluster) listWatch() *cache.ListWatch {
	request := func(options *metav1.ListOptions) *rest.Request {
		options.LabelSelector = NodeGroupLabel
		return c.client.Get().Resource("nodes")
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.TimeoutSeconds = new(int64(callTimeout))
			if options.Limit == 0 {
				options.Limit = pageSize
			}
			list := &corev1.NodeList{}
			r := request(&options)
			err := r.VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
			c.report(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			r := request(&options)
			found, err := r.VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
			c.report(ctx, err)
			return found, err
		},
	}
}

// report records the result of a request.
func (c *cluster) report(ctx context.Context, err error) {
	problem := ""
	switch {
	case ctx.Err() != nil:
		return // The watch was ended.
	case err != nil:
		problem = problemOf(err)
	}
	c.update(func() bool {
		changed, began := c.problem != problem, c.problem == "" && problem != ""
		if c.problem = problem; began {
			c.failed = time.Now()
		}
		if !changed || !c.listed {
			return changed
		}
		if problem != "" { // It is reported when the grace period ends.
			c.notify(graceful + time.Second)
			return false
		}
		return time.Since(c.failed) >= graceful
	})
}

// problemOf describes an error without what the server sent, and without ports that differ each time.
func problemOf(err error) string {
	var request *url.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return "the API server rejects the credentials of the kubeconfig (401)"
	case apierrors.IsForbidden(err):
		return "the user of the kubeconfig may not list and watch Nodes (403)"
	case errors.As(err, &request):
		return "the API server of the cluster cannot be reached"
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return fmt.Sprintf("the API server answers with status %d", status.Status().Code)
	}
	return "the API server of the cluster cannot be read"
}

// update changes the store, and notifies if change reports that something changed.
func (c *cluster) update(change func() bool) {
	c.mu.Lock()
	changed := change()
	c.mu.Unlock()
	if changed {
		c.notify(notifyDelay)
	}
}

func (c *cluster) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *cluster) nodesOf(nodeGroup string) Nodes {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.problem != "" && (!c.listed || time.Since(c.failed) >= graceful):
		return Nodes{Problem: c.problem}
	case !c.listed:
		return Nodes{Problem: "waiting for the list of the nodes", Pending: true}
	case c.count >= maxNodes:
		return Nodes{Problem: fmt.Sprintf("the cluster has more than %d nodes", maxNodes)}
	}
	list := slices.Collect(maps.Values(c.groups[nodeGroup]))
	slices.SortFunc(list, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return Nodes{List: list}
}

// set stores a Node, and reports whether what is known of it changed.
func (c *cluster) set(object any) bool {
	node, ok := object.(*corev1.Node)
	if !ok {
		return false
	}
	group, is := strings.Clone(node.Labels[NodeGroupLabel]), nodeOf(node)
	moved := false
	for name, others := range c.groups {
		if _, was := others[node.Name]; was && name != group {
			moved = c.remove(name, node.Name) // A client changed the label.
		}
	}
	was, known := c.groups[group][is.Name]
	if known && was == is || !known && c.count >= maxNodes {
		return moved
	}
	if c.groups[group] == nil {
		c.groups[group] = map[string]Node{}
	}
	if !known {
		c.count++
	}
	c.groups[group][is.Name] = is
	return true
}

// remove removes a node, and reports whether it was known.
func (c *cluster) remove(group, name string) bool {
	if _, known := c.groups[group][name]; !known {
		return false
	}
	if delete(c.groups[group], name); len(c.groups[group]) == 0 {
		delete(c.groups, group)
	}
	c.count--
	return true
}

// nodeOf copies what is kept of a Node, so that the rest can be freed.
func nodeOf(node *corev1.Node) Node {
	ready := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
	return Node{
		Name: strings.Clone(node.Name), ProviderID: strings.Clone(node.Spec.ProviderID), Version: strings.Clone(node.Status.NodeInfo.KubeletVersion),
		Ready: ready && node.DeletionTimestamp.IsZero(),
	}
}

// Add implements cache.ReflectorStore.
func (c *cluster) Add(object any) error {
	c.update(func() bool { return c.set(object) })
	return nil
}

// Update implements cache.ReflectorStore.
func (c *cluster) Update(object any) error { return c.Add(object) }

// Delete implements cache.ReflectorStore.
func (c *cluster) Delete(object any) error {
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil
	}
	c.update(func() bool { return c.remove(node.Labels[NodeGroupLabel], node.Name) })
	return nil
}

// Replace implements cache.ReflectorStore.
func (c *cluster) Replace(list []any, _ string) error {
	c.update(func() bool {
		changed, before := !c.listed, c.count
		was := c.groups
		c.groups, c.count, c.listed = map[string]map[string]Node{}, 0, true
		for _, object := range list {
			c.set(object)
		}
		return changed || before != c.count || !maps.EqualFunc(was, c.groups, maps.Equal[map[string]Node, map[string]Node])
	})
	return nil
}

// Resync implements cache.ReflectorStore.
func (c *cluster) Resync() error { return nil }

// limited adds the current token to requests, and limits responses that are not watches.
type limited struct {
	next     http.RoundTripper
	token    *atomic.Pointer[string]
	hasToken bool
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	if l.hasToken {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+*l.token.Load())
	}
	response, err := l.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") == "" {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxResponse), response.Body}
	}
	return response, err
}
