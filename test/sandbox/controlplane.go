// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"net/http"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// startControlPlane starts etcd and the API server and creates the client.
func (s *Sandbox) startControlPlane(ctx context.Context) error {
	if err := s.launch(ctx, s.etcd()); err != nil {
		return err
	}
	endpoint, err := s.address("etcd-client")
	if err != nil {
		return err
	}
	s.lock.Lock()
	s.state.EtcdEndpoint = "http://" + endpoint
	s.lock.Unlock()
	if s.options.AuditLog {
		if err := apiserver.WriteAuditPolicy(s.pkiDir(), s.options.AuditPolicy); err != nil {
			return err
		}
	}
	if err := s.launch(ctx, s.apiServer()); err != nil {
		return err
	}
	config, err := s.apiServerConfig()
	if err != nil {
		return err
	}
	if err := s.writeKubeconfigs(config.URL()); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	s.client, err = client.New(s.config, client.Options{Scheme: scheme})
	return err
}

func (s *Sandbox) etcd() *component {
	return &component{
		name:   Etcd,
		binary: binaries.Etcd,
		client: http.DefaultClient,
		ports:  []string{"etcd-client", "etcd-peer"},
		args: func() ([]string, error) {
			client, err := s.address("etcd-client")
			if err != nil {
				return nil, err
			}
			peer, err := s.address("etcd-peer")
			if err != nil {
				return nil, err
			}
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
			return args, nil
		},
		health: s.healthURL("http", "etcd-client", "/health"),
	}
}

func (s *Sandbox) apiServerConfig() (apiserver.Config, error) {
	port, err := s.port("apiserver")
	if err != nil {
		return apiserver.Config{}, err
	}
	return apiserver.Config{
		Port:         port,
		EtcdEndpoint: s.state.EtcdEndpoint,
		EtcdPrefix:   "/registry",
		Dir:          s.pkiDir(),
		Audit:        s.options.AuditLog,
		Extra:        s.options.APIServerArgs,
	}, nil
}

func (s *Sandbox) apiServer() *component {
	return &component{
		name:   APIServer,
		binary: binaries.KubeAPIServer,
		client: apiserver.Client(s.authority.Bundle()),
		ports:  []string{"apiserver"},
		args: func() ([]string, error) {
			config, err := s.apiServerConfig()
			return config.Args(), err
		},
		health: s.healthURL("https", "apiserver", "/readyz"),
	}
}

// kubeControllerManager runs only some controllers of the real one (see test/sandbox/binaries/kubernetes/controllers).
func (s *Sandbox) kubeControllerManager() *component {
	return &component{
		name:   KubeControllerManager,
		binary: binaries.KubeControllers,
		client: http.DefaultClient,
		ports:  []string{KubeControllerManager + healthPort},
		args: func() ([]string, error) {
			health, err := s.address(KubeControllerManager + healthPort)
			return []string{"--kubeconfig=" + s.kubeconfigInUse(KubeControllerManager), "--health-addr=" + health}, err
		},
		health: s.healthURL("http", KubeControllerManager+healthPort, "/healthz"),
	}
}

// healthURL builds the URL at each start, because the port may have changed.
func (s *Sandbox) healthURL(scheme, port, path string) func() (string, error) {
	return func() (string, error) {
		address, err := s.address(port)
		return scheme + "://" + address + path, err
	}
}
