// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package installers_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const helmInstall = "helm install capt out/release/capt-0.4.0.tgz --namespace capt-system --create-namespace\nkubectl label"

func TestHelmInstallsUpgradesAndRemoves(t *testing.T) {
	env := newEnvironment(t)
	env.initClusterAPI()
	env.requireTemplateIsInstallYAML()
	env.runDocumented(helmInstall)
	cluster := env.readyCluster(byDefault)
	before := workspaces(cluster)

	env.shell(`helm upgrade capt out/release/capt-0.4.0.tgz --namespace capt-system --reuse-values --set replicas=3 --set-json 'extraArgs=["--concurrency=7"]'`)
	env.awaitRollout(byDefault)
	require.Equal(t, `3 ["--leader-elect","--concurrency=7"]`, env.shell(
		"kubectl -n capt-system get deployment capt-manager -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].args}'"))
	env.requireGuarded(cluster, byDefault)
	cluster.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, `{"metadata":{"annotations":{"edited":"true"}}}`) // Webhooks are called.

	definitions := env.definitions()
	require.Len(t, definitions, 6)
	env.shell("helm uninstall capt --namespace capt-system")
	require.Equal(t, definitions, env.definitions())
	require.Equal(t, before, workspaces(cluster))
	require.True(t, cluster.Exists(&controlplanev1.CAPTControlPlane{}, fixture.Demo))
	require.Empty(t, env.shell("kubectl get deployments,serviceaccounts,services -n capt-system -o name -l app.kubernetes.io/name=capt"))
	require.NotContains(t, env.shell("kubectl get validatingadmissionpolicies,validatingwebhookconfigurations,clusterroles -o name"), "capt-")

	env.runDocumented(helmInstall)
	env.awaitRollout(byDefault)
	require.Equal(t, before, workspaces(cluster), "nothing was written to them")
	env.requireDeleted(cluster)
}

// workspaces returns the Workspaces of a Cluster by name, with their versions.
func workspaces(cluster *fixture.Environment) map[string]string {
	cluster.Helper()
	found := map[string]string{}
	for _, name := range []string{fixture.VPC, fixture.ControlPlane} {
		workspace := cluster.Workspace(name)
		require.NotNil(cluster, workspace)
		found[name] = string(workspace.GetUID()) + " " + workspace.GetResourceVersion()
	}
	return found
}

// requireTemplateIsInstallYAML requires that helm template prints the objects of install.yaml, except that Helm keeps CRDs and creates the Namespace.
func (env *environment) requireTemplateIsInstallYAML() {
	env.Helper()
	printed, err := manifests.Decode([]byte(env.shell("helm template capt out/release/capt-0.4.0.tgz --namespace capt-system")))
	require.NoError(env, err)
	applied, err := manifests.Load(filepath.Join(env.dir, "out", "release", "install.yaml"))
	require.NoError(env, err)
	want := map[string]*unstructured.Unstructured{}
	for _, object := range applied {
		if object.GetKind() == "Namespace" {
			continue
		}
		if object.GetKind() == "CustomResourceDefinition" {
			require.NoError(env, unstructured.SetNestedField(object.Object, "keep", "metadata", "annotations", "helm.sh/resource-policy"))
		}
		want[object.GetKind()+"/"+object.GetName()] = object
	}
	require.Len(env, printed, len(want))
	for _, object := range printed {
		require.Equal(env, want[object.GetKind()+"/"+object.GetName()], object)
	}
}

func TestHelmWithoutCertManager(t *testing.T) {
	env := newEnvironment(t)
	env.initClusterAPI()
	require.NoError(t, env.node.createCertificate(t.Context(), "capt-system", "my-certificate", "capt-webhook-service.capt-system.svc"))
	require.NoError(t, os.WriteFile(filepath.Join(env.dir, "ca.crt"), env.node.authority.Bundle(), 0o600))
	env.runDocumented("--set certificates.certManager=false")
	env.requireLife(byDefault)
}
