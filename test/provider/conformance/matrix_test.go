// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers/workspace/planlogs"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// The groups of the two scopes.
const (
	clusterScope    = "tf.upbound.io"
	namespacedScope = "tf.m.upbound.io"
)

// environment is one provider in a sandbox of its own.
type environment struct {
	sandbox *sandbox.Sandbox
	api     client.WithWatch
	// world is nil with OpenTofu.
	world *scripted.Store
	// plans reads the log of the provider's Pod with the rights of the manager.
	plans *planlogs.Reader
}

// TestMain lets everything run at once that may: most of the time passes while a provider waits before it tries again.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// start starts a provider that works on one Workspace of each scope at a time, as the real one does, unless the arguments differ.
func start(t *testing.T, world *scripted.Store, args ...string) *environment {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	sb, err := sandbox.Start(ctx, sandbox.Options{
		Provider: true, ProviderPod: true, KubeControllerManager: true, ProviderArgs: append([]string{"--max-reconcile-rate=1"}, args...),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(sb.Logs(sandbox.Provider, 50))
		}
		require.NoError(t, sb.Stop(ctx))
	})
	api, err := client.NewWithWatch(sb.Config(), client.Options{})
	require.NoError(t, err)
	config, err := sb.ConfigOf(sandbox.Manager)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return &environment{sandbox: sb, api: api, world: world, plans: planlogs.New(clients, sandbox.ProviderNamespace, clock.RealClock{})}
}

// ours reports whether the provider is the one of this repository: it can be killed.
func ours() bool { return os.Getenv("SANDBOX_PROVIDER") != "none" }

// With OpenTofu, the provider of this repository runs only what depends on the executor. Another provider has to pass everything.
func TestOpenTofu(t *testing.T) {
	t.Parallel()
	if ours() {
		start(t, nil).live(t, []string{namespacedScope}, false, scenarios()[:2]...)
		return
	}
	start(t, nil).live(t, []string{clusterScope, namespacedScope}, false, scenarios()...)
}

// An apply that is held occupies a worker of the provider.
func TestAPreviewDuringAnApply(t *testing.T) {
	t.Parallel()
	if !ours() {
		t.Skip("the provider in place may have one worker")
	}
	previewing := scenario{"previewing while Terraform applies", []testStep{{"", previewingDuringAnApply}}}
	start(t, nil, "--max-reconcile-rate=2", "--debug").live(t, []string{clusterScope, namespacedScope}, false, previewing)
}

func TestScripted(t *testing.T) {
	t.Parallel()
	if !ours() {
		t.Skip("the provider in place takes no script")
	}
	dir := t.TempDir()
	st := start(t, scripted.At(dir), "--executor=scripted", "--script-dir="+dir)
	st.live(t, []string{clusterScope, namespacedScope}, false, slices.Concat(scenarios(), scriptedScenarios())...)
	t.Run("version 0", func(t *testing.T) { st.live(t, []string{clusterScope}, true, scenarios()...) })
	for _, disruption := range disruptions() {
		for _, group := range []string{clusterScope, namespacedScope} {
			t.Run(disruption.name+"/"+group, func(t *testing.T) { disruption.run(st.subject(t, group)) })
		}
	}
}

// testStep is one situation. It finds the Workspace where the testStep before it left it.
type testStep struct {
	name string
	run  func(s *subject)
}

// scenario is the life of one Workspace.
type scenario struct {
	name  string
	steps []testStep
}

func scenarios() []scenario {
	return []scenario{
		{"changes", []testStep{
			{"first apply running", firstApplyRunning},
			{"init and plan running, first apply done, next observation", firstObservation},
			{"outputs are typed and none is sensitive", outputsAreTyped},
			{"the Secret holds all outputs and keeps stale keys", secretHoldsAll},
			{"a metadata edit triggers a plan", metadataEditTriggersPlan},
			{"update being applied", updateBeingApplied},
			{"drift being applied", driftBeingApplied},
			{"update failed", updateFailed},
			{"plan failed", planFailed},
			{"paused", paused},
		}},
		{"deletion", []testStep{
			{"at rest", reachesRest},
			{"paused freezes deletion too", pauseFreezesDeletion},
			{"a second finalizer blocks destroy", secondFinalizer},
			{"destroying", destroying},
			{"destroy failed", destroyFailed},
			{"destroyed", destroyed},
		}},
		{"first apply failed", []testStep{{"", firstApplyFailed}}},
		{"ProviderConfig missing", []testStep{{"", providerConfigMissing}}},
		{"only observing", []testStep{{"", onlyObserving}}},
		{"previewing another content", []testStep{{"", previewing}}},
		{"a state stays and is adopted by its name", []testStep{{"", stateIsAdopted}}},
	}
}

// disruptions concern everything a provider works on.
func disruptions() []testStep {
	return []testStep{
		{"queued", queued},
		{"provider down", providerDown},
		{"provider killed during first apply", providerKilled},
	}
}

// scriptedScenarios need operations that fail at will.
func scriptedScenarios() []scenario {
	return []scenario{
		{"init and plan failed", []testStep{{"", initAndPlanFailed}}},
		{"a plan that fails does not keep a deleted Workspace", []testStep{{"", deletedWhilePlanFails}}},
		{"a connection Secret of another owner is kept", []testStep{{"", secretOfAnotherOwner}}},
		{"usage of the ProviderConfig", []testStep{{"", usageOfProviderConfig}}},
	}
}

// live runs scenarios in each scope. The scopes run in parallel.
func (st *environment) live(t *testing.T, groups []string, version0 bool, scenarios ...scenario) {
	t.Helper()
	t.Run("scopes", func(t *testing.T) {
		for _, group := range groups {
			t.Run(group, func(t *testing.T) {
				t.Parallel()
				for _, scenario := range scenarios {
					t.Run(scenario.name, func(t *testing.T) {
						s := st.subject(t, group)
						s.script.Version0 = version0
						s.free(destroy)
						s.lives(scenario.steps)
					})
				}
			})
		}
	})
}

// lives plays the steps up to the first that fails: those behind it would start from somewhere else.
func (s *subject) lives(steps []testStep) {
	s.Helper()
	s.history = s.record()
	for _, a := range steps {
		if a.name == "" {
			a.run(s)
			continue
		}
		if !s.Run(a.name, func(t *testing.T) { a.run(s.with(t)) }) {
			return
		}
	}
}
