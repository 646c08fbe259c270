// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/metrics"
	"github.com/capt-provider/capt/test/sandbox/process"
)

const timeout = 5 * time.Minute

const pending = "crossplane.io/external-create-pending"

// slow says when its first resource is being made, and never gets any further.
const slow = `
variable "dir" { type = string }
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "touch ${var.dir}/applying; sleep 600"
  }
}
`

// A provider that ends in the middle of a create, by force or in good order, leaves a Workspace that it does not touch
// any more, not even to delete it.
func TestEndDuringTheFirstApply(t *testing.T) {
	port, err := process.FreePort()
	require.NoError(t, err)
	address := process.Loopback(port)
	sb := fixture.Start(t, sandbox.Options{Provider: true, ProviderArgs: []string{"--metrics-addr=" + address}})
	scheme := runtime.NewScheme()
	require.NoError(t, provider.AddToScheme(scheme))
	c, err := client.New(sb.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)

	for name, end := range map[string]func() error{
		"killed":  func() error { return sb.Kill(sandbox.Provider) },
		"stopped": func() error { return sb.StopComponent(t.Context(), sandbox.Provider) },
	} {
		t.Run(name, func(t *testing.T) {
			w := slowWorkspace(t, name)
			require.NoError(t, c.Create(t.Context(), w))
			requireFile(t, filepath.Join(w.Spec.ForProvider.Vars[0].Value, "applying"))
			require.Contains(t, scrape(t, address), `capt_test_provider_runs_total{group="tf.upbound.io",name="`+name+`",namespace="",operation="apply"} 1`)

			require.NoError(t, end())
			require.NoError(t, sb.StartComponent(t.Context(), sandbox.Provider))

			synced := waitForSynced(t, c, w)
			require.Equal(t, xpv1.ReasonReconcileError, synced.Reason)
			require.Equal(t, "cannot determine creation result - remove the "+pending+" annotation if it is safe to proceed", synced.Message)

			require.NoError(t, c.Delete(t.Context(), w))
			require.Eventually(t, func() bool {
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(w), w))
				return w.GetCondition(xpv1.TypeSynced).ObservedGeneration == w.Generation
			}, timeout, 50*time.Millisecond, "the provider has seen the deletion")
			require.NotEmpty(t, w.Annotations[pending])
			require.NotEmpty(t, w.Finalizers)
			require.NotContains(t, scrape(t, address), `name="`+name+`"`, "and ran nothing")
		})
	}
}

func TestUnknownArgumentsAreRefused(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"--poll=1m", "surplus"}), `unexpected argument "surplus"`)
	require.ErrorContains(t, run(t.Context(), []string{"--executor=pulumi"}), "--executor=pulumi: want opentofu or scripted")
	require.ErrorContains(t, run(t.Context(), []string{"--executor=scripted"}), "go together")
	require.ErrorContains(t, run(t.Context(), []string{"--script-dir=here"}), "go together")
	require.NoError(t, run(t.Context(), []string{"--help"}))
}

func slowWorkspace(t *testing.T, name string) *provider.ClusterWorkspace {
	t.Helper()
	w := &provider.ClusterWorkspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.Spec.ProviderConfigReference = &xpv1.Reference{Name: sandbox.ProviderConfigName}
	w.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: slow, Vars: []terraform.Var{{Key: "dir", Value: t.TempDir()}}}
	return w
}

func waitForSynced(t *testing.T, c client.Client, w *provider.ClusterWorkspace) xpv1.Condition {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(w), w))
		return w.GetCondition(xpv1.TypeSynced).Reason != ""
	}, timeout, 50*time.Millisecond, "no condition Synced")
	return w.GetCondition(xpv1.TypeSynced)
}

func requireFile(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}, timeout, 20*time.Millisecond, "%s never came", filepath.Base(path))
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	text, err := metrics.Text(t.Context(), "http://"+address+"/metrics")
	require.NoError(t, err)
	var own []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "capt_test_provider_") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}
