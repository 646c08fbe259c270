// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/pki"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Dir is the sandbox's directory.
func (s *Sandbox) Dir() string { return s.dir }

// Config returns the administrator's client configuration, without a client-side rate limit.
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

// EnvFile is the path of a shell script that sets KUBECONFIG and PATH for the sandbox in a directory.
func EnvFile(dir string) string { return filepath.Join(dir, "env") }

// writeEnvFile writes the script that EnvFile names.
func (s *Sandbox) writeEnvFile() error {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	path := ""
	for _, program := range []string{Kubectl, Clusterctl, Captctl} {
		path += quote(filepath.Dir(s.Binary(program))) + ":"
	}
	script := "export KUBECONFIG=" + quote(s.Kubeconfig()) + "\n" +
		"export KUBECACHEDIR=" + quote(filepath.Join(s.dir, "kube-cache")) + " # Another sandbox may have had the same address.\n" +
		"export PATH=" + path + "\"$PATH\"\n" +
		"export CLUSTERCTL_DISABLE_VERSIONCHECK=true # It would look for a newer release on the internet.\n"
	return os.WriteFile(EnvFile(s.dir), []byte(script), 0o600)
}

// UseKubeconfig makes a component use another kubeconfig from its next start on, for example one that points to a proxy.
// KubeconfigOf still returns the path of the kubeconfig that points to the API server.
func (s *Sandbox) UseKubeconfig(name, path string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.kubeconfigs[name] = path
}

// kubeconfigInUse is the path of the kubeconfig that a component is started with.
func (s *Sandbox) kubeconfigInUse(name string) string {
	s.lock.Lock()
	defer s.lock.Unlock()
	if path, ok := s.kubeconfigs[name]; ok {
		return path
	}
	return s.KubeconfigOf(name)
}

// ConfigOf returns the client configuration of a component. Tests that run the component in their own process use it, so
// that the audit log shows the component's user.
func (s *Sandbox) ConfigOf(name string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigOf(name))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	config.QPS = -1
	return config, nil
}

// Binary is the path of a program. The file exists if the sandbox runs the program, or after Build.
func (s *Sandbox) Binary(name string) string { return s.state.Binaries[name] }

// AuditEvents returns the logged requests that match the filter. It requires Options.AuditLog.
func (s *Sandbox) AuditEvents(filter audit.Filter) ([]auditv1.Event, error) {
	if !s.options.AuditLog {
		return nil, fmt.Errorf("the audit log is disabled: set Options.AuditLog")
	}
	return audit.Read(apiserver.Config{Dir: s.pkiDir()}.AuditLog(), filter)
}

// WebhookCertDir holds the serving certificate (tls.crt, tls.key) of CAPT's webhooks.
func (s *Sandbox) WebhookCertDir() string { return s.servingDir(Manager) }

// Attach returns the sandbox that another process runs in a directory. It can be used like one of this process, except that
// Stop leaves it running, that nothing can be installed in it, and that StartComponent starts everything that was stopped.
func Attach(dir string) (*Sandbox, error) {
	recorded, err := state.Load(dir)
	if err != nil {
		return nil, err
	}
	if !recorded.Ready {
		return nil, fmt.Errorf("the sandbox in %s has not finished starting", dir)
	}
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{
		options:  Options{Log: io.Discard, AuditLog: recorded.AuditLog, Installation: recorded.Installation},
		root:     root,
		dir:      dir,
		state:    *recorded,
		ports:    recorded.Ports,
		attached: true,
	}
	s.config, err = s.ConfigOf(admin)
	return s, err
}

type identity struct {
	user   string
	groups []string
}

// groupsOf returns the groups of the ServiceAccounts of a namespace.
func groupsOf(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// identities are the users of the components.
var identities = map[string]identity{
	admin:                 {AdminUser, []string{"system:masters"}},
	KubeControllerManager: {"system:kube-controller-manager", nil},
	ClusterAPI:            {ClusterAPIUser, groupsOf(ClusterAPINamespace)},
	Manager:               {ManagerUser, groupsOf(ManagerNamespace)},
	Provider:              {ProviderUser, groupsOf(ProviderNamespace)},
	Captctl:               {CaptctlUser, nil},
	Reader:                {ReaderUser, nil},
	Flux:                  {FluxUser, groupsOf("flux-system")},
}

// admin is the identity of the administrator.
const admin = "admin"

func (s *Sandbox) pkiDir() string { return filepath.Join(s.dir, "pki") }

// servingDir holds the serving certificate of a component, in the files that controller-runtime expects.
func (s *Sandbox) servingDir(name string) string { return filepath.Join(s.pkiDir(), name) }

// createCertificates creates the authority and all serving certificates. Client certificates follow with the
// kubeconfigs, once the API server's port is known.
func (s *Sandbox) createCertificates(context.Context) error {
	authority, err := pki.NewAuthority("sandbox")
	if err != nil {
		return err
	}
	s.authority = authority
	if err := os.MkdirAll(s.pkiDir(), 0o700); err != nil {
		return err
	}
	if err := apiserver.WritePKI(s.pkiDir(), authority); err != nil {
		return err
	}
	for _, name := range []string{ClusterAPI, Manager} {
		serving, err := authority.Server(name)
		if err != nil {
			return err
		}
		if err := serving.Write(s.servingDir(name), "tls"); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes a kubeconfig for every identity and sets the configuration of the sandbox's own client.
func (s *Sandbox) writeKubeconfigs(server string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "kubeconfigs"), 0o700); err != nil {
		return err
	}
	identities := maps.Clone(identities)
	if s.options.Installation != "" {
		user, namespace, err := s.managerUser()
		if err != nil {
			return err
		}
		identities[Manager] = identity{user, groupsOf(namespace)}
	}
	for name, identity := range identities {
		certificate, err := s.authority.Client(identity.user, identity.groups...)
		if err != nil {
			return err
		}
		kubeconfig, err := pki.Kubeconfig("sandbox", server, s.authority.Bundle(), identity.user, certificate)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.KubeconfigOf(name), kubeconfig, 0o600); err != nil {
			return err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return err
	}
	// The API server has priority and fairness; a client-side limit only slows down tests.
	config.QPS = -1
	s.config = config
	return nil
}
