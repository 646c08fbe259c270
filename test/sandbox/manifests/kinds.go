// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Set has the manifests of a component in the order of their installation: namespaces before the objects in them, and CRDs before objects
// of their kind. Admission is last: until its webhook server responds, a webhook rejects all requests for its objects.
type Set struct {
	Namespaces  []*unstructured.Unstructured
	Definitions []*unstructured.Unstructured
	Access      []*unstructured.Unstructured
	Admission   []*unstructured.Unstructured
}

// Sort returns the objects that the sandbox can use and drops those that need a cluster. An unknown kind is an error: a test
// must not pass because something was not installed.
func Sort(objects []*unstructured.Unstructured) (set Set, err error) {
	for _, object := range objects {
		switch object.GetKind() {
		case "Namespace":
			set.Namespaces = append(set.Namespaces, object)
		case "CustomResourceDefinition":
			set.Definitions = append(set.Definitions, object)
		case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount":
			set.Access = append(set.Access, object)
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
			"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding":
			set.Admission = append(set.Admission, object)
		// The sandbox runs processes instead of Pods, on loopback, and signs their certificates itself.
		case "Deployment", "PodDisruptionBudget", "NetworkPolicy", "Service", "Issuer", "Certificate":
		default:
			return Set{}, fmt.Errorf("%s %s: add this kind to Sort of package manifests", object.GetKind(), object.GetName())
		}
	}
	return set, nil
}

// Aggregate adds to every aggregated ClusterRole the rules of the ClusterRoles that it selects. In a cluster, a controller
// does this, which many sandboxes do not run.
func Aggregate(objects []*unstructured.Unstructured) {
	for _, role := range objects {
		selectors, found, _ := unstructured.NestedSlice(role.Object, "aggregationRule", "clusterRoleSelectors")
		if !found || role.GetKind() != "ClusterRole" {
			continue
		}
		var rules []any
		for _, other := range objects {
			if other.GetKind() != "ClusterRole" || other == role || !slices.ContainsFunc(selectors, selects(other)) {
				continue
			}
			more, _, _ := unstructured.NestedSlice(other.Object, "rules")
			rules = append(rules, more...)
		}
		delete(role.Object, "aggregationRule")
		role.Object["rules"] = rules
	}
}

func selects(object *unstructured.Unstructured) func(any) bool {
	return func(item any) bool {
		selector, ok := item.(map[string]any)
		if !ok {
			return false
		}
		wanted, _, _ := unstructured.NestedStringMap(selector, "matchLabels")
		return len(wanted) > 0 && labels.SelectorFromSet(wanted).Matches(labels.Set(object.GetLabels()))
	}
}

const rbac = "rbac.authorization.k8s.io"

// ClusterRole has the rules of a role.
func ClusterRole(name string, rules ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": rules,
	}}
}

// ClusterRoleBinding gives a role to a user.
func ClusterRoleBinding(name, role, user string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": rbac, "kind": "User", "name": user}},
	}}
}
