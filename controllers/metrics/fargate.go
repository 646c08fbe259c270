// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Values of label state. A profile can have several states.
const (
	// profileActive: its WorkspaceTemplateApply exists.
	profileActive = "active"
	// profileReady: it matches spec.
	profileReady = "ready"
	// profileFailed: its creation, update or deletion failed.
	profileFailed = "failed"
)

// durationBuckets are buckets for operations on a profile, which take between half a minute and five.
var durationBuckets = []float64{15, 30, 60, 90, 120, 150, 180, 240, 300, 420, 600, 900, 1800, 3600}

// Profile is the state of a Fargate profile.
type Profile struct {
	// UID of its WorkspaceTemplateApply; empty before that is created.
	UID           types.UID
	Ready, Failed bool
	// DependencyMissing is true while a Secret, template, provider or other object that the profile needs is missing or unusable.
	DependencyMissing bool
	// FirstTime is true until Terraform has created it: status.lastAppliedTime is absent.
	FirstTime bool
	// StartedAt is when Terraform started its current operation, status.startedTime; zero while there is none.
	StartedAt time.Time
	// DeletedAt is metadata.deletionTimestamp; zero when it is not being deleted.
	DeletedAt time.Time
}

// Fargate has metrics of the Fargate profiles of control planes:
//
//   - capt_fargate_profiles{namespace, name, state}, a gauge: the number of profiles of a CAPTControlPlane by state; absent
//     without profiles.
//   - capt_fargate_profile_creation_duration_seconds, a histogram: from the start of Terraform for a new profile until it was
//     first ready, including failed attempts. Profiles created before this process started and later changes are not counted.
//   - capt_fargate_profile_deletion_duration_seconds, a histogram: from the deletion request of a profile until it was gone,
//     including the time in the queue.
//   - capt_fargate_profile_failures_total, a counter: the number of times that a profile started to fail.
//   - capt_fargate_profile_dependency_errors_total, a counter: the number of times that a profile started to lack a dependency. A dependency
//     that was missing before this process started is not counted.
type Fargate struct {
	profiles           *prometheus.GaugeVec
	creation, deletion prometheus.Histogram
	failures, missing  prometheus.Counter

	mu sync.Mutex
	// histories of the existing profiles, by control plane.
	histories map[types.NamespacedName]map[types.UID]profileHistory
	// lacking is the number of profiles without a dependency, by control plane.
	lacking map[types.NamespacedName]int
}

// profileHistory is what was observed of a profile, so that each operation is counted once.
type profileHistory struct {
	// creationStarted is when Terraform started to create it; zero when it has not, or when the creation was counted.
	creationStarted time.Time
	// created is true when it was ready.
	created bool
	failed  bool
	deleted time.Time
}

// NewFargate registers the metrics. It panics when they are already registered.
func NewFargate(registry prometheus.Registerer) *Fargate {
	m := &Fargate{
		profiles: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_fargate_profiles", Help: "Fargate profiles of a CAPTControlPlane by state (active, ready, failed).",
		}, []string{"namespace", "name", "state"}),
		creation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_fargate_profile_creation_duration_seconds", Help: "Duration from the start of Terraform for a new Fargate profile until it was first ready.",
			Buckets: durationBuckets,
		}),
		deletion: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_fargate_profile_deletion_duration_seconds", Help: "Duration from the deletion request of a Fargate profile until it was gone.",
			Buckets: durationBuckets,
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capt_fargate_profile_failures_total", Help: "Number of times that a Fargate profile started to fail.",
		}),
		missing: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capt_fargate_profile_dependency_errors_total", Help: "Number of times that a Fargate profile started to lack a dependency.",
		}),
		histories: map[types.NamespacedName]map[types.UID]profileHistory{},
		lacking:   map[types.NamespacedName]int{},
	}
	registry.MustRegister(m.profiles, m.creation, m.deletion, m.failures, m.missing)
	return m
}

// Observe records all profiles of a control plane. It is idempotent, and called in each reconcile.
func (m *Fargate) Observe(controlPlane types.NamespacedName, profiles []Profile, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.histories[controlPlane]
	if !known && len(profiles) == 0 {
		return // No profiles.
	}
	m.setGauge(controlPlane, profiles)
	m.countMissing(controlPlane, profiles)
	after := map[types.UID]profileHistory{}
	for _, profile := range profiles {
		if profile.UID != "" {
			was, known := before[profile.UID]
			after[profile.UID] = m.updateHistory(profile, was, known, now)
		}
	}
	for uid, was := range before {
		if _, exists := after[uid]; !exists && !was.deleted.IsZero() {
			m.deletion.Observe(seconds(was.deleted, now))
		}
	}
	if m.histories[controlPlane] = after; len(profiles) == 0 {
		delete(m.histories, controlPlane)
		delete(m.lacking, controlPlane)
	}
}

// countMissing counts the profiles that started to lack a dependency. Those of the first observation may have lacked it before.
func (m *Fargate) countMissing(controlPlane types.NamespacedName, profiles []Profile) {
	lacking := 0
	for _, profile := range profiles {
		if profile.DependencyMissing {
			lacking++
		}
	}
	if before, known := m.lacking[controlPlane]; known {
		m.missing.Add(float64(max(0, lacking-before)))
	}
	m.lacking[controlPlane] = lacking
}

// Forget removes a deleted control plane. The deletion of its profiles was recorded before.
func (m *Fargate) Forget(controlPlane types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setGauge(controlPlane, nil)
	delete(m.histories, controlPlane)
	delete(m.lacking, controlPlane)
}

// setGauge sets the gauge.
func (m *Fargate) setGauge(controlPlane types.NamespacedName, profiles []Profile) {
	if len(profiles) == 0 {
		m.profiles.DeletePartialMatch(prometheus.Labels{"namespace": controlPlane.Namespace, "name": controlPlane.Name})
		return
	}
	var active, ready, failed float64
	for _, profile := range profiles {
		active += boolToFloat(profile.UID != "")
		ready += boolToFloat(profile.Ready)
		failed += boolToFloat(profile.Failed)
	}
	for state, number := range map[string]float64{profileActive: active, profileReady: ready, profileFailed: failed} {
		m.profiles.WithLabelValues(controlPlane.Namespace, controlPlane.Name, state).Set(number)
	}
}

// updateHistory returns the history of a profile after an observation, and counts what happened since.
func (m *Fargate) updateHistory(profile Profile, was profileHistory, known bool, now time.Time) profileHistory {
	is := was
	if profile.Failed && known && !was.failed { // A failure before this process started is not counted.
		m.failures.Inc()
	}
	is.failed = profile.Failed
	if is.deleted.IsZero() {
		is.deleted = profile.DeletedAt
	}
	switch {
	case is.created:
	case profile.Ready:
		if !is.creationStarted.IsZero() {
			m.creation.Observe(seconds(is.creationStarted, now))
		}
		is.creationStarted, is.created = time.Time{}, true
	case is.creationStarted.IsZero() && profile.FirstTime: // Status has the start only during the operation.
		is.creationStarted = profile.StartedAt
	}
	return is
}

// seconds between times of different clocks, not negative.
func seconds(from, to time.Time) float64 { return max(0, to.Sub(from)).Seconds() }

func boolToFloat(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
