// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// previews is a collector of capt_previews{state}, a gauge: how many objects have a preview (Running), and how many wait for one to end (Waiting). Only the
// leader has any.
type previews struct {
	count       func() (running, waiting int)
	description *prometheus.Desc
}

// NewPreviews registers the metric. It panics when it is already registered.
func NewPreviews(registry prometheus.Registerer, count func() (running, waiting int)) {
	registry.MustRegister(previews{count, prometheus.NewDesc("capt_previews", "Number of objects with a preview, and of those that wait for one to end.", []string{"state"}, nil)})
}

// Describe implements prometheus.Collector.
func (m previews) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- m.description }

// Collect implements prometheus.Collector.
func (m previews) Collect(metrics chan<- prometheus.Metric) {
	running, waiting := m.count()
	metrics <- gauge(m.description, float64(running), "Running")
	metrics <- gauge(m.description, float64(waiting), "Waiting")
}
