// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes knows the nodes of EKS node groups: it watches the Nodes with the label of EKS in each cluster that has machine pools, over one
// connection per cluster, with the credentials of the kubeconfig that Cluster API uses. It keeps of a Node only what pools report, so that
// heartbeats of Nodes cause nothing.
package nodes

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unique"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/json"

	"github.com/capt-provider/capt/controllers/kubeconfig"
)

// NodeGroupLabel is the label that EKS gives to the Nodes of a managed node group: its name.
const NodeGroupLabel = "eks.amazonaws.com/nodegroup"

const (
	// notifyDelay collects changes of the nodes of a cluster, because a scaled pool changes many nodes at once.
	notifyDelay = time.Second
	// maxNodes limits the nodes that are kept per cluster: users of the cluster can create Nodes.
	maxNodes = 10_000
	// Limits of a response of an API server, of that of an error, and of an event of a watch, in bytes; a list is read in pages of pageSize Nodes.
	maxResponse, maxError, maxEvent = 8 << 20, 64 << 10, 2 << 20
	pageSize                        = 100
	// listTimeout limits one list, with all of its pages.
	listTimeout = time.Minute
	dialTimeout = 30 * time.Second
	// watchTimeout is for how long an API server is asked to continue a watch at least, in seconds.
	watchTimeout = 300
	// Limits of what is kept of a Node: those of names, of values of labels, and of the fields of a CAPTMachinePool.
	maxName, maxGroup, maxProviderID, maxVersion = 253, 63, 512, 256
	// maxText limits each text, also those that are sent back to an API server: resource versions, and the token for the next page.
	maxText = 4 << 10
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
	// Problem is why the nodes are not known; empty when they are. Pending is true if they will be known soon, and Listing if their first list runs: what is
	// known from before the manager started, or before the kubeconfig changed, is as true as then.
	Problem          string
	Pending, Listing bool
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
		defer c.connections.CloseAll()
		// client-go would log each failure of each cluster, with what the server sent; conditions report them.
		c.follow(klog.NewContext(ctx, logr.Discard()))
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
	c := newCluster(data, func(after time.Duration) { w.queue.AddAfter(key, after) })
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

type cluster struct {
	// pools are the CAPTMachinePools that the cluster is watched for. version is that of the Secret with the kubeconfig.
	pools       sets.Set[client.ObjectKey]
	version     string
	kubeconfig  []byte
	client      rest.Interface
	connections *connrotation.Dialer
	token       *atomic.Pointer[string]
	notify      func(after time.Duration)
	stop        context.CancelFunc

	mu    sync.Mutex
	nodes map[string]member
	// listed is true once the nodes were listed, and full if the cluster had more than maxNodes since. problem is why the last request failed, and failed
	// when requests began to fail.
	listed, full bool
	problem      string
	failed       time.Time
}

// member is a node of a node group.
type member struct {
	Node
	group string
}

func newCluster(data []byte, notify func(after time.Duration)) *cluster {
	c := &cluster{kubeconfig: data, notify: notify, nodes: map[string]member{}, token: &atomic.Pointer[string]{}}
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
	config.ContentType = runtime.ContentTypeJSON
	// A dialer of its own keeps client-go from sharing the connection, so that it can be closed.
	c.connections = connrotation.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext)
	config.Dial = c.connections.DialContext
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return errors.New("the certificates of the kubeconfig are invalid")
	}
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	made, err := rest.RESTClientForConfigAndClient(config, httpClient)
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
	if !reflect.DeepEqual(was, is) { // Functions, as for a proxy, are never equal.
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

// follow lists and watches the Nodes of all node groups until the context is done. A reflector would decode all of each Node of the cluster, take the first
// page for the list when the next one expired, and read events without a limit.
func (c *cluster) follow(ctx context.Context) {
	backoff, version := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 10, Factor: 2, Jitter: 1}, ""
	_ = backoff.DelayWithReset(clock.RealClock{}, watchTimeout*time.Second).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if version == "" || c.isFull() { // The nodes that were not kept are only in a new list.
			version = c.list(ctx)
		}
		if version != "" {
			version = c.watch(ctx, version)
		}
		return false, nil
	})
}

// list lists the Nodes in pages, and returns their resource version; empty if that fails. It asks for no resource version, because API servers then ignore
// the size of pages.
func (c *cluster) list(ctx context.Context) string {
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	nodes, page, read, options := map[string]member{}, &jsonList{}, 0, metav1.ListOptions{Limit: pageSize}
	for more := true; more; more = options.Continue != "" && read <= maxNodes {
		data, err := c.request(options).DoRaw(limited)
		if err == nil {
			err = page.decode(data)
		}
		if err != nil {
			c.report(ctx, err)
			return ""
		}
		for i := range page.Items {
			if is := page.Items[i].member(); is != nil {
				nodes[is.Name] = *is
				read++
			}
		}
		options.Continue = string(page.Metadata.Continue)
	}
	c.report(ctx, nil)
	c.replace(nodes, options.Continue != "")
	return string(page.Metadata.ResourceVersion)
}

// watch watches the Nodes from a resource version until the watch ends, and returns the version to continue from: that of the last event. It is empty if the
// nodes must be listed again.
func (c *cluster) watch(ctx context.Context, from string) (last string) {
	timeout := watchTimeout + rand.Int64N(watchTimeout) //nolint:gosec // It spreads the watches of many clusters.
	stream, err := c.request(metav1.ListOptions{Watch: true, AllowWatchBookmarks: true, ResourceVersion: from, TimeoutSeconds: &timeout}).Stream(ctx)
	c.report(ctx, err)
	if err != nil {
		return ""
	}
	defer func() { _ = stream.Close() }()
	err = eachEvent(stream, func(e *jsonEvent) {
		last = string(e.Object.Metadata.ResourceVersion)
		switch is := e.Object.member(); {
		case is == nil: // A bookmark, for example.
		case e.Type == text(watch.Deleted):
			c.remove(is.Name)
		default:
			c.add(is)
		}
	})
	if err != nil {
		return ""
	}
	return last
}

func (c *cluster) request(options metav1.ListOptions) *rest.Request {
	options.LabelSelector = NodeGroupLabel
	return c.client.Get().Resource("nodes").VersionedParams(&options, metav1.ParameterCodec)
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

func (c *cluster) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full
}

func (c *cluster) nodesOf(nodeGroup string) Nodes {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.problem != "" && (!c.listed || time.Since(c.failed) >= graceful):
		return Nodes{Problem: c.problem}
	case !c.listed:
		return Nodes{Problem: "waiting for the list of the nodes", Pending: true, Listing: true}
	case c.full:
		return Nodes{Problem: fmt.Sprintf("the cluster has more than %d nodes", maxNodes)}
	}
	var list []Node
	for _, node := range c.nodes {
		if node.group == nodeGroup {
			list = append(list, node.Node)
		}
	}
	slices.SortFunc(list, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return Nodes{List: list}
}

// add adds or changes a node.
func (c *cluster) add(is *member) {
	c.update(func() bool {
		was, known := c.nodes[is.Name]
		if !known && len(c.nodes) >= maxNodes {
			was := c.full
			c.full = true
			return !was
		}
		c.nodes[is.Name] = *is
		return !known || was != *is
	})
}

func (c *cluster) remove(name string) {
	c.update(func() bool {
		_, known := c.nodes[name]
		delete(c.nodes, name)
		return known
	})
}

// replace replaces all nodes by those of a list, which may have more.
func (c *cluster) replace(nodes map[string]member, more bool) {
	full := more || len(nodes) > maxNodes
	c.update(func() bool {
		changed := !c.listed || c.full != full || !maps.Equal(c.nodes, nodes)
		c.nodes, c.listed, c.full = nodes, true, full
		return changed
	})
}

// limited adds the current token to requests, and limits responses that are not watches: also the error that refuses one, which the client decodes.
type limited struct {
	next     http.RoundTripper
	token    *atomic.Pointer[string]
	hasToken bool
}

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	if l.hasToken {
		request = request.Clone(request.Context())
		request.Header.Set("Authorization", "Bearer "+*l.token.Load())
	}
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	limit := int64(maxResponse)
	switch {
	case response.StatusCode != http.StatusOK:
		limit = maxError
	case request.URL.Query().Get("watch") != "":
		return response, nil
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, limit), response.Body}
	return response, nil
}

// The types of this file are what is decoded of a response. The API server is that of a user, who decides about its size and its form: a Node of
// Kubernetes needs a hundred times more memory than `{}` has bytes. Nothing here grows with the number of values: arrays have a fixed length, because the
// decoder skips what does not fit, texts have a limit, and there are neither maps nor pointers.

type jsonList struct {
	Kind     text `json:"kind"`
	Metadata struct {
		ResourceVersion text  `json:"resourceVersion"`
		Continue        token `json:"continue"`
	} `json:"metadata"`
	// Items have one more than a page: a longer page is invalid.
	Items [pageSize + 1]jsonNode `json:"items"`
}

// jsonEvent is an event of a watch. That of an error is invalid, because its status is a text.
type jsonEvent struct {
	Type   text     `json:"type"`
	Object jsonNode `json:"object"`
}

type jsonNode struct {
	Metadata struct {
		Name              text `json:"name"`
		ResourceVersion   text `json:"resourceVersion"`
		DeletionTimestamp text `json:"deletionTimestamp"`
		Labels            struct {
			NodeGroup text `json:"eks.amazonaws.com/nodegroup"`
		} `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		ProviderID text `json:"providerID"`
	} `json:"spec"`
	Status struct {
		NodeInfo struct {
			KubeletVersion text `json:"kubeletVersion"`
		} `json:"nodeInfo"`
		// Conditions are enough for those of the kubelet, which come first, and of agents.
		Conditions [32]jsonCondition `json:"conditions"`
	} `json:"status"`
}

type jsonCondition struct {
	Type   text `json:"type"`
	Status text `json:"status"`
}

// text is a text that JSON does not escape, because those of Kubernetes are names; another one is empty.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	if data[0] != '"' && data[0] != 'n' { // null becomes empty, as in Go.
		return errInvalid
	}
	*t = ""
	if data[0] == '"' && len(data) <= maxText && !bytes.Contains(data, []byte(`\`)) && utf8.Valid(data) {
		*t = text(data[1 : len(data)-1])
	}
	return nil
}

// token is a text that is sent back, and so is complete: a list would end early without that of its next page.
type token text

func (t *token) UnmarshalJSON(data []byte) error {
	if err := (*text)(t).UnmarshalJSON(data); err != nil || *t == "" && len(data) > len(`""`) && data[0] == '"' {
		return errInvalid
	}
	return nil
}

// within returns a text if it has a valid length, else an empty one: with a longer one, nothing of a CAPTMachinePool could be written.
func (t text) within(limit int) string {
	if len(t) > limit {
		return ""
	}
	return string(t)
}

var errInvalid = errors.New("the response is invalid")

// decode replaces the list by a page. The decoder is that of Kubernetes, because labels can differ in case only.
func (l *jsonList) decode(data []byte) error {
	*l = jsonList{}
	if json.UnmarshalCaseSensitivePreserveInts(data, l) != nil || l.Kind != "NodeList" || l.Items[pageSize].Metadata.Name != "" ||
		l.Metadata.ResourceVersion == "" {
		return errInvalid // An error of the decoder can quote the data.
	}
	return nil
}

// eachEvent calls a function with the events of a watch until the end of the watch, and returns nil then. API servers send each event in a line. There is
// no decoder that is kept: its buffer would have the size of the largest event, for each cluster.
func eachEvent(stream io.Reader, do func(*jsonEvent)) error {
	limited := &io.LimitedReader{R: stream}
	lines := bufio.NewReader(limited)
	for {
		limited.N = maxEvent
		line, ended := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e jsonEvent
			if json.UnmarshalCaseSensitivePreserveInts(line, &e) != nil || e.Object.Metadata.ResourceVersion == "" {
				return errInvalid
			}
			do(&e)
		}
		switch {
		case errors.Is(ended, io.EOF):
			return nil
		case ended != nil:
			return errInvalid
		}
	}
}

// member returns what is kept of a Node. It is nil if no API server has such a Node. Nodes share the texts that are equal in a node group.
func (n *jsonNode) member() *member {
	name := n.Metadata.Name.within(maxName)
	if name == "" || len(n.Metadata.Labels.NodeGroup) > maxGroup {
		return nil
	}
	return &member{Node{
		Name: name, ProviderID: n.Spec.ProviderID.within(maxProviderID), Version: unique.Make(n.Status.NodeInfo.KubeletVersion.within(maxVersion)).Value(),
		Ready: n.Metadata.DeletionTimestamp == "" && slices.Contains(n.Status.Conditions[:], jsonCondition{text(corev1.NodeReady), text(corev1.ConditionTrue)}),
	}, unique.Make(string(n.Metadata.Labels.NodeGroup)).Value()}
}
