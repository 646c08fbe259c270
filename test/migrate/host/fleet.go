// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
)

// Fleet is every object that a migration may write, and every Workspace, by kind, namespace and name. Workspaces are as they are, and of the
// other objects what every write changes is left out. A view removes more.
func Fleet(t *testing.T, reader client.Reader, views ...func(*unstructured.Unstructured)) map[string]string {
	t.Helper()
	fleet := map[string]string{}
	take := func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil)
		if object.GetKind() != terraform.WorkspaceKind {
			object.SetResourceVersion("")
			object.SetGeneration(0)
			for _, view := range views {
				view(object)
			}
		}
		text, err := json.MarshalIndent(object.Object, "", " ")
		fleet[Name(object)] = string(text)
		return err
	}
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, kind := range migrate.Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	for _, kind := range kinds {
		require.NoError(t, migrate.Each(t.Context(), reader, kind, "", take))
	}
	require.NotEmpty(t, fleet)
	return fleet
}

// Name is the kind, namespace and name of an object.
func Name(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// Desired is a view without what controllers report: of status, only the reference to the Workspace stays.
func Desired(object *unstructured.Unstructured) {
	ref, found, _ := unstructured.NestedMap(object.Object, "status", "workspaceRef")
	delete(object.Object, "status")
	if found {
		_ = unstructured.SetNestedMap(object.Object, ref, "status", "workspaceRef")
	}
}

// Namespace returns the objects of a fleet in a namespace. Those without a namespace are in none.
func Namespace(fleet map[string]string, namespace string) map[string]string {
	found := map[string]string{}
	for name, object := range fleet {
		var of unstructured.Unstructured
		if json.Unmarshal([]byte(object), &of.Object) == nil && of.GetNamespace() == namespace {
			found[name] = object
		}
	}
	return found
}
