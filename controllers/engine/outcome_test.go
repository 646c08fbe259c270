// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

var (
	secrets  = schema.GroupResource{Resource: "secrets"}
	conflict = apierrors.NewConflict(secrets, "demo", errors.New("changed"))
)

func TestOutcomesThatEndWithoutAnError(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want ctrl.Result
	}{
		"done":                    {nil, ctrl.Result{}},
		"wait":                    {Wait("the Workspace kind", 10*time.Second), ctrl.Result{RequeueAfter: 10 * time.Second}},
		"wait, wrapped":           {fmt.Errorf("act: %w", Wait("a token", time.Minute)), ctrl.Result{RequeueAfter: time.Minute}},
		"the object changed":      {MarkStale(conflict), ctrl.Result{}},
		"the same, wrapped":       {fmt.Errorf("writing: %w", MarkStale(conflict)), ctrl.Result{}},
		"the same, while waiting": {errors.Join(MarkStale(conflict), Wait("a token", time.Minute)), ctrl.Result{RequeueAfter: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resultOf(context.Background(), row.err)
			require.NoError(t, err)
			assert.Equal(t, row.want, got)
		})
	}
}

// No watch reports when what these conflicts are about is over.
func TestOnlyAConflictOnTheReconciledObjectIsNotRetried(t *testing.T) {
	quota := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "compute", errors.New("the object has been modified"))
	for name, err := range map[string]error{
		"on a Secret":                        fmt.Errorf("writing Secret demo: %w", conflict),
		"on a UID":                           apierrors.NewConflict(schema.GroupResource{Resource: "workspaces"}, "demo", errors.New("precondition failed: UID in precondition: a, UID in object meta: b")),
		"on a ResourceQuota":                 quota,
		"on a ResourceQuota, of this object": MarkStale(quota),
		"beside what waits":                  errors.Join(Wait("a token", time.Hour), conflict),
		"beside one on the object":           errors.Join(MarkStale(conflict), conflict),
		"any other error":                    errors.New("no route to host"),
		"what does not exist":                apierrors.NewNotFound(secrets, "demo"),
	} {
		t.Run(name, func(t *testing.T) {
			assert.True(t, isRetriable(err))
			got, failed := resultOf(context.Background(), err)
			assert.Equal(t, ctrl.Result{}, got)
			require.ErrorIs(t, failed, err)
		})
	}
}

func TestSetKeepsTheTransitionTimeWhileTheStatusIsEqual(t *testing.T) {
	long := metav1.NewTime(time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC))
	captCluster := builder.CAPTCluster("demo", builder.WithGeneration(7))
	captCluster.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Provisioning", LastTransitionTime: long, ObservedGeneration: 6,
	}}

	Set(captCluster, False("Ready", "ApplyFailed", "VpcLimitExceeded"))
	ready := conditions.Get(captCluster, "Ready")
	require.NotNil(t, ready)
	assert.Equal(t, long, ready.LastTransitionTime)
	assert.Equal(t, "ApplyFailed", ready.Reason)
	assert.Equal(t, int64(7), ready.ObservedGeneration)

	Set(captCluster, True("Ready", "Ready", ""))
	assert.True(t, conditions.Get(captCluster, "Ready").LastTransitionTime.After(long.Time))
}

func TestPaused(t *testing.T) {
	paused := builder.Cluster("demo")
	paused.Spec.Paused = ptr.To(true)
	running := builder.Cluster("demo")
	running.Spec.Paused = ptr.To(false)

	const byCluster, byAnnotation = "Cluster spec.paused is set to true", "the object has the cluster.x-k8s.io/paused annotation"
	for name, row := range map[string]struct {
		cluster *clusterv1.Cluster
		options []builder.Option
		want    string
	}{
		"without a Cluster":     {nil, nil, ""},
		"a running Cluster":     {running, nil, ""},
		"a paused Cluster":      {paused, nil, byCluster},
		"a paused object":       {running, []builder.Option{builder.Paused()}, byAnnotation},
		"a paused object alone": {nil, []builder.Option{builder.Paused()}, byAnnotation},
		"one that is moved away": {nil, []builder.Option{builder.WithAnnotation(clusterctlv1.DeleteForMoveAnnotation, "")},
			"clusterctl move is moving the object to another management cluster"},
		"both": {paused, []builder.Option{builder.Paused()}, byCluster + ", " + byAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			why := desired.Paused(row.cluster, builder.CAPTCluster("demo", row.options...))
			assert.Equal(t, row.want, why)
			condition := PausedCondition(why)
			assert.Equal(t, row.want != "", condition.Status == metav1.ConditionTrue)
			assert.Equal(t, row.want, condition.Message)
			assert.NotEmpty(t, condition.Reason)
		})
	}
}

// Clusters and their objects reach the cache independently of each other.
func TestAClusterThatIsNotInTheCacheYetIsThere(t *testing.T) {
	var empty, full client.Client = builder.Clients().Build(), builder.Clients(builder.Cluster("demo")).Build()
	object := builder.CAPTCluster("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))
	for name, look := range map[string]func(context.Context, client.Client, client.Reader, metav1.Object) (*clusterv1.Cluster, error){
		"owner": OwnerCluster, "label": LabeledCluster,
	} {
		t.Run(name, func(t *testing.T) {
			for _, cached := range []client.Client{full, empty} {
				cluster, err := look(t.Context(), cached, full, object)
				require.NoError(t, err)
				assert.Equal(t, "demo", cluster.Name)
			}
			cluster, err := look(t.Context(), empty, empty, object)
			require.NoError(t, err)
			assert.Nil(t, cluster, "it is gone")
			cluster, err = look(t.Context(), empty, full, builder.CAPTCluster("demo"))
			require.NoError(t, err)
			assert.Nil(t, cluster, "without a Cluster")
		})
	}
}

// behind makes the cache show an object as it was.
func (s *testReconciler) behind(old *infrav1.CAPTCluster) {
	s.engine.Client = interceptor.NewClient(s.engine.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			old.DeepCopyInto(obj.(*infrav1.CAPTCluster))
			return nil
		},
	})
}

func TestACacheThatLagsBehindOurOwnWriteIsLookedAtAgain(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	old := s.get()
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.mustReconcile()
	require.Equal(t, 1, s.acted)

	s.behind(old)
	got, err := s.reconcile()
	require.NoError(t, err)
	assert.Equal(t, staleCacheTimeout, got.RequeueAfter, "after a restore of etcd, no event comes")
	assert.Equal(t, 1, s.acted)
	assert.Equal(t, 1, s.writes)
}

func TestCacheIsStale(t *testing.T) {
	const (
		nine = "9"
		ten  = "10" // Compared as numbers: as text, 10 would be less than 9.
	)
	version := func(version string) client.Object {
		return builder.CAPTCluster("demo", builder.WithResourceVersion(version))
	}
	clock := builder.NewClock()
	cache := &StateCache{Clock: clock}
	assert.False(t, cache.CacheIsStale(version(nine)), "nothing was written yet")

	cache.Record(version(ten))
	assert.True(t, cache.CacheIsStale(version(nine)))
	assert.False(t, cache.CacheIsStale(version(ten)))
	assert.False(t, cache.CacheIsStale(version("11")))
	assert.False(t, cache.CacheIsStale(builder.CAPTCluster("other", builder.WithResourceVersion(nine))), "another object")
	assert.False(t, cache.CacheIsStale(builder.CAPTCluster("demo", builder.WithNamespace("other"), builder.WithResourceVersion(nine))), "another namespace")

	cache.Forget(client.ObjectKeyFromObject(version(ten)))
	assert.False(t, cache.CacheIsStale(version(nine)), "an object that was deleted is forgotten")

	cache.Record(version(ten))
	clock.Pass(staleCacheTimeout)
	assert.True(t, cache.CacheIsStale(version(nine)))
	clock.Pass(time.Second)
	assert.False(t, cache.CacheIsStale(version(nine)), "versions go back when etcd is restored from a backup")
}

func TestADeletedObjectIsForgotten(t *testing.T) {
	s := newTestReconciler(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.mustReconcile()
	require.NoError(t, s.engine.Client.Delete(context.Background(), s.get()))
	s.mustReconcile()
	assert.False(t, s.engine.State.CacheIsStale(builder.CAPTCluster("demo", builder.WithResourceVersion("1"))))
}

// The work queue logs what it is given as an error, and retries it soon.
func TestARefusalIsAnErrorOnce(t *testing.T) {
	s, clock := newTestReconciler(t, builder.CAPTCluster("demo")), builder.NewClock()
	s.engine.State.Clock = clock
	act := func(err error) (ctrl.Result, error) {
		s.ends(err)
		return s.reconcile()
	}
	forbidden := fmt.Errorf("applying: %w", apierrors.NewForbidden(secrets, "demo", errors.New("quota exceeded")))
	_, err := act(forbidden)
	require.ErrorIs(t, err, forbidden)
	got, err := act(forbidden)
	require.NoError(t, err)
	assert.Equal(t, firstRefusedRetry, got.RequeueAfter)

	clock.Pass(time.Hour)
	got, err = act(forbidden)
	require.NoError(t, err)
	assert.Equal(t, lastRefusedRetry, got.RequeueAfter)
	got, err = act(errors.Join(forbidden, Wait("a timeout", 9*time.Second)))
	require.NoError(t, err, "a wait is not another cause")
	assert.Equal(t, 9*time.Second, got.RequeueAfter)

	other := apierrors.NewForbidden(secrets, "demo", errors.New("a policy"))
	_, err = act(other)
	require.ErrorIs(t, err, other, "another cause is worth another word")
	_, err = act(errors.Join(other, conflict))
	require.ErrorIs(t, err, conflict, "what else is wrong is retried soon")
	_, err = act(other)
	require.ErrorIs(t, err, other, "it was something else in between")

	_, err = act(nil)
	require.NoError(t, err)
	_, err = act(other)
	require.ErrorIs(t, err, other, "it was accepted in between")
}

var measured = client.ObjectKey{Namespace: "default", Name: "demo"}

func TestElapsedIgnoresClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{
		"ahead": 10 * time.Minute, "back": -10 * time.Minute, "a year ahead": 365 * 24 * time.Hour, "a year back": -365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			clock := builder.NewClock()
			watch := &StateCache{Clock: clock}
			began := clock.Now()
			assert.Zero(t, watch.Elapsed(measured, "vpc", began, 0))
			clock.Pass(4 * time.Minute)
			clock.Jump(jump)
			assert.Equal(t, 4*time.Minute, watch.Elapsed(measured, "vpc", began, 0))
		})
	}
}

func TestElapsedAfterARestart(t *testing.T) {
	clock := builder.NewClock()
	began := clock.Now()
	for name, row := range map[string]struct{ passed, jump, want time.Duration }{
		"soon":                         {passed: 3 * time.Minute},
		"with a clock that is ahead":   {passed: 3 * time.Minute, jump: 7 * time.Minute},
		"with a clock that is behind":  {passed: 3 * time.Minute, jump: -10 * time.Minute},
		"late":                         {passed: 30 * time.Minute, want: 20 * time.Minute},
		"late, with a clock behind":    {passed: 30 * time.Minute, jump: -10 * time.Minute, want: 10 * time.Minute},
		"late, with a clock far ahead": {passed: 30 * time.Minute, jump: 10 * time.Minute, want: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			clock := builder.NewClock()
			clock.Pass(row.passed)
			clock.Jump(row.jump)
			watch := &StateCache{Clock: clock}
			assert.Equal(t, row.want, watch.Elapsed(measured, "vpc", began, 0), "it restarted")
			clock.Pass(time.Minute)
			assert.Equal(t, row.want+time.Minute, watch.Elapsed(measured, "vpc", began, 0))
		})
	}
}

func TestElapsedRestarts(t *testing.T) {
	clock := builder.NewClock()
	watch := &StateCache{Clock: clock}
	began := clock.Now()
	watch.Elapsed(measured, "vpc", began, 0)
	clock.Pass(5 * time.Minute)
	assert.Equal(t, 5*time.Minute, watch.Elapsed(measured, "vpc", began, 0))
	assert.Zero(t, watch.Elapsed(measured, "secret", began, 0), "another step")
	assert.Zero(t, watch.Elapsed(client.ObjectKey{Name: "other"}, "vpc", began, 0), "another object")
	assert.Zero(t, watch.Elapsed(measured, "vpc", clock.Now(), 0), "another beginning")
	clock.Pass(time.Minute)
	watch.Forget(measured)
	assert.Zero(t, watch.Elapsed(measured, "vpc", began, 0), "another object of the same name")
}

func TestMeasure(t *testing.T) {
	clock, key := builder.NewClock(), client.ObjectKey{Name: "demo"}
	state, never, retry := &StateCache{Clock: clock}, time.Time{}, clock.Now()
	expect := func(retried time.Time, wantReason string, want time.Duration, wantKnown bool) {
		t.Helper()
		reason, persists, known := state.Persists(key, retried)
		assert.Equal(t, wantReason, reason)
		assert.Equal(t, want, persists)
		assert.Equal(t, wantKnown, known)
	}
	expect(never, "", 0, false)
	state.Measure(key, never, "Missing", time.Hour)
	expect(never, "Missing", time.Hour, true)
	clock.Pass(time.Minute)
	state.Measure(key, never, "Missing", time.Hour)
	expect(never, "Missing", time.Hour+time.Minute, true)
	expect(retry, "", 0, true)
	state.Measure(key, never, "Invalid", time.Hour)
	expect(never, "Invalid", 0, true)
	state.Measure(key, retry, "Invalid", time.Hour)
	clock.Pass(time.Minute)
	expect(retry, "Invalid", time.Minute, true)
}
