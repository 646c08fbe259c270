// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const cluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: demo, namespace: default}
spec:
  clusterNetwork: {pods: {cidrBlocks: ["%s"]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: demo}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: demo}
`

// kubectl runs kubectl as the administrator and returns what it printed.
func kubectl(t *testing.T, s *sandbox.Sandbox, stdin string, args ...string) (string, error) {
	t.Helper()
	require.NoError(t, sandbox.Build(t.Context(), testLog{t}, sandbox.Kubectl))
	cmd := exec.CommandContext(t.Context(), s.Binary(sandbox.Kubectl), append([]string{"--kubeconfig", s.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestClusterAPIAcceptsAClusterThroughItsWebhooks(t *testing.T) {
	t.Parallel()
	s := shared

	output, err := kubectl(t, s, strings.ReplaceAll(cluster, "%s", "not a network"), "apply", "-f", "-")
	require.Error(t, err, "the validating webhook was not called")
	require.Contains(t, output, "invalid CIDR")

	output, err = kubectl(t, s, strings.ReplaceAll(cluster, "%s", "10.1.0.0/16"), "apply", "-f", "-")
	require.NoError(t, err, output)

	// The older version is served by the conversion webhook.
	output, err = kubectl(t, s, "", "get", "clusters.v1beta1.cluster.x-k8s.io", "demo", "-o", "jsonpath={.spec.infrastructureRef.name}")
	require.NoError(t, err, output)
	require.True(t, strings.HasSuffix(output, "demo"), output)

	// Core reconciles the Cluster and writes it as its own user.
	require.Eventually(t, func() bool {
		events, err := s.AuditEvents(audit.Filter{User: sandbox.ClusterAPIUser, Verbs: audit.Writes,
			Group: clusterv1.GroupVersion.Group, Resource: "clusters", Name: "demo"})
		require.NoError(t, err)
		return len(events) > 0
	}, wait, tick)
}
