// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/cert"
)

// NewManager registers metrics of the process itself, which every replica reports. It must be called before the manager is created, and
// panics when they are already registered.
//
//   - capt_build_info{version,revision,branch,goversion,goos,goarch,tags}: 1.
//   - capt_client_rate_limiter_wait_seconds{verb}, a histogram: how long requests to the API server waited for the rate limit
//     (--kube-api-qps, --kube-api-burst). There is no label for the path, which would have the names of objects.
//   - capt_webhook_certificate_expiry_timestamp_seconds: when the certificate in the file expires; absent while it cannot be read.
func NewManager(registry prometheus.Registerer, certificateFile string) {
	wait := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "capt_client_rate_limiter_wait_seconds", Help: "How long requests to the API server waited for the rate limit of the manager (--kube-api-qps, --kube-api-burst).",
		Buckets: []float64{0.005, 0.05, 0.25, 1, 5, 15, 60},
	}, []string{"verb"})
	registry.MustRegister(version.NewCollector("capt"), wait, certificate{certificateFile, prometheus.NewDesc(
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

// Describe implements prometheus.Collector.
func (c certificate) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.description }

// Collect implements prometheus.Collector.
func (c certificate) Collect(metrics chan<- prometheus.Metric) {
	if chain, err := cert.CertsFromFile(c.file); err == nil {
		metrics <- gauge(c.description, float64(chain[0].NotAfter.Unix()))
	}
}

func gauge(description *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}
