// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"io"
	"os"

	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// Options selects the components of a sandbox. The zero value is etcd and a kube-apiserver with the CRDs of CAPT and of
// Terraform Workspaces.
type Options struct {
	// Dir is the sandbox's directory. Start creates it and Stop removes it, so it must be empty or not exist. The default
	// is a new temporary directory. SANDBOX_KEEP=1 keeps it, including the logs.
	Dir string
	// Log receives one line per step. The default discards them.
	Log io.Writer

	// ClusterAPI installs Cluster API and runs its core with webhooks.
	ClusterAPI bool
	// ClusterAPIDefinitions installs Cluster API's CRDs without its controllers. ClusterAPI includes it.
	ClusterAPIDefinitions bool
	// Provider runs the provider for Terraform Workspaces and creates its configurations. With SANDBOX_PROVIDER=none,
	// the process is not started, so that another one can be used.
	Provider bool
	// Manager runs CAPT's manager and installs its webhooks. SANDBOX_MANAGER=none does neither, so that a manager can run
	// in a debugger.
	Manager bool
	// KubeControllerManager runs the controllers for garbage collection, namespaces, service accounts and aggregated ClusterRoles.
	// Tests of deletion need them, and tests of users with the roles view, edit and admin, which are empty without them.
	KubeControllerManager bool

	// AuditLog makes the API server log every request (see Sandbox.AuditEvents).
	AuditLog bool
	// AuditPolicy replaces the default policy, which logs users, verbs and objects but no bodies.
	AuditPolicy []byte
	// Fsync makes etcd wait for the disk. It is slow, and only needed by tests that kill etcd.
	Fsync bool
	// NoCRDs does not install the CRDs of CAPT and of Workspaces, for tests that install other versions first.
	NoCRDs bool
	// Installation is the directory of a kustomization that installs CAPT; the default is config/default. Its only
	// ServiceAccount is the manager's.
	Installation string
	// Manifests lists more files and directories to install: CRDs, namespaces and access rules.
	Manifests []string

	// Programs are built besides those that the sandbox runs.
	Programs []string

	// Extra arguments for single components. They come last and override others.
	APIServerArgs []string
	ProviderArgs  []string
	ManagerArgs   []string
	// ManagerEnv is added to the environment of CAPT's manager, as NAME=value.
	ManagerEnv []string
}

func (o *Options) complete() {
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.AuditLog = o.AuditLog || len(o.AuditPolicy) > 0
}

// runProvider reports whether the provider's process runs. Its configurations depend on Provider only.
func (o *Options) runProvider() bool {
	return o.Provider && os.Getenv("SANDBOX_PROVIDER") != "none"
}

// runManager reports whether the manager's process runs.
func (o *Options) runManager() bool {
	return o.Manager && os.Getenv("SANDBOX_MANAGER") != "none"
}

// binaries lists what must be built. Tests build kubectl, clusterctl and the like on demand (Build).
func (o *Options) binaries() []string {
	names := append([]string{binaries.Etcd, binaries.KubeAPIServer, binaries.Sandbox}, o.Programs...)
	for name, wanted := range map[string]bool{
		binaries.KubeControllers: o.KubeControllerManager,
		binaries.ClusterAPICore:  o.ClusterAPI,
		binaries.Tofu:            o.Provider,
		binaries.Provider:        o.runProvider(),
		binaries.Manager:         o.runManager(),
	} {
		if wanted {
			names = append(names, name)
		}
	}
	return names
}

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
	// Flux is the user of Flux's controllers.
	Flux = "flux"
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
	FluxUser       = "system:serviceaccount:flux-system:kustomize-controller"
)

// Programs for users of the sandbox (see Sandbox.Binary).
const (
	Kubectl    = binaries.Kubectl
	Clusterctl = binaries.Clusterctl
	Tofu       = binaries.Tofu
)

// Build builds the named programs that are missing (all programs if none is named) and reports its progress on out.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	return binaries.Build(ctx, out, names...)
}
