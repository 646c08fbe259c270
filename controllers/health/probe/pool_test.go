// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder/tokens"
)

var demo = client.ObjectKey{Namespace: "default", Name: "demo"}

// Answers of API servers.
var (
	ready   = answer{Probed: health.Probed{APIServer: health.Healthy(), Credentials: health.Healthy(), Version: health.Healthy()}, answered: true}
	refuses = answer{Probed: health.Probed{APIServer: health.Unhealthy("refused")}, unreachable: true}
	failing = answer{Probed: health.Probed{APIServer: health.Unhealthy("status 500")}, answered: true}
)

// testPool is a pool that runs in the time of a synctest bubble, with API servers that a test defines.
type testPool struct {
	*testing.T
	*Pool
	registry *prometheus.Registry

	mu      sync.Mutex
	answers answer
	hangs   bool
	// probes are the times of probes, woken are those of changes.
	probes, woken []time.Time
	foreign       bool
}

// run runs a test with a pool that is started, and checks that it stops.
func run(t *testing.T, test func(b *testPool)) {
	synctest.Test(t, func(t *testing.T) {
		b := &testPool{T: t, registry: prometheus.NewRegistry(), answers: ready}
		b.Pool = NewPool(metrics.NewHealth(b.registry), func(context.Context, client.ObjectKey) bool { return !b.foreign })
		b.Pool.probe = b.answer
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.Start(ctx) }()
		go func() {
			for {
				select {
				case <-b.Changes():
					b.mu.Lock()
					b.woken = append(b.woken, time.Now())
					b.mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
		}()
		test(b)
		stop()
		require.NoError(t, <-stopped)
	})
}

func (b *testPool) answer(ctx context.Context, _ *entry) answer {
	b.mu.Lock()
	b.probes = append(b.probes, time.Now())
	found, hangs := b.answers, b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return found
}

// becomes changes what the API servers answer, or whether they hang, and lets time pass.
func (b *testPool) becomes(found answer, hangs bool, after time.Duration) {
	b.mu.Lock()
	b.answers, b.hangs, b.probes, b.woken = found, hangs, nil, nil
	b.mu.Unlock()
	time.Sleep(after) // In the time of the bubble.
	synctest.Wait()
}

func (b *testPool) track(change ...func(*Target)) {
	b.Helper()
	target := Target{Kubeconfig: []byte(tokens.Kubeconfig(b.T, "127.0.0.1:1", time.Now())), Version: "1.31"}
	for _, apply := range change {
		apply(&target)
	}
	b.Track(demo, target)
}

func required(target *Target) { target.Required = true }

func last(status controlplanev1.HealthState) func(*Target) {
	return func(target *Target) {
		target.Last = &controlplanev1.Health{Checks: []controlplanev1.HealthCheck{{Name: health.APIServer, Status: status}}}
	}
}

func (b *testPool) apiServer() health.Result { return b.Results(demo).APIServer }

func TestAHealthyClusterIsProbedAndNeverReconciled(t *testing.T) {
	run(t, func(b *testPool) {
		b.track()
		b.becomes(ready, false, time.Second)
		assert.Equal(t, health.Healthy(), b.apiServer())
		assert.Len(t, b.woken, 1)
		b.becomes(ready, false, time.Hour)
		assert.Empty(t, b.woken)
		assert.InDelta(t, 133, len(b.probes), 14, "every 24 to 30 seconds")
	})
}

// The design requires one minute.
func TestAnAPIServerThatStopsAnsweringIsReportedWithinAMinute(t *testing.T) {
	for name, hangs := range map[string]bool{"stopped": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // Intervals are random.
				run(t, func(b *testPool) {
					b.track()
					b.becomes(ready, false, time.Minute)
					b.becomes(refuses, hangs, time.Minute)
					assert.Equal(t, health.Unhealthy("refused"), b.apiServer())
					assert.Len(t, b.woken, 1)
					assert.GreaterOrEqual(t, len(b.probes), threshold)
					b.becomes(ready, false, time.Minute)
					assert.Equal(t, health.Healthy(), b.apiServer(), "one success is enough")
					assert.Len(t, b.woken, 1)
				})
			}
		})
	}
}

func TestTwoFailuresAreNotReported(t *testing.T) {
	run(t, func(b *testPool) {
		b.track()
		b.becomes(ready, false, time.Second)
		b.becomes(failing, false, healthyInterval)
		for len(b.probes) < threshold-1 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		assert.Equal(t, health.Healthy(), b.apiServer())
		b.becomes(ready, false, time.Minute)
		assert.Empty(t, b.woken)
	})
}

func TestANetworkThatNeverReachedTheAPIServer(t *testing.T) {
	for name, row := range map[string]struct {
		change []func(*Target)
		want   health.Result
	}{
		"best effort":                    {nil, health.Unknown("refused")},
		"required":                       {[]func(*Target){required}, health.Unhealthy("refused")},
		"it answered before the restart": {[]func(*Target){last(controlplanev1.HealthHealthy)}, health.Unhealthy("refused")},
		"it was reached before":          {[]func(*Target){last(controlplanev1.HealthUnknown)}, health.Unknown("refused")},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *testPool) {
				b.track(row.change...)
				b.becomes(refuses, false, time.Minute)
				assert.Equal(t, row.want, b.apiServer())
				assert.Len(t, b.woken, 1)
			})
		})
	}
}

// One that answered is there: it does not become unknown.
func TestAnAPIServerThatAnsweredOnceIsAFailureWhenItIsUnreachable(t *testing.T) {
	run(t, func(b *testPool) {
		b.track()
		b.becomes(failing, false, time.Minute)
		assert.Equal(t, health.Unhealthy("status 500"), b.apiServer())
		b.becomes(refuses, false, time.Minute)
		assert.Equal(t, health.Unhealthy("refused"), b.apiServer(), "the message follows")
	})
}

// Messages that alternate would cause writes without end.
func TestAlternatingFailuresAreReportedOnce(t *testing.T) {
	run(t, func(b *testPool) {
		b.track(last(controlplanev1.HealthHealthy))
		reported := 0
		for range 100 {
			b.becomes(failing, false, failedInterval)
			reported += len(b.woken)
			b.becomes(refuses, false, failedInterval)
			reported += len(b.woken)
		}
		assert.Equal(t, 1, reported)
	})
}

func TestARestartReportsNothingThatStatusHas(t *testing.T) {
	for _, status := range []controlplanev1.HealthState{controlplanev1.HealthHealthy, controlplanev1.HealthUnhealthy} {
		run(t, func(b *testPool) {
			b.track(last(status))
			found := ready
			if found.Version, found.Credentials = (health.Result{}), (health.Result{}); status == controlplanev1.HealthUnhealthy {
				found = refuses
			}
			b.becomes(found, false, time.Hour)
			assert.Empty(t, b.woken)
			assert.Zero(t, b.Results(demo))
		})
	}
}

func TestANewVersionIsComparedAtOnce(t *testing.T) {
	run(t, func(b *testPool) {
		b.track()
		b.becomes(ready, false, time.Second)
		other := ready
		other.Version = health.Unhealthy("1.31")
		b.track(func(target *Target) { target.Version = "1.32" })
		b.becomes(other, false, 11*time.Second)
		assert.Equal(t, other.Version, b.Results(demo).Version)
		assert.Equal(t, health.Healthy(), b.apiServer())
	})
}

func TestARenewedKubeconfigKeepsTheHistory(t *testing.T) {
	run(t, func(b *testPool) {
		b.track()
		b.becomes(ready, false, time.Second)
		time.Sleep(time.Second)
		b.track() // Its token is another one.
		b.becomes(refuses, false, time.Minute)
		assert.Equal(t, health.Unhealthy("refused"), b.apiServer())
	})
}

func TestAKubeconfigThatCannotBeUsedIsNotProbed(t *testing.T) {
	run(t, func(b *testPool) {
		b.track(func(target *Target) { target.Kubeconfig = []byte("x") })
		b.becomes(ready, false, time.Hour)
		assert.Empty(t, b.probes)
		assert.Equal(t, controlplanev1.HealthUnhealthy, b.Results(demo).Credentials.Status)
		b.track()
		b.becomes(ready, false, time.Second)
		assert.Len(t, b.probes, 1)
	})
}

func TestWhatIsStoppedIsNotProbed(t *testing.T) {
	for name, stop := range map[string]func(*testPool){
		"stopped":                         func(b *testPool) { b.Stop(demo) },
		"forgotten":                       func(b *testPool) { b.Forget(demo) },
		"of another shard, or gone":       func(b *testPool) { b.foreign = true },
		"stopped during a probe and back": func(b *testPool) { b.becomes(refuses, true, healthyInterval); b.Stop(demo) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *testPool) {
				b.track()
				b.becomes(ready, false, time.Second)
				assert.Equal(t, 2, b.series(), "duration and time of the last probe")
				stop(b)
				b.becomes(ready, false, time.Hour)
				assert.Empty(t, b.probes)
				assert.Zero(t, b.Results(demo))
				assert.Zero(t, b.series())
			})
		})
	}
}

// The number of goroutines depends on the workers, and not on the clusters; and API servers that hang delay the others little.
func TestAThousandClustersThatHang(t *testing.T) {
	run(t, func(b *testPool) {
		before := runtime.NumGoroutine()
		kubeconfig := []byte(tokens.Kubeconfig(b.T, "127.0.0.1:1", time.Now()))
		b.hangs, b.answers = true, refuses
		for i := range 1000 {
			b.Track(client.ObjectKey{Namespace: "default", Name: fmt.Sprint(i)}, Target{Kubeconfig: kubeconfig})
		}
		b.becomes(refuses, true, 10*time.Minute)
		assert.LessOrEqual(t, runtime.NumGoroutine()-before, workers)
		assert.Greater(t, len(b.probes), 6000, "each is still probed about every 80 seconds")
	})
}

func TestStoppingEndsProbesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &testPool{T: t, registry: prometheus.NewRegistry(), hangs: true}
		b.Pool = NewPool(metrics.NewHealth(b.registry), func(context.Context, client.ObjectKey) bool { return true })
		b.Pool.probe = b.answer
		ctx, stop := context.WithCancel(t.Context())
		b.track()
		time.AfterFunc(time.Second, stop)
		began := time.Now()
		require.NoError(t, b.Start(ctx))
		assert.Equal(t, time.Second, time.Since(began))
		assert.Len(t, b.probes, 1)
	})
}

// series counts the series of metrics.
func (b *testPool) series() int {
	b.Helper()
	count, err := testutil.GatherAndCount(b.registry)
	require.NoError(b, err)
	return count
}
