// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate adds to every aggregated ClusterRole the rules of the ClusterRoles that it selects. In a cluster, a controller
// does this that the sandbox does not run.
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
