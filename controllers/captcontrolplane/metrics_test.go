// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/metrics"
)

func TestTheExpiryOfATokenIsAMetric(t *testing.T) {
	env, _ := withToken(t, controlplanev1.KubeconfigToken)
	registry := prometheus.NewRegistry()
	env.Kubeconfigs = metrics.NewKubeconfigs(registry)
	env.reconcile()
	assert.InDelta(t, env.clock.Now().Add(env.left()).Unix(), testutil.ToFloat64(registry), 1)
	env.forget(client.ObjectKeyFromObject(env.get()))
	assert.Zero(t, testutil.CollectAndCount(registry))
}
