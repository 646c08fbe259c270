// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

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
		got, err := planner.New(fleet, planner.Options{Now: now})
		require.NoError(b, err)
		require.Len(b, got.Units, 1000)
		require.Less(b, time.Since(began), 5*time.Second)
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc>>20), "heap-MiB")
		require.Less(b, memory.HeapAlloc, uint64(200<<20), "snapshot and plan")
		runtime.KeepAlive(got)
	}
}
