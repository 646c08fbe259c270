// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/binaries"
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
