// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// The groups of the two scopes.
const (
	clusterScope    = "tf.upbound.io"
	namespacedScope = "tf.m.upbound.io"
)

// stage is one provider in a sandbox of its own.
type stage struct {
	sandbox *sandbox.Sandbox
	api     client.WithWatch
	// world is nil with OpenTofu.
	world *scripted.World
	// version0 is a provider whose conditions have no generations.
	version0 bool
}

// TestMain lets everything run at once that may: most of the time passes while a provider waits before it tries again.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// start starts a provider that works on one Workspace of each scope at a time, as the real one does.
func start(t *testing.T, world *scripted.World, args ...string) *stage {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	sb, err := sandbox.Start(ctx, sandbox.Options{
		Provider: true, KubeControllerManager: true, ProviderArgs: append(args, "--max-reconcile-rate=1"),
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
	return &stage{sandbox: sb, api: api, world: world}
}

// ours tells whether the provider is the one of this repository: it can be killed.
func ours() bool { return os.Getenv("SANDBOX_PROVIDER") != "none" }

func startScripted(t *testing.T, args ...string) *stage {
	t.Helper()
	if !ours() {
		t.Skip("the provider in place takes no script")
	}
	dir := t.TempDir()
	return start(t, scripted.At(dir), append(args, "--executor=scripted", "--script-dir="+dir)...)
}

func TestOpenTofu(t *testing.T) {
	t.Parallel()
	start(t, nil).conforms(t, clusterScope, namespacedScope)
}

func TestScripted(t *testing.T) {
	t.Parallel()
	startScripted(t).conforms(t, clusterScope, namespacedScope)
}

func TestScriptedVersion0(t *testing.T) {
	t.Parallel()
	s := startScripted(t, "--emulate-v0")
	s.version0 = true
	s.conforms(t, clusterScope)
}

// act is one situation. It finds the Workspace where the act before it left it.
type act struct {
	name string
	tell func(s *subject)
}

// story is the life of one Workspace.
type story struct {
	name string
	acts []act
}

func stories() []story {
	return []story{
		{"changes", []act{
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
		{"deletion", []act{
			{"at rest", reachesRest},
			{"paused freezes deletion too", pauseFreezesDeletion},
			{"a second finalizer blocks destroy", secondFinalizer},
			{"destroying", destroying},
			{"destroy failed", destroyFailed},
			{"destroyed", destroyed},
		}},
		{"first apply failed", []act{{"", firstApplyFailed}}},
		{"ProviderConfig missing", []act{{"", providerConfigMissing}}},
		{"only observing", []act{{"", onlyObserving}}},
		{"a state stays and is adopted by its name", []act{{"", stateIsAdopted}}},
	}
}

// disruptions concern everything a provider works on.
func disruptions() []act {
	return []act{
		{"queued", queued},
		{"provider down", providerDown},
		{"provider killed during first apply", providerKilled},
	}
}

func (st *stage) conforms(t *testing.T, groups ...string) {
	t.Helper()
	t.Run("scopes", func(t *testing.T) {
		for _, group := range groups {
			t.Run(group, func(t *testing.T) {
				t.Parallel()
				for _, story := range stories() {
					t.Run(story.name, func(t *testing.T) { st.subject(t, group).lives(story.acts) })
				}
			})
		}
	})
	if !ours() {
		return
	}
	for _, disruption := range disruptions() {
		for _, group := range groups {
			t.Run(disruption.name+"/"+group, func(t *testing.T) { disruption.tell(st.subject(t, group)) })
		}
	}
}

// lives plays the acts up to the first that fails: those behind it would start from somewhere else.
func (s *subject) lives(acts []act) {
	s.Helper()
	s.history = s.record()
	for _, a := range acts {
		if a.name == "" {
			a.tell(s)
			continue
		}
		if !s.Run(a.name, func(t *testing.T) { a.tell(s.with(t)) }) {
			return
		}
	}
}
