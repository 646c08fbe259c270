// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"slices"
	"testing"
	"time"

	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Its conversion is what ours is compared with.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BenchmarkConversion measures round trips, v1beta1 to v1beta2 and back, of objects in use. ns/op, B/op and allocs/op are
// the values for CAPT's kind. ratio-to-ClusterAPI is the time of one round trip divided by the time for Cluster API's Cluster with Cluster
// API's functions, measured at the same time: below 1, CAPT is faster.
func BenchmarkConversion(b *testing.B) {
	b.Run("CAPTCluster", compared(captClusters, "captcluster"))
	b.Run("CAPTControlPlane", compared(controlPlanes, "captcontrolplane"))
	b.Run("CAPTControlPlaneTemplate", compared(controlPlaneTemplates, "captcontrolplanetemplate"))
	b.Run("WorkspaceTemplate", compared(workspaceTemplates, "workspacetemplate"))
	b.Run("WorkspaceTemplateApply", compared(workspaceTemplateApplies, "workspacetemplateapply"))
	b.Run("ClusterAPI", compared(clusters, "clusterapi"))
}

var clusters = pair[*clusterv1.Cluster, *clusterv1beta1.Cluster]{
	clusterconversion.ConvertClusterHubToV1Beta1, clusterconversion.ConvertClusterV1Beta1ToHub,
}

func compared[Hub, Spoke client.Object](p pair[Hub, Spoke], name string) func(*testing.B) {
	return func(b *testing.B) {
		ours := roundTrip(b, p, name)
		// The Cluster has no references, to Cluster API's advantage: it would look up the versions of their CRDs.
		theirs := roundTrip(b, clusters, "clusterapi")
		var ratios []float64
		b.ReportAllocs()
		for rounds := 0; b.Loop(); rounds++ {
			if rounds%100 == 0 {
				b.StopTimer()
				for range 5 {
					ratios = append(ratios, ratio(ours, theirs))
				}
				b.StartTimer()
			}
			ours()
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "ratio-to-ClusterAPI")
	}
}

func roundTrip[Hub, Spoke client.Object](b *testing.B, p pair[Hub, Spoke], name string) func() {
	b.Helper()
	ctx, spoke := context.Background(), manifest[Spoke](b, name)
	return func() {
		hub, again := fresh[Hub](), fresh[Spoke]()
		if err := p.up(ctx, spoke, hub); err != nil {
			b.Fatal(err)
		}
		if err := p.down(ctx, hub, again); err != nil {
			b.Fatal(err)
		}
	}
}

// ratio returns the ratio of the times of two functions. They run alternately and briefly, so that other load affects both.
func ratio(ours, theirs func()) float64 {
	our, their := timed(ours), timed(theirs)
	their += timed(theirs)
	our += timed(ours)
	return our.Seconds() / their.Seconds()
}

func timed(trip func()) time.Duration {
	start := time.Now()
	for range 10 {
		trip()
	}
	return time.Since(start)
}
