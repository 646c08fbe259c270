/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
)

// The ports of a sandbox lie below the ranges from which Linux and macOS take the local ports of outgoing
// connections. A component that is killed and started again therefore finds its port free, and two sandboxes rarely
// draw the same one; when they do, the loser is started again on another (PortTaken).
const (
	firstPort = 20000
	lastPort  = 31999
)

var (
	handedOutLock sync.Mutex
	handedOut     = map[int]bool{}
)

// FreePort returns a loopback port that nobody listens on and that was not handed out by this process before.
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

// PortTaken says whether a process ended because somebody else had its port.
func PortTaken(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "address already in use") || strings.Contains(text, "EADDRINUSE")
}
