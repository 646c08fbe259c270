// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/cert"
)

// NewManager registers metrics of the process itself, which every replica reports. It must be called before the manager is created, and
// panics when they are already registered. The wait for the rate limit has no label for the path, which would have the names of objects, and the expiry of
// the certificate is absent while the file cannot be read.
func NewManager(registry prometheus.Registerer, certificateFile string) {
	wait := promauto.With(registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "capt_client_rate_limiter_wait_seconds", Help: "How long requests to the API server waited for the rate limit of the manager (--kube-api-qps, --kube-api-burst).",
		Buckets: []float64{0.005, 0.05, 0.25, 1, 5, 15, 60},
	}, []string{"verb"})
	registry.MustRegister(version.NewCollector("capt"), certificate{certificateFile, prometheus.NewDesc(
		"capt_webhook_certificate_expiry_timestamp_seconds", "Time when the certificate of the webhooks expires.", nil, nil)})
	// Register of client-go's metrics works only once, and controller-runtime calls it for other metrics.
	clientmetrics.RateLimiterLatency = rateLimiterWait{wait}
}

// rateLimiterWait implements clientmetrics.LatencyMetric.
type rateLimiterWait struct{ histogram *prometheus.HistogramVec }

func (w rateLimiterWait) Observe(_ context.Context, verb string, _ url.URL, latency time.Duration) {
	w.histogram.WithLabelValues(verb).Observe(latency.Seconds())
}

// certificate is a collector that reads the certificate in a file.
type certificate struct {
	file        string
	description *prometheus.Desc
}

func (c certificate) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.description }

func (c certificate) Collect(metrics chan<- prometheus.Metric) {
	if chain, err := cert.CertsFromFile(c.file); err == nil {
		metrics <- gauge(c.description, float64(chain[0].NotAfter.Unix()))
	}
}

func gauge(description *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}

// NewPreviews registers capt_previews{state}, a gauge: how many objects have a preview (Running), and how many wait for one to end (Waiting). Only the
// leader has any. It panics when it is already registered.
func NewPreviews(registry prometheus.Registerer, count func() (running, waiting int)) {
	for _, state := range []string{"Running", "Waiting"} {
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "capt_previews", Help: "Number of objects with a preview, and of those that wait for one to end.", ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 {
			running, waiting := count()
			return float64(map[string]int{"Running": running, "Waiting": waiting}[state])
		})
	}
}

// Plans has metrics of the plans in the log of provider-terraform. A nil Plans records nothing.
type Plans struct {
	reads *prometheus.CounterVec
	age   prometheus.Histogram
}

// NewPlans registers the metrics. It panics when they are already registered.
func NewPlans(registry prometheus.Registerer) *Plans {
	auto := promauto.With(registry)
	return &Plans{
		reads: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "capt_plan_reads_total", Help: "Previews whose plan was read from the log of provider-terraform (Read), or is not known, by reason.",
		}, []string{"result"}),
		age: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "capt_plan_log_age_seconds", Help: "How old the log entry of a plan was when it was read.", Buckets: prometheus.ExponentialBuckets(0.5, 2, 12),
		}),
	}
}

// Read records a plan that was read, and the age of its log entry.
func (m *Plans) Read(age time.Duration) {
	if m != nil {
		m.reads.WithLabelValues("Read").Inc()
		m.age.Observe(max(0, age.Seconds())) // The clock of the provider may be ahead.
	}
}

// Unknown records a plan that is not known.
func (m *Plans) Unknown(reason string) {
	if m != nil {
		m.reads.WithLabelValues(reason).Inc()
	}
}

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
type Kubeconfigs struct{ expiry objectGauge }

// NewKubeconfigs registers the metric. It panics when it is already registered.
func NewKubeconfigs(registry prometheus.Registerer) *Kubeconfigs {
	return &Kubeconfigs{newObjectGauge(registry, "capt_kubeconfig_expiry_timestamp_seconds", "Time when the token in the kubeconfig of a CAPTControlPlane expires.")}
}

// Report records when the token expires; zero means that there is none.
func (m *Kubeconfigs) Report(controlPlane types.NamespacedName, expiry time.Time) {
	if m != nil {
		m.expiry.set(controlPlane, !expiry.IsZero(), float64(expiry.Unix()))
	}
}
