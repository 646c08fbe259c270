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

package planner_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
)

// largeFleet is the snapshot of a number of clusters; the scenes that it is made of are not kept in memory.
func largeFleet(t *testing.T, clusters int) *migrate.Snapshot {
	scenes := make([]*scene, clusters)
	for i := range scenes {
		scenes[i] = newScene(fmt.Sprintf("cluster-%d", i), "default").withWorkspaces(t)
	}
	return snapshot(t, scenes...)
}

// BenchmarkPlanner plans for 1,000 clusters in one namespace, which is the worst case for the search of evidence.
func BenchmarkPlanner(b *testing.B) {
	t := &testing.T{}
	fleet := largeFleet(t, 1000)
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		plan, err := planner.New(fleet, planner.Options{Scope: migrate.ScopeAll, Now: now, Lifetime: time.Hour})
		require.NoError(b, err)
		require.Len(b, plan.Units, 2000)
		require.Less(b, time.Since(began), 5*time.Second)
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc>>20), "heap-MiB")
		require.Less(b, memory.HeapAlloc, uint64(200<<20), "snapshot and plan")
		runtime.KeepAlive(plan)
	}
}
