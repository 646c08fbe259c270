// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const (
	// throttled is an error of class Throttle, as Terraform prints it.
	throttled = "\nError: creating EKS Cluster: operation error EKS: CreateCluster, https response error StatusCode: 429, api error ThrottlingException: Rate exceeded\n"
	// failing is how long all clusters fail together.
	failing = 10 * time.Minute
)

// BenchmarkFailures edits the template of 1,000 Ready clusters, and Terraform fails for all of them with an error of class Throttle. Ten minutes
// after the last one has failed, the failure ends. It reports
//   - degraded-s: from the edit until all are Degraded or Recovering
//   - attempts/cluster, attempts/s: recovery attempts of CAPT in the ten minutes
//   - writes/s, peak-rss-MiB: of the manager in that time
//   - recovered-s: from the end of the failure until all are Ready
func BenchmarkFailures(b *testing.B) {
	for b.Loop() {
		f := startFleet(b, 1000)
		applyAll(b, f.c, environments.Templates()...)
		f.create()
		f.fail()
		f.recover()
		require.NoError(b, f.s.Stop(context.Background()))
	}
}

// fail lets Terraform fail for all clusters, and measures what CAPT does about it.
func (f *fleet) fail() {
	f.Helper()
	f.setScripts(scripted.Script{Plan: scripted.Step{Stderr: throttled}})
	began := time.Now()
	object := &unstructured.Unstructured{}
	require.NoError(f, yaml.Unmarshal([]byte(environments.ControlPlaneTemplate(fixture.ControlPlaneModule+"# edited\n")), object))
	object.SetNamespace("default")
	require.NoError(f, f.c.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership))
	f.awaitStates(infrav1.StateDegraded, infrav1.StateRecovering)
	f.report(time.Since(began).Seconds(), "degraded-s")

	before, settled := f.attempts(), time.Now()
	<-time.After(failing) // The measurement itself.
	attempts := f.attempts() - before
	f.each(attempts, "attempts/cluster")
	f.report(attempts/failing.Seconds(), "attempts/s")
	f.report(float64(countWrites(f.B, f.s, settled, shared...))/failing.Seconds(), "writes/s")
	f.report(peakMemory(f.B, f.s)/(1<<20), "peak-rss-MiB")
	assert.Less(f, f.figures["peak-rss-MiB"], 1024.0, "the limit of config/manager")
}

// recover ends the failure.
func (f *fleet) recover() {
	f.Helper()
	began := time.Now()
	f.setScripts(scripted.Script{})
	f.awaitStates(infrav1.StateReady)
	f.report(time.Since(began).Seconds(), "recovered-s")
}

// attempts counts the recovery attempts of the manager.
func (f *fleet) attempts() float64 {
	return scrape(f.B, f.s).Sum("capt_recovery_attempts_total")
}

func (f *fleet) setScripts(script scripted.Script) {
	f.Helper()
	for i := range f.size {
		apply := types.NamespacedName{Namespace: "default", Name: naming.ControlPlaneWorkspaceTemplateApply(fmt.Sprintf("c%d", i))}
		require.NoError(f, f.scripts.SetScript(fixture.WorkspaceKey(environments.Scope, apply), script))
	}
}

// awaitStates waits until every control plane is in one of some states.
func (f *fleet) awaitStates(states ...infrav1.State) {
	f.Helper()
	require.Eventually(f, func() bool {
		var list controlplanev1.CAPTControlPlaneList
		require.NoError(f, f.c.List(f.Context(), &list))
		for i := range list.Items {
			if !slices.Contains(states, list.Items[i].Status.State) {
				return false
			}
		}
		return true
	}, fleetPatience, time.Second, "not all control planes became %v", states)
}
