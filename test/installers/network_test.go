// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// network is the way from the API server to Services. The sandbox has no Service network, so the API server reaches it like a cluster network
// that it has no route to: through an HTTP proxy (egress selection "cluster").
type network struct {
	dir    string
	lock   sync.Mutex
	routes map[string]string
}

// newNetwork starts the proxy.
func newNetwork(t *testing.T) *network {
	t.Helper()
	// The names of tests are too long for the path of a socket.
	dir, err := os.MkdirTemp(prepared, "network-")
	require.NoError(t, err)
	n := &network{dir: dir, routes: map[string]string{}}
	listener, err := net.Listen("unix", n.socket()) //nolint:noctx // It is closed with the server.
	require.NoError(t, err)
	server := &http.Server{Handler: n, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		require.NoError(t, os.RemoveAll(dir))
	})
	config := fmt.Sprintf("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n"+
		"- {name: cluster, connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %s}}}}\n", n.socket())
	require.NoError(t, os.WriteFile(n.config(), []byte(config), 0o600))
	return n
}

func (n *network) socket() string { return filepath.Join(n.dir, "proxy") }

// config is the path of the API server's configuration.
func (n *network) config() string { return filepath.Join(n.dir, "config.yaml") }

// route makes connections to the address of a Service end at an address on loopback.
func (n *network) route(service, address string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.routes[service] = address
}

// ServeHTTP implements http.Handler for CONNECT requests.
func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.lock.Lock()
	address := n.routes[r.RequestURI]
	n.lock.Unlock()
	target, err := net.Dial("tcp", address) //nolint:noctx // The connection outlives the request.
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	source, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	if _, err := source.Write([]byte("HTTP/1.1 200 Connected\r\n\r\n")); err == nil {
		go copyAndClose(target, source)
	}
	copyAndClose(source, target)
}

// copyAndClose ends both directions when one has ended.
func copyAndClose(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
