// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
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

// Fargate has metrics of the Fargate profiles of control planes. The duration of a creation includes failed attempts, and that of a deletion the time in the
// queue. What began before this process started, and later changes, are not counted.
type Fargate struct {
	profiles           objectGauge
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
	auto := promauto.With(registry)
	histogram := func(name, help string) prometheus.Histogram {
		return auto.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets})
	}
	return &Fargate{
		profiles:  newObjectGauge(registry, "capt_fargate_profiles", "Fargate profiles of a CAPTControlPlane by state (active, ready, failed).", "state"),
		creation:  histogram("capt_fargate_profile_creation_duration_seconds", "Duration from the start of Terraform for a new Fargate profile until it was first ready."),
		deletion:  histogram("capt_fargate_profile_deletion_duration_seconds", "Duration from the deletion request of a Fargate profile until it was gone."),
		failures:  auto.NewCounter(prometheus.CounterOpts{Name: "capt_fargate_profile_failures_total", Help: "Number of times that a Fargate profile started to fail."}),
		missing:   auto.NewCounter(prometheus.CounterOpts{Name: "capt_fargate_profile_dependency_errors_total", Help: "Number of times that a Fargate profile started to lack a dependency."}),
		histories: map[types.NamespacedName]map[types.UID]profileHistory{},
		lacking:   map[types.NamespacedName]int{},
	}
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

func (m *Fargate) setGauge(controlPlane types.NamespacedName, profiles []Profile) {
	var active, ready, failed float64
	for _, profile := range profiles {
		active += boolToFloat(profile.UID != "")
		ready += boolToFloat(profile.Ready)
		failed += boolToFloat(profile.Failed)
	}
	for state, number := range map[string]float64{"active": active, "ready": ready, "failed": failed} {
		m.profiles.set(controlPlane, len(profiles) > 0, number, state)
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

func seconds(from, to time.Time) float64 { return max(0, to.Sub(from)).Seconds() }

func boolToFloat(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// Health has metrics of the health checks of control planes.
type Health struct{ checks, duration, last objectGauge }

// NewHealth registers the metrics. It panics when they are already registered.
func NewHealth(registry prometheus.Registerer) *Health {
	return &Health{
		checks:   newObjectGauge(registry, "capt_health_check", "Health check of a CAPTControlPlane: 1 if it passes, 0 if it fails, absent if unknown.", "check"),
		duration: newObjectGauge(registry, "capt_health_probe_duration_seconds", "Duration of the last probe of the API server of a CAPTControlPlane."),
		last:     newObjectGauge(registry, "capt_health_last_probe_timestamp_seconds", "Time of the last probe of the API server of a CAPTControlPlane."),
	}
}

// Report records the status of a check.
func (m *Health) Report(controlPlane types.NamespacedName, check string, status controlplanev1.HealthState) {
	healthy := status == controlplanev1.HealthHealthy
	m.checks.set(controlPlane, healthy || status == controlplanev1.HealthUnhealthy, boolToFloat(healthy), check)
}

// Probed records a probe.
func (m *Health) Probed(controlPlane types.NamespacedName, began time.Time, took time.Duration) {
	m.duration.set(controlPlane, true, took.Seconds())
	m.last.set(controlPlane, true, float64(began.Unix()))
}

// Stopped removes the metrics of probes.
func (m *Health) Stopped(controlPlane types.NamespacedName) {
	m.duration.forget(controlPlane)
	m.last.forget(controlPlane)
}

// Forget removes all metrics of a control plane.
func (m *Health) Forget(controlPlane types.NamespacedName) {
	m.checks.forget(controlPlane)
	m.Stopped(controlPlane)
}

// objectGauge is a gauge with the labels namespace and name of an object. It is absent while an object has no value.
type objectGauge struct{ *prometheus.GaugeVec }

func newObjectGauge(registry prometheus.Registerer, name, help string, labels ...string) objectGauge {
	return objectGauge{promauto.With(registry).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"namespace", "name"}, labels...))}
}

func (g objectGauge) set(object types.NamespacedName, hasValue bool, value float64, labels ...string) {
	labels = append([]string{object.Namespace, object.Name}, labels...)
	if hasValue {
		g.WithLabelValues(labels...).Set(value)
	} else {
		g.DeleteLabelValues(labels...)
	}
}

func (g objectGauge) forget(object types.NamespacedName) {
	g.DeletePartialMatch(prometheus.Labels{"namespace": object.Namespace, "name": object.Name})
}

// Recovery has metrics of recovery actions. A nil Recovery records nothing.
type Recovery struct {
	attempts        *prometheus.CounterVec
	next, exhausted objectGauge
	lock            sync.Mutex
	// ended is when the last attempt that was counted started, by kind and name: a reconcile whose status write fails is repeated.
	ended map[string]time.Time
}

// NewRecovery registers the metrics. It panics when they are already registered.
func NewRecovery(registry prometheus.Registerer) *Recovery {
	return &Recovery{
		ended:     map[string]time.Time{},
		attempts:  promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: "capt_recovery_attempts_total", Help: "Recovery attempts that have ended."}, []string{"kind", "class", "action", "result"}),
		next:      newObjectGauge(registry, "capt_recovery_next_attempt_timestamp_seconds", "Time of the next recovery attempt of an object.", "kind"),
		exhausted: newObjectGauge(registry, "capt_recovery_exhausted", "1 while all recovery attempts of an object have failed.", "kind"),
	}
}

// Ended counts an attempt to recover an object, once.
func (m *Recovery) Ended(kind string, key types.NamespacedName, started time.Time, class, action, result string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.ended[kind+key.String()].Equal(started) {
		return
	}
	m.ended[kind+key.String()] = started
	m.attempts.WithLabelValues(kind, class, action, result).Inc()
}

// Report records what is next.
func (m *Recovery) Report(kind string, key types.NamespacedName, next *metav1.Time, exhausted bool) {
	m.next.set(key, next != nil, float64(ptr.Deref(next, metav1.Time{}).Unix()), kind)
	m.exhausted.set(key, exhausted, 1, kind)
}

// Forget removes what is recorded about an object.
func (m *Recovery) Forget(kind string, key types.NamespacedName) {
	if m == nil {
		return
	}
	m.Report(kind, key, nil, false)
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.ended, kind+key.String())
}
