// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// States of Fargate profiles, as label state has them. One profile can be in more than one.
const (
	// profileActive: its WorkspaceTemplateApply exists.
	profileActive = "active"
	// profileReady: it is what spec asks for.
	profileReady = "ready"
	// profileFailed: it could not be made, changed or deleted.
	profileFailed = "failed"
)

// FargateProfiles tells of the profiles that this process looks after, together with the metrics of controller-runtime.
var FargateProfiles = NewFargate(ctrlmetrics.Registry)

// minutes are the buckets of what EKS does with a profile: it takes half a minute to five, and longer when something is wrong.
var minutes = []float64{15, 30, 60, 90, 120, 150, 180, 240, 300, 420, 600, 900, 1800, 3600}

// Profile is a Fargate profile as it is now.
type Profile struct {
	// UID is that of its WorkspaceTemplateApply, and empty before that is made.
	UID           types.UID
	Ready, Failed bool
	// FirstTime is true until Terraform has made it once: status.lastAppliedTime is absent.
	FirstTime bool
	// StartedAt is when Terraform began with what it applies now, status.startedTime; zero while it is not at work.
	StartedAt time.Time
	// DeletedAt is metadata.deletionTimestamp; zero when it is not being deleted.
	DeletedAt time.Time
}

// Fargate tells of the Fargate profiles of control planes:
//
//   - capt_fargate_profiles{namespace, name, state}, a gauge: how many profiles of a CAPTControlPlane are in a state. There is
//     none of a control plane without profiles.
//   - capt_fargate_profile_creation_duration_seconds, a histogram: from when Terraform began with a new profile to when it was
//     ready for the first time, tries that failed included. Profiles that were made before this process looked do not count,
//     nor do later changes.
//   - capt_fargate_profile_deletion_duration_seconds, a histogram: from when the deletion of a profile was asked for to when it
//     was gone, with the time that it waited for its turn.
//   - capt_fargate_profile_failures_total, a counter: how often a profile came to fail.
type Fargate struct {
	profiles           *prometheus.GaugeVec
	creation, deletion prometheus.Histogram
	failures           prometheus.Counter

	mu sync.Mutex
	// lives of the profiles that exist now, by their control plane.
	lives map[types.NamespacedName]map[types.UID]life
}

// life is what must be known of a profile to count what becomes of it once.
type life struct {
	// began is when Terraform began to create it; zero when it did not yet, or when that is nothing to count any more.
	began time.Time
	// created is true when it was ready.
	created bool
	failed  bool
	deleted time.Time
}

// NewFargate registers metrics of Fargate profiles. It panics when they are registered there already.
func NewFargate(registry prometheus.Registerer) *Fargate {
	m := &Fargate{
		profiles: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capt_fargate_profiles", Help: "Fargate profiles of a CAPTControlPlane by state (active, ready, failed).",
		}, []string{"namespace", "name", "state"}),
		creation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_fargate_profile_creation_duration_seconds", Help: "Time from when Terraform began to create a Fargate profile until it was ready for the first time.",
			Buckets: minutes,
		}),
		deletion: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_fargate_profile_deletion_duration_seconds", Help: "Time from when the deletion of a Fargate profile was asked for until it was gone.",
			Buckets: minutes,
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capt_fargate_profile_failures_total", Help: "How often a Fargate profile came to fail.",
		}),
		lives: map[types.NamespacedName]map[types.UID]life{},
	}
	registry.MustRegister(m.profiles, m.creation, m.deletion, m.failures)
	return m
}

// Observe tells of all profiles of a control plane, at each reconcile. To tell the same again changes nothing. now is the clock
// that the times of profiles are compared with.
func (m *Fargate) Observe(controlPlane types.NamespacedName, profiles []Profile, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.lives[controlPlane]
	if !known && len(profiles) == 0 {
		return // Most control planes have none.
	}
	m.count(controlPlane, profiles)
	lives := map[types.UID]life{}
	for _, profile := range profiles {
		if profile.UID != "" {
			was, known := before[profile.UID]
			lives[profile.UID] = m.live(profile, was, known, now)
		}
	}
	for uid, life := range before {
		if _, exists := lives[uid]; !exists && !life.deleted.IsZero() {
			m.deletion.Observe(seconds(life.deleted, now))
		}
	}
	if m.lives[controlPlane] = lives; len(profiles) == 0 {
		delete(m.lives, controlPlane)
	}
}

// Forget drops what is known of a control plane that is gone. Whoever saw its last profiles go has told Observe before.
func (m *Fargate) Forget(controlPlane types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count(controlPlane, nil)
	delete(m.lives, controlPlane)
}

// count sets the gauge.
func (m *Fargate) count(controlPlane types.NamespacedName, profiles []Profile) {
	if len(profiles) == 0 {
		m.profiles.DeletePartialMatch(prometheus.Labels{"namespace": controlPlane.Namespace, "name": controlPlane.Name})
		return
	}
	var active, ready, failed float64
	for _, profile := range profiles {
		active += one(profile.UID != "")
		ready += one(profile.Ready)
		failed += one(profile.Failed)
	}
	for state, number := range map[string]float64{profileActive: active, profileReady: ready, profileFailed: failed} {
		m.profiles.WithLabelValues(controlPlane.Namespace, controlPlane.Name, state).Set(number)
	}
}

// live goes on with the life of a profile.
func (m *Fargate) live(profile Profile, was life, known bool, now time.Time) life {
	is := was
	if profile.Failed && known && !was.failed { // Of one that had failed when it was first seen, an earlier process told.
		m.failures.Inc()
	}
	is.failed = profile.Failed
	if is.deleted.IsZero() {
		is.deleted = profile.DeletedAt
	}
	switch {
	case is.created:
	case profile.Ready:
		if !is.began.IsZero() {
			m.creation.Observe(seconds(is.began, now))
		}
		is.began, is.created = time.Time{}, true
	case is.began.IsZero() && profile.FirstTime: // Status says when Terraform began only while it is at work.
		is.began = profile.StartedAt
	}
	return is
}

// seconds between times of clocks that may differ.
func seconds(from, to time.Time) float64 { return max(0, to.Sub(from)).Seconds() }

func one(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
