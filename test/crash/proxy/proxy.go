// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy stands between a program and the API server. It counts what the program writes and, at a chosen write,
// has the program killed: after the API server has carried the write out and before the program gets the answer, or before
// the API server receives it.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Moment is when the program is killed.
type Moment string

const (
	// After the API server has carried the write out, and before the program gets the answer.
	After Moment = "after"
	// Before the API server receives the write.
	Before Moment = "before"
	// Lost is like After, but the program is not killed: only the answer is lost.
	Lost Moment = "lost"
)

// Target says at which write the program is killed.
type Target struct {
	// Number of the write, counted from 1. A number that is not reached, such as 0, kills no program.
	Number int
	Moment Moment
	// Resources are those whose writes are numbered; all when there are none. Writes of one controller to one object follow
	// one another, so their numbers mean the same in each run.
	Resources []string
	// Matches, if there is one, says which requests are numbered and listed, in the place of Resources. They may be reads, and
	// bookkeeping. It may be called for several requests at once, and may hold one back.
	Matches func(*http.Request) bool
}

// Write is a request that changes something, or that Target.Matches.
type Write struct {
	Method, Path string
	// Code is the API server's answer; 0 when there was none.
	Code int
}

func (w Write) String() string { return fmt.Sprintf("%s %s (%d)", w.Method, w.Path, w.Code) }

// Resource is what is written to: its name in the plural, with the subresource if there is one.
func (w Write) Resource() string { return resource(w.Path) }

// Proxy is safe for concurrent use.
type Proxy struct {
	kill   func()
	server *http.Server
	url    string

	// lock guards everything below.
	lock   sync.Mutex
	writes []*Write
	target Target
	// numbered is how many of the writes were to the target's resources.
	numbered int
	// closed is true from the chosen write on: what the program still manages to send while it dies goes nowhere.
	closed bool
	// killed gets the write that the program died of.
	killed chan Write
}

// Start starts a proxy on loopback. It passes requests on with the credentials of config. kill kills the program and
// returns when it is gone.
func Start(config *rest.Config, kill func()) (*Proxy, error) {
	upstream, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{kill: kill, url: "http://" + listener.Addr().String()}
	p.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		Handler: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
			Transport:     &transportThatKills{proxy: p, next: transport},
			FlushInterval: -1, // A watch needs each event to be forwarded at once.
			ErrorLog:      log.New(io.Discard, "", 0),
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
				panic(http.ErrAbortHandler) // The connection breaks, as it does when the API server is not there.
			},
		},
	}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Close breaks all connections.
func (p *Proxy) Close() error { return p.server.Close() }

// WriteKubeconfig writes a kubeconfig that leads through the proxy. It holds no credentials: those are the proxy's.
func (p *Proxy) WriteKubeconfig(path string) error {
	const name = "proxy"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: p.url}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name}},
		CurrentContext: name,
	}, path)
}

// Arm restarts the count, and has the program killed at the target. The channel receives the write that did it, once
// the program is gone.
func (p *Proxy) Arm(target Target) (killed <-chan Write) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.writes, p.target, p.numbered, p.closed, p.killed = nil, target, 0, false, make(chan Write, 1)
	return p.killed
}

// Disarm spares the program from now on. It is false when that comes too late.
func (p *Proxy) Disarm() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.target = Target{}
	return !p.closed
}

// Open lets requests pass again after a kill. Writes are still listed, and nothing is killed any more.
func (p *Proxy) Open() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.target, p.closed = Target{}, false
}

// Writes lists what was written since Arm, whether the API server accepted it or not.
func (p *Proxy) Writes() []Write {
	p.lock.Lock()
	defer p.lock.Unlock()
	writes := make([]Write, len(p.writes))
	for i, write := range p.writes {
		writes[i] = *write
	}
	return writes
}

// transportThatKills is a type of its own so that RoundTrip does not belong to what a Proxy offers.
type transportThatKills struct {
	proxy *Proxy
	next  http.RoundTripper
}

var errDying = errors.New("the program is being killed")

// RoundTrip passes a request on, unless the program is to die of it.
func (t *transportThatKills) RoundTrip(request *http.Request) (*http.Response, error) {
	write, deadly, err := t.proxy.admit(request)
	switch {
	case err != nil:
		return nil, err
	case write == nil:
		return t.next.RoundTrip(request)
	case deadly != nil:
		return nil, t.die(request, write, *deadly)
	}
	response, err := t.next.RoundTrip(detached(request))
	if err == nil {
		t.proxy.answered(write, response.StatusCode)
	}
	return response, err
}

// die has the program killed at a write, and then answers no request.
func (t *transportThatKills) die(request *http.Request, write *Write, death death) error {
	if death.moment != Before {
		response, err := t.next.RoundTrip(detached(request))
		if err == nil {
			t.proxy.answered(write, response.StatusCode)
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	if death.moment != Lost {
		t.proxy.kill()
	}
	death.killed <- *write
	return errDying
}

type death struct {
	moment Moment
	killed chan<- Write
}

// admit decides what becomes of a request. It returns nil for a request that is no write, and the death of the program
// for the one that is the target.
func (p *Proxy) admit(request *http.Request) (*Write, *death, error) {
	listed := p.lists(request)
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.closed {
		return nil, nil, errDying
	}
	if !listed {
		return nil, nil, nil
	}
	write := &Write{Method: request.Method, Path: request.URL.Path}
	p.writes = append(p.writes, write)
	if len(p.target.Resources) > 0 && !concerns(request, p.target.Resources) {
		return write, nil, nil
	}
	p.numbered++
	if p.numbered != p.target.Number {
		return write, nil, nil
	}
	p.closed = p.target.Moment != Lost
	return write, &death{moment: p.target.Moment, killed: p.killed}, nil
}

// detached is the same request, which goes on when the program that sent it hangs up: it is with the API server already.
func detached(request *http.Request) *http.Request {
	return request.WithContext(context.WithoutCancel(request.Context()))
}

func (p *Proxy) answered(write *Write, code int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	write.Code = code
}

// bookkeeping is what every program writes at any time: leases, events and token reviews.
var bookkeeping = []string{"leases", "events", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"}

// changes reports whether a request changes what matters.
func changes(request *http.Request) bool {
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !concerns(request, bookkeeping)
	}
	return false
}

func (p *Proxy) lists(request *http.Request) bool {
	p.lock.Lock()
	matches := p.target.Matches
	p.lock.Unlock()
	if matches != nil {
		return matches(request)
	}
	return changes(request)
}

func concerns(request *http.Request, resources []string) bool {
	name, _, _ := strings.Cut(resource(request.URL.Path), "/")
	return slices.Contains(resources, name)
}

var requests = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// resource is the resource of a path, such as "deployments/status".
func resource(path string) string {
	info, err := requests.NewRequestInfo(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
}
