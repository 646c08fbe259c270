// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/metrics"
)

func TestMetricsOfHealthVanishWithTheObject(t *testing.T) {
	registry := prometheus.NewRegistry()
	health, demo := metrics.NewHealth(registry), types.NamespacedName{Namespace: "team-a", Name: "demo"}
	health.Report(demo, "APIServer", controlplanev1.HealthHealthy)
	health.Report(demo, "Version", controlplanev1.HealthUnhealthy)
	health.Report(demo, "Credentials", controlplanev1.HealthHealthy)
	health.Report(demo, "Credentials", controlplanev1.HealthUnknown)
	health.Report(demo, "Fargate", "")
	health.Probed(demo, time.Unix(1000, 0), 1500*time.Millisecond)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_health_check Health check of a CAPTControlPlane: 1 if it passes, 0 if it fails, absent if unknown.
# TYPE capt_health_check gauge
capt_health_check{check="APIServer",name="demo",namespace="team-a"} 1
capt_health_check{check="Version",name="demo",namespace="team-a"} 0
# HELP capt_health_last_probe_timestamp_seconds Time of the last probe of the API server of a CAPTControlPlane.
# TYPE capt_health_last_probe_timestamp_seconds gauge
capt_health_last_probe_timestamp_seconds{name="demo",namespace="team-a"} 1000
# HELP capt_health_probe_duration_seconds Duration of the last probe of the API server of a CAPTControlPlane.
# TYPE capt_health_probe_duration_seconds gauge
capt_health_probe_duration_seconds{name="demo",namespace="team-a"} 1.5
`)))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)

	health.Stopped(demo)
	count, err := testutil.GatherAndCount(registry)
	require.NoError(t, err)
	assert.Equal(t, 2, count)
	health.Forget(demo)
	count, err = testutil.GatherAndCount(registry)
	require.NoError(t, err)
	assert.Zero(t, count)
}
