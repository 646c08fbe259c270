// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench_test measures CAPT on a real control plane. Results are counts and times of one run on one machine;
// docs/benchmarks.md has those of a reference machine.
package bench_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	// quiet is how many clusters are left alone, and silence for how long.
	quiet, silence = 50, 5 * time.Minute
)

// BenchmarkQuiet leaves 50 Clusters alone for five minutes that Cluster API is connected to and finds Available. It fails when
// the manager writes anything but a Lease, or asks for anything, and reports
//   - writes, requests: of the manager, which are 0 therefore
//   - core-writes: of Cluster API core, in the same time
//   - cpu-ms: of the manager, in the same time
func BenchmarkQuiet(b *testing.B) {
	for b.Loop() {
		s, err := sandbox.Start(b.Context(), sandbox.Options{
			ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditLog: true,
			ProviderArgs: []string{"--executor=scripted", "--script-dir=" + b.TempDir(), "--max-reconcile-rate=16"},
		})
		require.NoError(b, err)
		c, err := client.New(s.Config(), client.Options{Scheme: controllers.Scheme()})
		require.NoError(b, err)
		applyAll(b, c, environments.VPCTemplate(fixture.VPCModule), reachable(s))
		for i := range quiet {
			applyAll(b, c, cluster(fmt.Sprintf("c%d", i))...)
		}
		awaitAvailable(b, c)
		awaitIdle(b, s)
		hush(b, s)
		require.NoError(b, s.Stop(context.Background()))
	}
}

// reachable is a template of control planes that are the sandbox itself, so that Cluster API can connect to them, with more lines of its module.
func reachable(s *sandbox.Sandbox, more ...string) string {
	return environments.Template(fixture.ControlPlaneTemplate, fmt.Sprintf(`
variable "cluster_name" { type = string }
resource "terraform_data" "eks" { input = var.cluster_name }
output "cluster_endpoint" { value = %q }
output "kubeconfig" {
  sensitive = true
  value     = file(%q)
}
`, s.Config().Host, s.Kubeconfig())+strings.Join(more, ""), "cluster_name")
}

// awaitAvailable waits until all Clusters are Available, and CAPTClusters know their endpoints.
func awaitAvailable(b *testing.B, c client.Client) {
	b.Helper()
	awaitEndpoints(b, c, quiet)
	require.Eventually(b, func() bool {
		var list clusterv1.ClusterList
		require.NoError(b, c.List(b.Context(), &list))
		for i := range list.Items {
			if !conditions.IsTrue(&list.Items[i], clusterv1.AvailableCondition) {
				return false
			}
		}
		return true
	}, timeout, time.Second, "not all Clusters are Available")
}

// hush counts what is written while nothing happens.
func hush(b *testing.B, s *sandbox.Sandbox) {
	b.Helper()
	before, began := scrape(b, s).Sum("process_cpu_seconds_total"), time.Now()
	<-time.After(silence) // The measurement itself: a time without work.
	writes, requests := countWrites(b, s, began, "leases"), countReads(b, s, began)
	b.ReportMetric(float64(writes), "writes")
	b.ReportMetric(float64(requests), "requests")
	b.ReportMetric(1000*(scrape(b, s).Sum("process_cpu_seconds_total")-before), "cpu-ms")
	events, err := s.AuditEvents(audit.Filter{User: sandbox.ClusterAPIUser, Verbs: audit.Writes, Since: began})
	require.NoError(b, err)
	b.ReportMetric(float64(len(events)), "core-writes")
	require.Zero(b, writes, "CAPT writes at rest")
	require.Zero(b, requests, "CAPT asks at rest")
}

const (
	// clusters is how many clusters are made at the same time.
	clusters = 10
	// rest is how long Ready clusters are watched for writes.
	rest = 2 * time.Minute
	// timeout is how long all of them may take together.
	timeout = 10 * time.Minute
)

// BenchmarkClusters makes clusters whose control planes are words alone, with real Terraform, and reports
//   - start-s: the start of the whole sandbox, in seconds
//   - writes/cluster: writes of the manager until all are Ready and it is idle, Events, templates and definitions aside; more than 30 are a failure
//   - p50-ms, p99-ms: from the Workspace being up to date to the control plane being Ready, in milliseconds
//   - rest-writes: writes of the manager in two minutes of rest, for all clusters together, which are 0 therefore
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
	watching, stop := context.WithTimeout(b.Context(), timeout)
	defer stop()
	seen := watchReadiness(watching, b, c)
	applyAll(b, c, environments.Templates()...)
	for i := range clusters {
		applyAll(b, c, cluster(fmt.Sprintf("c%d", i))...)
	}
	report(b, "", seen.await(b, "c", clusters, timeout))

	awaitEndpoints(b, c, clusters)
	awaitIdle(b, s)
	settled := time.Now()
	writes := float64(countWrites(b, s, time.Time{}, shared...)) / clusters
	b.ReportMetric(writes, "writes/cluster")
	assert.LessOrEqual(b, writes, float64(mostWrites), "CAPT writes too much")

	<-time.After(rest) // The measurement itself: a time without work.
	atRest := countWrites(b, s, settled, "leases")
	b.ReportMetric(float64(atRest), "rest-writes")
	b.ReportMetric(float64(countReads(b, s, settled)), "rest-requests")
	assert.Zero(b, atRest, "CAPT writes at rest")
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
