// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const (
	// many is how many WorkspaceTemplateApplies one template has, few is what their growth is measured against.
	many, few = 300, 100
	// engineRest is how long they are watched for writes when all are Ready.
	engineRest = time.Minute
	// makers is how many are created at a time.
	makers = 16
)

// BenchmarkEngine makes 300 WorkspaceTemplateApplies of one template, whose Workspaces a provider only pretends to apply, in
// no time. It reports what CAPT itself takes:
//   - ready-s: until all are Ready, in seconds
//   - reconcile-p50-ms, reconcile-p99-ms: one reconcile of a WorkspaceTemplateApply until then
//   - writes/object: writes of the manager until then, Events and the template aside
//   - rest-requests: requests of the manager in a minute of rest, watches aside; a write is a failure
//   - rss-MiB, heap-MiB: memory of the manager, after that
//   - edit-s: from an edit of the template until all are Ready with it; a Workspace that is not written exactly once is a failure
//   - edit-spread-s: from the first of these writes to the last
//   - edit-writes/object: all writes of the manager on account of the edit
//   - growth-ready, growth-writes: the same for each object, to that with 100 objects; 1 is linear
//   - rss-KiB/object: by how much each of the further 200 makes the memory grow
func BenchmarkEngine(b *testing.B) {
	for b.Loop() {
		less := measureEngine(b, few)
		all := measureEngine(b, many)
		for unit, value := range all {
			b.ReportMetric(value, unit)
		}
		b.ReportMetric(all["ready-s"]/less["ready-s"]*few/many, "growth-ready")
		b.ReportMetric(all["writes/object"]/less["writes/object"], "growth-writes")
		b.ReportMetric((all["rss-MiB"]-less["rss-MiB"])*1024/(many-few), "rss-KiB/object")
	}
}

// measureEngine makes so many, in a sandbox of their own, and returns the figures by their units.
func measureEngine(b *testing.B, count int) map[string]float64 {
	b.Helper()
	s, err := sandbox.Start(b.Context(), sandbox.Options{
		ClusterAPI: true, Provider: true, Manager: true, AuditLog: true,
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + b.TempDir(), "--max-reconcile-rate=16"},
	})
	require.NoError(b, err)
	e := &engineBench{B: b, s: s, c: quietClient(b, s), count: count, figures: map[string]float64{}}
	e.create()
	e.rest()
	e.edit()
	require.NoError(b, s.Stop(context.Background()))
	return e.figures
}

type engineBench struct {
	*testing.B
	s       *sandbox.Sandbox
	c       client.Client
	count   int
	figures map[string]float64
}

func (e *engineBench) create() {
	e.Helper()
	applyAll(e.B, e.c, environments.VPCTemplate(fixture.VPCModule))
	began := time.Now()
	group, ctx := errgroup.WithContext(e.Context())
	group.SetLimit(makers)
	for i := range e.count {
		group.Go(func() error { return e.c.Create(ctx, read(apply(fmt.Sprintf("e%d", i)))) })
	}
	require.NoError(e, group.Wait())
	e.awaitAll(func(*infrav1.WorkspaceTemplateApply) bool { return true })
	e.figures["ready-s"] = time.Since(began).Seconds()
	e.figures["writes/object"] = float64(countWrites(e.B, e.s, time.Time{}, "events", "leases", "workspacetemplates")) / float64(e.count)
	reconciles := scrape(e.B, e.s).Histogram("controller_runtime_reconcile_time_seconds", "controller", "workspacetemplateapply")
	e.figures["reconcile-p50-ms"] = 1000 * quantile(reconciles, 0.50)
	e.figures["reconcile-p99-ms"] = 1000 * quantile(reconciles, 0.99)
}

// awaitAll waits until all are Ready, and as wanted.
func (e *engineBench) awaitAll(wanted func(*infrav1.WorkspaceTemplateApply) bool) {
	e.Helper()
	ready := 0
	require.Eventually(e, func() bool {
		var list infrav1.WorkspaceTemplateApplyList
		require.NoError(e, e.c.List(e.Context(), &list))
		ready = 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, infrav1.ReadyCondition) && wanted(&list.Items[i]) {
				ready++
			}
		}
		return ready == e.count
	}, timeout, 200*time.Millisecond, "only %d are Ready", ready)
}

func (e *engineBench) rest() {
	e.Helper()
	// The last write that belongs to making them is that of the template's status, which counts them.
	e.awaitTemplate(func(template *infrav1.WorkspaceTemplate) bool {
		return ptr.Deref(template.Status.Users, 0) == int32(e.count)
	})
	settled := time.Now()
	<-time.After(engineRest) // The measurement itself: a time without work.
	require.Zero(e, countWrites(e.B, e.s, settled, "leases"), "CAPT writes at rest")
	e.figures["rest-requests"] = float64(countReads(e.B, e.s, settled))

	scraped := scrape(e.B, e.s)
	e.figures["rss-MiB"] = scraped.Sum("process_resident_memory_bytes") / (1 << 20)
	e.figures["heap-MiB"] = scraped.Sum("go_memstats_heap_inuse_bytes") / (1 << 20)
}

func (e *engineBench) awaitTemplate(wanted func(*infrav1.WorkspaceTemplate) bool) *infrav1.WorkspaceTemplate {
	e.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.Eventually(e, func() bool {
		require.NoError(e, e.c.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "vpc"}, template))
		return wanted(template)
	}, timeout, 50*time.Millisecond)
	return template
}

func (e *engineBench) edit() {
	e.Helper()
	template := e.awaitTemplate(func(*infrav1.WorkspaceTemplate) bool { return true })
	before := template.DeepCopy()
	template.Spec.Template.Spec.ForProvider.Module += "\noutput \"edited\" { value = true }\n"
	var first infrav1.WorkspaceTemplateApply
	require.NoError(e, e.c.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "e0"}, &first))

	began := time.Now()
	require.NoError(e, e.c.Patch(e.Context(), template, client.MergeFrom(before)))
	e.awaitAll(func(apply *infrav1.WorkspaceTemplateApply) bool {
		// All have the same variables and so the same revision.
		return apply.Status.LastAppliedRevision != first.Status.LastAppliedRevision
	})
	e.figures["edit-s"] = time.Since(began).Seconds()
	e.figures["edit-writes/object"] = float64(countWrites(e.B, e.s, began, "events", "leases", "workspacetemplates")) / float64(e.count)

	events, err := e.s.AuditEvents(audit.Filter{
		User: sandbox.ManagerUser, Verbs: audit.Writes, Group: "tf.m.upbound.io", Resource: "workspaces", Since: began,
	})
	require.NoError(e, err)
	times := map[types.NamespacedName]time.Time{}
	for i := range events {
		ref := events[i].ObjectRef
		times[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] = events[i].RequestReceivedTimestamp.Time
	}
	require.Len(e, times, e.count, "some Workspaces were not written")
	require.Len(e, events, e.count, "some Workspaces were written more than once")
	sorted := slices.SortedFunc(maps.Values(times), time.Time.Compare)
	e.figures["edit-spread-s"] = sorted[len(sorted)-1].Sub(sorted[0]).Seconds()
}
