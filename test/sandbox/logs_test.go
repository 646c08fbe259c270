// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/controllers/workspace/planlogs"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// readerOf reads the log of the provider's Pod as a user.
func readerOf(t *testing.T, name string) *planlogs.Reader {
	t.Helper()
	config, err := shared.ConfigOf(name)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return planlogs.New(clients, sandbox.ProviderNamespace, clock.RealClock{})
}

// workspaceOf is a Workspace whose plan is logged.
func workspaceOf(name, input string, policies ...any) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"providerConfigRef": map[string]any{"name": sandbox.ProviderConfigName, "kind": "ClusterProviderConfig"}, "managementPolicies": policies,
		"forProvider": map[string]any{
			"source": "Inline", "module": `resource "terraform_data" "this" { input = "` + input + `" }`,
			"enableTerraformCLILogging": true, "planArgs": []any{"-json"},
		},
	}}}
	w.SetAPIVersion("tf.m.upbound.io/v1beta1")
	w.SetKind("Workspace")
	w.SetNamespace("default")
	w.SetName(name)
	w.SetAnnotations(map[string]string{"crossplane.io/external-name": "logged"})
	return w
}

func TestTheManagerReadsPlansFromTheLogOfThePod(t *testing.T) {
	t.Parallel()
	c := newClient(t, shared)
	for _, w := range []*unstructured.Unstructured{workspaceOf("logged", "canary-one", "*"), workspaceOf("logged-preview", "canary-two", "Observe")} {
		require.NoError(t, c.Create(t.Context(), w))
		fixture.EventuallyTrue(t, tick, func() bool {
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(w), w))
			conditions, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
			ready := 0
			for _, condition := range conditions {
				if condition.(map[string]any)["status"] == "True" { //nolint:forcetypeassert // The CRD says so.
					ready++
				}
			}
			return ready == 2 || ready == 1 && w.GetName() == "logged-preview"
		}, "%s is not planned", w.GetName())
	}

	changes, err := readerOf(t, sandbox.Manager).Plan(t.Context(), "logged-preview", time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Equal(t, []planlog.Resource{{Address: "terraform_data.this", Type: "terraform_data", Action: planlog.Update}}, changes.Resources)
	text, err := json.Marshal(changes)
	require.NoError(t, err)
	require.NotContains(t, string(text), "canary")

	_, err = readerOf(t, sandbox.Reader).Plan(t.Context(), "logged-preview", time.Now().Add(-time.Hour))
	require.EqualError(t, err, "what changes is not known: the manager may not list pods in namespace crossplane-system: bind the ClusterRole whose name ends in plan-reader to it there")

	kubectl := exec.CommandContext(t.Context(), shared.Binary(sandbox.Kubectl), "--kubeconfig="+shared.Kubeconfig(),
		"-n", sandbox.ProviderNamespace, "logs", sandbox.ProviderPodName, "--since=1h", "--timestamps")
	out, err := kubectl.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), `"request":{"name":"logged-preview"},"operation":"plan"}`)
}
