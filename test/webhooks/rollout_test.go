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
