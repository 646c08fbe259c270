// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// startControllers starts the clients of the API server in parallel.
func (s *Sandbox) startControllers(ctx context.Context) error {
	group, starting := errgroup.WithContext(ctx)
	for _, c := range []struct {
		wanted bool
		make   func() *component
	}{
		{s.options.KubeControllerManager, s.kubeControllerManager},
		{s.options.ClusterAPI, s.clusterAPI},
		{s.options.runProvider(), s.provider},
		{s.options.runManager(), func() *component { return s.manager() }},
	} {
		if c.wanted {
			group.Go(func() error { return s.launch(starting, c.make()) })
		}
	}
	if err := group.Wait(); err != nil || !s.options.KubeControllerManager {
		return err
	}
	return s.awaitAggregation(ctx)
}

// awaitAggregation returns when users with the roles view, edit and admin have the rights that CAPT's roles add to them.
func (s *Sandbox) awaitAggregation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return manifests.WaitAggregated(ctx, s.client)
}

// Names of ports, by component.
const (
	healthPort      = "-health"
	webhookPort     = "-webhook"
	diagnosticsPort = "-diagnostics"
)

// controller returns a component with the flags that Cluster API core and all providers have.
func (s *Sandbox) controller(name, binary string, extra ...string) *component {
	return &component{
		name:   name,
		binary: binary,
		client: http.DefaultClient,
		ports:  []string{name + healthPort, name + webhookPort, name + diagnosticsPort},
		args: func() ([]string, error) {
			health, err := s.address(name + healthPort)
			if err != nil {
				return nil, err
			}
			diagnostics, err := s.address(name + diagnosticsPort)
			if err != nil {
				return nil, err
			}
			webhook, err := s.port(name + webhookPort)
			return append([]string{
				"--kubeconfig=" + s.kubeconfigInUse(name),
				"--leader-elect=false",
				"--health-addr=" + health,
				"--diagnostics-address=" + diagnostics,
				"--insecure-diagnostics=true",
				"--webhook-port=" + strconv.Itoa(webhook),
				"--webhook-cert-dir=" + s.servingDir(name),
			}, extra...), err
		},
		health: s.healthURL("http", name+healthPort, "/readyz"),
	}
}

func (s *Sandbox) clusterAPI() *component {
	c := s.controller(ClusterAPI, binaries.ClusterAPICore, "--feature-gates=ClusterTopology=true")
	c.moved = s.installClusterAPI
	return c
}

func (s *Sandbox) manager(args ...string) *component {
	extra := append([]string{"-v=2", "--shutdown-delay-duration=0s"}, s.options.ManagerArgs...)
	c := s.controller(Manager, binaries.Manager, append(extra, args...)...)
	c.env = s.options.ManagerEnv
	c.moved = s.installCAPT
	return c
}

// reportMissingManager prints how to run the manager when SANDBOX_MANAGER=none disabled it.
func (s *Sandbox) reportMissingManager() error {
	if !s.options.Manager || s.options.runManager() {
		return nil
	}
	webhook, err := s.port(Manager + webhookPort)
	fmt.Fprintf(s.options.Log, "sandbox: SANDBOX_MANAGER=none: v1beta1 is not served, and no webhooks are called. Start a manager with: "+
		"go run ./cmd/manager --kubeconfig=%s --webhook-port=%d --webhook-cert-dir=%s\n",
		s.KubeconfigOf(Manager), webhook, s.servingDir(Manager))
	return err
}

func (s *Sandbox) provider() *component {
	return &component{
		name:   Provider,
		binary: binaries.Provider,
		client: http.DefaultClient,
		ports:  []string{Provider + healthPort},
		args: func() ([]string, error) {
			health, err := s.address(Provider + healthPort)
			return append([]string{
				"--kubeconfig=" + s.kubeconfigInUse(Provider),
				"--tofu=" + s.Binary(binaries.Tofu),
				"--work-dir=" + filepath.Join(s.dir, "workspaces"),
				"--health-addr=" + health,
			}, s.options.ProviderArgs...), err
		},
		health: s.healthURL("http", Provider+healthPort, "/readyz"),
	}
}

// MetricsURL is where a component (ClusterAPI or Manager) serves its metrics, without authentication.
func (s *Sandbox) MetricsURL(name string) (string, error) {
	address, err := s.address(name + diagnosticsPort)
	return "http://" + address + "/metrics", err
}

// WebhookAddress is where a component (ClusterAPI or Manager) serves its webhooks.
func (s *Sandbox) WebhookAddress(name string) (string, error) { return s.address(name + webhookPort) }
