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

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Aggregate gives every aggregated ClusterRole among the objects the rules of those it selects. In a cluster that is
// the work of a controller which the sandbox does not run.
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
