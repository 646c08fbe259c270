// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// installed has the names of an installation.
type installed struct{ namespace, prefix string }

// byDefault are the names of config/default.
var byDefault = installed{namespace: "capt-system"}

// manager is the user of the manager.
func (i installed) manager() string {
	return "system:serviceaccount:" + i.namespace + ":" + i.prefix + "capt-manager"
}

// as is a client of a user.
func (env *environment) as(user string) client.Client {
	env.Helper()
	config := env.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(env, err)
	return c
}

// awaitRollout waits until the manager of an installation is ready.
func (env *environment) awaitRollout(i installed) {
	env.Helper()
	env.shell("kubectl -n " + i.namespace + " rollout status --timeout=5m deployment/" + i.prefix + "capt-manager")
}

// readyCluster creates a Cluster and waits until it is Ready.
func (env *environment) readyCluster(i installed) *fixture.Environment {
	env.Helper()
	env.awaitRollout(i)
	cluster := env.NewEnvironment(env.T, terraform.ScopeNamespaced)
	cluster.User(cluster.Everything()...)
	cluster.AwaitState(infrav1.StateReady, "")
	return cluster
}

// requireLife creates, upgrades and deletes a Cluster with the rights of an installation.
func (env *environment) requireLife(i installed) {
	env.Helper()
	cluster := env.readyCluster(i)
	cluster.Kubectl("get", "captclusters.v1beta1.infrastructure.cluster.x-k8s.io", fixture.Demo) // Converted by the manager.
	env.requireGuarded(cluster, i)

	controlPlane := &controlplanev1.CAPTControlPlane{}
	cluster.Edit(controlPlane, fixture.Demo, `{"spec":{"version":"v1.36.0"}}`)
	cluster.Eventually(func() string {
		require.True(env, cluster.Exists(controlPlane, fixture.Demo))
		return fixture.Unless(controlPlane.Status.Version == "v1.36.0" && controlPlane.Status.State == infrav1.StateReady,
			"version %s, %s", controlPlane.Status.Version, controlPlane.Status.State)
	})
	env.requireDeleted(cluster)
	env.requireSufficientRights(i)
}

// requireDeleted deletes a Cluster, which leaves nothing.
func (env *environment) requireDeleted(cluster *fixture.Environment) {
	env.Helper()
	cluster.Remove(&clusterv1.Cluster{}, fixture.Demo)
	cluster.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	cluster.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	cluster.RequireNothingLeft()
}

// requireGuarded requires that policies reject the deletion of an owned WorkspaceTemplateApply, except by the manager of this installation.
func (env *environment) requireGuarded(cluster *fixture.Environment, i installed) {
	env.Helper()
	vpc := &infrav1.WorkspaceTemplateApply{}
	require.True(env, cluster.Exists(vpc, fixture.VPC))
	refusal := fixture.EventuallyForbidden(env, func(ctx context.Context) error { return env.API.Delete(ctx, vpc.DeepCopy(), client.DryRunAll) })
	require.ErrorContains(env, refusal, "belongs to CAPTCluster demo")
	require.NoError(env, env.as(i.manager()).Delete(env.Context(), vpc.DeepCopy(), client.DryRunAll), "CAPT itself")
}

// requireSufficientRights requires that the manager of an installation, and no other, has worked, and that no request of it was rejected.
func (env *environment) requireSufficientRights(i installed) {
	env.Helper()
	deleted := 0
	for _, event := range fixture.AuditEvents(env.T, env.Sandbox, audit.Filter{User: i.manager()}) {
		require.NotEqual(env, int32(http.StatusForbidden), event.ResponseStatus.Code, "%s %s", event.Verb, event.RequestURI)
		if event.Verb == "delete" && event.ObjectRef.Resource == "workspacetemplateapplies" {
			deleted++
		}
	}
	require.Positive(env, deleted, "the manager deletes what its objects own")
	if i.manager() != sandbox.ManagerUser {
		require.Empty(env, fixture.AuditEvents(env.T, env.Sandbox, audit.Filter{User: sandbox.ManagerUser}))
	}
}

// In another namespace and, if the installer has prefixes, under other names, everything follows.
func TestInstalledElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		prefix  string
		install func(env *environment)
	}{
		"kustomize": {"my-", func(env *environment) {
			env.writeLayers()
			env.shell("kubectl apply --server-side -k overlay")
		}},
		"Helm": {"my-", func(env *environment) {
			env.shell("helm install capt out/release/capt-0.4.0.tgz --namespace elsewhere --create-namespace --set namePrefix=my-")
		}},
		"clusterctl": {"", func(env *environment) {
			env.shell("clusterctl init --infrastructure capt --control-plane capt --target-namespace elsewhere")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t)
			env.initClusterAPI()
			test.install(env)
			env.requireLife(installed{"elsewhere", test.prefix})
		})
	}
}
