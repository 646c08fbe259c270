// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// startShard starts a manager that contends for leadership, as a Deployment of a shard does.
func startShard(t *testing.T, name string, args ...string) {
	t.Helper()
	port, err := process.FreePort()
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "log")
	manager, err := process.Start(process.Spec{
		Name: name, Path: shared.Binary(sandbox.Manager), Log: log,
		Args: append([]string{
			"--kubeconfig=" + shared.KubeconfigOf(sandbox.Manager), "--leader-elect", "--leader-elect-namespace=elsewhere",
			"--health-addr=127.0.0.1:0", "--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics=true",
			fmt.Sprintf("--webhook-port=%d", port), "--webhook-cert-dir=" + shared.WebhookCertDir(),
		}, args...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		manager.Kill()
		if t.Failed() {
			t.Log(process.Tail(log, 30))
		}
	})
}

func TestSafety25ShardsLeadAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := shared.NewWorld(t, terraform.ScopeNamespaced)
	shards := map[string][]string{
		naming.LeaderElectionLease("", "first"):          {"--watch-filter=first"},
		naming.LeaderElectionLease("", "second"):         {"--watch-filter=second"},
		naming.LeaderElectionLease(w.Namespace, "third"): {"--watch-filter=third", "--namespace=" + w.Namespace},
	}
	for lease, args := range shards {
		startShard(t, lease, args...)
	}
	api := as(t, sandbox.AdminUser, "system:masters")
	for lease := range shards {
		w.Insist(func() string {
			held := &coordinationv1.Lease{}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "elsewhere", Name: lease}, held); err != nil {
				return err.Error()
			}
			if ptr.Deref(held.Spec.HolderIdentity, "") == "" {
				return "Lease " + lease + " has no holder"
			}
			return ""
		})
	}
}
