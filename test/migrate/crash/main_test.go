// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash_test kills captctl migrate (SIGKILL) before and after its API calls, reads included, or loses the answer to one, and requires that
// the same command, run again there or on another host, ends like a run that was not interrupted.
//
// Two clusters of CAPT v0.3 are adopted and rolled back again and again, each time with a new plan, on one API server and under one manager that
// reconciles all the time. A proxy between captctl and the API server identifies every call by its method, its URI, and how often it was made
// before. There are about 340 calls of apply, 53 of them writes, and about 270 calls of rollback, 54 of them writes; the log of the test has the
// numbers.
//
// The environment variable CAPT_CRASH=1/2 interrupts every second call, from the first one on, and CAPT_CRASH=2/2 the others, so that two processes
// (make chaos) interrupt every call in half the time: most of it is spent waiting for a Lease to end. Without it, each kind of call is interrupted.
package crash_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// everything is this process's share of all interruptions.
var everything share

// share number of shares, counted from 1. Without shares, a sample is tested.
type share struct{ number, shares int }

// of a list, these are the elements of the share.
func of[T any](s share, all []T) (mine []T) {
	for i, element := range all {
		if i%s.shares == s.number-1 {
			mine = append(mine, element)
		}
	}
	return mine
}

const (
	// timeout is how long one command, or the manager after it, may take.
	timeout = 5 * time.Minute
	tick    = 200 * time.Millisecond
)

// shared is the fleet under this version's manager. The tests follow one another.
var shared *legacy.Environment

// fleet is a cluster that lacks nothing but its adoption, and one whose WorkspaceTemplateApplies were made by hand and are referred to by
// nothing, with helpers, in another namespace than its templates.
var fleet = legacy.Fixture{Clusters: func(names legacy.Names) []legacy.Cluster {
	second := legacy.Named()["templates-in-default"].Clusters(legacy.Names{Namespace: names.Other, Prefix: names.Prefix})[0]
	second.Name, second.Unreferenced, second.HandMade, second.Helpers, second.Apply = names.Prefix+"second", true, true, true, names.Prefix+"by-hand"
	return []legacy.Cluster{{Namespace: names.Namespace, Name: names.Prefix + "first", RetainVPC: true}, second}
}}

func TestMain(m *testing.M) {
	if chosen := os.Getenv("CAPT_CRASH"); chosen != "" {
		if _, err := fmt.Sscanf(chosen, "%d/%d", &everything.number, &everything.shares); err != nil {
			fmt.Fprintln(os.Stderr, "CAPT_CRASH must be like 1/2:", err)
			os.Exit(1)
		}
	}
	os.Exit(fixture.Suite{Start: start}.Run(m))
}

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) (err error) {
	if shared, err = legacy.Start(ctx, sandbox.Options{Log: os.Stderr}); err != nil {
		return err
	}
	keep(shared.Sandbox)
	if _, err = shared.Create(ctx, fleet, legacy.Names{Namespace: "first", Other: "second", Prefix: "crash-"}); err != nil {
		return err
	}
	return shared.Upgrade(ctx)
}

// proxied is a host whose requests pass a proxy that can kill what runs there.
type proxied struct {
	*host.Host
	proxy   *proxy.Proxy
	mutex   sync.Mutex
	running *host.Command
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	h, p := host.New(t, shared.Sandbox), &proxied{}
	config, err := shared.ConfigOf(sandbox.Captctl)
	require.NoError(t, err)
	p.proxy, err = proxy.Start(config, func() { p.run().Kill() })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.proxy.Close()) })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, p.proxy.WriteKubeconfig(kubeconfig))
	p.Host = h.Another(kubeconfig)
	return p
}

// begin starts a command that the proxy can kill.
func (p *proxied) begin(args ...string) *host.Command {
	p.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.running = p.Start(args...)
	return p.running
}

// run is the command that runs now.
func (p *proxied) run() *host.Command {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.running
}

// live is the fleet as captctl writes it, with the versions of Workspaces and Secrets.
func live(t *testing.T) map[string]string {
	t.Helper()
	found := host.Fleet(t, shared.Admin, host.Desired)
	var secrets corev1.SecretList
	require.NoError(t, shared.Admin.List(t.Context(), &secrets))
	for i := range secrets.Items {
		found["Secret "+secrets.Items[i].Namespace+"/"+secrets.Items[i].Name] = secrets.Items[i].ResourceVersion
	}
	return found
}

// requireEnd waits until the manager has reported what captctl left, which must be what it left uninterrupted.
func requireEnd(t *testing.T, want map[string]string, p *plan.Plan, phase apply.Phase, what string) {
	t.Helper()
	var found map[string]string
	err := wait.PollUntilContextTimeout(t.Context(), tick, time.Minute, true, func(context.Context) (bool, error) {
		found = live(t)
		return len(difference(want, found)) == 0, nil
	})
	if err != nil {
		for _, name := range difference(want, found) {
			require.Equal(t, want[name], found[name], "%s: %s", what, name)
		}
	}
	state, err := apply.Recorded(t.Context(), shared.Admin, sandbox.ManagerNamespace, p.ID)
	require.NoError(t, err)
	require.NotNil(t, state, what)
	require.Len(t, state.Units, len(p.Units), what)
	for name, unit := range state.Units {
		require.Equal(t, phase, unit.Phase, "%s: %s: %s", what, name, unit.Message)
	}
}

// difference are the names of objects that two fleets do not share.
func difference(want, found map[string]string) (names []string) {
	for name := range want {
		if want[name] != found[name] {
			names = append(names, name)
		}
	}
	for name := range found {
		if _, known := want[name]; !known {
			names = append(names, name)
		}
	}
	return names
}

// requireHarmless requires that nothing that captctl ever sent could have done harm.
func requireHarmless(t *testing.T) {
	t.Helper()
	events := fixture.AuditEvents(t, shared.Sandbox, audit.Filter{User: sandbox.CaptctlUser, Verbs: audit.Writes})
	require.NotEmpty(t, events)
	created := map[string]int{}
	for _, event := range events {
		what := event.Verb + " " + event.RequestURI
		require.NotContains(t, event.Verb, "delete", what)
		require.NotContains(t, []string{"workspaces", "providerconfigs", "secrets"}, event.ObjectRef.Resource, what)
		if event.Verb == "create" && !strings.Contains(event.RequestURI, "dryRun=All") {
			created[event.ObjectRef.Resource]++
		}
	}
	for resource := range created {
		require.True(t, slices.Contains([]string{"selfsubjectaccessreviews", "selfsubjectreviews", "leases", "configmaps", "events"}, resource), "captctl created %v", created)
	}
}
