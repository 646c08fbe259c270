// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
)

// The ports of a sandbox are below the ranges that Linux and macOS use for outgoing connections, so a component that is
// restarted finds its port free. If two sandboxes choose the same port, one of them starts its component again on another
// one (PortTaken).
const (
	firstPort = 20000
	lastPort  = 31999
)

var (
	handedOutLock sync.Mutex
	handedOut     = map[int]bool{}
)

// FreePort returns a free loopback port that this process has not returned before.
func FreePort() (int, error) {
	handedOutLock.Lock()
	defer handedOutLock.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if handedOut[port] {
			continue
		}
		listener, err := net.Listen("tcp", Loopback(port))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		handedOut[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

// Loopback is the address of a port on loopback.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// PortTaken reports whether a process ended because another process used its port.
func PortTaken(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "address already in use") || strings.Contains(text, "EADDRINUSE")
}
