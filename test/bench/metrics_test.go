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
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// scrape returns the metrics of the manager, by name and labels as they are written.
func scrape(b *testing.B, s *sandbox.Sandbox) map[string]float64 {
	b.Helper()
	address, err := s.MetricsURL(sandbox.Manager)
	require.NoError(b, err)
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, address, nil)
	require.NoError(b, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(b, err)
	defer func() { _ = response.Body.Close() }()
	return samples(b, response.Body)
}

// at is the value of a metric, in the sum over its labels.
func at(metrics map[string]float64, name string) (sum float64) {
	for sample, value := range metrics {
		if sample == name || strings.HasPrefix(sample, name+"{") {
			sum += value
		}
	}
	return sum
}

// peakMemory is the most memory that the manager has had since it was started, in bytes, as the kernel counts it.
func peakMemory(b *testing.B, s *sandbox.Sandbox) float64 {
	b.Helper()
	running, err := state.Load(s.Dir())
	require.NoError(b, err)
	index := slices.IndexFunc(running.Processes, func(p state.Process) bool { return p.Name == sandbox.Manager })
	require.GreaterOrEqual(b, index, 0, "no manager runs")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", running.Processes[index].PID))
	require.NoError(b, err)
	match := regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`).FindSubmatch(status)
	require.NotNil(b, match, "the kernel does not tell")
	kibibytes, err := strconv.ParseFloat(string(match[1]), 64)
	require.NoError(b, err)
	return kibibytes * 1024
}

// awaitIdle waits until the manager has nothing to do, and returns since when.
func awaitIdle(b *testing.B, s *sandbox.Sandbox) (since time.Time) {
	b.Helper()
	since = time.Now()
	require.Eventually(b, func() bool {
		metrics := scrape(b, s)
		if at(metrics, "workqueue_depth")+at(metrics, "controller_runtime_active_workers") > 0 {
			since = time.Now()
		}
		return time.Since(since) > 3*time.Second
	}, fleetPatience, 300*time.Millisecond, "the manager does not come to rest")
	return since
}

func samples(b *testing.B, text io.Reader) map[string]float64 {
	b.Helper()
	all := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), " ")
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			all[name] = number
		}
	}
	require.NoError(b, lines.Err())
	return all
}

// reconcileTimes are the buckets of how long the reconciles of WorkspaceTemplateApplies took.
var reconcileTimes = regexp.MustCompile(`^controller_runtime_reconcile_time_seconds_bucket\{controller="workspacetemplateapply",le="(.+)"\}$`)

// quantile reads a quantile of the reconciles from the histogram, in seconds. Within a bucket, times are taken to be
// spread evenly, as in Prometheus.
func quantile(metrics map[string]float64, q float64) float64 {
	buckets := map[float64]float64{}
	for name, value := range metrics {
		if match := reconcileTimes.FindStringSubmatch(name); match != nil {
			if bound, err := strconv.ParseFloat(match[1], 64); err == nil {
				buckets[bound] = value
			}
		}
	}
	rank := q * buckets[math.Inf(1)]
	lower, below := 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(buckets)) {
		if buckets[bound] >= rank && !math.IsInf(bound, 1) && buckets[bound] > below {
			return lower + (bound-lower)*(rank-below)/(buckets[bound]-below)
		}
		if !math.IsInf(bound, 1) {
			lower, below = bound, buckets[bound]
		}
	}
	return lower // All that is known is that it is above the last bound.
}
