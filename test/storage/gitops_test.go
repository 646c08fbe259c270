/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package storage_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage"
)

// newerManifests say the same as olderManifests, in v1beta2.
var newerManifests = []string{`
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: from-git, labels: {example.com/team: pilots}}
spec:
  version: "1.30"
  region: eu-west-3
  workspaceTemplateRef: {name: bridge, namespace: quay}
  endpointAccess: {public: true, publicCIDRs: [198.51.100.0/24, 203.0.113.7/32]}
  addons: [{name: coredns, version: v1.11.1-eksbuild.8}, {name: vpc-cni}]
  timeouts: {controlPlaneSeconds: 1800}
  additionalTags: {team: pilots, example.com/a.b: c}`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: from-git}
spec:
  region: eu-west-3
  vpc: {template: {ref: {name: dock, namespace: quay}, name: basin, deletionPolicy: Retain}}`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata:
  name: from-git
  ownerReferences: [{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlane, name: from-git, uid: 5f0c0a4e-7d3b-4e57-a5a1-0d2c6a9b1c07}]
spec:
  templateRef: {name: bridge, namespace: quay}
  variables: {cluster_name: from-git, region: eu-west-3}
  waitForWorkspaces: [{name: from-git-vpc, namespace: quay}]
  waitForSecrets: [{name: a, namespace: quay}]`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: from-git}
spec:
  template:
    metadata: {description: A network, tags: {area: network}}
    spec:
      providerConfigRef: {name: aws}
      forProvider:
        source: Inline
        module: output "x" { value = 1 }
        vars: [{key: a, value: b}]
        varmap: {sizes: [1, 2], nested: {a: b}}`}

// dropped is a field that disappears from the manifests, by kind and version, and where that shows in v1beta2.
var dropped = map[string]map[string]struct{ manifest, shows []string }{
	"CAPTControlPlane": {
		migrate.LegacyVersion: {[]string{"spec", "controlPlaneConfig", "addons"}, []string{"spec", "addons"}},
		migrate.Version:       {[]string{"spec", "additionalTags", "team"}, []string{"spec", "additionalTags", "team"}},
	},
	"CAPTCluster": {
		migrate.LegacyVersion: {[]string{"spec", "vpcConfig"}, []string{"spec", "vpc", "template", "name"}},
		migrate.Version:       {[]string{"spec", "vpc", "template", "ref", "namespace"}, []string{"spec", "vpc", "template", "ref", "namespace"}},
	},
	"WorkspaceTemplateApply": {
		migrate.LegacyVersion: {[]string{"spec", "variables", "region"}, []string{"spec", "variables", "region"}},
		migrate.Version:       {[]string{"spec", "waitForSecrets"}, []string{"spec", "waitForSecrets"}},
	},
	"WorkspaceTemplate": {
		migrate.LegacyVersion: {[]string{"spec", "template", "metadata", "tags"}, []string{"spec", "template", "metadata", "tags"}},
		migrate.Version: {
			[]string{"spec", "template", "spec", "forProvider", "varmap", "nested"},
			[]string{"spec", "template", "spec", "forProvider", "varmap", "nested"},
		},
	},
}

// disputed is a field that somebody else would like to have, in v1beta2.
var disputed = map[string][]string{
	"CAPTControlPlane":       {"spec", "version"},
	"CAPTCluster":            {"spec", "vpc", "template", "name"},
	"WorkspaceTemplateApply": {"spec", "variables", "cluster_name"},
	"WorkspaceTemplate":      {"spec", "template", "metadata", "description"},
}

const gitOps = "kustomize-controller"

// rewritten is an object that was applied in v1beta1 before the upgrade, and rewritten since.
func rewritten(t *testing.T, namespace, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := decode(manifest)
	object.SetNamespace(namespace)
	object = shared.read(t, object, migrate.Version)
	_, err := storage.NewRewriter(shared.client).Rewrite(t.Context(), item(object))
	require.NoError(t, err)
	return shared.read(t, object, migrate.Version)
}

func apply(t *testing.T, object *unstructured.Unstructured, manager string) error {
	t.Helper()
	return shared.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner(manager))
}

func TestGitOpsToolsOwnTheSameFieldsInV1Beta2(t *testing.T) {
	t.Parallel()
	for _, manifest := range newerManifests {
		moved := rewritten(t, "gitops-same", manifest)
		object := decode(manifest)
		object.SetNamespace("gitops-same")
		require.NoError(t, apply(t, object, gitOps))
		now := shared.read(t, object, migrate.Version)
		was, is := sets(t, moved)[gitOps+" Apply "], sets(t, now)[gitOps+" Apply "]
		require.True(t, was.Equals(is), "%s\nmoved: %s\napplied: %s", object.GetKind(), was.Difference(is), is.Difference(was))
		require.Equal(t, moved.Object["spec"], now.Object["spec"])
		require.Equal(t, moved.GetGeneration(), now.GetGeneration())
	}
}

func TestGitOpsToolsGoOnInEitherVersion(t *testing.T) {
	t.Parallel()
	for version, manifests := range map[string][]string{migrate.LegacyVersion: olderManifests, migrate.Version: newerManifests} {
		for _, manifest := range manifests {
			object := decode(manifest)
			kind := object.GetKind()
			t.Run(kind+" in "+version, func(t *testing.T) {
				moved := rewritten(t, "gitops-"+version, manifest)
				object.SetNamespace(moved.GetNamespace())
				require.NoError(t, apply(t, object, gitOps), "what it applied before is no conflict")
				require.Equal(t, moved.Object["spec"], shared.read(t, object, migrate.Version).Object["spec"])

				stolen := without(moved, "managedFields", "resourceVersion")
				stolen.Object = map[string]any{"apiVersion": stolen.GetAPIVersion(), "kind": kind, "metadata": map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()}}
				require.NoError(t, unstructured.SetNestedField(stolen.Object, "of-a-thief", disputed[kind]...))
				err := apply(t, stolen, "thief")
				require.True(t, apierrors.IsConflict(err), "want a conflict, got %v", err)
				require.ErrorContains(t, err, gitOps)

				drop := dropped[kind][version]
				unstructured.RemoveNestedField(object.Object, drop.manifest...)
				require.NoError(t, apply(t, object, gitOps))
				now := shared.read(t, object, migrate.Version)
				_, was, err := unstructured.NestedFieldNoCopy(moved.Object, drop.shows...)
				require.NoError(t, err)
				require.True(t, was)
				_, is, err := unstructured.NestedFieldNoCopy(now.Object, drop.shows...)
				require.NoError(t, err)
				require.False(t, is, "what it no longer applies is removed")
				for _, kept := range []string{"workspaceTemplateApplyRef", "controlPlaneEndpoint"} {
					was, found, _ := unstructured.NestedFieldNoCopy(moved.Object, "spec", kept)
					is, _, _ := unstructured.NestedFieldNoCopy(now.Object, "spec", kept)
					require.Equal(t, was, is, "what the older CAPT wrote stays, %t", found)
				}
			})
		}
	}
}
