// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// silence is how long clusters are left alone, and settling how long nothing was written before that begins.
const silence, settling = 30 * time.Second, 3 * time.Second

// itself is a template of control planes that are the sandbox itself: Cluster API can connect to all of them, and none costs
// anything. The path of a kubeconfig and an address are to be filled in.
const itself = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: itself, namespace: default}
spec:
  template:
    spec:
      providerConfigRef: {kind: ClusterProviderConfig, name: sandbox}
      forProvider:
        source: Inline
        module: |
          output "cluster_endpoint" { value = %q }
          output "kubeconfig" {
            sensitive = true
            value     = file(%q)
          }
`

// peer is a Cluster whose control plane is the sandbox. Its name is to be filled in.
const peer = `
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: %[1]s, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster, name: %[1]s}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: %[1]s}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: %[1]s, namespace: default}
spec: {region: eu-central-1, vpc: {template: {ref: {name: sandbox-vpc}}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: %[1]s, namespace: default}
spec: {version: v1.36.0, workspaceTemplateRef: {name: itself}}
`

// TestAvailableClustersCauseNoRequests leaves ten clusters alone: CAPT writes nothing and asks for nothing, although Cluster
// API looks at them all the time. BenchmarkQuiet is the same at length.
func TestAvailableClustersCauseNoRequests(t *testing.T) {
	env := newEnvironment(t, "--executor=scripted", "--script-dir="+t.TempDir(), "--max-reconcile-rate=10")
	documents := []string{fmt.Sprintf(itself, env.Config().Host, env.Kubeconfig())}
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("peer-%d", i)
		documents = append(documents, fmt.Sprintf(peer, names[i]))
	}
	path := filepath.Join(t.TempDir(), "peers.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(documents, "")), 0o600))
	env.kubectl("apply", "-f", filepath.Join(samples, "vpc-template.yaml"), "-f", path)
	for _, name := range names {
		env.awaitTrue(&clusterv1.Cluster{}, name, clusterv1.AvailableCondition)
		env.awaitTrue(&controlplanev1.CAPTControlPlane{}, name, controlplanev1.ReadyCondition)
		captCluster := &infrav1.CAPTCluster{}
		env.await(captCluster, name, func() string {
			if captCluster.Status.Endpoint == "" {
				return "its endpoint is not reported yet"
			}
			return ""
		})
	}
	// Events are written a moment after what they report.
	fixture.EventuallyTrue(t, settling/10, func() bool { return len(env.requests(time.Now().Add(-settling))) == 0 }, "the manager still sends requests")

	began := time.Now()
	require.Never(t, func() bool { return len(env.requests(began)) > 0 }, silence, silence/10)
	require.Empty(t, env.requests(began))
}

// requests are those of the manager, watches aside.
func (env *environment) requests(since time.Time) (requests []string) {
	env.Helper()
	events, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: append([]string{"get", "list"}, audit.Writes...), Since: since})
	require.NoError(env, err)
	for _, event := range events {
		requests = append(requests, event.Verb+" "+event.RequestURI)
	}
	return requests
}
