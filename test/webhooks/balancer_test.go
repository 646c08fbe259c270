// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// balancer simulates a Service: it hands each new connection to the next of its endpoints. What a Service
// does not do, it does not do either: it neither looks into connections, nor tries another endpoint when one refuses, nor
// ends a connection whose endpoint was taken out.
type balancer struct {
	listener net.Listener
	// unready is set when endpoints are published before they are ready, and as long as they exist.
	unready bool

	// lock guards everything below.
	lock      sync.Mutex
	endpoints []string
	next      int
	accepted  map[string]int
}

func newBalancer(t *testing.T, unready bool) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &balancer{listener: listener, unready: unready, accepted: map[string]int{}}
	go b.serve()
	t.Cleanup(func() { _ = listener.Close() })
	return b
}

func (b *balancer) port() int32 { return int32(b.listener.Addr().(*net.TCPAddr).Port) }

func (b *balancer) add(endpoint string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.endpoints = append(b.endpoints, endpoint)
}

func (b *balancer) remove(endpoint string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.endpoints = slices.DeleteFunc(b.endpoints, func(e string) bool { return e == endpoint })
}

// connections is how many connections an endpoint was given.
func (b *balancer) connections(endpoint string) int {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.accepted[endpoint]
}

func (b *balancer) serve() {
	for {
		connection, err := b.listener.Accept()
		if err != nil {
			return // The test is over.
		}
		go b.forward(connection)
	}
}

func (b *balancer) choose() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	if len(b.endpoints) == 0 {
		return ""
	}
	b.next++
	endpoint := b.endpoints[b.next%len(b.endpoints)]
	b.accepted[endpoint]++
	return endpoint
}

func (b *balancer) forward(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", b.choose())
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var both sync.WaitGroup
	both.Go(func() { pipe(to, from) })
	both.Go(func() { pipe(from, to) })
	both.Wait()
}

// pipe copies one direction, and closes the other side when it ends.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err != nil {
		_ = to.Close()
		return
	}
	_ = to.(*net.TCPConn).CloseWrite()
}
