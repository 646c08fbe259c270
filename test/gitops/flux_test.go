// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitops_test runs Flux, its source-controller and kustomize-controller, with a Git repository and the Kustomizations of config/gitops/flux.
// Unit tests next to these files cover the health of all states; these tests cover what Flux does with it.
package gitops_test

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// namespace of Flux.
const namespace = "flux-system"

var shared *fixture.Server

// The audit log has reads, too: they show that Flux checks the health of objects.
func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(o *sandbox.Options) { o.AuditPolicy = []byte(audit.Policy) }))
}

// flux is Flux, and the Git server that it reads repositories from.
type flux struct {
	*fixture.Server
	// repositories is the directory that the Git server serves at url.
	repositories, url string
}

func startFlux(t *testing.T, server *fixture.Server) *flux {
	t.Helper()
	names := []string{binaries.SourceController, binaries.KustomizeController}
	require.NoError(t, sandbox.Build(t.Context(), os.Stderr, names...))
	root, err := binaries.Root()
	require.NoError(t, err)
	require.NoError(t, server.API.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	// Flux's own installation binds the same role.
	require.NoError(t, manifests.Apply(t.Context(), server.API, manifests.ClusterRoleBinding("flux", "cluster-admin", sandbox.FluxUser)))
	for _, name := range names {
		source, err := binaries.Source(t.Context(), root, name)
		require.NoError(t, err)
		definitions, err := manifests.Load(filepath.Join(source, "config", "crd", "bases"))
		require.NoError(t, err)
		require.NotEmpty(t, definitions)
		require.NoError(t, manifests.Apply(t.Context(), server.API, definitions...))
		require.NoError(t, manifests.WaitEstablished(t.Context(), server.API, definitions))
	}
	f := &flux{Server: server, repositories: t.TempDir()}
	f.serveGit(t)
	storage := freeAddress(t)
	f.start(t, binaries.SourceController, "--storage-addr="+storage, "--storage-adv-addr="+storage, "--storage-path="+t.TempDir())
	// docs/gitops.md recommends the feature gate.
	f.start(t, binaries.KustomizeController, "--requeue-dependency=1s", "--feature-gates=CancelHealthCheckOnNewRevision=true")
	return f
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := process.FreePort()
	require.NoError(t, err)
	return process.Loopback(port)
}

// start starts a controller of Flux until the end of the test.
func (f *flux) start(t *testing.T, name string, args ...string) {
	t.Helper()
	health, dir := freeAddress(t), t.TempDir()
	log := filepath.Join(dir, "log")
	p, err := process.Start(process.Spec{
		Name: name, Path: f.Binary(name), Log: log,
		Args: append([]string{"--health-addr=" + health, "--metrics-addr=0"}, args...),
		// The controllers remove what they find of others in the directory of temporary files.
		Env: []string{"KUBECONFIG=" + f.KubeconfigOf(sandbox.Flux), "RUNTIME_NAMESPACE=" + namespace, "TMPDIR=" + dir},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, process.Tail(log, 40))
		}
	})
	require.NoError(t, process.WaitReady(t.Context(), http.DefaultClient, "http://"+health+"/readyz", p))
}

// serveGit serves repositories as Git servers do, since Flux reads no local directories.
func (f *flux) serveGit(t *testing.T) {
	t.Helper()
	git, err := exec.LookPath("git")
	require.NoError(t, err, "Git must be installed")
	server := httptest.NewServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + f.repositories, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1"},
	})
	t.Cleanup(server.Close)
	f.url = server.URL
}
