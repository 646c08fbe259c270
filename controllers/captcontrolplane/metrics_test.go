// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
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

// A control plane that is being deleted, or was not adopted, has no checks.
func TestHealthChecksAreMetrics(t *testing.T) {
	probing := func(env *environment) func() int {
		registry := prometheus.NewRegistry()
		env.Probes = probe.NewPool(metrics.NewHealth(registry), env.mustProbe)
		return func() int {
			count, err := testutil.GatherAndCount(registry, "capt_health_check")
			require.NoError(t, err)
			return count
		}
	}
	env := newEnvironment(t, prepared()...)
	checks := probing(env)
	env.reconcile()
	env.terraform(working)
	env.reconcile()
	env.clock.Pass(env.again)
	env.reconcile()
	assert.Equal(t, "Terraform has not created the cluster, or is destroying it", health.Find(env.get().Status.Health, health.APIServer).Message)
	env.terraformMade()
	env.reconcile()
	assert.Positive(t, checks())
	require.NoError(t, env.Delete(t.Context(), env.get()))
	env.reconcile()
	require.NotNil(t, env.get(), "its Cluster holds it")
	assert.Zero(t, checks())

	legacy := prepared(builder.WithApplyRef(applyName), builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}}
	}))
	env = newEnvironment(t, append(legacy, builder.WorkspaceTemplateApply(applyName, asV03LeftIt(), builder.OwnedBy(legacy[2]), ofTemplate("eks"),
		builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)))...)
	checks = probing(env)
	env.reconcile()
	require.Equal(t, "True AdoptionRequired", env.summary()["AdoptionRequired"])
	assert.Zero(t, checks())
}

func TestFargateProfilesAreMetrics(t *testing.T) {
	env, registry := withFargate(t), prometheus.NewRegistry()
	env.FargateMetrics = metrics.NewFargate(registry)
	profiles := func() int {
		count, err := testutil.GatherAndCount(registry, "capt_fargate_profiles")
		require.NoError(t, err)
		return count
	}
	env.reconcile()
	assert.Positive(t, profiles())
	env.forget(client.ObjectKeyFromObject(env.get()))
	assert.Zero(t, profiles())
}
