// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/api/terraform"
)

// defaultProviderConfig is the one that provider-terraform's definitions fill in.
const defaultProviderConfig = "default"

// ProviderConfig that the Workspace is to have.
func (r *Rendered) ProviderConfig() string { return ProviderConfigOf(r.Object) }

// ProviderConfigOf a Workspace, which says in which account and backend its state and resources are: a name in the cluster scope,
// kind/name in a namespace. One that names none uses the default of the definition.
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
