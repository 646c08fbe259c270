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

package conversion_test

import (
	"context"
	"os"
	"testing"

	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Its conversion is what ours is compared with.
	clusterconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Each benchmark is one round trip, v1beta1 to v1beta2 and back, of an object in use. BenchmarkConversionOfClusterAPI is
// the same for Cluster API's Cluster, with Cluster API's own functions.

func BenchmarkConversionOfCAPTCluster(b *testing.B) { benchmark(b, captClusters, "captcluster") }
func BenchmarkConversionOfCAPTControlPlane(b *testing.B) {
	benchmark(b, controlPlanes, "captcontrolplane")
}
func BenchmarkConversionOfCAPTControlPlaneTemplate(b *testing.B) {
	benchmark(b, controlPlaneTemplates, "captcontrolplanetemplate")
}
func BenchmarkConversionOfWorkspaceTemplate(b *testing.B) {
	benchmark(b, workspaceTemplates, "workspacetemplate")
}
func BenchmarkConversionOfWorkspaceTemplateApply(b *testing.B) {
	benchmark(b, workspaceTemplateApplies, "workspacetemplateapply")
}

func BenchmarkConversionOfClusterAPI(b *testing.B) {
	// The references are left out, to Cluster API's advantage: it looks up the versions of their CRDs.
	cluster := manifest[*clusterv1beta1.Cluster](b, "clusterapi")
	roundTrips(b, cluster, clusterconversion.ConvertClusterHubToV1Beta1, clusterconversion.ConvertClusterV1Beta1ToHub)
}

func benchmark[Hub, Spoke client.Object](b *testing.B, p pair[Hub, Spoke], name string) {
	b.Helper()
	roundTrips(b, manifest[Spoke](b, name), p.down, p.up)
}

func roundTrips[Hub, Spoke client.Object](b *testing.B, spoke Spoke, down func(context.Context, Hub, Spoke) error, up func(context.Context, Spoke, Hub) error) {
	b.Helper()
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		hub, again := fresh[Hub](), fresh[Spoke]()
		if err := up(ctx, spoke, hub); err != nil {
			b.Fatal(err)
		}
		if err := down(ctx, hub, again); err != nil {
			b.Fatal(err)
		}
	}
}

func manifest[T client.Object](b *testing.B, name string) T {
	b.Helper()
	data, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		b.Fatal(err)
	}
	o := fresh[T]()
	if err := yaml.UnmarshalStrict(data, o); err != nil {
		b.Fatal(err)
	}
	return o
}
