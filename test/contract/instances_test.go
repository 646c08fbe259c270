// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

const providerConfig = `
apiVersion: tf.m.upbound.io/v1beta1
kind: ProviderConfig
metadata: {name: tenant}
spec: {pluginCache: false, configuration: "# credentials of %s"}
`

// Credentials are in the configuration of the provider. Each tenant has one in a namespace of its own, and what CAPT makes
// there uses it.
func tenantsHaveTheirOwnCredentials(t *testing.T) {
	for _, tenant := range []string{"one", "two"} {
		t.Run(tenant, func(t *testing.T) {
			t.Parallel()
			env := newEnvironment(t)
			env.apply(fmt.Sprintf(providerConfig, tenant), strings.Replace(vpcTemplate(), "{kind: ClusterProviderConfig, name: sandbox}", "{kind: ProviderConfig, name: tenant}", 1),
				newVPC("mine"), infrastructureOnly("mine"))
			env.awaitTrue(&infrav1.CAPTCluster{}, "mine", infrav1.ReadyCondition)
			ref, _, err := unstructured.NestedStringMap(env.Workspace("mine-vpc").Object, "spec", "providerConfigRef")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"kind": "ProviderConfig", "name": "tenant"}, ref)
		})
	}
}

// second is the watch filter of another instance of the manager.
const second = "second"

// instancesShareACluster holds the manager to a label and a namespace. The one that all tests share is an instance of its
// own: it takes what has its label, and nothing else. documents make a Cluster with a number of Workspaces, apply is the end of the name of
// what CAPT makes for the object.
func instancesShareACluster(t *testing.T, object engine.Object, templates []string, apply string, workspaces int, documents func(name string) []string) {
	env, other := newEnvironment(t), newEnvironment(t)
	give := func(env *environment, name, filter string) {
		for _, document := range documents(name) {
			env.apply(strings.Replace(document, "metadata: {", fmt.Sprintf("metadata: {labels: {%s: %s}, ", clusterv1.WatchLabel, filter), 1))
		}
	}
	env.apply(templates...)
	other.apply(templates...)
	give(other, "elsewhere", second)
	give(env, "nobodys", "third")
	give(env, "seconds", second)
	give(env, "firsts", instance)

	env.awaitTrue(object, "firsts", infrav1.ReadyCondition)
	env.read(object, "seconds")
	require.Empty(t, object.GetConditions(), "it is not for the first instance")

	shared.StartInstance(t, "second manager", "--namespace="+env.Namespace, "--watch-filter="+second)
	env.awaitTrue(object, "seconds", infrav1.ReadyCondition)
	made := &infrav1.WorkspaceTemplateApply{}
	env.read(made, "seconds"+apply)
	require.Equal(t, second, made.Labels[clusterv1.WatchLabel], "the label of the owner is on what it owns")

	env.read(object, "nobodys")
	require.Empty(t, object.GetConditions(), "no manager has this label")
	require.Empty(t, object.GetFinalizers())
	other.read(object, "elsewhere")
	require.Empty(t, object.GetConditions(), "no manager watches this namespace for this label")
	require.Empty(t, object.GetFinalizers())
	require.Len(t, env.workspaces(), 2*workspaces)
	require.Empty(t, other.workspaces())
}

func instancesShareInfrastructure(t *testing.T) {
	instancesShareACluster(t, &infrav1.CAPTCluster{}, []string{vpcTemplate()}, "-vpc", 1, func(name string) []string {
		return []string{newVPC(name), infrastructureOnly(name)}
	})
}

func instancesShareControlPlanes(t *testing.T) {
	instancesShareACluster(t, &controlplanev1.CAPTControlPlane{}, []string{controlPlaneTemplate()}, "-eks-controlplane-apply", 1, func(name string) []string {
		return []string{existingVPC(name), cluster(name), eks(name, "v1.34.0")}
	})
}
