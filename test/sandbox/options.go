// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
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
	// KubeControllerManager runs the controllers for garbage collection, namespaces and service accounts. Tests of
	// deletion need them.
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
	APIServerArgs  []string
	ClusterAPIArgs []string
	ProviderArgs   []string
	ManagerArgs    []string
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
