// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Adoption is capt_objects_awaiting_adoption{kind}, a gauge: the number of objects of CAPT v0.3 that have not been adopted.
type Adoption struct {
	objects *prometheus.GaugeVec
}

// NewAdoption registers the metric. It panics when it is already registered.
func NewAdoption(registry prometheus.Registerer) *Adoption {
	m := &Adoption{objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_objects_awaiting_adoption",
		Help: "Objects of CAPT v0.3 that have not been adopted. While there are any, stored versions are not migrated.",
	}, []string{"kind"})}
	registry.MustRegister(m.objects)
	return m
}

// Set the number of objects of each kind.
func (m *Adoption) Set(byKind map[string]int) {
	for kind, count := range byKind {
		m.objects.WithLabelValues(kind).Set(float64(count))
	}
}
