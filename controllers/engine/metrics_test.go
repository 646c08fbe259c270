// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

func TestReconcilesAreMeasured(t *testing.T) {
	s, registry := newTestReconciler(t, builder.CAPTCluster("demo")), prometheus.NewRegistry()
	s.engine.Metrics = metrics.NewReconciles(registry)
	s.show(False("Ready", infrav1.ProvisioningReason, "Terraform is at work"))
	s.refuse = apierrors.NewServiceUnavailable("a write that failed is not measured")
	_, err := s.reconcile()
	require.Error(t, err)
	s.refuse = nil
	s.mustReconcile()
	s.show(True("Ready", infrav1.ReadyReason, ""))
	s.mustReconcile()
	s.mustReconcile()
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP capt_state_transitions_total Transitions of the states of objects.
# TYPE capt_state_transitions_total counter
capt_state_transitions_total{from="Pending",kind="CAPTCluster",to="Provisioning"} 1
capt_state_transitions_total{from="Provisioning",kind="CAPTCluster",to="Ready"} 1
# HELP capt_status_writes_total Reconciles that computed a status, by whether it changed and was written.
# TYPE capt_status_writes_total counter
capt_status_writes_total{changed="false",kind="CAPTCluster"} 1
capt_status_writes_total{changed="true",kind="CAPTCluster"} 2
`), "capt_state_transitions_total", "capt_status_writes_total"))

	captCluster := s.get()
	captCluster.Finalizers = []string{infrav1.CAPTClusterFinalizer}
	require.NoError(t, s.engine.Client.Update(t.Context(), captCluster))
	require.NoError(t, s.engine.Client.Delete(t.Context(), captCluster))
	s.mustReconcile()
	captCluster = s.get()
	captCluster.Finalizers = nil
	require.NoError(t, s.engine.Client.Update(t.Context(), captCluster))
	s.mustReconcile()
	count, err := testutil.GatherAndCount(registry, "capt_deletion_duration_seconds")
	require.NoError(t, err)
	assert.Equal(t, 1, count)
}
