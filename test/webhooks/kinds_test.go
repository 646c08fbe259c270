// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1beta1 "github.com/capt-provider/capt/api/controlplane/v1beta1"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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
	// noStatus is set for the kinds without a status.
	noStatus bool
}

const (
	module    = "variable \"name\" { type = string }\noutput \"vpc_id\" { value = var.name }\n"
	relabeled = `{"metadata":{"labels":{"word":%q}}}`
)

func kinds() []kind {
	text, _ := json.Marshal(module) // A string can always be marshaled.
	template := func(more string) string {
		return fmt.Sprintf("{%stemplate: {spec: {forProvider: {source: Inline, module: %s, vars: [{key: name, value: demo}]}}}}", more, text)
	}
	return []kind{{
		current:    infrav1.GroupVersion.WithKind("CAPTCluster"),
		legacy:     infrav1beta1.GroupVersion.WithKind("CAPTCluster"),
		spec:       "{region: eu-central-1, vpc: {template: {ref: {name: shared}}}}",
		legacySpec: "{region: eu-central-1, vpcTemplateRef: {name: shared}}",
		change:     `{"spec":{"vpc":{"template":{"variables":{"word":%q}}}}}`,
	}, {
		current:  infrav1.GroupVersion.WithKind("CAPTClusterTemplate"),
		spec:     "{template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: shared}}}}}}",
		change:   relabeled,
		noStatus: true,
	}, {
		current:    controlplanev1.GroupVersion.WithKind("CAPTControlPlane"),
		legacy:     controlplanev1beta1.GroupVersion.WithKind("CAPTControlPlane"),
		spec:       "{version: v1.35.0, workspaceTemplateRef: {name: shared}}",
		legacySpec: "{version: v1.35.0, workspaceTemplateRef: {name: shared}, controlPlaneConfig: {region: eu-central-1}}",
		change:     `{"spec":{"additionalTags":{"word":%q}}}`,
	}, {
		current:    controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate"),
		legacy:     controlplanev1beta1.GroupVersion.WithKind("CAPTControlPlaneTemplate"),
		spec:       "{template: {spec: {workspaceTemplateRef: {name: shared}}}}",
		legacySpec: "{template: {spec: {version: v1.35.0, workspaceTemplateRef: {name: shared}}}}",
		change:     relabeled,
		noStatus:   true,
	}, {
		current:    infrav1.GroupVersion.WithKind("WorkspaceTemplate"),
		legacy:     infrav1beta1.GroupVersion.WithKind("WorkspaceTemplate"),
		spec:       template(""),
		legacySpec: template(""),
		change:     `{"spec":{"template":{"metadata":{"description":%q}}}}`,
	}, {
		current:    infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		legacy:     infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		spec:       "{templateRef: {name: shared}, variables: {name: demo}}",
		legacySpec: "{templateRef: {name: shared}, variables: {name: demo}}",
		change:     `{"spec":{"variables":{"word":%q}}}`,
	}}
}

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
	object := &unstructured.Unstructured{Object: map[string]any{}}
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
