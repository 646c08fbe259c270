// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"io"
	"os"

	"github.com/capt-provider/capt/test/sandbox/binaries"
)

// Options says what a sandbox consists of. The zero value is etcd and a kube-apiserver that serves the definitions of
// CAPT and of Terraform workspaces.
type Options struct {
	// Dir is the sandbox's folder. Start makes it and Stop removes it, so it must not exist or be empty. The default
	// is a new one among the temporary files. SANDBOX_KEEP=1 keeps it, for a look at the logs.
	Dir string
	// Log gets a line for every step. The default is to be silent.
	Log io.Writer

	// ClusterAPI installs Cluster API and runs its core with webhooks.
	ClusterAPI bool
	// ClusterAPIDefinitions installs Cluster API's definitions, without anybody who works on the objects. ClusterAPI includes it.
	ClusterAPIDefinitions bool
	// Provider runs the provider for Terraform workspaces and makes its configurations. SANDBOX_PROVIDER=none leaves
	// the process out, to put another in its place.
	Provider bool
	// Manager runs CAPT's manager and installs its webhooks. SANDBOX_MANAGER=none leaves both out, to run one from a
	// debugger.
	Manager bool
	// KubeControllerManager runs the controllers for garbage collection, namespaces and service accounts. Tests of
	// deletion need them.
	KubeControllerManager bool

	// AuditLog makes the API server log every request (see Sandbox.AuditEvents).
	AuditLog bool
	// AuditPolicy takes the place of the default policy, which logs who did what but no bodies.
	AuditPolicy []byte
	// Fsync makes etcd wait for the disk. It is slow, and needed only where etcd is killed.
	Fsync bool
	// NoCRDs leaves the definitions of CAPT and of workspaces out, for tests that install others first.
	NoCRDs bool
	// Installation is the folder of a kustomization that installs CAPT; the default is config/default. The manager is the one
	// ServiceAccount in it.
	Installation string
	// Manifests lists more files and folders to install: definitions, namespaces and access rules.
	Manifests []string

	// Extra arguments for single components. They come last and win.
	APIServerArgs  []string
	ClusterAPIArgs []string
	ProviderArgs   []string
	ManagerArgs    []string
	// ManagerEnv is added to the environment of CAPT's manager: NAME=value.
	ManagerEnv []string
}

func (o *Options) complete() {
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.AuditLog = o.AuditLog || len(o.AuditPolicy) > 0
}

// runProvider says whether the provider's process runs. Its configurations are made in any case when it is wanted.
func (o *Options) runProvider() bool {
	return o.Provider && os.Getenv("SANDBOX_PROVIDER") != "none"
}

// runManager says whether the manager's process runs.
func (o *Options) runManager() bool {
	return o.Manager && os.Getenv("SANDBOX_MANAGER") != "none"
}

// binaries lists what must be built. kubectl, clusterctl and the like are built on demand (Build), not for every test.
func (o *Options) binaries() []string {
	names := []string{binaries.Etcd, binaries.KubeAPIServer, binaries.Sandbox}
	for name, wanted := range map[string]bool{
		binaries.KubeControllerManager: o.KubeControllerManager,
		binaries.ClusterAPICore:        o.ClusterAPI,
		binaries.Tofu:                  o.Provider,
		binaries.Provider:              o.runProvider(),
		binaries.Manager:               o.runManager(),
	} {
		if wanted {
			names = append(names, name)
		}
	}
	return names
}
