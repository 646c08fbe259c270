// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// stage is a control plane whose manager reaches the API server through a proxy that can kill it.
type stage struct {
	*sandbox.Sandbox
	proxy *proxy.Proxy
	// terraform is what the provider pretends to run.
	terraform *scripted.World
	// restarts is how long the manager took each time to come back.
	restarts []time.Duration
}

// operation is how long Terraform takes for what it does: long enough for the manager to report it.
const operation = 100 * time.Millisecond

func startStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{terraform: scripted.At(dir)}
	require.NoError(t, s.terraform.PlayAll(scripted.Script{
		Apply: scripted.Step{Delay: operation}, Destroy: scripted.Step{Delay: operation},
	}))
	s.Sandbox = fixture.Start(t, sandbox.Options{
		Log: t.Output(), ClusterAPI: true, Provider: true, Manager: true,
		ProviderArgs: []string{"--executor=scripted", "--script-dir=" + dir},
	})
	s.lead(t)
	return s
}

// lead makes the manager reach the API server through the proxy.
func (s *stage) lead(t *testing.T) {
	t.Helper()
	config, err := s.ConfigOf(sandbox.Manager)
	require.NoError(t, err)
	s.proxy, err = proxy.Start(config, func() { _ = s.Kill(sandbox.Manager) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.proxy.Close()) })
	kubeconfig := filepath.Join(s.Dir(), "kubeconfigs", "proxy")
	require.NoError(t, s.proxy.WriteKubeconfig(kubeconfig))
	s.UseKubeconfig(sandbox.Manager, kubeconfig)
	require.NoError(t, s.Restart(t.Context(), sandbox.Manager))
}

// revive starts the manager again after a kill.
func (s *stage) revive(t *testing.T) {
	t.Helper()
	began := time.Now()
	s.proxy.Open()
	require.NoError(t, s.StartComponent(t.Context(), sandbox.Manager))
	s.restarts = append(s.restarts, time.Since(began))
}
