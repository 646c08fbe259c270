// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	// rate is how many requests are sent a second.
	rate = 50
	// lasting is for how long.
	lasting = 30 * time.Second
	// surroundings is how many clusters there are besides.
	surroundings = 100
	// onlyWebhooks keeps the controllers away from all objects.
	onlyWebhooks = "--watch-filter=none"
)

// BenchmarkAdmission creates and changes objects of all kinds that CAPT checks, without the writes being done, 50 per second for half a minute,
// while there are 100 other clusters. What the objects refer to exists. It reports
//   - p50-ms, p99-ms: how long the API server waited for CAPT's webhooks, defaulting and validation together, in one request
//   - request-p50-ms, request-p99-ms: the whole request, as its sender saw it
//
// The former is measured by the API server, which records when it began to call a webhook and when it had the answer.
func BenchmarkAdmission(b *testing.B) {
	for b.Loop() {
		seen, tracing := newSpans(b)
		s, err := sandbox.Start(b.Context(), sandbox.Options{
			ClusterAPI: true, Manager: true, ManagerArgs: []string{onlyWebhooks}, APIServerArgs: []string{tracing},
		})
		require.NoError(b, err)
		c := quietClient(b, s)
		surround(b, c)
		writes := admittedWrites(b, c)
		send(b, writes, 2*time.Second) // Connections are made, and memory is taken.
		<-time.After(10 * time.Second) // Everything comes to rest, and the last spans of what came before are sent.
		seen.reset()

		requests := send(b, writes, lasting)
		// Spans are sent in bundles, so the last ones come late.
		require.Eventually(b, func() bool { return len(seen.requests()) == len(requests) }, time.Minute, 100*time.Millisecond)
		report(b, "", seen.requests())
		report(b, "request-", requests)
		require.NoError(b, s.Stop(context.Background()))
	}
}

// quietClient prints no warnings.
func quietClient(b *testing.B, s *sandbox.Sandbox) client.Client {
	b.Helper()
	config := s.Config()
	config.WarningHandler = restclient.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(b, err)
	return c
}

// report reports percentiles by the nearest rank: the smallest of these times that so many of a hundred do not exceed. With
// fewer than a hundred times, the 99th percentile is the longest of them.
func report(b *testing.B, prefix string, all []time.Duration) {
	slices.Sort(all)
	for _, percentile := range []int{50, 99} {
		value := all[(len(all)*percentile-1)/100]
		b.ReportMetric(float64(value.Microseconds())/1000, fmt.Sprintf("%sp%d-ms", prefix, percentile))
	}
}

// send sends each write at its time, whether those before are answered or not, and returns how long each took.
func send(b *testing.B, writes []func(context.Context) error, lasting time.Duration) []time.Duration {
	b.Helper()
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	var (
		group errgroup.Group
		lock  sync.Mutex
		took  []time.Duration
	)
	for i := range int(lasting.Seconds()) * rate {
		<-ticker.C
		group.Go(func() error {
			began := time.Now()
			err := writes[i%len(writes)](b.Context())
			lock.Lock()
			defer lock.Unlock()
			took = append(took, time.Since(began))
			return err
		})
	}
	require.NoError(b, group.Wait())
	return took
}

// surround makes the templates, and clusters that share them.
func surround(b *testing.B, c client.Client) {
	b.Helper()
	applyAll(b, c, environments.Templates()...)
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(8)
	for i := range surroundings {
		for _, document := range append(cluster(fmt.Sprintf("c%d", i)), apply(fmt.Sprintf("c%d-other", i))) {
			group.Go(func() error { return c.Create(ctx, read(document)) })
		}
	}
	require.NoError(b, group.Wait())
}

// admittedWrites are a creation and a change of each kind.
func admittedWrites(b *testing.B, c client.Client) []func(context.Context) error {
	b.Helper()
	own := append(cluster("own"), environments.VPCTemplate(fixture.VPCModule), apply("own"),
		document("CAPTClusterTemplate", "own", "{template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: vpc}}}}}}"),
		document("CAPTControlPlaneTemplate", "own", "{template: {spec: {workspaceTemplateRef: {name: eks}}}}"),
		document("CAPTMachinePoolTemplate", "own", "{template: {spec: {workspaceTemplateRef: {name: eks}}}}"))[1:] // The Cluster is not ours.
	own = append(own, machinePool("c0", "own")...)
	changes := map[string]string{
		"CAPTCluster":              `{"spec":{"vpc":{"template":{"variables":{"vpc_name":"other"}}}}}`,
		"CAPTControlPlane":         `{"spec":{"additionalTags":{"team":"other"}}}`,
		"WorkspaceTemplate":        `{"spec":{"template":{"metadata":{"description":"other"}}}}`,
		"WorkspaceTemplateApply":   `{"spec":{"variables":{"vpc_name":"other"}}}`,
		"CAPTClusterTemplate":      `{"metadata":{"labels":{"team":"other"}}}`,
		"CAPTControlPlaneTemplate": `{"metadata":{"labels":{"team":"other"}}}`,
		"CAPTMachinePool":          `{"spec":{"variables":{"team":"other"}}}`,
		"CAPTMachinePoolTemplate":  `{"metadata":{"labels":{"team":"other"}}}`,
		"MachinePool":              `{"spec":{"replicas":2}}`,
	}
	writes := make([]func(context.Context) error, 0, 2*len(own))
	for _, text := range own {
		object := read(text)
		patch := client.RawPatch(types.MergePatchType, []byte(changes[object.GetKind()]))
		if object.GetName() == "own" {
			require.NoError(b, c.Create(b.Context(), object.DeepCopy()))
		}
		fresh := object.DeepCopy()
		fresh.SetName("new")
		if object.GetKind() == "MachinePool" { // Two cannot have one CAPTMachinePool.
			require.NoError(b, unstructured.SetNestedField(fresh.Object, "new", "spec", "template", "spec", "infrastructureRef", "name"))
		}
		writes = append(writes,
			func(ctx context.Context) error { return c.Create(ctx, fresh.DeepCopy(), client.DryRunAll) },
			func(ctx context.Context) error { return c.Patch(ctx, object.DeepCopy(), patch, client.DryRunAll) })
	}
	return writes
}

func apply(name string) string {
	return document("WorkspaceTemplateApply", name, "{templateRef: {name: vpc}, variables: {vpc_name: demo}}")
}

// document is an object of one of CAPT's kinds, in v1beta2.
func document(kind, name, spec string) string {
	group := "infrastructure"
	if kind == "CAPTControlPlane" || kind == "CAPTControlPlaneTemplate" {
		group = "controlplane"
	}
	return fmt.Sprintf("apiVersion: %s.cluster.x-k8s.io/v1beta2\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", group, kind, name, spec)
}

// read reads a document, into the namespace of the benchmarks.
func read(document string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), object); err != nil {
		panic(err) // It is written in this package.
	}
	object.SetNamespace("default")
	return object
}
