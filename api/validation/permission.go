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

package validation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// PermitsNamespace tells whether a template may be used from a namespace: its own, one that spec.allowedNamespaces names,
// or one whose labels its selector matches. namespaceLabels is asked only when the labels matter; its error is returned.
func PermitsNamespace(template *infrav1.WorkspaceTemplate, namespace string, namespaceLabels func() (labels.Set, error)) (bool, error) {
	allowed := template.Spec.AllowedNamespaces
	switch {
	case template.Namespace == namespace:
		return true, nil
	case allowed == nil:
		return false, nil
	case slices.Contains(allowed.Names, namespace), slices.Contains(allowed.Names, "*"):
		return true, nil
	case allowed.Selector == nil:
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
	if err != nil {
		return false, nil //nolint:nilerr // A selector that can not be parsed permits nobody; the template's own status tells.
	}
	set, err := namespaceLabels()
	if err != nil || set == nil {
		return false, err
	}
	return selector.Matches(set), nil
}
