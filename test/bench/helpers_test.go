// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// readiness holds when Workspaces of control planes were seen to be up to date, and when the control planes were seen to be
// Ready. Both moments are those at which a watch reported them.
type readiness struct {
	lock                     sync.Mutex
	workspaces, controlPlane map[string]time.Time
}

// watchReadiness begins to watch.
func watchReadiness(ctx context.Context, b *testing.B, c client.WithWatch) *readiness {
	b.Helper()
	r := &readiness{workspaces: map[string]time.Time{}, controlPlane: map[string]time.Time{}}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("tf.m.upbound.io/v1beta1")
	list.SetKind("WorkspaceList")
	follow(ctx, b, c, list, func(object any) {
		workspace := object.(*unstructured.Unstructured)
		found, err := conditions.UnstructuredGet(workspace, "Ready")
		if name, ok := strings.CutSuffix(workspace.GetName(), "-eks-controlplane"); ok && err == nil && found != nil && found.Status == metav1.ConditionTrue {
			r.note(r.workspaces, name)
		}
	})
	follow(ctx, b, c, &controlplanev1.CAPTControlPlaneList{}, func(object any) {
		controlPlane := object.(*controlplanev1.CAPTControlPlane)
		if meta.IsStatusConditionTrue(controlPlane.Status.Conditions, controlplanev1.ReadyCondition) {
			r.note(r.controlPlane, controlPlane.Name)
		}
	})
	return r
}

func (r *readiness) note(moments map[string]time.Time, name string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if _, known := moments[name]; !known {
		moments[name] = time.Now()
	}
}

// await waits until n control planes are Ready whose names begin in a certain way, and returns how long each took from its
// Workspace being up to date, sorted.
func (r *readiness) await(b *testing.B, prefix string, n int, timeout time.Duration) (latencies []time.Duration) {
	b.Helper()
	require.Eventually(b, func() bool {
		r.lock.Lock()
		defer r.lock.Unlock()
		latencies = nil
		for name, ready := range r.controlPlane {
			if applied, known := r.workspaces[name]; known && strings.HasPrefix(name, prefix) {
				latencies = append(latencies, ready.Sub(applied))
			}
		}
		return len(latencies) == n
	}, timeout, 100*time.Millisecond, "not all clusters became Ready")
	slices.Sort(latencies)
	return latencies
}

// follow calls handle for each object of a kind, and for its changes, until the context ends. The API server ends watches when it is
// busy; then everything is reported once more.
func follow(ctx context.Context, b *testing.B, c client.WithWatch, list client.ObjectList, handle func(any)) {
	b.Helper()
	watcher, err := c.Watch(ctx, list)
	require.NoError(b, err)
	go func() {
		for ctx.Err() == nil {
			for event := range watcher.ResultChan() {
				if event.Type == watch.Added || event.Type == watch.Modified {
					handle(event.Object)
				}
			}
			watcher.Stop()
			if watcher, err = c.Watch(ctx, list); err != nil {
				return // The context has ended, or what is awaited will be missing.
			}
		}
	}()
}

// awaitEndpoints waits until the last write that belongs to making n clusters is done: the endpoint that Cluster API hands to
// the CAPTCluster. From then on there is rest.
func awaitEndpoints(b *testing.B, c client.Client, n int) {
	b.Helper()
	require.Eventually(b, func() bool {
		var list controlplanev1.CAPTControlPlaneList
		require.NoError(b, c.List(b.Context(), &list))
		for i := range list.Items {
			if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, controlplanev1.ReadyCondition) {
				return false
			}
		}
		return allEndpointsKnown(b, c, n)
	}, fleetPatience, 200*time.Millisecond)
}

func allEndpointsKnown(b *testing.B, c client.Client, n int) bool {
	var list infrav1.CAPTClusterList
	require.NoError(b, c.List(b.Context(), &list))
	for i := range list.Items {
		if list.Items[i].Status.Endpoint == "" {
			return false
		}
	}
	return len(list.Items) == n
}

func applyAll(b *testing.B, c client.Client, documents ...string) {
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		require.NoError(b, yaml.Unmarshal([]byte(document), object))
		object.SetNamespace("default")
		require.NoError(b, c.Create(b.Context(), object))
	}
}

// environments has the documents of any environment, with the ProviderConfig of the sandbox.
var environments = &fixture.Environment{Namespace: sandbox.ProviderConfigName, Scope: terraform.ScopeNamespaced}

// cluster has the version of the sandbox's API server, which some benchmarks use as the endpoint: the health check Version compares them.
func cluster(name string) []string {
	controlPlane := strings.Replace(fixture.CAPTControlPlane(name), "version: v1.35.0", "version: v1.36.0", 1)
	return []string{fixture.ClusterNamed(name), fixture.CAPTCluster(name), controlPlane}
}

// scrape returns the metrics of the manager.
func scrape(b *testing.B, s *sandbox.Sandbox) metrics.Families {
	b.Helper()
	scraped, err := metrics.Read(b.Context(), s.MetricsURL(sandbox.Manager))
	require.NoError(b, err)
	return scraped
}

// peakMemory is the most memory that the manager has had since it was started, in bytes, as the kernel counts it.
func peakMemory(b *testing.B, s *sandbox.Sandbox) float64 { return statusOf(b, s, "VmHWM") }

// statusOf returns what the kernel reports on the memory of the manager in a field, in bytes.
func statusOf(b *testing.B, s *sandbox.Sandbox, field string) float64 {
	b.Helper()
	running, err := process.Load(s.Dir())
	require.NoError(b, err)
	require.NotNil(b, running.Process(sandbox.Manager), "no manager runs")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", running.Process(sandbox.Manager).PID))
	require.NoError(b, err)
	match := regexp.MustCompile(`(?m)^` + field + `:\s+(\d+) kB$`).FindSubmatch(status)
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
	}, fleetPatience, time.Second, "the manager does not come to rest") // The metrics of a large fleet cost the manager CPU time.
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
