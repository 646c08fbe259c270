// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// BenchmarkHealth leaves 1,000 Ready clusters alone for five minutes, whose API server is that of the sandbox: once with health probes and recovery,
// and once without. Cluster API core is stopped before, because it connects to each cluster, too. It fails if the manager writes anything but a Lease,
// and reports for each of the two
//   - rest-cpu-ms, rss-MiB: CPU time of the manager in the five minutes, and its memory after them
//   - rest-requests: its requests for objects of the management cluster in that time
//   - writes/cluster, cpu-ms/cluster, ready-s and others of BenchmarkFleet: what the creation took
func BenchmarkHealth(b *testing.B) {
	for _, run := range []struct{ name, gates string }{{"on", "HealthProbes=true,Recovery=true"}, {"off", "HealthProbes=false,Recovery=false"}} {
		b.Run(run.name, func(b *testing.B) {
			for b.Loop() {
				f := startFleet(b, 1000, "--feature-gates="+run.gates)
				applyAll(b, f.c, environments.VPCTemplate(fixture.VPCModule), reachable(f.s))
				f.create()
				require.NoError(b, f.s.StopComponent(b.Context(), sandbox.ClusterAPI))
				awaitIdle(b, f.s)
				f.rest(silence)
				f.report(scrape(b, f.s).Sum("process_resident_memory_bytes")/(1<<20), "rss-MiB")
				require.NoError(b, f.s.Stop(context.Background()))
			}
		})
	}
}
