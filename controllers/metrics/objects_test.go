// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

// source lists and watches the objects of a kind in memory.
type source struct{ *fcache.FakeControllerSource }

func (source) IsWatchListSemanticsUnSupported() bool { return true }

// cached is a collector of the objects in a cache of controller-runtime.
type cached struct {
	testing.TB
	registry *prometheus.Registry
	sources  map[string]source
	elected  chan struct{}
}

func newCached(tb testing.TB, objects ...client.Object) *cached {
	tb.Helper()
	c := &cached{TB: tb, registry: prometheus.NewRegistry(), sources: map[string]source{}, elected: make(chan struct{})}
	for _, object := range kinds() {
		c.sources[fmt.Sprintf("%T", object)] = source{fcache.NewFakeControllerSource()}
	}
	for _, object := range objects {
		c.source(object).Add(object)
	}
	scheme := builder.Scheme()
	objectCache, err := cache.New(&rest.Config{Host: "http://127.0.0.1"}, cache.Options{
		Scheme: scheme, Mapper: testrestmapper.TestOnlyStaticRESTMapper(scheme), HTTPClient: http.DefaultClient,
		NewInformer: func(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(c.source(object), object, resync, indexers)
		},
	})
	require.NoError(tb, err)
	ctx, stop := context.WithCancel(context.Background())
	tb.Cleanup(stop)
	go func() { _ = objectCache.Start(ctx) }()
	for _, object := range kinds() {
		_, err := objectCache.GetInformer(ctx, object) // Does not wait if the cache has not started.
		require.NoError(tb, err)
	}
	require.True(tb, objectCache.WaitForCacheSync(ctx))
	metrics.NewObjects(c.registry, metrics.ObjectsOptions{
		Cache: objectCache, Elected: c.elected, Watches: func(object client.Object) bool { return object.GetNamespace() != "of-another-shard" },
	})
	return c
}

func kinds() []client.Object {
	return []client.Object{&infrav1.CAPTCluster{}, &infrav1.CAPTMachinePool{}, &controlplanev1.CAPTControlPlane{}, &infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplateApply{}}
}

func (c *cached) source(object runtime.Object) source { return c.sources[fmt.Sprintf("%T", object)] }

// scrape writes all metrics as text.
func (c *cached) scrape(to io.Writer) {
	c.Helper()
	families, err := c.registry.Gather()
	require.NoError(c, err)
	encoder := expfmt.NewEncoder(to, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, family := range families {
		require.NoError(c, encoder.Encode(family))
	}
}

// series returns the series whose names have a prefix.
func (c *cached) series(prefix string) (lines []string) {
	c.Helper()
	var text strings.Builder
	c.scrape(&text)
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, prefix) && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// showing sets conditions, given as type, status and reason.
func showing(list ...[3]string) builder.Option {
	return func(object client.Object) {
		for _, c := range list {
			conditions.Set(object.(conditions.Setter), metav1.Condition{
				Type: c[0], Status: metav1.ConditionStatus(c[1]), Reason: c[2], Message: "a message with a secret",
			})
		}
	}
}

var ofDemo = builder.WithLabel(clusterv1.ClusterNameLabel, "demo")

func inState(state infrav1.State) *controlplanev1.CAPTControlPlane {
	return builder.CAPTControlPlane(strings.ToLower(string(state)), builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Status.State = state }))
}

func TestStatesOfObjects(t *testing.T) {
	c := newCached(t,
		inState(infrav1.StatePending), inState(infrav1.StateValidating), inState(infrav1.StateProvisioning),
		inState(infrav1.StateConfiguring), inState(infrav1.StateReady), inState(infrav1.StateDegraded),
		inState(infrav1.StateRecovering), inState(infrav1.StateFailed),
		builder.CAPTControlPlane("deleting", builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Status.State = infrav1.StateReady }), builder.Deleting()),
		builder.CAPTControlPlane("new"),
		builder.CAPTCluster("new", ofDemo),
		builder.CAPTCluster("provisioning", ofDemo, showing([3]string{"Ready", "False", infrav1.ProvisioningReason})),
		builder.CAPTCluster("ready", ofDemo, showing([3]string{"Ready", "True", infrav1.ReadyReason})),
		builder.CAPTCluster("failed", ofDemo, showing([3]string{"Ready", "False", infrav1.ApplyFailedReason})),
		builder.CAPTCluster("replaced", ofDemo, builder.With(func(c *infrav1.CAPTCluster) { c.Status.State = infrav1.StateDegraded })),
		builder.CAPTCluster("foreign", builder.WithNamespace("of-another-shard")),
		builder.WorkspaceTemplate("valid", showing([3]string{"Valid", "True", infrav1.ValidReason})),
	)
	assert.Empty(t, c.series(""), "another replica is the leader")
	close(c.elected)
	series := c.series("capt_resource_state")
	expected := []string{}
	for _, state := range []string{"Pending", "Validating", "Provisioning", "Configuring", "Ready", "Degraded", "Recovering", "Failed", "Deleting"} {
		expected = append(expected, state1("CAPTControlPlane", strings.ToLower(state), "", state))
	}
	expected = append(expected, state1("CAPTControlPlane", "new", "", "Pending"),
		state1("CAPTCluster", "new", "demo", "Pending"), state1("CAPTCluster", "provisioning", "demo", "Provisioning"),
		state1("CAPTCluster", "ready", "demo", "Ready"), state1("CAPTCluster", "failed", "demo", "Failed"), state1("CAPTCluster", "replaced", "demo", "Degraded"), state1("WorkspaceTemplate", "valid", "", "Ready"))
	assert.ElementsMatch(t, expected, series)
	assert.ElementsMatch(t, []string{
		`capt_cache_objects{kind="CAPTCluster"} 6`, `capt_cache_objects{kind="CAPTControlPlane"} 10`, `capt_cache_objects{kind="CAPTMachinePool"} 0`,
		`capt_cache_objects{kind="WorkspaceTemplate"} 1`, `capt_cache_objects{kind="WorkspaceTemplateApply"} 0`,
	}, c.series("capt_cache_objects"))
	problems, err := testutil.GatherAndLint(c.registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func state1(kind, name, cluster, state string) string {
	return fmt.Sprintf("capt_resource_state{cluster_name=%q,kind=%q,name=%q,namespace=%q,state=%q} 1", cluster, kind, name, builder.Namespace, state)
}

func TestSeriesEndWithTheObject(t *testing.T) {
	failing := builder.WorkspaceTemplateApply("demo-vpc", ofDemo,
		showing([3]string{"Ready", "False", "ApplyFailed"}, [3]string{"DependenciesReady", "False", "WaitingForDependencies"}),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.WorkspaceName, apply.Status.LastFailureClass, apply.Status.LastFailureMessage = "demo-vpc-1", "Lock", "a message with a secret"
		}))
	c := newCached(t, failing)
	close(c.elected)
	const object = `cluster_name="demo",kind="WorkspaceTemplateApply",name="demo-vpc",namespace="default"`
	before := c.series("")
	for _, expected := range []string{
		`capt_resource_info{` + object + `,version="",workspace="demo-vpc-1"} 1`,
		`capt_resource_condition{actor="User",cluster_name="demo",condition="Ready",kind="WorkspaceTemplateApply",name="demo-vpc",namespace="default",reason="ApplyFailed",status="False"} 1`,
		`capt_workspace_error{class="Lock",cluster_name="demo",name="demo-vpc",namespace="default"} 1`,
		`capt_dependency_blocked{kind="WorkspaceTemplateApply",reason="WaitingForDependencies"} 1`,
	} {
		assert.Contains(t, before, expected)
	}
	assert.NotContains(t, strings.Join(before, "\n"), "secret")

	repaired := failing.DeepCopy()
	repaired.Status.LastFailureClass = ""
	conditions.Set(repaired, metav1.Condition{Type: "DependenciesReady", Status: metav1.ConditionTrue, Reason: "DependenciesReady"})
	c.source(repaired).Modify(repaired)
	require.Eventually(t, func() bool {
		return len(c.series("capt_workspace_error")) == 0 && len(c.series("capt_dependency_blocked")) == 0
	}, 10*time.Second, 10*time.Millisecond)
	c.source(repaired).Delete(repaired)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(c.series(""), func(line string) bool { return strings.Contains(line, "demo-vpc") })
	}, 10*time.Second, 10*time.Millisecond)
}

func TestNodesOfAPoolAreReportedUntilItIsDeleted(t *testing.T) {
	pool := builder.CAPTMachinePool("workers", ofDemo, builder.With(func(pool *infrav1.CAPTMachinePool) {
		pool.Status.WantedReplicas, pool.Status.Replicas, pool.Status.ReadyReplicas = ptr.To[int32](3), ptr.To[int32](2), ptr.To[int32](0)
		pool.Status.Instances = []infrav1.MachinePoolInstance{{Name: "ip-10-0-0-1"}, {Name: "ip-10-0-0-2"}}
	}))
	c := newCached(t, pool, builder.CAPTMachinePool("new", ofDemo))
	close(c.elected)
	nodes := func(state string, number int) string {
		return fmt.Sprintf("capt_machine_pool_nodes{cluster_name=\"demo\",name=\"workers\",namespace=\"default\",state=%q} %d", state, number)
	}
	require.ElementsMatch(t, []string{nodes("Wanted", 3), nodes("Existing", 2), nodes("Ready", 0)}, c.series("capt_machine_pool_nodes"))
	assert.NotContains(t, strings.Join(c.series(""), "\n"), "ip-10", "the number of series does not grow with the nodes")

	unknown := pool.DeepCopy()
	unknown.Status.ReadyReplicas = nil
	c.source(unknown).Modify(unknown)
	require.Eventually(t, func() bool { return len(c.series("capt_machine_pool_nodes")) == 2 }, time.Minute, 10*time.Millisecond)
	c.source(unknown).Delete(unknown)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(c.series(""), func(line string) bool { return strings.Contains(line, "workers") })
	}, time.Minute, 10*time.Millisecond)
}

// BenchmarkScrape measures a scrape of 1,000 clusters, as text. cpu-ns/op is the CPU time, which other load affects less than ns/op.
func BenchmarkScrape(b *testing.B) {
	var objects []client.Object
	ready := func(conditions int) builder.Option {
		list := [][3]string{{"Ready", "True", "Ready"}}
		for i := range conditions - 1 {
			list = append(list, [3]string{fmt.Sprintf("Condition%d", i), "True", "Reason"})
		}
		return showing(list...)
	}
	for i := range 1000 {
		name := fmt.Sprintf("cluster-%d", i)
		label := builder.WithLabel(clusterv1.ClusterNameLabel, name)
		objects = append(objects, builder.CAPTCluster(name, label, ready(3)), builder.CAPTControlPlane(name, label, ready(11)))
		for _, part := range []string{"vpc", "eks", "fargate"} {
			objects = append(objects, builder.WorkspaceTemplateApply(name+"-"+part, label, ready(5)))
		}
	}
	c := newCached(b, objects...)
	close(c.elected)
	series := len(c.series(""))
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		c.scrape(io.Discard)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(series), "series")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestRolloutsAreReportedUntilTheTemplateIsDeleted(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Status.Rollout = infrav1.WorkspaceTemplateRolloutStatus{
			Stage: infrav1.RolloutCanary, Current: ptr.To[int32](1), Updating: ptr.To[int32](2), Waiting: ptr.To[int32](3), Failed: ptr.To[int32](4),
			Stalled: ptr.To[int32](5), LeftBehind: ptr.To[int32](6), PreviewedDestroy: ptr.To[int32](2),
		}
	}))
	c := newCached(t, template, builder.WorkspaceTemplate("immediate"))
	close(c.elected)
	assert.ElementsMatch(t, []string{
		`capt_rollout_stage{name="vpc",namespace="default",stage="Canary"} 1`, `capt_rollout_destroys{name="vpc",namespace="default"} 2`,
		`capt_rollout_users{name="vpc",namespace="default",state="Current"} 1`, `capt_rollout_users{name="vpc",namespace="default",state="Updating"} 2`,
		`capt_rollout_users{name="vpc",namespace="default",state="Waiting"} 3`, `capt_rollout_users{name="vpc",namespace="default",state="Failed"} 4`,
		`capt_rollout_users{name="vpc",namespace="default",state="Stalled"} 5`, `capt_rollout_users{name="vpc",namespace="default",state="LeftBehind"} 6`,
	}, c.series("capt_rollout_"))
	c.source(template).Delete(template)
	require.Eventually(t, func() bool { return len(c.series("capt_rollout_")) == 0 }, time.Minute, 10*time.Millisecond)
}

// The plan is reported while what was planned waits.
func TestPlansOfWhatWaitsAreReported(t *testing.T) {
	waiting := builder.WorkspaceTemplateApply("demo-vpc", ofDemo, builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.Change = infrav1.HeldChange{Revision: "b", Preview: infrav1.RevisionPreview{Result: infrav1.PreviewChanges}}
	}))
	c := newCached(t, waiting, builder.WorkspaceTemplateApply("at-rest"))
	close(c.elected)
	assert.Equal(t, []string{`capt_pending_plan{cluster_name="demo",name="demo-vpc",namespace="default",result="Unknown"} 1`}, c.series("capt_pending_plan"))
	applied := waiting.DeepCopy()
	applied.Status.Change = infrav1.HeldChange{}
	c.source(applied).Modify(applied)
	require.Eventually(t, func() bool { return len(c.series("capt_pending_plan")) == 0 }, time.Minute, 10*time.Millisecond)
}
