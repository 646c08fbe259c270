// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Unclaimed is capt_workspace_unclaimed_seconds{namespace,name}, a gauge: how long the manager has observed the Workspace of a
// WorkspaceTemplateApply that provider-terraform has not reconciled yet; absent otherwise. A nil Unclaimed records nothing.
type Unclaimed struct {
	description *prometheus.Desc
	since       sync.Map // types.NamespacedName to time.Time
}

// NewUnclaimed registers the metric. It panics when it is already registered.
func NewUnclaimed(registry prometheus.Registerer) *Unclaimed {
	m := &Unclaimed{description: prometheus.NewDesc("capt_workspace_unclaimed_seconds",
		"How long the manager has observed a Workspace that provider-terraform has not reconciled yet.", []string{"namespace", "name"}, nil)}
	registry.MustRegister(m)
	return m
}

// Report records for how long a Workspace has been unclaimed; zero means that it is not.
func (m *Unclaimed) Report(apply types.NamespacedName, unclaimed time.Duration) {
	switch {
	case m == nil:
	case unclaimed > 0:
		m.since.Store(apply, time.Now().Add(-unclaimed))
	default:
		m.since.Delete(apply)
	}
}

// Describe implements prometheus.Collector.
func (m *Unclaimed) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- m.description }

// Collect implements prometheus.Collector.
func (m *Unclaimed) Collect(metrics chan<- prometheus.Metric) {
	m.since.Range(func(apply, since any) bool {
		key := apply.(types.NamespacedName)
		metrics <- gauge(m.description, time.Since(since.(time.Time)).Seconds(), key.Namespace, key.Name)
		return true
	})
}

// Kubeconfigs is capt_kubeconfig_expiry_timestamp_seconds{namespace,name}, a gauge: when the token in the kubeconfig of a CAPTControlPlane
// expires; absent without a token. A nil Kubeconfigs records nothing.
type Kubeconfigs struct {
	expiry *prometheus.GaugeVec
}

// NewKubeconfigs registers the metric. It panics when it is already registered.
func NewKubeconfigs(registry prometheus.Registerer) *Kubeconfigs {
	m := &Kubeconfigs{expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "capt_kubeconfig_expiry_timestamp_seconds", Help: "Time when the token in the kubeconfig of a CAPTControlPlane expires.",
	}, []string{"namespace", "name"})}
	registry.MustRegister(m.expiry)
	return m
}

// Report records when the token expires; zero means that there is none.
func (m *Kubeconfigs) Report(controlPlane types.NamespacedName, expiry time.Time) {
	switch {
	case m == nil:
	case expiry.IsZero():
		m.expiry.DeleteLabelValues(controlPlane.Namespace, controlPlane.Name)
	default:
		m.expiry.WithLabelValues(controlPlane.Namespace, controlPlane.Name).Set(float64(expiry.Unix()))
	}
}
