// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// probed is a cluster that must answer before it is Ready.
const probed = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: probed, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: probed}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: probed}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: probed, namespace: default}
spec: {region: eu-central-1, vpc: {template: {ref: {name: sandbox-vpc}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: probed, namespace: default}
spec: {version: v1.35.0, workspaceTemplateRef: {name: sandbox-controlplane}, endpointProbe: Required}
`

// TestAnAPIServerThatDoesNotAnswerIsReported stops and freezes the API server of a Ready cluster.
func TestAnAPIServerThatDoesNotAnswerIsReported(t *testing.T) {
	env := newEnvironment(t)
	path := filepath.Join(t.TempDir(), "probed.yaml")
	require.NoError(t, os.WriteFile(path, []byte(probed), 0o600))
	env.kubectl("apply", "-f", filepath.Join(samples, "vpc-template.yaml"), "-f", filepath.Join(samples, "controlplane-template.yaml"), "-f", path)
	env.awaitTrue(&controlplanev1.CAPTControlPlane{}, "probed", controlplanev1.ReadyCondition)
	env.awaitHealth(controlplanev1.HealthHealthy)
	require.Equal(t, map[string]float64{"APIServer": 1, "Version": 1, "Credentials": 1, "Workspace": 1, "Dependencies": 1, "Fargate": 1}, env.reported())
	server := eks.Server{Dir: env.Dir(), Name: "probed"}

	for _, failure := range []struct {
		name            string
		stop, continues func() error
	}{
		{"stopped", func() error { return env.server(server).Stop(0) }, func() error { return server.Start(t.Context(), "1.35") }},
		{"frozen", func() error { return env.server(server).Signal(syscall.SIGSTOP) }, func() error { return env.server(server).Signal(syscall.SIGCONT) }},
	} {
		t.Log(failure.name)
		began := time.Now()
		require.NoError(t, failure.stop())
		env.awaitDegraded()
		t.Logf("%s: Degraded after %s", failure.name, time.Since(began).Round(time.Second))
		require.Zero(t, env.reported()[health.APIServer])

		require.NoError(t, failure.continues())
		began = time.Now()
		env.awaitTrue(&controlplanev1.CAPTControlPlane{}, "probed", controlplanev1.ReadyCondition, controlplanev1.AvailableCondition)
		t.Logf("%s: Ready after %s", failure.name, time.Since(began).Round(time.Second))
		env.awaitTrue(&clusterv1.Cluster{}, "probed", clusterv1.ClusterControlPlaneAvailableCondition)
	}

	env.kubectl("delete", "cluster", "probed", "--wait=false")
	env.awaitGone(&controlplanev1.CAPTControlPlane{}, "probed")
	require.Empty(t, env.reported())
	env.requireNothingForbidden()
}

// server is the process of an API server.
func (env *environment) server(server eks.Server) process.ID {
	env.Helper()
	id, err := server.Process()
	require.NoError(env, err)
	return id
}

// awaitDegraded waits until the control plane and its Cluster report that the API server does not answer.
func (env *environment) awaitDegraded() {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.await(controlPlane, "probed", func() string {
		conditions := controlPlane.Status.Conditions
		degraded := meta.FindStatusCondition(conditions, infrav1.DegradedCondition)
		switch {
		case controlPlane.Status.State != infrav1.StateDegraded:
			return fmt.Sprintf("it is %s", controlPlane.Status.State)
		case degraded.Reason != controlplanev1.APIServerNotAnsweringReason || !strings.Contains(degraded.Message, health.APIServer):
			return degraded.Reason + ": " + degraded.Message
		case !meta.IsStatusConditionFalse(conditions, controlplanev1.AvailableCondition):
			return "it is Available"
		}
		return ""
	})
	env.awaitHealth(controlplanev1.HealthUnhealthy)
	cluster := &clusterv1.Cluster{}
	env.await(cluster, "probed", func() string {
		if available := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterControlPlaneAvailableCondition); available == nil || available.Status != metav1.ConditionFalse {
			return "its control plane is available"
		}
		return ""
	})
}

func (env *environment) awaitHealth(want controlplanev1.HealthState) {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.await(controlPlane, "probed", func() string {
		if is := controlPlane.Status.Health; is == nil || is.Overall != want || health.Status(is, health.APIServer) != want {
			return fmt.Sprintf("its health is %+v", is)
		}
		return ""
	})
}

// reported returns capt_health_check of the only cluster, by check.
func (env *environment) reported() map[string]float64 {
	env.Helper()
	families, err := metrics.Read(env.Context(), env.MetricsURL(sandbox.Manager))
	require.NoError(env, err)
	return families.By("capt_health_check", "check")
}
