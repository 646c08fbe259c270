// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"io"

	"github.com/capt-provider/capt/test/sandbox/binaries"
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

// Identities that run no component: tests run programs with their kubeconfigs (see Sandbox.KubeconfigOf). They may do nothing
// until a test gives them access.
const (
	// Captctl is who runs captctl, which has the same name.
	Captctl = binaries.Captctl
	// Reader is somebody else who does, and may write nothing.
	Reader = "reader"
)

// Namespaces of the components, as their installation in a cluster has them.
const (
	ClusterAPINamespace = "capi-system"
	ManagerNamespace    = "capt-system"
	ProviderNamespace   = "crossplane-system"
)

// Users as which the components talk to the API server: the names their ServiceAccounts have in a cluster, so that
// role bindings and admission policies made for a cluster hold here too.
const (
	ClusterAPIUser = "system:serviceaccount:capi-system:capi-manager"
	ManagerUser    = "system:serviceaccount:capt-system:capt-manager"
	ProviderUser   = "system:serviceaccount:crossplane-system:provider-terraform"
	AdminUser      = "sandbox-admin"
	CaptctlUser    = "captctl-user"
	ReaderUser     = "reader-user"
)

// Programs that a user of the sandbox may want (see Sandbox.Binary).
const (
	Kubectl    = binaries.Kubectl
	Clusterctl = binaries.Clusterctl
	Tofu       = binaries.Tofu
)

// Build builds what is missing of the named programs, or of all, and tells on out how it goes.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	return binaries.Build(ctx, out, names...)
}
