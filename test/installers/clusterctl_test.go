// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
)

const (
	clusterctlInit     = "clusterctl init --infrastructure capt --control-plane capt"
	clusterctlGenerate = "clusterctl generate cluster demo"
	team               = "team"
)

// configureClusterctl makes the local repository of docs/install-reference.md, and adds those of Cluster API and cert-manager, which clusterctl would
// otherwise download.
func (env *environment) configureClusterctl() {
	env.Helper()
	repository, _, found := strings.Cut(documented(env.T, clusterctlInit), clusterctlInit)
	require.True(env, found)
	config := filepath.Join(env.dir, "home", ".config", "cluster-api")
	require.NoError(env, os.MkdirAll(config, 0o700))
	env.shell(repository)
	env.shell("cat " + filepath.Join(prepared, "clusterctl.yaml") + " >> " + filepath.Join(config, "clusterctl.yaml"))
}

// initClusterAPI installs Cluster API without CAPT.
func (env *environment) initClusterAPI() {
	env.Helper()
	env.configureClusterctl()
	env.shell("clusterctl init --core cluster-api --bootstrap - --control-plane -")
	env.shell("kubectl -n capi-system rollout status --timeout=5m deployment/capi-controller-manager")
}

func TestClusterctlInstallsUpgradesAndRemoves(t *testing.T) {
	env := newEnvironment(t)
	env.configureClusterctl()
	env.shell(clusterctlInit)
	env.shell("kubectl -n capi-system rollout status --timeout=5m deployment/capi-controller-manager")
	env.requireLife(byDefault)
	cluster := env.readyCluster(byDefault)
	before := workspaces(cluster)

	env.shell(`for provider in infrastructure-capt control-plane-capt; do
		cp -R "$HOME/capt-releases/$provider/v0.4.0" "$HOME/capt-releases/$provider/v0.4.1"
		sed -i.old 's/capt-manager:v0.4.0/capt-manager:v0.4.1/' "$HOME/capt-releases/$provider/v0.4.1/infrastructure-components.yaml"
	done`)
	require.Contains(t, env.shell("clusterctl upgrade plan"), "v0.4.1")
	env.shell("clusterctl upgrade apply --infrastructure capt-system/capt:v0.4.1 --control-plane capt-system/capt:v0.4.1")
	env.awaitRollout(byDefault)
	require.Equal(t, "registry.example.org/capt-manager:v0.4.1", env.image())
	env.requireGuarded(cluster, byDefault)
	require.Equal(t, before, workspaces(cluster), "nothing was written to them")

	definitions := env.definitions()
	require.Len(t, definitions, 6)
	env.shell("clusterctl delete --infrastructure capt --control-plane capt")
	require.Equal(t, definitions, env.definitions())
	require.Equal(t, before, workspaces(cluster))
	require.Contains(t, env.shell("kubectl get namespaces,clusterroles,clusterrolebindings -o name"), "clusterrole.rbac.authorization.k8s.io/capt-manager-role\n")
	require.NotContains(t, env.shell("kubectl get validatingadmissionpolicies,validatingwebhookconfigurations,mutatingwebhookconfigurations -o name"), "capt-")
	require.Empty(t, env.shell("kubectl -n capt-system get deployments,serviceaccounts,services -o name -l app.kubernetes.io/name=capt"))

	env.shell(clusterctlInit)
	env.awaitRollout(byDefault)
	require.Equal(t, before, workspaces(cluster), "nothing was written to them")
	env.requireDeleted(cluster)
	env.shell("clusterctl delete --all")
	require.Equal(t, definitions, env.definitions())
}

// The templates of a release are accepted by all webhooks, and what they create can be deleted. Terraform's outputs are made up here, so the endpoint
// is the last that a control plane gets.
func TestClusterctlGeneratesClusters(t *testing.T) {
	env := newEnvironment(t)
	env.configureClusterctl()
	env.shell(clusterctlInit)
	env.shell("kubectl -n capi-system rollout status --timeout=5m deployment/capi-controller-manager")
	env.awaitRollout(byDefault)
	env.shell("kubectl create namespace " + team + `
kubectl apply -f - <<< '{apiVersion: tf.m.upbound.io/v1beta1, kind: ClusterProviderConfig, metadata: {name: aws}, spec: {pluginCache: false}}'`)

	generate := documented(t, clusterctlGenerate)
	env.shell(generate)
	for _, flavor := range []string{"fargate", "clusterclass"} {
		env.shell(strings.Replace(generate, clusterctlGenerate, "clusterctl generate cluster of-"+flavor+" --flavor "+flavor, 1))
	}
	list := &controlplanev1.CAPTControlPlaneList{}
	fixture.Eventually(t, 300*time.Millisecond, func() string {
		require.NoError(t, env.API.List(t.Context(), list, client.InNamespace(team)))
		for _, item := range list.Items {
			if item.Spec.ControlPlaneEndpoint.Host == "" {
				return item.Name + " has no endpoint"
			}
		}
		return fixture.Unless(len(list.Items) == 3, "%d control planes", len(list.Items))
	})
	env.shell("kubectl -n " + team + " delete --timeout=5m clusters --all")
	cloud, err := env.Scripts.Cloud()
	require.NoError(t, err)
	require.Empty(t, cloud)
}
