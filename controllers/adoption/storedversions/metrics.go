// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package storedversions

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics has capt_objects_awaiting_adoption{kind}, a gauge: the number of objects of CAPT v0.3 that have not been adopted.
type Metrics struct {
	objects *prometheus.GaugeVec
}

// NewMetrics registers the metric. It panics when it is already registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_objects_awaiting_adoption",
		Help: "Objects of CAPT v0.3 that have not been adopted. While there are any, stored versions are not migrated.",
	}, []string{"kind"})}
	registry.MustRegister(m.objects)
	return m
}

// Set the number of objects of each kind.
func (m *Metrics) Set(byKind map[string]int) {
	for kind, count := range byKind {
		m.objects.WithLabelValues(kind).Set(float64(count))
	}
}
