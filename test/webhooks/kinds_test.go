// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// kind is one of CAPT's kinds, with objects that are valid.
type kind struct {
	current schema.GroupVersionKind
	// legacy is empty for the kind that has one version only.
	legacy schema.GroupVersionKind
	// spec in v1beta2, and in v1beta1.
	spec, legacySpec string
	// change is a merge patch, in v1beta2, with a place for a word that makes it another one each time.
	change string
}

const (
	template = `{template: {spec: {forProvider: {source: Inline, module: "variable \"name\" { type = string }\noutput \"vpc_id\" { value = var.name }\n", vars: [{key: name, value: demo}]}}}}`
	apply    = "{templateRef: {name: shared}, variables: {name: demo}}"
	labels   = `{"metadata":{"labels":{"word":%q}}}`
)

func kinds() []kind {
	all := []kind{
		{spec: "{region: eu-central-1, vpc: {template: {ref: {name: shared}}}}", legacySpec: "{region: eu-central-1, vpcTemplateRef: {name: shared}}",
			change: `{"spec":{"vpc":{"template":{"variables":{"word":%q}}}}}`},
		{spec: "{template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: shared}}}}}}", change: labels},
		{spec: "{version: v1.35.0, workspaceTemplateRef: {name: shared}}", change: `{"spec":{"additionalTags":{"word":%q}}}`,
			legacySpec: "{version: v1.35.0, workspaceTemplateRef: {name: shared}, controlPlaneConfig: {region: eu-central-1}}"},
		{spec: "{template: {spec: {workspaceTemplateRef: {name: shared}}}}", change: labels,
			legacySpec: "{template: {spec: {version: v1.35.0, workspaceTemplateRef: {name: shared}}}}"},
		{spec: template, legacySpec: template, change: `{"spec":{"template":{"metadata":{"description":%q}}}}`},
		{spec: apply, legacySpec: apply, change: `{"spec":{"variables":{"word":%q}}}`},
	}
	for i, name := range []string{"CAPTCluster", "CAPTClusterTemplate", "CAPTControlPlane", "CAPTControlPlaneTemplate", "WorkspaceTemplate", "WorkspaceTemplateApply"} {
		group := "infrastructure.cluster.x-k8s.io"
		if strings.HasPrefix(name, "CAPTControlPlane") {
			group = "controlplane.cluster.x-k8s.io"
		}
		all[i].current = schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: name}
		if all[i].legacySpec != "" {
			all[i].legacy = schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: name}
		}
	}
	return all
}

// hasStatus reports whether the kind has a status, and a controller.
func (k kind) hasStatus() bool { return k.change != labels }

// versions are those in which the API server serves the kind.
func (k kind) versions() []schema.GroupVersionKind {
	if k.legacy.Empty() {
		return []schema.GroupVersionKind{k.current}
	}
	return []schema.GroupVersionKind{k.current, k.legacy}
}

// object makes a valid object, in one of the kind's versions.
func (k kind) object(version schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	spec := k.spec
	if version == k.legacy {
		spec = k.legacySpec
	}
	object := empty(version)
	if err := yaml.Unmarshal([]byte("spec: "+spec), &object.Object); err != nil {
		panic(fmt.Sprintf("the spec of %s: %v", version, err)) // It is written above.
	}
	object.SetGroupVersionKind(version)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// empty is an object to read into.
func empty(version schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(version)
	return object
}

// list is a list to read into.
func list(version schema.GroupVersionKind) *unstructured.UnstructuredList {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(version.GroupVersion().WithKind(version.Kind + "List"))
	return objects
}

// changed is a patch that changes an object of the kind.
func (k kind) changed(word string) client.Patch { return mergePatch(fmt.Sprintf(k.change, word)) }
