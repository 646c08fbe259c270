// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	// fleetPatience is how long one step of a whole fleet may take.
	fleetPatience = 40 * time.Minute
	// fleetRest is how long a fleet is watched for writes.
	fleetRest = 30 * time.Second
	// later is how many more clusters are made one by one when the fleet is there, and interval how far apart.
	later, interval = 20, 2 * time.Second
	// mostWrites is how many writes the manager may need for a cluster, from creation to Ready.
	mostWrites = 30
)

// managersOnly is an audit policy for the requests of the manager alone: those of all others are many.
const managersOnly = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  users: ["` + sandbox.ManagerUser + `"]
- level: None
`

// BenchmarkFleet makes fleets of clusters at once, with Cluster API core in full and a provider that only pretends to run
// Terraform. The endpoints of the clusters are addresses without a server, since 1,000 API servers do not fit on one machine.
// It reports, for each size,
//   - ready-s: from the first creation until all are Ready; burst-p50-ms, burst-p99-ms: from a Workspace being up to date to
//     its control plane being Ready, in this crowd
//   - writes/cluster, requests/cluster, cpu-ms/cluster: of the manager until then; the writes without Events and templates, and
//     more than 30 are a failure
//   - rss-MiB, peak-rss-MiB: memory of the manager that made them, after that and at most
//   - rest-requests, rest-cpu-ms: of the manager in half a minute of rest; a write is a failure
//   - p50-ms, p99-ms: the time that burst-p50-ms is about, of 20 more clusters, made one by one beside the fleet;
//     p99 is the slowest of them
//   - synced-s: from the start of the manager until its caches are synced and its webhooks answer, when it is started again
//   - settled-s, restart-requests, restart-cpu-ms/cluster: until it has looked at everything; a write is a failure
//   - restart-rss-MiB: memory of the manager then
//   - delete-s, delete-writes/cluster, delete-cpu-ms/cluster: from the deletion of all Clusters until all are gone
//   - growth-...: some of these for each cluster, to those of the smallest fleet of the same run; 1 is linear
//   - rss-KiB/cluster: by how much each cluster more than in the smallest fleet makes the memory grow
//
// FLEET_ARGS is added to the arguments of the manager, with spaces between, and FLEET_UNTIL names the step after which it
// ends: create, rest, grow, restart.
func BenchmarkFleet(b *testing.B) {
	var smallest *fleet
	for _, size := range []int{100, 300, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				f := measureFleet(b, size)
				if smallest == nil || smallest.made == size {
					smallest = f
				} else {
					f.compare(smallest)
				}
			}
		})
	}
}

// startFleet starts the servers for a fleet.
func startFleet(b *testing.B, size int, managerArgs ...string) *fleet {
	b.Helper()
	scripts := b.TempDir()
	s, err := sandbox.Start(b.Context(), sandbox.Options{
		ClusterAPI: true, KubeControllerManager: true, Provider: true, Manager: true, AuditPolicy: []byte(managersOnly),
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + scripts, "--max-reconcile-rate=16"},
		ManagerArgs:  append(strings.Fields(os.Getenv("FLEET_ARGS")), managerArgs...),
		ManagerEnv:   []string{"GOGC=" + cmp.Or(os.Getenv("GOGC"), "50")}, // As in config/manager.
	})
	require.NoError(b, err)
	c, err := client.NewWithWatch(s.Config(), client.Options{Scheme: controllers.Scheme()})
	require.NoError(b, err)
	return &fleet{B: b, s: s, c: c, scripts: scripted.At(scripts), made: size, size: size, figures: map[string]float64{}}
}

func measureFleet(b *testing.B, size int) *fleet {
	b.Helper()
	f := startFleet(b, size)
	applyAll(b, f.c, environments.Templates()...)
	for _, step := range []struct {
		name string
		run  func()
	}{{"create", f.create}, {"rest", func() { f.rest(fleetRest) }}, {"grow", f.grow}, {"restart", f.restart}, {"delete", f.delete}} {
		step.run()
		if step.name == os.Getenv("FLEET_UNTIL") {
			break
		}
	}
	require.NoError(b, f.s.Stop(context.Background()))
	return f
}

// fleet is a fleet that is measured.
type fleet struct {
	*testing.B
	s *sandbox.Sandbox
	c client.WithWatch
	// scripts are what the provider does.
	scripts *scripted.Store
	// made is how many clusters were made at once, and size is how many there are.
	made, size int
	// figures are those that were reported, by their units.
	figures map[string]float64
}

// create makes all clusters at the same time.
func (f *fleet) create() {
	f.Helper()
	watching, stop := context.WithCancel(f.Context())
	defer stop()
	seen := watchReadiness(watching, f.B, f.c)
	before, began := f.cpu(), time.Now()
	group, ctx := errgroup.WithContext(f.Context())
	group.SetLimit(makers)
	for i := range f.size {
		group.Go(func() error { return f.make(ctx, fmt.Sprintf("c%d", i)) })
	}
	require.NoError(f, group.Wait())
	latencies := seen.await(f.B, "c", f.size, fleetPatience)
	f.report(time.Since(began).Seconds(), "ready-s")
	report(f.B, "burst-", latencies)
	awaitEndpoints(f.B, f.c, f.size)
	awaitIdle(f.B, f.s)
	f.each(float64(countWrites(f.B, f.s, began, shared...)), "writes/cluster")
	assert.LessOrEqual(f, f.figures["writes/cluster"], float64(mostWrites), "CAPT writes too much")
	f.each(f.requests(began), "requests/cluster")
	f.each(1000*(f.cpu()-before), "cpu-ms/cluster")
	f.report(scrape(f.B, f.s).Sum("process_resident_memory_bytes")/(1<<20), "rss-MiB")
	f.report(peakMemory(f.B, f.s)/(1<<20), "peak-rss-MiB")
}

// shared are what is written for many clusters together, or only describes them. Definitions are marked once after an installation.
var shared = []string{"events", "leases", "workspacetemplates", "customresourcedefinitions"}

// make makes one cluster.
func (f *fleet) make(ctx context.Context, name string) error {
	for _, document := range cluster(name) {
		if err := f.c.Create(ctx, read(document)); err != nil {
			return err
		}
	}
	return nil
}

// rest does nothing for a time.
func (f *fleet) rest(duration time.Duration) {
	f.Helper()
	before, settled := f.cpu(), time.Now()
	<-time.After(duration) // The measurement itself: a time without work.
	require.Zero(f, countWrites(f.B, f.s, settled, "leases"), "CAPT writes at rest")
	f.report(f.requests(settled), "rest-requests")
	f.report(1000*(f.cpu()-before), "rest-cpu-ms")
}

// grow makes more clusters, one by one.
func (f *fleet) grow() {
	f.Helper()
	watching, stop := context.WithCancel(f.Context())
	defer stop()
	seen := watchReadiness(watching, f.B, f.c)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for i := range later {
		require.NoError(f, f.make(f.Context(), fmt.Sprintf("later%d", i)))
		<-ticker.C
	}
	report(f.B, "", seen.await(f.B, "later", later, fleetPatience))
	f.size += later
	awaitEndpoints(f.B, f.c, f.size)
	awaitIdle(f.B, f.s)
}

// restart starts the manager again.
func (f *fleet) restart() {
	f.Helper()
	require.NoError(f, f.s.StopComponent(f.Context(), sandbox.Manager))
	began := time.Now()
	require.NoError(f, f.s.StartComponent(f.Context(), sandbox.Manager))
	f.report(time.Since(began).Seconds(), "synced-s")
	f.report(awaitIdle(f.B, f.s).Sub(began).Seconds(), "settled-s")
	require.Zero(f, countWrites(f.B, f.s, began, "leases"), "a manager that is started again writes")
	f.report(f.requests(began), "restart-requests")
	f.each(1000*f.cpu(), "restart-cpu-ms/cluster")
	f.report(scrape(f.B, f.s).Sum("process_resident_memory_bytes")/(1<<20), "restart-rss-MiB")
}

// delete deletes all clusters at the same time.
func (f *fleet) delete() {
	f.Helper()
	before, began := f.cpu(), time.Now()
	var left clusterv1.ClusterList
	require.NoError(f, f.c.List(f.Context(), &left))
	group, ctx := errgroup.WithContext(f.Context())
	group.SetLimit(makers)
	for i := range left.Items {
		group.Go(func() error { return f.c.Delete(ctx, &left.Items[i]) })
	}
	require.NoError(f, group.Wait())
	require.Eventually(f, func() bool {
		require.NoError(f, f.c.List(f.Context(), &left))
		return len(left.Items) == 0
	}, fleetPatience, time.Second, "Clusters are left")
	f.report(time.Since(began).Seconds(), "delete-s")
	awaitIdle(f.B, f.s)
	f.each(float64(countWrites(f.B, f.s, began, shared...)), "delete-writes/cluster")
	f.each(1000*(f.cpu()-before), "delete-cpu-ms/cluster")
}

// compare reports what a cluster costs in this fleet, to what it costs in a smaller one.
func (f *fleet) compare(smaller *fleet) {
	ratio := float64(f.made) / float64(smaller.made)
	f.report(f.figures["ready-s"]/smaller.figures["ready-s"]/ratio, "growth-ready")
	f.report(f.figures["rss-MiB"]/smaller.figures["rss-MiB"]/ratio, "growth-rss")
	for _, unit := range []string{"cpu-ms", "requests", "writes"} {
		f.report(f.figures[unit+"/cluster"]/smaller.figures[unit+"/cluster"], "growth-"+unit)
	}
	f.report((f.figures["rss-MiB"]-smaller.figures["rss-MiB"])*1024/float64(f.made-smaller.made), "rss-KiB/cluster")
}

// each reports a figure for each cluster.
func (f *fleet) each(all float64, unit string) { f.report(all/float64(f.size), unit) }

// report reports a figure. A large fleet takes long, so it is printed at once, too.
func (f *fleet) report(value float64, unit string) {
	f.figures[unit] = value
	f.ReportMetric(value, unit)
	fmt.Fprintf(os.Stderr, "%s %s: %.4g %s\n", time.Now().Format(time.TimeOnly), f.Name(), value, unit)
}

// cpu is the processor time that the manager has used since it was started, in seconds.
func (f *fleet) cpu() float64 { return scrape(f.B, f.s).Sum("process_cpu_seconds_total") }

// requests counts those of the manager, watches aside.
func (f *fleet) requests(since time.Time) float64 {
	f.Helper()
	events, err := f.s.AuditEvents(audit.Filter{
		User: sandbox.ManagerUser, Verbs: append([]string{"get", "list"}, audit.Writes...), Since: since,
	})
	require.NoError(f, err)
	return float64(len(events))
}
