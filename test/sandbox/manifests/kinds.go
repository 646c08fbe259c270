// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// stage is when a kind can be installed: namespaces before what lies in them, definitions before objects of their
// kind. The last stage waits until the webhook servers answer, because a failing webhook rejects what it guards.
type stage int

const (
	stageUnknown stage = iota
	stageNamespaces
	stageDefinitions
	stageAccess
	stageAdmission
	// stageNever is for what only a cluster with nodes and cert-manager can run.
	stageNever
)

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
	// The sandbox runs processes in place of Pods, reaches them on loopback, and signs their certificates itself.
	case "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", "Issuer", "Certificate":
		return stageNever
	default:
		return stageUnknown
	}
}

// Set is a component's manifests, sorted by when they can be installed.
type Set struct {
	Namespaces  []*unstructured.Unstructured
	Definitions []*unstructured.Unstructured
	Access      []*unstructured.Unstructured
	Admission   []*unstructured.Unstructured
}

// Sort puts the objects that the sandbox can use into a Set and leaves out what only a cluster can run. An unknown kind is
// an error: a test must not pass because something was not installed.
func Sort(objects []*unstructured.Unstructured) (Set, error) {
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
		case stageNever:
		case stageUnknown:
			return Set{}, fmt.Errorf("%s %s: whether the sandbox can use this kind is not known to package manifests",
				object.GetKind(), object.GetName())
		}
	}
	return set, nil
}
