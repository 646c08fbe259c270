// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// timeout is how long the manager may take.
const timeout = 5 * time.Minute

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

// Desired is a view without what the manager writes as soon as it manages an object, and keeps after a rollback: finalizers, annotations for itself,
// the revision that a staged rollout assigns, and status except for the reference to the Workspace.
func Desired(object *unstructured.Unstructured) {
	object.SetFinalizers(nil)
	unstructured.RemoveNestedField(object.Object, "spec", "templateRevision")
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(name, _ string) bool {
		return strings.HasPrefix(name, naming.ExternalNameAnnotation) || name == preserve.Annotation
	})
	object.SetAnnotations(annotations)
	ref, found, _ := unstructured.NestedMap(object.Object, "status", "workspaceRef")
	delete(object.Object, "status")
	if found {
		_ = unstructured.SetNestedMap(object.Object, ref, "status", "workspaceRef")
	}
}

// Settled reads a fleet until the manager has nothing to do and the fleet no longer changes.
func Settled(t *testing.T, s *sandbox.Sandbox, read func() map[string]string) (last map[string]string) {
	t.Helper()
	manager := &fixture.Server{Sandbox: s}
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		before := last
		last = read()
		activity, err := manager.Activity(ctx)
		return err == nil && activity.Pending == 0 && maps.Equal(before, last), nil // Without an answer, the manager has just been started.
	})
	require.NoError(t, err)
	return last
}

// RequireFields requires that all fields that a plan writes to objects of a unit are in a state.
func RequireFields(t *testing.T, reader client.Reader, unit *plan.Unit, want plan.FieldState) {
	t.Helper()
	for _, step := range unit.Steps {
		kind, err := step.Object.GroupVersionKind()
		require.NoError(t, err)
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(kind)
		require.NoError(t, reader.Get(t.Context(), client.ObjectKey{Namespace: step.Object.Namespace, Name: step.Object.Name}, live))
		for _, field := range step.Fields {
			state, err := field.State(live.Object)
			require.NoError(t, err)
			assert.Equal(t, want, state, "%s %s", step.Object, field.Path)
		}
	}
}
