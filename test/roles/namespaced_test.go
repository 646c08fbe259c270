// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/sandbox"
)

// clusters is the namespace in testdata/namespaced.
const clusters = "team-a"

// limited starts a control plane whose manager is limited to one namespace.
func limited(t *testing.T) *fixture.Server {
	t.Helper()
	installation, err := filepath.Abs("testdata/namespaced")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "capt-sandbox-")
	require.NoError(t, err)
	options, err := servers.Options(servers.Exclusive, dir, os.Stderr)
	require.NoError(t, err)
	audited(&options, installation, "--namespace="+clusters, "--skip-crd-migration-phases=StorageVersionMigration") // As in config/namespaced.
	server, err := fixture.Connect(fixture.Start(t, options))
	require.NoError(t, err)
	return server
}

func TestAManagerOfOneNamespaceNeedsNoSecretsElsewhere(t *testing.T) {
	t.Parallel()
	server := limited(t)
	for _, scope := range terraform.Scopes() {
		t.Run("clusters with Workspaces of scope "+string(scope), func(t *testing.T) {
			env := &fixture.Environment{T: t, Client: server.API, Server: server, Namespace: clusters, Scope: scope}
			env.User(env.ProviderConfig())
			createAndDeleteClusters(env, env)
			require.NoError(t, env.DeleteAllOf(t.Context(), &infrav1.WorkspaceTemplate{}, client.InNamespace(clusters))) // Their scope is immutable.
			for _, name := range []string{fixture.VPCTemplate, fixture.ControlPlaneTemplate} {
				env.AwaitGone(&infrav1.WorkspaceTemplate{}, name)
			}
		})
	}
	sent := &usage{}
	sent.add(t, server.Sandbox, sandbox.ManagerUser, time.Time{})
	assert.NotZero(t, sent.used[newRight("create", "", "secrets", "")], "kubeconfigs")

	other := fixture.NewNamespace(t, server.API)
	config, err := server.ConfigOf(sandbox.Manager)
	require.NoError(t, err)
	manager, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "foreign"}}
	require.NoError(t, server.API.Create(t.Context(), secret.DeepCopy()))
	for request, err := range map[string]error{
		"get":                  manager.Get(t.Context(), client.ObjectKeyFromObject(secret), secret.DeepCopy()),
		"list":                 manager.List(t.Context(), &corev1.SecretList{}, client.InNamespace(other)),
		"list everywhere":      manager.List(t.Context(), &corev1.SecretList{}),
		"create":               manager.Create(t.Context(), secret.DeepCopy()),
		"delete":               manager.Delete(t.Context(), secret.DeepCopy()),
		"objects of CAPT":      manager.List(t.Context(), &infrav1.WorkspaceTemplateApplyList{}),
		"templates of another": manager.Get(t.Context(), client.ObjectKey{Namespace: other, Name: "any"}, &infrav1.WorkspaceTemplate{}),
	} {
		assert.True(t, apierrors.IsForbidden(err), "%s: %v", request, err)
	}
	require.NoError(t, manager.List(t.Context(), &corev1.SecretList{}, client.InNamespace(clusters)))

	// Its webhooks are called for objects of its namespace only: it may not read what others refer to.
	invalid := fixture.WorkspaceTemplateApply("unknown", "vpc", "waitForSecrets: [{name: any, namespace: elsewhere}]")
	require.NoError(t, server.API.Create(t.Context(), fixture.Decode(t, other, invalid), client.DryRunAll))
	require.ErrorContains(t, server.API.Create(t.Context(), fixture.Decode(t, clusters, invalid), client.DryRunAll), "admission webhook")
}
