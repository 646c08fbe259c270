// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientmetrics "k8s.io/client-go/tools/metrics"
	"k8s.io/client-go/util/cert"

	"github.com/capt-provider/capt/controllers/metrics"
)

func TestMetricsOfTheManager(t *testing.T) {
	registry, file := prometheus.NewRegistry(), filepath.Join(t.TempDir(), "tls.crt")
	before := clientmetrics.RateLimiterLatency
	t.Cleanup(func() { clientmetrics.RateLimiterLatency = before })
	metrics.NewManager(registry, file)
	count := func(name string) int {
		count, err := testutil.GatherAndCount(registry, name)
		require.NoError(t, err)
		return count
	}
	assert.Equal(t, 1, count("capt_build_info"))
	assert.Zero(t, count("capt_webhook_certificate_expiry_timestamp_seconds"), "the file does not exist yet")

	certificate, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, certificate, 0o600))
	parsed, err := cert.ParseCertsPEM(certificate)
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() == "capt_webhook_certificate_expiry_timestamp_seconds" {
			assert.InDelta(t, parsed[0].NotAfter.Unix(), family.GetMetric()[0].GetGauge().GetValue(), 0)
		}
	}
	assert.Equal(t, 1, count("capt_webhook_certificate_expiry_timestamp_seconds"))

	clientmetrics.RateLimiterLatency.Observe(t.Context(), "GET", url.URL{Path: "/api/v1/namespaces/one"}, time.Second)
	clientmetrics.RateLimiterLatency.Observe(t.Context(), "GET", url.URL{Path: "/api/v1/namespaces/two"}, time.Second)
	assert.Equal(t, 1, count("capt_client_rate_limiter_wait_seconds"), "one series per verb, whatever the path")
}
