// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// startControlPlane starts etcd and the API server and creates the client.
func (s *Sandbox) startControlPlane(ctx context.Context) error {
	if err := s.launch(ctx, s.etcd()); err != nil {
		return err
	}
	s.lock.Lock()
	s.state.EtcdEndpoint = "http://" + process.Loopback(s.ports[etcdPort])
	s.lock.Unlock()
	if s.options.AuditLog {
		if err := apiserver.WriteAuditPolicy(s.pkiDir(), s.options.AuditPolicy); err != nil {
			return err
		}
	}
	if err := s.launch(ctx, s.apiServer()); err != nil {
		return err
	}
	if err := s.writeKubeconfigs(s.apiServerConfig().URL()); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	s.client, err = client.New(s.config, client.Options{Scheme: scheme})
	return err
}

// Names of ports. Those of controllers begin with the name of the component.
const (
	etcdPort        = "etcd-client"
	etcdPeerPort    = "etcd-peer"
	apiServerPort   = "apiserver"
	healthPort      = "-health"
	webhookPort     = "-webhook"
	diagnosticsPort = "-diagnostics"
)

func portNames() []string {
	names := []string{etcdPort, etcdPeerPort, apiServerPort}
	for _, component := range []string{KubeControllerManager, ClusterAPI, Provider, Manager} {
		names = append(names, component+healthPort, component+webhookPort, component+diagnosticsPort)
	}
	return names
}

func (s *Sandbox) etcd() *component {
	return &component{
		name: Etcd, binary: binaries.Etcd, ports: []string{etcdPort, etcdPeerPort}, health: s.healthURL("http", etcdPort, "/health"),
		args: func() []string {
			client, peer := s.address(etcdPort), s.address(etcdPeerPort)
			args := []string{
				"--name=sandbox",
				"--data-dir=" + filepath.Join(s.dir, "etcd"),
				"--listen-client-urls=http://" + client,
				"--advertise-client-urls=http://" + client,
				"--listen-peer-urls=http://" + peer,
				"--initial-advertise-peer-urls=http://" + peer,
				"--initial-cluster=sandbox=http://" + peer,
				"--log-level=warn",
			}
			if !s.options.Fsync {
				args = append(args, "--unsafe-no-fsync")
			}
			return args
		},
	}
}

func (s *Sandbox) apiServerConfig() apiserver.Config {
	return apiserver.Config{
		Port: s.port(apiServerPort), EtcdEndpoint: s.state.EtcdEndpoint, EtcdPrefix: "/registry", Dir: s.pkiDir(),
		Audit: s.options.AuditLog, Extra: s.options.APIServerArgs,
	}
}

func (s *Sandbox) apiServer() *component {
	return &component{
		name: APIServer, binary: binaries.KubeAPIServer, ports: []string{apiServerPort}, health: s.healthURL("https", apiServerPort, "/readyz"),
		args: func() []string { return s.apiServerConfig().Args() },
	}
}

// healthURL builds the URL at each start, because the port may have changed.
func (s *Sandbox) healthURL(scheme, port, path string) func() string {
	return func() string { return scheme + "://" + s.address(port) + path }
}

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
		{s.options.runManager(), func() *component { return s.manager(s.installCAPT) }},
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

// kubeControllerManager runs only some controllers of the real one (see test/sandbox/binaries/kubernetes/controllers).
func (s *Sandbox) kubeControllerManager() *component {
	const name = KubeControllerManager
	return &component{
		name: name, binary: binaries.KubeControllers, ports: []string{name + healthPort}, health: s.healthURL("http", name+healthPort, "/healthz"),
		args: func() []string {
			return []string{"--kubeconfig=" + s.kubeconfigInUse(name), "--health-addr=" + s.address(name+healthPort)}
		},
	}
}

// controller returns a component with the flags that Cluster API core and all providers have.
func (s *Sandbox) controller(name, binary string, moved func(context.Context) error, extra ...string) *component {
	return &component{
		name: name, binary: binary, moved: moved,
		ports:  []string{name + healthPort, name + webhookPort, name + diagnosticsPort},
		health: s.healthURL("http", name+healthPort, "/readyz"),
		args: func() []string {
			return append([]string{
				"--kubeconfig=" + s.kubeconfigInUse(name),
				"--leader-elect=false",
				"--health-addr=" + s.address(name+healthPort),
				"--diagnostics-address=" + s.address(name+diagnosticsPort),
				"--insecure-diagnostics=true",
				"--webhook-port=" + strconv.Itoa(s.port(name+webhookPort)),
				"--webhook-cert-dir=" + s.servingDir(name),
			}, extra...)
		},
	}
}

func (s *Sandbox) clusterAPI() *component {
	return s.controller(ClusterAPI, binaries.ClusterAPICore, s.installClusterAPI, "--feature-gates=ClusterTopology=true")
}

func (s *Sandbox) manager(moved func(context.Context) error, args ...string) *component {
	extra := append([]string{"-v=2", "--shutdown-delay-duration=0s"}, s.options.ManagerArgs...)
	c := s.controller(Manager, binaries.Manager, moved, append(extra, args...)...)
	c.env = s.options.ManagerEnv
	return c
}

// reportMissingManager prints how to run the manager when SANDBOX_MANAGER=none disabled it.
func (s *Sandbox) reportMissingManager() {
	if s.options.Manager && !s.options.runManager() {
		fmt.Fprintf(s.options.Log, "sandbox: SANDBOX_MANAGER=none: v1beta1 is not served, and no webhooks are called. Start a manager with: "+
			"go run ./cmd/manager --kubeconfig=%s --webhook-port=%d --webhook-cert-dir=%s\n",
			s.KubeconfigOf(Manager), s.port(Manager+webhookPort), s.servingDir(Manager))
	}
}

func (s *Sandbox) provider() *component {
	return &component{
		name: Provider, binary: binaries.Provider, ports: []string{Provider + healthPort}, health: s.healthURL("http", Provider+healthPort, "/readyz"),
		args: func() []string {
			return append([]string{
				"--kubeconfig=" + s.kubeconfigInUse(Provider),
				"--tofu=" + s.Binary(binaries.Tofu),
				"--work-dir=" + filepath.Join(s.dir, "workspaces"),
				"--health-addr=" + s.address(Provider+healthPort),
			}, s.options.ProviderArgs...)
		},
	}
}

// MetricsURL is where a component (ClusterAPI or Manager) serves its metrics, without authentication.
func (s *Sandbox) MetricsURL(name string) string {
	return "http://" + s.address(name+diagnosticsPort) + "/metrics"
}

// WebhookAddress is where a component (ClusterAPI or Manager) serves its webhooks.
func (s *Sandbox) WebhookAddress(name string) string { return s.address(name + webhookPort) }
