// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// PermitsNamespace reports whether a template may be used from a namespace: its own, one in spec.allowedNamespaces.names, or one that
// spec.allowedNamespaces.selector selects. namespaceLabels is called only if the labels matter; its error is returned.
func PermitsNamespace(template *infrav1.WorkspaceTemplate, namespace string, namespaceLabels func() (labels.Set, error)) (bool, error) {
	allowed := template.Spec.AllowedNamespaces
	switch {
	case template.Namespace == namespace:
		return true, nil
	case !allowed.IsDefined():
		return false, nil
	case slices.Contains(allowed.Names, namespace), slices.Contains(allowed.Names, "*"):
		return true, nil
	case allowed.Selector == nil:
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(allowed.Selector)
	if err != nil {
		return false, nil //nolint:nilerr // An invalid selector permits no namespace; the status of the template reports the error.
	}
	set, err := namespaceLabels()
	if err != nil || set == nil {
		return false, err
	}
	return selector.Matches(set), nil
}
