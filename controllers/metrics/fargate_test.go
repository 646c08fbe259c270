// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/controllers/metrics"
)

var (
	demo  = types.NamespacedName{Namespace: "default", Name: "demo"}
	other = types.NamespacedName{Namespace: "default", Name: "other"}
	// noon is when scenarios begin.
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func after(minutes float64) time.Time { return noon.Add(time.Duration(minutes * float64(time.Minute))) }

// scenario is what one process sees of control planes.
type scenario struct {
	*testing.T
	registry *prometheus.Registry
	fargate  *metrics.Fargate
}

func newScenario(t *testing.T) *scenario {
	registry := prometheus.NewPedanticRegistry()
	return &scenario{T: t, registry: registry, fargate: metrics.NewFargate(registry)}
}

// see records profiles twice, since a reconcile can come at any time.
func (s *scenario) see(minutes float64, profiles ...metrics.Profile) {
	for range 2 {
		s.fargate.Observe(demo, profiles, after(minutes))
	}
}

// durations are how many a histogram counted, and their sum in minutes.
func (s *scenario) durations(what string) (count uint64, minutes float64) {
	s.Helper()
	histogram := s.family("capt_fargate_profile_" + what + "_duration_seconds").GetMetric()[0].GetHistogram()
	return histogram.GetSampleCount(), histogram.GetSampleSum() / 60
}

func (s *scenario) failures() float64 { return s.counter("failures") }

func (s *scenario) counter(of string) float64 {
	s.Helper()
	return s.family("capt_fargate_profile_" + of + "_total").GetMetric()[0].GetCounter().GetValue()
}

func (s *scenario) family(name string) *dto.MetricFamily {
	s.Helper()
	families, err := s.registry.Gather()
	require.NoError(s, err)
	for _, family := range families {
		if family.GetName() == name {
			return family
		}
	}
	require.Fail(s, "no metric", name)
	return nil
}

func (s *scenario) counted(what string, count uint64, minutes float64, why string) {
	s.Helper()
	gotCount, gotMinutes := s.durations(what)
	assert.Equal(s, count, gotCount, why)
	assert.InDelta(s, minutes, gotMinutes, 1e-6, why)
}

// gauges compares all gauges of the number of profiles.
func (s *scenario) gauges(profiles ...profiles) {
	s.Helper()
	text := ""
	if len(profiles) > 0 {
		text = "# HELP capt_fargate_profiles Fargate profiles of a CAPTControlPlane by state (active, ready, failed).\n# TYPE capt_fargate_profiles gauge\n"
	}
	for _, p := range profiles {
		for i, state := range []string{"active", "failed", "ready"} {
			text += fmt.Sprintf("capt_fargate_profiles{name=%q,namespace=\"default\",state=%q} %d\n", p.of, state, p.count[i])
		}
	}
	assert.NoError(s, testutil.GatherAndCompare(s.registry, strings.NewReader(text), "capt_fargate_profiles"))
}

// profiles of a control plane: active, failed and ready.
type profiles struct {
	of    string
	count [3]int
}

// What becomes of the profile of a WorkspaceTemplateApply.
func waiting(uid types.UID) metrics.Profile { return metrics.Profile{UID: uid, FirstTime: true} }
func creating(uid types.UID, minutes float64) metrics.Profile {
	return metrics.Profile{UID: uid, FirstTime: true, StartedAt: after(minutes)}
}
func ready(uid types.UID) metrics.Profile { return metrics.Profile{UID: uid, Ready: true} }
func changing(uid types.UID, minutes float64) metrics.Profile {
	return metrics.Profile{UID: uid, StartedAt: after(minutes)}
}
func deleting(uid types.UID, minutes float64) metrics.Profile {
	return metrics.Profile{UID: uid, DeletedAt: after(minutes)}
}
func failing(profile metrics.Profile) metrics.Profile {
	profile.Failed = true
	return profile
}

func TestProfilesAreCountedByState(t *testing.T) {
	s := newScenario(t)
	s.gauges()
	s.see(0, metrics.Profile{}, metrics.Profile{Failed: true})
	s.gauges(profiles{"demo", [3]int{0, 1, 0}})
	s.see(1, ready("a"), failing(creating("b", 0)), creating("c", 0), metrics.Profile{})
	s.fargate.Observe(other, []metrics.Profile{ready("d")}, after(1))
	s.gauges(profiles{"demo", [3]int{3, 1, 1}}, profiles{"other", [3]int{1, 0, 1}})
	s.see(2)
	s.gauges(profiles{"other", [3]int{1, 0, 1}})
	s.fargate.Forget(other)
	s.gauges()
}

func TestACreationIsMeasuredOnceFromWhenTerraformBegan(t *testing.T) {
	s := newScenario(t)
	s.see(0, metrics.Profile{FirstTime: true})
	s.see(1, waiting("a"))
	s.see(4, creating("a", 3))
	s.see(5, failing(creating("a", 3)))
	s.see(6, creating("a", 3))
	s.counted("creation", 0, 0, "it is not ready yet")
	s.see(8, ready("a"))
	s.counted("creation", 1, 5, "from minute 3 to minute 8")
	s.see(20, ready("a"))
	s.see(21, changing("a", 21))
	s.see(25, ready("a"))
	s.counted("creation", 1, 5, "a change is not a creation")
	s.see(30, ready("a"), creating("b", 29))
	s.see(32, ready("a"), ready("b"))
	s.counted("creation", 2, 5+3, "another profile")
}

// Status says that Terraform applied, and no more when it began, before all else that makes a profile ready.
func TestACreationEndsWhenTheProfileIsReady(t *testing.T) {
	s := newScenario(t)
	s.see(0, creating("a", 0))
	s.see(2, metrics.Profile{UID: "a"})
	s.counted("creation", 0, 0, "it is not ready yet")
	s.see(3, ready("a"))
	s.counted("creation", 1, 3, "since Terraform began")
}

func TestACreationThatBeginsAgainIsMeasuredFromItsFirstBeginning(t *testing.T) {
	s := newScenario(t)
	s.see(0, creating("a", 0))
	s.see(1, waiting("a"))
	s.see(2, creating("a", 2))
	s.see(4, ready("a"))
	s.counted("creation", 1, 4, "since Terraform began first")
}

func TestCreationsBeforeARestartAreNotMeasured(t *testing.T) {
	for name, first := range map[string]metrics.Profile{
		"ready":              ready("a"),
		"being changed":      changing("a", 0),
		"moved, not at work": waiting("a"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t)
			s.see(1, first)
			s.see(2, ready("a"))
			s.see(3, changing("a", 3))
			s.see(4, ready("a"))
			s.counted("creation", 0, 0, "its start was not observed")
		})
	}
}

// Status could not show that Terraform had applied it before, because a move lost it.
func TestAProfileThatWasReadyIsNeverNew(t *testing.T) {
	s := newScenario(t)
	s.see(0, ready("a"))
	s.see(1, creating("a", 1))
	s.see(2, ready("a"))
	s.counted("creation", 0, 0, "it was ready")
}

func TestADeletionIsMeasuredOnceFromWhenItWasAskedFor(t *testing.T) {
	s := newScenario(t)
	s.see(0, ready("a"), ready("b"))
	s.see(2, deleting("a", 1), ready("b"))
	s.counted("deletion", 0, 0, "it is still there")
	s.see(4, ready("b"))
	s.counted("deletion", 1, 3, "from minute 1 to minute 4")
	s.see(5, deleting("b", 5))
	s.see(7)
	s.counted("deletion", 2, 3+2, "the last profile, too")
	s.see(8, ready("c"))
	s.see(9)
	s.counted("deletion", 2, 3+2, "without an observed deletion the start is unknown")
}

func TestAControlPlaneThatIsGoneIsForgotten(t *testing.T) {
	s := newScenario(t)
	s.see(0, creating("a", 0), deleting("b", 0))
	s.fargate.Forget(demo)
	s.gauges()
	s.see(1, ready("a"))
	s.counted("creation", 0, 0, "one of the same name")
	s.counted("deletion", 0, 0, "one of the same name")
}

func TestClocksThatDifferMeasureNothingNegative(t *testing.T) {
	s := newScenario(t)
	s.see(0, creating("a", 5), deleting("b", 5))
	s.see(1, ready("a"))
	s.counted("creation", 1, 0, "it began in the future")
	s.counted("deletion", 1, 0, "it was asked for in the future")
}

func TestAFailureIsCountedWhenItComes(t *testing.T) {
	s := newScenario(t)
	s.see(0, creating("a", 0), failing(creating("b", 0)))
	assert.Zero(t, s.failures(), "an earlier process saw it come")
	s.see(1, failing(creating("a", 0)), failing(creating("b", 0)))
	assert.InDelta(t, 1, s.failures(), 0)
	s.see(2, ready("a"), ready("b"))
	s.see(3, ready("a"), failing(ready("b")))
	assert.InDelta(t, 2, s.failures(), 0, "it can come again")
}

func TestAMissingDependencyIsCountedWhenItIsFirstMissing(t *testing.T) {
	s, lacking := newScenario(t), metrics.Profile{DependencyMissing: true}
	s.see(0, lacking)
	assert.Zero(t, s.counter("dependency_errors"), "it may have been missing before this process started")
	s.see(1, lacking, lacking)
	s.see(2, lacking, metrics.Profile{})
	s.see(3, lacking, lacking)
	assert.InDelta(t, 2, s.counter("dependency_errors"), 0)
}

func TestSeveralReconcilesMayReportAtOnce(t *testing.T) {
	s := newScenario(t)
	var wait sync.WaitGroup
	for _, controlPlane := range []types.NamespacedName{demo, other} {
		wait.Go(func() {
			for minute := range 100 {
				s.fargate.Observe(controlPlane, []metrics.Profile{creating("a", 0)}, after(float64(minute)))
			}
			s.fargate.Observe(controlPlane, []metrics.Profile{ready("a")}, after(100))
		})
	}
	wait.Wait()
	s.counted("creation", 2, 200, "one of each")
}

func TestNamesFollowPrometheus(t *testing.T) {
	problems, err := testutil.GatherAndLint(newScenario(t).registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}
