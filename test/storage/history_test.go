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
	"context"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// namespaces of the legacy fleet, one for each test or two. Each has the same objects.
var namespaces = []string{
	"fleet", "interrupted", "straight", "busy", "restored", "stubborn", "gitops-same", "gitops-v1beta1", "gitops-v1beta2",
}

// writeHistory is what happened before CAPT came: the older CAPT wrote objects, and so did GitOps tools.
func (w *world) writeHistory(ctx context.Context) error {
	if err := w.installOlder(ctx); err != nil {
		return err
	}
	folder := filepath.Join(root, "test", "conversion", "testdata", "legacy")
	var legacy []*unstructured.Unstructured
	for _, name := range []string{"objects.yaml", "breaking.yaml"} {
		objects, err := manifests.Load(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		legacy = append(legacy, objects...)
	}
	for _, namespace := range namespaces {
		if err := w.makeNamespace(ctx, namespace); err != nil {
			return err
		}
		for _, object := range legacy {
			if object.GetKind() == "CaptControlPlaneTemplate" {
				continue // "captctl migrate crds" takes care of them.
			}
			if err := w.writeAsTheOlder(ctx, namespace, object); err != nil {
				return err
			}
		}
		if err := w.applyAsGitOps(ctx, namespace); err != nil {
			return err
		}
	}
	for name, document := range stubborn {
		object := decode(document)
		object.SetName(hyphenated(name))
		if err := w.writeAsTheOlder(ctx, "stubborn", object); err != nil {
			return err
		}
	}
	return w.upgrade(ctx)
}

// writeAsTheOlder creates an object with its status, as two managers: the one of a person, and that of the older CAPT.
func (w *world) writeAsTheOlder(ctx context.Context, namespace string, from *unstructured.Unstructured) error {
	object := from.DeepCopy()
	object.SetNamespace(namespace)
	status, hasStatus := object.Object["status"]
	if err := w.client.Create(ctx, object, client.FieldOwner("kubectl-create")); err != nil {
		return err
	}
	if !hasStatus {
		return nil
	}
	object.Object["status"] = status
	return w.client.Status().Update(ctx, object, client.FieldOwner("manager"))
}

// olderManifests are what is in Git. The older CAPT adds to each what it finds out.
var olderManifests = []string{`
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {name: from-git, labels: {example.com/team: pilots}}
spec:
  version: "1.30"
  workspaceTemplateRef: {name: bridge, namespace: quay}
  controlPlaneConfig:
    region: eu-west-3
    endpointAccess: {public: true, publicCIDRs: [198.51.100.0/24, 203.0.113.7/32]}
    addons: [{name: coredns, version: v1.11.1-eksbuild.8}, {name: vpc-cni}]
    timeouts: {controlPlaneTimeout: 30}
  additionalTags: {team: pilots, example.com/a.b: c}`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: CAPTCluster
metadata: {name: from-git}
spec:
  region: eu-west-3
  vpcTemplateRef: {name: dock, namespace: quay}
  vpcConfig: {name: basin}
  retainVpcOnDelete: true`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata:
  name: from-git
  ownerReferences: [{apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: CAPTControlPlane, name: from-git, uid: 5f0c0a4e-7d3b-4e57-a5a1-0d2c6a9b1c07}]
spec:
  templateRef: {name: bridge, namespace: quay}
  variables: {cluster_name: from-git, region: eu-west-3}
  waitForWorkspaces: [{name: from-git-vpc, namespace: quay}]
  waitForSecrets: [{name: a, namespace: quay}]`, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
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

// adopted is what the older CAPT wrote into some of them.
var adopted = map[string]string{
	"CAPTControlPlane": `{"metadata":{"finalizers":["controlplane.cluster.x-k8s.io/captcontrolplane"]},"spec":{"workspaceTemplateApplyName":"from-git","controlPlaneEndpoint":{"host":"https://example.com","port":443}}}`,
	"CAPTCluster":      `{"spec":{"workspaceTemplateApplyName":"from-git-vpc"}}`,
}

func (w *world) applyAsGitOps(ctx context.Context, namespace string) error {
	for _, document := range olderManifests {
		object := decode(document)
		object.SetNamespace(namespace)
		if err := w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kustomize-controller")); err != nil {
			return err
		}
		patch, ok := adopted[object.GetKind()]
		if !ok {
			continue
		}
		object.SetManagedFields(nil)
		if err := w.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("manager")); err != nil {
			return err
		}
	}
	return nil
}

// stubborn are objects that v1beta2 holds its rules against whatever is changed in them, even nothing.
var stubborn = map[string]string{
	"no spec": `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster}`,
	"two profiles": `
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: CAPTControlPlane
metadata: {ownerReferences: [{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, name: x, uid: 5f0c0a4e-7d3b-4e57-a5a1-0d2c6a9b1c09}]}
spec:
  version: "1.31"
  workspaceTemplateRef: {name: x}
  additionalFargateProfiles:
  - {name: a, selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}
  - {name: a, selectors: [], workspaceTemplateRef: {name: x}}`,
}

func hyphenated(name string) string { return strings.ReplaceAll(name, " ", "-") }
