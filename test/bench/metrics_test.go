// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// scrape returns the metrics of the manager.
func scrape(b *testing.B, s *sandbox.Sandbox) metrics.Families {
	b.Helper()
	address, err := s.MetricsURL(sandbox.Manager)
	require.NoError(b, err)
	scraped, err := metrics.Read(b.Context(), address)
	require.NoError(b, err)
	return scraped
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
	require.NotNil(b, match, "the kernel does not report it")
	kibibytes, err := strconv.ParseFloat(string(match[1]), 64)
	require.NoError(b, err)
	return kibibytes * 1024
}

// awaitIdle waits until the manager has nothing to do, and returns since when.
func awaitIdle(b *testing.B, s *sandbox.Sandbox) (since time.Time) {
	b.Helper()
	since = time.Now()
	require.Eventually(b, func() bool {
		if scrape(b, s).Sum("workqueue_depth", "controller_runtime_active_workers") > 0 {
			since = time.Now()
		}
		return time.Since(since) > 3*time.Second
	}, fleetPatience, 300*time.Millisecond, "the manager does not come to rest")
	return since
}

// quantile reads a quantile from a histogram. Within a bucket, values are taken to be spread evenly, as in Prometheus.
func quantile(histogram *dto.Histogram, q float64) float64 {
	rank := q * float64(histogram.GetSampleCount())
	lower, below := 0.0, 0.0
	for _, bucket := range histogram.GetBucket() {
		bound, count := bucket.GetUpperBound(), float64(bucket.GetCumulativeCount())
		if math.IsInf(bound, 1) {
			break
		}
		if count >= rank && count > below {
			return lower + (bound-lower)*(rank-below)/(count-below)
		}
		lower, below = bound, count
	}
	return lower // All that is known is that it is above the last bound.
}
