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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// behind makes the cache show an object as it was.
func (s *stage) behind(old *infrav1.CAPTCluster) {
	s.engine.Client = interceptor.NewClient(s.engine.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			old.DeepCopyInto(obj.(*infrav1.CAPTCluster))
			return nil
		},
	})
}

func TestSafety24ACacheThatLagsBehindOurOwnWriteIsLookedAtAgain(t *testing.T) {
	s := newStage(t, builder.CAPTCluster("demo"))
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
	cache := &StateCache{}
	assert.False(t, cache.CacheIsStale(version(nine)), "nothing was written yet")

	cache.Record(version(ten))
	assert.True(t, cache.CacheIsStale(version(nine)))
	assert.False(t, cache.CacheIsStale(version(ten)))
	assert.False(t, cache.CacheIsStale(version("11")))
	assert.False(t, cache.CacheIsStale(builder.CAPTCluster("other", builder.WithResourceVersion(nine))), "another object")
	assert.False(t, cache.CacheIsStale(builder.CAPTCluster("demo", builder.WithNamespace("other"), builder.WithResourceVersion(nine))), "another namespace")

	cache.Forget(client.ObjectKeyFromObject(version(ten)))
	assert.False(t, cache.CacheIsStale(version(nine)), "an object that was deleted is forgotten")
}

// Versions go back when etcd is restored from a backup.
func TestACacheIsNotStaleForever(t *testing.T) {
	clock := builder.NewClock()
	cache := &StateCache{Clock: clock}
	cache.Record(builder.CAPTCluster("demo", builder.WithResourceVersion("10")))
	old := builder.CAPTCluster("demo", builder.WithResourceVersion("9"))
	clock.Pass(staleCacheTimeout)
	assert.True(t, cache.CacheIsStale(old))
	clock.Pass(time.Second)
	assert.False(t, cache.CacheIsStale(old))
}

func TestADeletedObjectIsForgotten(t *testing.T) {
	s := newStage(t, builder.CAPTCluster("demo"))
	s.show(False("Ready", "Provisioning", "Terraform is at work"))
	s.mustReconcile()
	require.NoError(t, s.engine.Client.Delete(context.Background(), s.get()))
	s.mustReconcile()
	assert.False(t, s.engine.State.CacheIsStale(builder.CAPTCluster("demo", builder.WithResourceVersion("1"))))
}

// The work queue logs what it is given as an error, and retries it soon.
func TestSafety24ARefusalIsAnErrorOnce(t *testing.T) {
	s, clock := newStage(t, builder.CAPTCluster("demo")), builder.NewClock()
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
