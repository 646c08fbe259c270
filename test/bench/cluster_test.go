// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench_test measures CAPT on a real control plane. Results are counts and times of one run on one machine;
// docs/benchmarks.md has those of a reference machine.
package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	// clusters is how many clusters are made at the same time.
	clusters = 10
	// rest is how long Ready clusters are watched for writes.
	rest = 2 * time.Minute
	// patience is how long all of them may take together.
	patience = 10 * time.Minute
)

// BenchmarkClusters makes clusters whose control planes are words alone, with real Terraform, and reports
//   - start-s: the start of the whole sandbox, in seconds
//   - writes/cluster: writes of the manager until all are Ready, Events and templates aside
//   - p50-ms, p99-ms: from the Workspace being up to date to the control plane being Ready, in milliseconds
//   - rest-writes: writes of the manager in two minutes of rest, for all clusters together
//   - rest-requests: its other requests in that time, watches aside
func BenchmarkClusters(b *testing.B) {
	for b.Loop() {
		started := time.Now()
		s, err := sandbox.Start(b.Context(), sandbox.Options{
			ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditLog: true,
			ProviderArgs: []string{"--max-reconcile-rate=4"},
		})
		require.NoError(b, err)
		b.ReportMetric(time.Since(started).Seconds(), "start-s")
		measure(b, s)
		require.NoError(b, s.Stop(context.Background()))
	}
}

func measure(b *testing.B, s *sandbox.Sandbox) {
	c, err := client.NewWithWatch(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(b, err)
	watching, stop := context.WithTimeout(b.Context(), patience)
	defer stop()
	seen := watchReadiness(watching, b, c)
	applyAll(b, c, worlds.Templates()...)
	for i := range clusters {
		applyAll(b, c, cluster(fmt.Sprintf("c%d", i))...)
	}
	report(b, "", seen.await(b, "c", clusters, patience))

	awaitEndpoints(b, c, clusters)
	settled := time.Now()
	b.ReportMetric(float64(countWrites(b, s, time.Time{}, "events", "leases", "workspacetemplates"))/clusters, "writes/cluster")

	<-time.After(rest) // The measurement itself: a time without work.
	b.ReportMetric(float64(countWrites(b, s, settled, "leases")), "rest-writes")
	b.ReportMetric(float64(countReads(b, s, settled)), "rest-requests")
}

func countWrites(b *testing.B, s *sandbox.Sandbox, since time.Time, without ...string) int {
	events, err := s.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Since: since})
	require.NoError(b, err)
	count := 0
	for i := range events {
		if !slices.Contains(without, events[i].ObjectRef.Resource) {
			count++
		}
	}
	return count
}

func countReads(b *testing.B, s *sandbox.Sandbox, since time.Time) int {
	events, err := s.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: []string{"get", "list"}, Since: since})
	require.NoError(b, err)
	return len(events)
}
