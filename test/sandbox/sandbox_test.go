// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// Deadline and interval of waits.
const (
	wait = 3 * time.Minute
	tick = 50 * time.Millisecond
)

// start starts a sandbox that is stopped when the test ends.
func start(t *testing.T, options sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	if options.Log == nil {
		options.Log = t.Output()
	}
	return fixture.Start(t, options)
}

func newClient(t *testing.T, s *sandbox.Sandbox) client.Client {
	t.Helper()
	c, err := client.New(s.Config(), client.Options{})
	require.NoError(t, err)
	return c
}

// shared is the sandbox of the tests that change nothing in it that others see.
var shared *sandbox.Sandbox

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) != "" {
		os.Exit(m.Run())
	}
	os.Exit(fixture.Suite{Start: func(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) (err error) {
		shared, err = sandbox.Start(ctx, sandbox.Options{
			Log: os.Stderr, ClusterAPI: true, Provider: true, ProviderPod: true, AuditLog: true, Programs: []string{sandbox.Kubectl},
		})
		if err == nil {
			keep(shared)
		}
		return err
	}}.Run(m))
}

func TestStoppedSandboxLeavesNoProcessAndNoDirectory(t *testing.T) {
	t.Parallel()
	s := start(t, sandbox.Options{KubeControllerManager: true, AuditLog: true})
	requireAggregated(t, s)
	requireSeparate(t, s)
	requireAttachable(t, s)
	recorded, err := process.Load(s.Dir())
	require.NoError(t, err)
	require.Len(t, recorded.Processes, 3)
	server := eks.Server{Dir: s.Dir(), Name: "left"}
	require.NoError(t, server.Start(t.Context(), "1.36"))
	cluster, err := server.Process()
	require.NoError(t, err)

	require.NoError(t, s.Stop(t.Context()))

	for _, p := range recorded.Processes {
		require.False(t, p.Alive(), "%s still runs", p.Name)
	}
	require.False(t, cluster.Alive(), "a simulated EKS cluster still runs")
	require.NoDirExists(t, s.Dir())
}

// requireAggregated checks that the built-in roles have rights: those of Kubernetes, and those that CAPT's roles add.
func requireAggregated(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	for role, want := range map[string][]string{"view": {"configmaps", "captclusters"}, "edit": {"secrets", "workspacetemplateapplies"}, "admin": {"rolebindings", "captclusters"}} {
		got := &rbacv1.ClusterRole{}
		require.NoError(t, newClient(t, s).Get(t.Context(), client.ObjectKey{Name: role}, got))
		for _, resource := range want {
			require.True(t, slices.ContainsFunc(got.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, resource) }), "%s: %s", role, resource)
		}
	}
}

// requireSeparate checks that a write to one sandbox is not visible in another, and that the audit log has it with its user when the
// write returns.
func requireSeparate(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	since := time.Now()
	config := &corev1.ConfigMap{}
	config.Namespace, config.Name = "default", "mine"
	require.NoError(t, newClient(t, s).Create(t.Context(), config))
	require.Error(t, newClient(t, shared).Get(t.Context(), client.ObjectKeyFromObject(config), config))
	filter := audit.Filter{User: sandbox.AdminUser, Verbs: audit.Writes, Resource: "configmaps", Name: "mine", Since: since}
	for s, want := range map[*sandbox.Sandbox]int{s: 1, shared: 0} {
		require.Len(t, fixture.AuditEvents(t, s, filter), want)
	}
	filter.User = sandbox.ManagerUser
	require.Empty(t, fixture.AuditEvents(t, s, filter), "a write of another user is counted as the manager's")
}

// requireAttachable checks what another process can do with a running sandbox.
func requireAttachable(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	attached, err := sandbox.Attach(s.Dir())
	require.NoError(t, err)
	require.NoError(t, newClient(t, attached).Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}))
	require.Len(t, fixture.AuditEvents(t, attached, audit.Filter{Resource: "configmaps", Name: "mine", Verbs: audit.Writes}), 1)
	config, err := attached.ConfigOf(sandbox.Reader)
	require.NoError(t, err)
	require.Equal(t, s.Config().Host, config.Host)

	require.NoError(t, attached.StopComponent(t.Context(), sandbox.KubeControllerManager))
	require.False(t, processOf(t, s, sandbox.KubeControllerManager).Alive())
	require.NoError(t, attached.StartComponent(t.Context(), sandbox.KubeControllerManager))
	restarted := processOf(t, s, sandbox.KubeControllerManager)
	require.True(t, restarted.Alive())
	require.ErrorContains(t, attached.StopComponent(t.Context(), sandbox.Manager), "has no component manager")
	require.NoError(t, attached.Stop(t.Context()), "it belongs to another process")
	require.NoError(t, newClient(t, s).Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}))
	_, err = sandbox.Attach(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func processOf(t *testing.T, s *sandbox.Sandbox, name string) process.Recorded {
	t.Helper()
	recorded, err := process.Load(s.Dir())
	require.NoError(t, err)
	require.NotNil(t, recorded.Process(name), name)
	return *recorded.Process(name)
}
