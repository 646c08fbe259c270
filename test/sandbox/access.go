// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"path/filepath"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// Dir is the sandbox's folder.
func (s *Sandbox) Dir() string { return s.dir }

// Config is a copy of the administrator's configuration, without a client-side rate limit.
func (s *Sandbox) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (s *Sandbox) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// KubeconfigOf is the path of a component's kubeconfig.
func (s *Sandbox) KubeconfigOf(name string) string {
	if name == admin {
		return s.Kubeconfig()
	}
	return filepath.Join(s.dir, "kubeconfigs", name)
}

// UseKubeconfig makes a component use another kubeconfig from its next start on, for example one that leads through a
// proxy. KubeconfigOf stays the path of the one with which the component reaches the API server directly.
func (s *Sandbox) UseKubeconfig(name, path string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.kubeconfigs[name] = path
}

// kubeconfigInUse is the path of the kubeconfig with which a component is started.
func (s *Sandbox) kubeconfigInUse(name string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	if path, ok := s.kubeconfigs[name]; ok {
		return path
	}
	return s.KubeconfigOf(name)
}

// ConfigOf is the configuration of a component, for tests that run it in their own process and yet want to see who
// wrote what.
func (s *Sandbox) ConfigOf(name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigOf(name))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	config.QPS = -1
	return config, nil
}

// Binary is the path of a program. It exists if the sandbox runs it, or after Build.
func (s *Sandbox) Binary(name string) string { return s.state.Binaries[name] }

// AuditEvents returns the requests that the API server has logged and that pass the filter. Options.AuditLog must
// have been set.
func (s *Sandbox) AuditEvents(filter audit.Filter) ([]auditv1.Event, error) {
	if !s.options.AuditLog {
		return nil, fmt.Errorf("the sandbox was started without Options.AuditLog")
	}
	return audit.Read(apiserver.Config{Dir: s.pkiDir()}.AuditLog(), filter)
}

// WebhookCertDir holds the certificate (tls.crt, tls.key) with which CAPT's webhooks are served.
func (s *Sandbox) WebhookCertDir() string { return s.servingDir(Manager) }
