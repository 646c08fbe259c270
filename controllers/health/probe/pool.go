// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package probe connects to the API servers of control planes, outside of reconciles: a fixed number of workers probes all of them, and a
// reconcile is triggered only when the result of a check changes.
package probe

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
)

// Intervals between probes. An API server that stops answering is reported within a minute: healthyInterval, twice retryInterval and three
// timeouts are 55 seconds. Each is shortened by up to a fifth, so that the probes of many clusters are distributed.
const (
	// healthyInterval applies while all checks pass.
	healthyInterval = 30 * time.Second
	// retryInterval applies after the first failures, before they are reported.
	retryInterval = 5 * time.Second
	// failedInterval applies after a failure was reported, and while the first answer is required.
	failedInterval = 10 * time.Second
	// unreachableInterval applies while the network may not reach the API server. Such clusters must not occupy the workers.
	unreachableInterval = 60 * time.Second
)

const (
	// timeout limits one probe.
	timeout = 5 * time.Second
	// workers is the number of probes at a time. Of 1,000 clusters, 190 can hang without a delay for the others.
	workers = 64
)

// Pool probes API servers.
type Pool struct {
	// mustProbe reports whether this manager still has to probe the API server of a control plane: no event reports that an object was moved to
	// another shard.
	mustProbe func(ctx context.Context, controlPlane client.ObjectKey) bool
	metrics   *metrics.Health
	queue     workqueue.TypedDelayingInterface[client.ObjectKey]
	changes   chan event.GenericEvent
	// probe is replaced in tests.
	probe func(ctx context.Context, e *entry) answer

	mu      sync.Mutex
	entries map[client.ObjectKey]*entry
}

// NewPool returns a pool without targets.
func NewPool(m *metrics.Health, mustProbe func(ctx context.Context, controlPlane client.ObjectKey) bool) *Pool {
	return &Pool{
		mustProbe: mustProbe, metrics: m, queue: workqueue.NewTypedDelayingQueue[client.ObjectKey](), changes: make(chan event.GenericEvent),
		probe: func(ctx context.Context, e *entry) answer {
			return e.connection.probe(ctx, e.target.Version, time.Now())
		}, entries: map[client.ObjectKey]*entry{},
	}
}

// Changes receives the control planes of which a check changed.
func (p *Pool) Changes() <-chan event.GenericEvent { return p.changes }

// Start probes until the context is done, and returns when no probe runs any more. It implements manager.Runnable.
func (p *Pool) Start(ctx context.Context) error {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				key, stopped := p.queue.Get()
				if stopped {
					return
				}
				p.next(ctx, key)
				p.queue.Done(key)
			}
		})
	}
	<-ctx.Done()
	p.queue.ShutDown()
	running.Wait()
	return nil
}

// next probes one API server.
func (p *Pool) next(ctx context.Context, key client.ObjectKey) {
	p.mu.Lock()
	e := p.entries[key]
	p.mu.Unlock()
	switch {
	case ctx.Err() != nil, e == nil, e.unusable != nil:
		return
	case !p.mustProbe(ctx, key):
		p.Forget(key)
		return
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	found := p.probe(limited, e)
	if ctx.Err() != nil || !p.record(key, e, found, began) {
		return
	}
	changed := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case p.changes <- event.GenericEvent{Object: changed}:
	case <-ctx.Done():
	}
}

// record adds the answer of a probe and schedules the next one. It reports whether a result changed.
func (p *Pool) record(key client.ObjectKey, probed *entry, found answer, began time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[key]
	if e == nil || e.history != probed.history || e.unusable != nil {
		return false // Stopped meanwhile.
	}
	if e.target.Version != probed.target.Version {
		found.Version = health.Result{}
	}
	p.metrics.Probed(key, began, time.Since(began))
	changed = e.observe(found, e.target.Required, e.connection.anonymous != nil)
	p.queue.AddAfter(key, shortened(e.interval(e.target.Required)))
	return changed
}

// shortened returns an interval that is up to a fifth shorter.
func shortened(interval time.Duration) time.Duration {
	return interval - rand.N(interval/5) //nolint:gosec // It distributes probes.
}

// threshold is the number of failures in a row that flip a check. One success flips it back.
const threshold = 3

// tracker has the results of one check.
type tracker struct {
	status controlplanev1.HealthState
	// reported is the result that this process reported; zero as long as the one in status still applies.
	reported health.Result
	// last is the last result; failures and same are the number of results in a row that did not pass, and that are equal to it.
	last           health.Result
	failures, same int
}

// observe adds a result, and reports whether the reported result changed. The first result is reported at once, unless it is a failure.
func (t *tracker) observe(result health.Result) bool {
	if result.Status == "" {
		return false
	}
	if result.Status == controlplanev1.HealthHealthy {
		t.failures, t.same = 0, 0
		return t.status != controlplanev1.HealthHealthy && t.report(result)
	}
	if t.failures++; t.last != result {
		t.last, t.same = result, 0
	}
	t.same++
	switch {
	case t.status == "" && result.Status == controlplanev1.HealthUnknown:
		return t.report(result)
	case t.failures < threshold:
		return false
	case t.status != result.Status:
		return t.report(result)
	}
	// Only the message differs. Reporting each one would cause writes while they alternate.
	return t.same >= threshold && t.reported.Status != "" && t.reported != result && t.report(result)
}

func (t *tracker) report(result health.Result) bool {
	t.status, t.reported = result.Status, result
	return true
}

// failing reports whether the check has failed, but not often enough.
func (t *tracker) failing() bool { return t.failures > 0 && t.failures < threshold }

// maxResponse limits what is read of a response.
const maxResponse = 64 << 10

// connection probes one API server. It neither follows redirects nor runs plugins, and it never quotes what the server returns.
type connection struct {
	http      *http.Client
	address   *url.URL
	authorize func(*http.Request)
	// expires is when the token expires; zero when that is unknown.
	expires time.Time
	// anonymous are the results that need credentials, if the connection has none; nil if it has.
	anonymous *health.Probed
}

// answer is what one probe found.
type answer struct {
	health.Probed
	// answered is true when there was a response, unreachable when there was no connection or no response in time.
	answered, unreachable bool
}

// newConnection returns a connection with the credentials of a kubeconfig, or without any if only users can get some: EKS answers GET /readyz without
// credentials, too. For a kubeconfig that cannot be used, it returns the results instead.
func newConnection(data []byte) (*connection, *health.Probed) {
	unusable := func(credentials health.Result) (*connection, *health.Probed) {
		probed := health.NotProbed("the API server cannot be probed without usable credentials; see check Credentials")
		probed.Credentials = credentials
		return nil, &probed
	}
	c := &connection{}
	config, address, err := kubeconfig.ClientConfig(data)
	if errors.Is(err, kubeconfig.ErrGetToken) {
		c.anonymous = &health.Probed{Version: health.Unknown("not known without credentials; see check Credentials"), Credentials: health.Unknown(err.Error())}
		config, address, err = kubeconfig.AnonymousConfig(data)
	}
	switch {
	case errors.Is(err, kubeconfig.ErrUnsafe), errors.Is(err, kubeconfig.ErrInsecure):
		return unusable(health.Unknown(err.Error()))
	case err != nil:
		return unusable(health.Unhealthy(err.Error()))
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return unusable(health.Unhealthy("the certificates of the kubeconfig are invalid"))
	}
	if secure != nil { // It is nil without a CA.
		secure.ClientSessionCache = tls.NewLRUClientSessionCache(1) // Each probe connects again, and to resume a session costs half as much.
	}
	c.connect(config, address, secure)
	c.expires, _ = kubeconfig.Expiry(data)
	return c, nil
}

func (c *connection) connect(config *rest.Config, address *url.URL, secure *tls.Config) {
	transport := &http.Transport{
		TLSClientConfig: secure, Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{}).DialContext, MaxResponseHeaderBytes: maxResponse,
	}
	if config.Proxy != nil {
		transport.Proxy = config.Proxy
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.address = address
	c.authorize = func(request *http.Request) {
		switch {
		case config.BearerToken != "":
			request.Header.Set("Authorization", "Bearer "+config.BearerToken)
		case config.Username != "":
			request.SetBasicAuth(config.Username, config.Password)
		}
	}
}

// probe requests /readyz, and /version if the API server is ready. wanted is the version that it must run; empty means any. Connections are
// closed at the end, because each open one needs two goroutines.
func (c *connection) probe(ctx context.Context, wanted string, now time.Time) answer {
	defer c.http.CloseIdleConnections()
	if !c.expires.IsZero() && !now.Before(c.expires) {
		return answer{Probed: health.Probed{
			APIServer: health.Unknown("the credentials have expired"), Credentials: health.Unhealthy("the token in the kubeconfig has expired"),
		}}
	}
	status, _, err := c.get(ctx, "/readyz")
	if err != nil {
		problem, unreachable := problemOf(ctx, err)
		return answer{Probed: health.Probed{APIServer: health.Unhealthy(problem)}, unreachable: unreachable}
	}
	found := answer{Probed: resultsFor(status), answered: true}
	switch {
	case c.anonymous != nil && (status == http.StatusOK || status == http.StatusUnauthorized || status == http.StatusForbidden):
		found.Probed = health.Probed{APIServer: health.Healthy()} // It answers; who may read /readyz is its configuration.
	case status == http.StatusOK:
		found.Version = c.version(ctx, wanted)
	}
	return found
}

func resultsFor(status int) health.Probed {
	switch status {
	case http.StatusOK:
		return health.Probed{APIServer: health.Healthy(), Credentials: health.Healthy()}
	case http.StatusUnauthorized:
		return health.Probed{
			APIServer:   health.Unknown("the API server answers, but rejects the credentials of the kubeconfig"),
			Credentials: health.Unhealthy("the API server rejects the credentials of the kubeconfig (401)"),
		}
	case http.StatusForbidden:
		return health.Probed{
			APIServer:   health.Unknown("the API server answers, but does not allow the user of the kubeconfig to read /readyz (403)"),
			Credentials: health.Healthy(),
		}
	}
	return health.Probed{APIServer: health.Unhealthy(fmt.Sprintf("the API server answers GET /readyz with status %d", status))}
}

// version compares the version of the API server. An API server that emulates an older version is of that version.
func (c *connection) version(ctx context.Context, wanted string) health.Result {
	status, body, err := c.get(ctx, "/version")
	info := version.Info{}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &info) != nil || wanted == "" {
		return health.Result{}
	}
	major, minor := info.Major, info.Minor
	if info.EmulationMinor != "" {
		major, minor = info.EmulationMajor, info.EmulationMinor
	}
	// EKS reports 31+ for a patched 1.31. Anything that is not a number is not quoted.
	runs := major + "." + strings.TrimSuffix(minor, "+")
	switch {
	case strings.Trim(runs, "0123456789") != ".":
		return health.Result{}
	case runs != wanted:
		return health.Unhealthy(fmt.Sprintf("the API server runs Kubernetes %.20s, but spec.version is %s", runs, wanted))
	}
	return health.Healthy()
}

func (c *connection) get(ctx context.Context, path string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("User-Agent", "capt-manager")
	c.authorize(request)
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxResponse))
	return response.StatusCode, body, err
}

// problemOf describes why no response was received, and reports whether the network may be the cause. The text of the error is omitted: it has
// ports that differ each time, and can quote what the server sent.
func problemOf(ctx context.Context, err error) (problem string, unreachable bool) {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		operation   *net.OpError
		record      tls.RecordHeaderError
		lookup      *net.DNSError
	)
	switch {
	case errors.As(err, &authority):
		return "the certificate of the API server is not signed by the certificate authority of the kubeconfig; compare the outputs cluster_certificate_authority_data and kubeconfig of the module with the cluster", false
	case errors.As(err, &host):
		return fmt.Sprintf("the certificate of the API server is for another host than %s; compare the outputs cluster_endpoint and kubeconfig of the module", host.Host), false
	case errors.As(err, &certificate):
		return "the certificate of the API server is invalid or has expired", false
	case errors.As(err, &operation) && operation.Op == "remote error":
		return "the API server rejects the TLS connection", false
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "the endpoint does not use TLS", false
	case ctx.Err() != nil:
		return "the API server does not answer in time", true
	case errors.As(err, &lookup):
		return "the name of the API server cannot be resolved", true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the API server refuses connections", true
	}
	return "the connection to the API server fails", true
}

// Target is an API server to probe.
type Target struct {
	// Kubeconfig has the address and the credentials.
	Kubeconfig []byte
	// Version is the version that the API server must run, as 1.31; empty while it is not known.
	Version string
	// Required makes an API server that cannot be reached a failure, although it never answered.
	Required bool
	// Last is what status reports, from which a restarted manager continues.
	Last *controlplanev1.Health
}

// entry is an API server that is probed. It is replaced, and not changed, when the target changes.
type entry struct {
	target     Target
	connection *connection
	// unusable are the results if the kubeconfig cannot be used; nil if it can.
	unusable *health.Probed
	// history is shared by all entries of a control plane.
	*history
}

// Track starts to probe the API server of a control plane, or updates its target.
func (p *Pool) Track(key client.ObjectKey, target Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.entries[key]
	if was != nil && was.target.Version == target.Version && was.target.Required == target.Required && bytes.Equal(was.target.Kubeconfig, target.Kubeconfig) {
		return
	}
	e := &entry{target: target}
	e.connection, e.unusable = newConnection(target.Kubeconfig)
	soon := false
	if was != nil {
		if e.history = was.history; was.target.Version != target.Version {
			e.version, soon = tracker{}, true
		}
	} else {
		e.history = newHistory(target.Last)
	}
	if e.unusable == nil && e.connection.anonymous != nil {
		e.version, e.credentials = tracker{}, tracker{}
	}
	e.target.Last = nil
	p.entries[key] = e
	if soon || e.interval(target.Required) != healthyInterval {
		p.queue.Add(key)
		return
	}
	p.queue.AddAfter(key, rand.N(healthyInterval)) //nolint:gosec // After a restart, it distributes the probes of all clusters.
}

// Results returns the results of a control plane. Those that status has already are zero.
func (p *Pool) Results(key client.ObjectKey) health.Probed {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := p.entries[key]; {
	case e == nil:
		return health.Probed{}
	case e.unusable != nil:
		return *e.unusable
	case e.connection.anonymous != nil:
		found := health.Probed{APIServer: e.apiServer.reported, Version: e.connection.anonymous.Version, Credentials: e.connection.anonymous.Credentials}
		if !e.answered && found.APIServer.Status == "" { // What status has is from before there was a kubeconfig.
			found.APIServer = health.Unknown(health.Unanswered)
		}
		return found
	default:
		return health.Probed{APIServer: e.apiServer.reported, Version: e.version.reported, Credentials: e.credentials.reported}
	}
}

// Report updates the metric of the checks of a control plane.
func (p *Pool) Report(key client.ObjectKey, reported *controlplanev1.Health) {
	for _, check := range health.Checks() {
		p.metrics.Report(key, check.Name, health.Status(reported, check.Name))
	}
}

// Stop stops to probe the API server of a control plane.
func (p *Pool) Stop(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, key)
	p.metrics.Stopped(key)
}

// Forget stops to probe the API server of a control plane, and removes all its metrics.
func (p *Pool) Forget(key client.ObjectKey) {
	p.Stop(key)
	p.metrics.Forget(key)
}

// history of a control plane. It is guarded by the mutex of the pool.
type history struct {
	apiServer, version, credentials tracker
	// answered is true once the API server answered.
	answered bool
}

func newHistory(last *controlplanev1.Health) *history {
	known := func(name string) tracker {
		if status := health.Status(last, name); status != controlplanev1.HealthUnknown {
			return tracker{status: status}
		}
		return tracker{} // The first probe reports why.
	}
	h := &history{apiServer: known(health.APIServer), version: known(health.Version), credentials: known(health.Credentials)}
	h.answered = h.apiServer.status != ""
	return h
}

// observe adds an answer, and reports whether a result changed. A network that never reached the API server is not a failure, unless an
// answer is required; nor is it worth a status write for a connection without credentials, of which nothing was known before.
func (h *history) observe(found answer, required, anonymous bool) (changed bool) {
	apiServer := found.APIServer
	// The address of a private endpoint may be that of another server in the network of the manager.
	noAnswer := found.unreachable || anonymous && !found.answered
	if noAnswer && !h.answered && !required {
		if anonymous {
			h.apiServer.status = controlplanev1.HealthUnknown
			return false
		}
		apiServer.Status = controlplanev1.HealthUnknown
	}
	h.answered = h.answered || found.answered
	for t, result := range map[*tracker]health.Result{&h.apiServer: apiServer, &h.version: found.Version, &h.credentials: found.Credentials} {
		changed = t.observe(result) || changed
	}
	return changed
}

// interval returns the time until the next probe.
func (h *history) interval(required bool) time.Duration {
	switch {
	case h.apiServer.failing() || h.version.failing() || h.credentials.failing():
		return retryInterval
	case h.version.status == controlplanev1.HealthUnhealthy, h.credentials.status == controlplanev1.HealthUnhealthy:
		return failedInterval
	case h.apiServer.status == controlplanev1.HealthHealthy:
		return healthyInterval
	case h.apiServer.status == controlplanev1.HealthUnknown && !required:
		return unreachableInterval
	}
	return failedInterval
}
