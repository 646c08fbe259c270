// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import "testing"

// TestReplicasAreReplacedUnderTraffic is what a Deployment does for an upgrade. The leader is the first to go.
func TestReplicasAreReplacedUnderTraffic(t *testing.T) {
	f, replicas := newFleet(newWorld(t), 2)
	awaitLeader(t, replicas[0])
	traffic := newTraffic(f)
	traffic.goOn(t)
	var next []*replica
	for _, old := range replicas {
		next = append(next, f.start())
		traffic.goOn(t)
		f.terminate(old)
		traffic.goOn(t)
	}
	traffic.rest()
	awaitLeader(t, next...)
}
