// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

// Health has metrics of the health checks of control planes. All are gauges with the labels namespace and name of the CAPTControlPlane:
//
//   - capt_health_check{check}: 1 if the check passes, 0 if it fails; absent while its result is unknown.
//   - capt_health_probe_duration_seconds: the duration of the last probe of the API server.
//   - capt_health_last_probe_timestamp_seconds: when the last probe started.
type Health struct {
	checks, duration, last *prometheus.GaugeVec
}

// NewHealth registers the metrics. It panics when they are already registered.
func NewHealth(registry prometheus.Registerer) *Health {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"namespace", "name"}, labels...))
	}
	m := &Health{
		checks:   gauge("capt_health_check", "Health check of a CAPTControlPlane: 1 if it passes, 0 if it fails, absent if unknown.", "check"),
		duration: gauge("capt_health_probe_duration_seconds", "Duration of the last probe of the API server of a CAPTControlPlane."),
		last:     gauge("capt_health_last_probe_timestamp_seconds", "Time of the last probe of the API server of a CAPTControlPlane."),
	}
	registry.MustRegister(m.checks, m.duration, m.last)
	return m
}

// Report records the status of a check.
func (m *Health) Report(controlPlane types.NamespacedName, check string, status controlplanev1.HealthState) {
	switch status {
	case controlplanev1.HealthHealthy, controlplanev1.HealthUnhealthy:
		m.checks.WithLabelValues(controlPlane.Namespace, controlPlane.Name, check).Set(boolToFloat(status == controlplanev1.HealthHealthy))
	default:
		m.checks.DeleteLabelValues(controlPlane.Namespace, controlPlane.Name, check)
	}
}

// Probed records a probe.
func (m *Health) Probed(controlPlane types.NamespacedName, began time.Time, took time.Duration) {
	m.duration.WithLabelValues(controlPlane.Namespace, controlPlane.Name).Set(took.Seconds())
	m.last.WithLabelValues(controlPlane.Namespace, controlPlane.Name).Set(float64(began.Unix()))
}

// Stopped removes the metrics of probes.
func (m *Health) Stopped(controlPlane types.NamespacedName) {
	m.duration.DeleteLabelValues(controlPlane.Namespace, controlPlane.Name)
	m.last.DeleteLabelValues(controlPlane.Namespace, controlPlane.Name)
}

// Forget removes all metrics of a control plane.
func (m *Health) Forget(controlPlane types.NamespacedName) {
	m.checks.DeletePartialMatch(prometheus.Labels{"namespace": controlPlane.Namespace, "name": controlPlane.Name})
	m.Stopped(controlPlane)
}
