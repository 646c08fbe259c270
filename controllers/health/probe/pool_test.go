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
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
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
func run(t *testing.T, test func(pool *testPool)) {
	synctest.Test(t, func(t *testing.T) {
		pool := &testPool{T: t, registry: prometheus.NewRegistry(), answers: ready}
		pool.Pool = NewPool(metrics.NewHealth(pool.registry), func(context.Context, client.ObjectKey) bool { return !pool.foreign })
		pool.Pool.probe = pool.answer
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- pool.Start(ctx) }()
		go func() {
			for {
				select {
				case <-pool.Changes():
					pool.mu.Lock()
					pool.woken = append(pool.woken, time.Now())
					pool.mu.Unlock()
				case <-ctx.Done():
					return
				}
			}
		}()
		test(pool)
		stop()
		require.NoError(t, <-stopped)
	})
}

func (pool *testPool) answer(ctx context.Context, _ *entry) answer {
	pool.mu.Lock()
	pool.probes = append(pool.probes, time.Now())
	found, hangs := pool.answers, pool.hangs
	pool.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return found
}

// becomes changes what the API servers answer, or whether they hang, and lets time pass.
func (pool *testPool) becomes(found answer, hangs bool, after time.Duration) {
	pool.mu.Lock()
	pool.answers, pool.hangs, pool.probes, pool.woken = found, hangs, nil, nil
	pool.mu.Unlock()
	time.Sleep(after) // In the time of the bubble.
	synctest.Wait()
}

func (pool *testPool) track(change ...func(*Target)) {
	pool.Helper()
	target := Target{Kubeconfig: []byte(tokens.Kubeconfig(pool.T, "127.0.0.1:1", time.Now())), Version: "1.31"}
	for _, apply := range change {
		apply(&target)
	}
	pool.Track(demo, target)
}

func required(target *Target) { target.Required = true }

func last(status controlplanev1.HealthState) func(*Target) {
	return func(target *Target) {
		target.Last = &controlplanev1.Health{Checks: []controlplanev1.HealthCheck{{Name: health.APIServer, Status: status}}}
	}
}

func (pool *testPool) apiServer() health.Result { return pool.Results(demo).APIServer }

func TestAHealthyClusterIsProbedAndNeverReconciled(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track()
		pool.becomes(ready, false, time.Second)
		assert.Equal(t, health.Healthy(), pool.apiServer())
		assert.Len(t, pool.woken, 1)
		pool.becomes(ready, false, time.Hour)
		assert.Empty(t, pool.woken)
		assert.InDelta(t, 133, len(pool.probes), 14, "every 24 to 30 seconds")
	})
}

// The design requires one minute.
func TestAnAPIServerThatStopsAnsweringIsReportedWithinAMinute(t *testing.T) {
	for name, hangs := range map[string]bool{"stopped": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // Intervals are random.
				run(t, func(pool *testPool) {
					pool.track()
					pool.becomes(ready, false, time.Minute)
					pool.becomes(refuses, hangs, time.Minute)
					assert.Equal(t, health.Unhealthy("refused"), pool.apiServer())
					assert.Len(t, pool.woken, 1)
					assert.GreaterOrEqual(t, len(pool.probes), threshold)
					pool.becomes(ready, false, time.Minute)
					assert.Equal(t, health.Healthy(), pool.apiServer(), "one success is enough")
					assert.Len(t, pool.woken, 1)
				})
			}
		})
	}
}

func TestTwoFailuresAreNotReported(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track()
		pool.becomes(ready, false, time.Second)
		for range 2 { // Failures with an answer in between are not counted together.
			pool.becomes(failing, false, 0)
			for len(pool.probes) < threshold-1 {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			assert.Equal(t, health.Healthy(), pool.apiServer())
			pool.becomes(ready, false, time.Minute)
			assert.Empty(t, pool.woken)
		}
		check := tracker{}
		assert.False(t, check.observe(health.Result{}))
		assert.False(t, check.failing(), "a check without result does not fail")
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
			run(t, func(pool *testPool) {
				pool.track(row.change...)
				pool.becomes(refuses, false, time.Minute)
				assert.Equal(t, row.want, pool.apiServer())
				assert.Len(t, pool.woken, 1)
			})
		})
	}
}

// One that answered is there: it does not become unknown.
func TestAnAPIServerThatAnsweredOnceIsAFailureWhenItIsUnreachable(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track()
		pool.becomes(failing, false, time.Minute)
		assert.Equal(t, health.Unhealthy("status 500"), pool.apiServer())
		pool.becomes(refuses, false, time.Minute)
		assert.Equal(t, health.Unhealthy("refused"), pool.apiServer(), "the message follows")
	})
}

// Messages that alternate would cause writes without end.
func TestAlternatingFailuresAreReportedOnce(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track(last(controlplanev1.HealthHealthy))
		reported := 0
		for range 100 {
			pool.becomes(failing, false, failedInterval)
			reported += len(pool.woken)
			pool.becomes(refuses, false, failedInterval)
			reported += len(pool.woken)
		}
		assert.Equal(t, 1, reported)
	})
}

func TestARestartReportsNothingThatStatusHas(t *testing.T) {
	for _, status := range []controlplanev1.HealthState{controlplanev1.HealthHealthy, controlplanev1.HealthUnhealthy} {
		run(t, func(pool *testPool) {
			pool.track(last(status))
			found := ready
			if found.Version, found.Credentials = (health.Result{}), (health.Result{}); status == controlplanev1.HealthUnhealthy {
				found = refuses
			}
			pool.becomes(found, false, time.Hour)
			assert.Empty(t, pool.woken)
			assert.Zero(t, pool.Results(demo))
		})
	}
}

func TestANewVersionIsComparedAtOnce(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track()
		pool.becomes(ready, false, time.Second)
		other := ready
		other.Version = health.Unhealthy("1.31")
		pool.track(func(target *Target) { target.Version = "1.32" })
		pool.becomes(other, false, 11*time.Second)
		assert.Equal(t, other.Version, pool.Results(demo).Version)
		assert.Equal(t, health.Healthy(), pool.apiServer())
	})
}

func TestARenewedKubeconfigKeepsTheHistory(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track()
		pool.becomes(ready, false, time.Second)
		time.Sleep(time.Second)
		pool.track() // Its token is another one.
		pool.becomes(refuses, false, time.Minute)
		assert.Equal(t, health.Unhealthy("refused"), pool.apiServer())
	})
}

func TestAKubeconfigThatCannotBeUsedIsNotProbed(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track(func(target *Target) { target.Kubeconfig = []byte("x") })
		pool.becomes(ready, false, time.Hour)
		assert.Empty(t, pool.probes)
		assert.Equal(t, controlplanev1.HealthUnhealthy, pool.Results(demo).Credentials.Status)
		pool.track()
		pool.becomes(ready, false, time.Second)
		assert.Len(t, pool.probes, 1)
		pool.track(func(target *Target) { target.Kubeconfig = []byte("x") })
		pool.becomes(ready, false, time.Hour)
		assert.Empty(t, pool.probes, "the next one was planned")
	})
}

// A failure is reported when it has been seen often enough; that nothing is known, at once.
func TestWhenAResultIsReported(t *testing.T) {
	down, other, unseen := health.Unhealthy("down"), health.Unhealthy("other"), health.Unknown("unseen")
	check := tracker{}
	assert.True(t, check.observe(unseen))
	assert.True(t, check.observe(health.Healthy()))
	for _, result := range []health.Result{down, other} { // Another message, too.
		for range threshold - 1 {
			assert.False(t, check.observe(result))
		}
		assert.True(t, check.observe(result))
		assert.False(t, check.failing())
	}
	check = tracker{}
	assert.False(t, check.observe(down), "the first result is a failure")
	assert.True(t, check.failing())
}

func TestWhatChangesWithATarget(t *testing.T) {
	run(t, func(pool *testPool) {
		target := Target{Kubeconfig: []byte(tokens.Kubeconfig(pool.T, "127.0.0.1:1", time.Now())), Version: "1.31"}
		pool.Track(demo, target)
		pool.becomes(ready, false, time.Minute)
		first := pool.entries[demo]
		pool.Track(demo, target)
		assert.Same(t, first, pool.entries[demo])
		target.Required = true
		pool.Track(demo, target)
		assert.True(t, pool.entries[demo].target.Required)
		assert.Equal(t, controlplanev1.HealthHealthy, pool.entries[demo].version.status, "it is the same version")
		target.Version = "1.32"
		pool.Track(demo, target)
		assert.Equal(t, "1.32", pool.entries[demo].target.Version)
		assert.Zero(t, pool.entries[demo].version)
		assert.Equal(t, controlplanev1.HealthHealthy, pool.entries[demo].credentials.status)
	})
}

// A target can change while a probe runs.
func TestAnAnswerToAnEarlierTargetIsNotUsed(t *testing.T) {
	for name, change := range map[string]func(pool *testPool){
		"stopped":                           func(pool *testPool) { pool.Stop(demo) },
		"stopped, and tracked again":        func(pool *testPool) { pool.Stop(demo); pool.track() },
		"with a kubeconfig that is invalid": func(pool *testPool) { pool.track(func(target *Target) { target.Kubeconfig = []byte("x") }) },
	} {
		run(t, func(pool *testPool) {
			pool.hangs = true
			pool.track()
			probed := pool.entries[demo]
			change(pool)
			assert.False(t, pool.record(demo, probed, ready, time.Now()), name)
			assert.NotEqual(t, controlplanev1.HealthHealthy, pool.apiServer().Status, name)
		})
	}
	run(t, func(pool *testPool) {
		pool.hangs = true
		pool.track()
		probed := pool.entries[demo]
		pool.track(func(target *Target) { target.Version = "1.32" })
		assert.True(t, pool.record(demo, probed, ready, time.Now()))
		assert.Equal(t, health.Probed{APIServer: ready.APIServer, Credentials: ready.Credentials}, pool.Results(demo), "only the version is another one")
	})
}

// The manager loses its AWS credentials, and gets some again.
func TestWithoutCredentialsOnlyTheAPIServerIsChecked(t *testing.T) {
	run(t, func(pool *testPool) {
		exec := func(target *Target) {
			data, err := kubeconfig.ForExec("demo", "eu-central-1", "https://127.0.0.1:1", builder.CA())
			require.NoError(t, err)
			target.Kubeconfig = data
		}
		rejects := answer{Probed: health.Probed{APIServer: health.Healthy(), Version: health.Unhealthy("1.30"), Credentials: health.Unhealthy("401")}, answered: true}
		pool.track()
		pool.becomes(rejects, false, time.Minute)
		require.Equal(t, controlplanev1.HealthUnhealthy, pool.Results(demo).Credentials.Status)

		pool.track(exec)
		pool.becomes(answer{Probed: health.Probed{APIServer: health.Healthy()}, answered: true}, false, 10*time.Minute)
		assert.InDelta(t, 22, len(pool.probes), 4, "as often as any other healthy API server")
		got := pool.Results(demo)
		assert.Equal(t, []controlplanev1.HealthState{"Healthy", "Unknown", "Unknown"}, []controlplanev1.HealthState{got.APIServer.Status, got.Version.Status, got.Credentials.Status})
		assert.Contains(t, got.Credentials.Message, "aws eks get-token")
		assert.Empty(t, pool.woken, "nothing is written")
		pool.becomes(refuses, false, time.Minute)
		assert.Equal(t, health.Unhealthy("refused"), pool.apiServer())

		pool.track()
		pool.becomes(ready, false, time.Minute)
		assert.Equal(t, ready.Probed, pool.Results(demo))
	})
}

// The address of a private endpoint is that of another server in the network of the manager: that is no failure of a cluster that never answered.
func TestAnotherServerIsNoFailureWithoutCredentials(t *testing.T) {
	untrusted := answer{Probed: health.Probed{APIServer: health.Unhealthy("another certificate authority")}}
	for name, row := range map[string]struct {
		change func(*Target)
		want   controlplanev1.HealthState
	}{"best effort": {func(*Target) {}, "Unknown"}, "required": {required, "Unhealthy"}, "it answered before": {last("Healthy"), "Unhealthy"}} {
		run(t, func(pool *testPool) {
			pool.track(func(target *Target) {
				data, err := kubeconfig.ForExec("demo", "eu-central-1", "https://127.0.0.1:1", builder.CA())
				require.NoError(t, err)
				target.Kubeconfig = data
			}, row.change)
			pool.becomes(untrusted, false, 10*time.Minute)
			assert.Equal(t, row.want, pool.apiServer().Status, name)
			assert.Equal(t, row.want != "Unknown", len(pool.woken) > 0, name)
		})
	}
}

// CAPT cannot reach a private endpoint: that is not worth a status write before anything else is known.
func TestANetworkThatDoesNotReachAnAPIServerIsNotReportedWithoutCredentials(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Target)
		want   controlplanev1.HealthState
		probes int
	}{
		"best effort": {func(*Target) {}, "Unknown", 11}, "required": {required, "Unhealthy", 66}, "it answered before": {last("Healthy"), "Unhealthy", 66},
	} {
		run(t, func(pool *testPool) {
			pool.track(func(target *Target) {
				data, err := kubeconfig.ForExec("demo", "eu-central-1", "https://127.0.0.1:1", builder.CA())
				require.NoError(t, err)
				target.Kubeconfig = data
			}, row.change)
			pool.becomes(refuses, false, 10*time.Minute)
			assert.Equal(t, row.want, pool.apiServer().Status, name)
			assert.Equal(t, row.want != "Unknown", len(pool.woken) > 0, name)
			assert.InDelta(t, row.probes, len(pool.probes), 6, name)
			pool.becomes(ready, false, 2*time.Minute)
			assert.Equal(t, health.Healthy(), pool.apiServer(), name)
		})
	}
}

func TestWhatIsStoppedIsNotProbed(t *testing.T) {
	for name, stop := range map[string]func(*testPool){
		"stopped":                         func(pool *testPool) { pool.Stop(demo) },
		"forgotten":                       func(pool *testPool) { pool.Forget(demo) },
		"of another shard, or gone":       func(pool *testPool) { pool.foreign = true },
		"stopped during a probe and back": func(pool *testPool) { pool.becomes(refuses, true, healthyInterval); pool.Stop(demo) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(pool *testPool) {
				pool.track()
				pool.becomes(ready, false, time.Second)
				assert.Equal(t, 2, pool.series(), "duration and time of the last probe")
				stop(pool)
				pool.becomes(ready, false, time.Hour)
				assert.Empty(t, pool.probes)
				assert.Zero(t, pool.Results(demo))
				assert.Zero(t, pool.series())
			})
		})
	}
}

// The number of goroutines depends on the workers, and not on the clusters; and API servers that hang delay the others little.
func TestAThousandClustersThatHang(t *testing.T) {
	run(t, func(pool *testPool) {
		before := runtime.NumGoroutine()
		kubeconfig := []byte(tokens.Kubeconfig(pool.T, "127.0.0.1:1", time.Now()))
		pool.hangs, pool.answers = true, refuses
		for i := range 1000 {
			pool.Track(client.ObjectKey{Namespace: "default", Name: fmt.Sprint(i)}, Target{Kubeconfig: kubeconfig})
		}
		pool.becomes(refuses, true, 10*time.Minute)
		assert.LessOrEqual(t, runtime.NumGoroutine()-before, workers)
		assert.Greater(t, len(pool.probes), 6000, "each is still probed about every 80 seconds")
	})
}

func TestStoppingEndsProbesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &testPool{T: t, registry: prometheus.NewRegistry(), hangs: true}
		pool.Pool = NewPool(metrics.NewHealth(pool.registry), func(context.Context, client.ObjectKey) bool { return true })
		pool.Pool.probe = pool.answer
		ctx, stop := context.WithCancel(t.Context())
		pool.track()
		time.AfterFunc(time.Second, stop)
		began := time.Now()
		require.NoError(t, pool.Start(ctx))
		assert.Equal(t, time.Second, time.Since(began))
		assert.Len(t, pool.probes, 1)
	})
}

// The manager ends when no probe uses anything any more.
func TestStoppingWaitsForProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, ended := &testPool{T: t}, false
		pool.Pool = NewPool(metrics.NewHealth(prometheus.NewRegistry()), func(context.Context, client.ObjectKey) bool { return true })
		pool.Pool.probe = func(ctx context.Context, _ *entry) answer {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
			return answer{}
		}
		ctx, stop := context.WithCancel(t.Context())
		pool.track(required)
		time.AfterFunc(time.Second, stop)
		require.NoError(t, pool.Start(ctx))
		assert.True(t, ended)
	})
}

// series counts the series of metrics.
func (pool *testPool) series() int {
	pool.Helper()
	count, err := testutil.GatherAndCount(pool.registry)
	require.NoError(pool, err)
	return count
}

// The probes of all clusters are distributed after a restart, unless something is to be found out.
func TestWhichClustersAreProbedAtOnce(t *testing.T) {
	for name, row := range map[string]struct {
		change []func(*Target)
		want   int
	}{
		"a new one":                     {nil, 1},
		"a healthy one":                 {[]func(*Target){last(controlplanev1.HealthHealthy)}, 0},
		"one that failed":               {[]func(*Target){last(controlplanev1.HealthUnhealthy)}, 1},
		"a healthy one that must serve": {[]func(*Target){last(controlplanev1.HealthHealthy), required}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			pool := &testPool{T: t, Pool: NewPool(metrics.NewHealth(prometheus.NewRegistry()), nil)}
			pool.track(row.change...)
			assert.Equal(t, row.want, pool.queue.Len(), name)
			pool.queue.ShutDown()
			synctest.Wait()
		})
	}
}

func TestWhenAClusterIsProbedAgain(t *testing.T) {
	with := func(name string, status controlplanev1.HealthState) *history {
		return newHistory(&controlplanev1.Health{Checks: []controlplanev1.HealthCheck{{Name: health.APIServer, Status: controlplanev1.HealthHealthy}, {Name: name, Status: status}}})
	}
	failed := func(change func(*history)) *history {
		h := with(health.Version, controlplanev1.HealthHealthy)
		change(h)
		return h
	}
	unreachable := newHistory(nil)
	unreachable.apiServer.status = controlplanev1.HealthUnknown
	for name, row := range map[string]struct {
		history  *history
		required bool
		want     time.Duration
	}{
		"all checks pass":                         {with(health.Version, controlplanev1.HealthHealthy), false, healthyInterval},
		"status has another version":              {with(health.Version, controlplanev1.HealthUnhealthy), false, failedInterval},
		"status has rejected credentials":         {with(health.Credentials, controlplanev1.HealthUnhealthy), false, failedInterval},
		"the API server failed once":              {failed(func(h *history) { h.apiServer.failures = 1 }), false, retryInterval},
		"the version failed once":                 {failed(func(h *history) { h.version.failures = 1 }), false, retryInterval},
		"the credentials failed once":             {failed(func(h *history) { h.credentials.failures = 1 }), false, retryInterval},
		"the network may not reach it":            {unreachable, false, unreachableInterval},
		"the network does not reach it, but must": {unreachable, true, failedInterval},
		"nothing is known":                        {newHistory(nil), false, failedInterval},
	} {
		assert.Equal(t, row.want, row.history.interval(row.required), name)
	}
}

// Without credentials and without an answer, it is known once that nothing is known.
func TestWhatIsRememberedOfAnAPIServerThatNeverAnswered(t *testing.T) {
	h := newHistory(nil)
	assert.False(t, h.observe(refuses, false, true), "it is not worth a status write")
	assert.Equal(t, controlplanev1.HealthUnknown, h.apiServer.status)
	assert.Zero(t, h.apiServer.reported)
	for range threshold {
		h.observe(refuses, false, true)
	}
	assert.Equal(t, controlplanev1.HealthUnknown, h.apiServer.status)

	h = newHistory(nil)
	assert.True(t, h.observe(refuses, false, false), "with credentials, it is reported why")
	h = newHistory(nil)
	assert.True(t, h.observe(answer{Probed: health.Probed{APIServer: health.Healthy()}, answered: true}, false, true), "an answer is one without credentials, too")
	h = newHistory(nil)
	for range threshold {
		h.observe(answer{Probed: health.Probed{APIServer: health.Unhealthy("another certificate authority")}}, false, false)
	}
	assert.Equal(t, controlplanev1.HealthUnhealthy, h.apiServer.status, "with credentials, the server must be that of the kubeconfig")
	h = newHistory(nil)
	h.observe(failing, false, false)
	assert.Empty(t, h.apiServer.status, "a first failure of one that answers is not reported")
}

func TestTheMessageBeforeTheFirstAnswer(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track(func(target *Target) {
			data, err := kubeconfig.ForExec("demo", "eu-central-1", "https://127.0.0.1:1", builder.CA())
			require.NoError(t, err)
			target.Kubeconfig = data
		})
		pool.becomes(refuses, false, time.Minute)
		assert.Equal(t, health.Unknown(health.Unanswered), pool.apiServer())
		pool.becomes(ready, false, 2*time.Minute)
		pool.entries[demo].apiServer.reported = health.Result{}
		assert.Zero(t, pool.apiServer(), "status has it already")
	})
}

func TestTheMetricsOfChecks(t *testing.T) {
	run(t, func(pool *testPool) {
		pool.track()
		pool.becomes(ready, false, time.Second)
		before := pool.series()
		pool.Report(demo, &controlplanev1.Health{Checks: []controlplanev1.HealthCheck{{Name: health.APIServer, Status: controlplanev1.HealthHealthy}, {Name: health.Version, Status: controlplanev1.HealthUnhealthy}}})
		assert.Equal(t, before+2, pool.series(), "those that are known")
		pool.Stop(demo)
		assert.Equal(t, 2, pool.series(), "a pause keeps what is known")
		pool.Forget(demo)
		assert.Zero(t, pool.series())
	})
}
