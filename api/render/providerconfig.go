// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/api/terraform"
)

// defaultProviderConfig is the default of the CRDs of provider-terraform.
const defaultProviderConfig = "default"

// ProviderConfig returns the ProviderConfig of the rendered Workspace, in the form of ProviderConfigOf.
func (r *Rendered) ProviderConfig() string { return ProviderConfigOf(r.Object) }

// ProviderConfigOf returns the ProviderConfig of a Workspace, which determines AWS account and backend: the name for a cluster-scoped
// Workspace, kind/name for a namespaced one. Without a reference it is the default of the CRD.
func ProviderConfigOf(workspace *unstructured.Unstructured) string {
	field := func(name, otherwise string) string {
		value, _, _ := unstructured.NestedString(workspace.Object, "spec", "providerConfigRef", name)
		return cmp.Or(value, otherwise)
	}
	name := field("name", defaultProviderConfig)
	if workspace.GroupVersionKind() == terraform.ScopeCluster.GroupVersionKind() {
		return name
	}
	return field("kind", DefaultProviderConfigKind) + "/" + name
}
