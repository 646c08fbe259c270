// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"io"

	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/providerconfig"
)

// Names of the components.
const (
	Etcd                  = "etcd"
	APIServer             = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	ClusterAPI            = "cluster-api"
	Provider              = "provider"
	Manager               = "manager"
)

// Identities without a component. Tests run programs with their kubeconfigs (see Sandbox.KubeconfigOf). They have no rights
// until a test grants some.
const (
	// Captctl is the user that runs the program of the same name.
	Captctl = binaries.Captctl
	// Reader is a second user of captctl, for tests with read-only rights.
	Reader = "reader"
)

// Namespaces of the components. They are the same as in a cluster.
const (
	ClusterAPINamespace = "capi-system"
	ManagerNamespace    = "capt-system"
	ProviderNamespace   = "crossplane-system"
)

// Users of the components: the user names of their ServiceAccounts in a cluster, so that role bindings and admission
// policies for a cluster also apply here.
const (
	ClusterAPIUser = "system:serviceaccount:capi-system:capi-manager"
	ManagerUser    = "system:serviceaccount:capt-system:capt-manager"
	ProviderUser   = "system:serviceaccount:crossplane-system:provider-terraform"
	AdminUser      = "sandbox-admin"
	CaptctlUser    = "captctl-user"
	ReaderUser     = "reader-user"
)

// Programs for users of the sandbox (see Sandbox.Binary).
const (
	Kubectl    = binaries.Kubectl
	Clusterctl = binaries.Clusterctl
	Tofu       = binaries.Tofu
)

// ProviderConfigName is the name of the provider's configurations in both scopes.
const ProviderConfigName = providerconfig.Name

// Build builds the named programs that are missing (all programs if none is named) and reports its progress on out.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	return binaries.Build(ctx, out, names...)
}
