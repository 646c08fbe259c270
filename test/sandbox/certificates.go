// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"maps"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/pki"
)

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
