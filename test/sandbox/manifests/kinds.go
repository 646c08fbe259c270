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

package manifests

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// stage is when a kind can be installed: namespaces before what lies in them, definitions before objects of their
// kind. The last stage waits until the webhook servers answer, because a failing webhook rejects what it guards.
type stage int

const (
	stageNone stage = iota
	stageNamespaces
	stageDefinitions
	stageAccess
	stageAdmission
)

// stageOf sorts the kinds that a control plane without nodes can use. The others (a Deployment, its Service, the
// Certificate of cert-manager) are replaced by processes and certificates of the sandbox.
func stageOf(object *unstructured.Unstructured) stage {
	switch object.GetKind() {
	case "Namespace":
		return stageNamespaces
	case "CustomResourceDefinition":
		return stageDefinitions
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount":
		return stageAccess
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
		return stageAdmission
	default:
		return stageNone
	}
}

// Set is a component's manifests, sorted by when they can be installed.
type Set struct {
	Namespaces  []*unstructured.Unstructured
	Definitions []*unstructured.Unstructured
	Access      []*unstructured.Unstructured
	Admission   []*unstructured.Unstructured
}

// Sort puts the objects that the sandbox can use into a Set.
func Sort(objects []*unstructured.Unstructured) Set {
	var set Set
	for _, object := range objects {
		switch stageOf(object) {
		case stageNamespaces:
			set.Namespaces = append(set.Namespaces, object)
		case stageDefinitions:
			set.Definitions = append(set.Definitions, object)
		case stageAccess:
			set.Access = append(set.Access, object)
		case stageAdmission:
			set.Admission = append(set.Admission, object)
		case stageNone:
		}
	}
	return set
}
