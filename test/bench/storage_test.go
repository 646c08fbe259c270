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

package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// rewritten is how many objects there are at least, of how many legacy clusters.
	rewritten, legacyClusters = 5000, 1250
	// rewriteQPS is how many requests a second are allowed.
	rewriteQPS = 50
	// mostMemory is what captctl may need, in bytes.
	mostMemory = 200 << 20
)

// BenchmarkStorage does the storage phase of captctl migrate with 5,000 objects that the older CAPT has left, in a process of
// its own, and reports
//   - objects, objects/s: how many were rewritten, and how many a second
//   - requests/s: how many requests it took a second; 50 are allowed, and 10 % more or less are a failure
//   - requests/object: two when nothing but the version changes, and three when owner references move
//   - peak-rss-MiB: the most memory of that process; more than 200 is a failure
//
// That each object is written, and progress is told of each exactly once, is checked.
func BenchmarkStorage(b *testing.B) {
	program, measure := build(b, "./cmd/rewrite"), build(b, "./cmd/measure")
	for b.Loop() {
		w, err := legacy.Start(b.Context(), sandbox.Options{Log: os.Stderr})
		require.NoError(b, err)
		_, err = w.Create(b.Context(), legacy.Fleet(legacyClusters), legacy.NamesOf("fleet"))
		require.NoError(b, err)
		require.NoError(b, w.Upgrade(b.Context()))
		measureStorage(b, w, measure, program)
		require.NoError(b, w.Stop(context.Background()))
	}
}

func measureStorage(b *testing.B, w *legacy.World, measure, program string) {
	b.Helper()
	took := filepath.Join(b.TempDir(), "cost.json")
	command := exec.CommandContext(b.Context(), measure, took, program, "--kubeconfig", w.KubeconfigOf(sandbox.Captctl), fmt.Sprint("--qps=", rewriteQPS))
	var answer bytes.Buffer
	command.Stdout, command.Stderr = &answer, os.Stderr
	began := time.Now()
	require.NoError(b, command.Run())
	var result struct {
		storage.Counts
		Objects  int
		Progress int
		Seconds  float64
	}
	require.NoError(b, json.Unmarshal(answer.Bytes(), &result))
	require.GreaterOrEqual(b, result.Objects, rewritten)
	require.Equal(b, storage.Counts{Written: result.Objects}, result.Counts)
	require.Equal(b, result.Objects, result.Progress)

	requests, err := w.Requests(sandbox.CaptctlUser, "get", "update")
	require.NoError(b, err)
	sent := 0
	for i := range requests {
		if !requests[i].RequestReceivedTimestamp.Time.Before(began) {
			sent++
		}
	}
	rate, memory := float64(sent)/result.Seconds, readCost(b, took).Memory
	b.ReportMetric(float64(result.Objects), "objects")
	b.ReportMetric(float64(result.Objects)/result.Seconds, "objects/s")
	b.ReportMetric(rate, "requests/s")
	b.ReportMetric(float64(sent)/float64(result.Objects), "requests/object")
	b.ReportMetric(float64(memory)/(1<<20), "peak-rss-MiB")
	assert.InEpsilon(b, rewriteQPS, rate, 0.1, "requests a second")
	assert.LessOrEqual(b, memory, int64(mostMemory))
}
