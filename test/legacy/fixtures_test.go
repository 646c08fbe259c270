// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

func TestEveryFixtureSurvivesTheUpgrade(t *testing.T) {
	require.Len(t, shared.objects, len(legacy.Named()))
	for name, objects := range shared.objects {
		t.Run(name, func(t *testing.T) {
			for _, object := range objects.Items {
				if object.GetKind() == legacy.OlderTemplate {
					continue
				}
				shared.requireKept(t, &object)
			}
			for _, adoption := range objects.Adoptions {
				shared.requireRendered(t, adoption)
			}
		})
	}
}

// requireKept reads an object in today's version.
func (w *world) requireKept(t *testing.T, before *unstructured.Unstructured) {
	t.Helper()
	after := &unstructured.Unstructured{}
	gvk := before.GroupVersionKind()
	older := migrate.IsOlder(before.GetAPIVersion())
	if older {
		gvk.Version = migrate.Version
	}
	after.SetGroupVersionKind(gvk)
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKeyFromObject(before), after))
	assert.Equal(t, before.GetUID(), after.GetUID())
	assert.Equal(t, before.GetGeneration(), after.GetGeneration())
	assert.Equal(t, before.GetResourceVersion(), after.GetResourceVersion(), "%s was not written", before.GetName())
	if older {
		requireOlderAll(t, after)
	}
}

// requireOlderAll proves that what has to be moved is there to be moved.
func requireOlderAll(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	require.NotEmpty(t, object.GetManagedFields())
	for _, entry := range object.GetManagedFields() {
		assert.True(t, migrate.IsOlder(entry.APIVersion), "%s wrote %s in %s", entry.Manager, object.GetName(), entry.APIVersion)
	}
	for _, ref := range object.GetOwnerReferences() {
		assert.True(t, migrate.IsOlder(ref.APIVersion) || ref.Kind == "Cluster", "%s is owned by a %s", object.GetName(), ref.Kind)
	}
}

// requireRendered proves that today's renderer makes of a WorkspaceTemplateApply exactly the Workspace that is there.
func (w *world) requireRendered(t *testing.T, adoption legacy.Adoption) {
	t.Helper()
	apply, template, workspace := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}, &unstructured.Unstructured{}
	require.NoError(t, w.Admin.Get(t.Context(), adoption.Apply, apply))
	require.Equal(t, adoption.ApplyUID, apply.UID)
	key := types.NamespacedName{Namespace: apply.Spec.TemplateRef.Namespace, Name: apply.Spec.TemplateRef.Name}
	require.NoError(t, w.Admin.Get(t.Context(), key, template))
	require.Equal(t, terraform.ScopeCluster, template.Spec.WorkspaceScope)
	workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	require.NoError(t, w.Admin.Get(t.Context(), types.NamespacedName{Name: adoption.Workspace}, workspace))

	live := &terraform.Workspace{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(workspace.Object, live))
	rendered, errs := render.Workspace(render.Input{
		Apply: apply, Template: template, Name: adoption.Workspace, Recorded: &live.Spec,
	})
	require.Empty(t, errs)
	if !adoption.Disputed {
		assert.Empty(t, render.Differences(workspace, rendered))
	}
}

// What a fixture says of itself is what captctl finds out.
func TestPlansFindWhatBelongsTogether(t *testing.T) {
	reader, err := shared.Client(sandbox.Captctl)
	require.NoError(t, err)
	snapshot, err := migrate.Read(t.Context(), reader, "", time.Now())
	require.NoError(t, err)
	p, err := planner.New(snapshot, planner.Options{Now: snapshot.Taken})
	require.NoError(t, err)
	members := map[types.UID]plan.Member{}
	for _, unit := range p.Units {
		for _, member := range unit.Members {
			members[member.Object.UID] = member
		}
	}
	for name, objects := range shared.objects {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, objects.Adoptions)
			for _, adoption := range objects.Adoptions {
				requireFound(t, adoption, members[adoption.OwnerUID])
			}
		})
	}
}

func requireFound(t *testing.T, adoption legacy.Adoption, member plan.Member) {
	t.Helper()
	switch {
	case adoption.Disputed:
		assert.Equal(t, migrate.OwnerAmbiguous, member.State, "%s", member.Object)
		return
	default:
		assert.Equal(t, migrate.Adoptable, member.State, "%s", member.Object)
	}
	require.NotNil(t, member.WorkspaceTemplateApply, "%s", member.Object)
	assert.Equal(t, adoption.ApplyUID, member.WorkspaceTemplateApply.UID)
	require.NotNil(t, member.Workspace, "%s", member.Object)
	assert.Equal(t, adoption.Workspace, member.Workspace.Name)
}

// A tool that applies objects from Git is recognized by what it left on them, which is also what it would write again.
func TestKeepersLeaveTheirMarks(t *testing.T) {
	for fixture, row := range map[string]struct {
		keeper    legacy.Keeper
		operation metav1.ManagedFieldsOperationType
		label     string
	}{
		"reference-set":      {legacy.Kubectl, metav1.ManagedFieldsOperationUpdate, ""},
		"flux-managed":       {legacy.Flux, metav1.ManagedFieldsOperationApply, "kustomize.toolkit.fluxcd.io/name"},
		"argocd-managed":     {legacy.ArgoCD, metav1.ManagedFieldsOperationUpdate, "app.kubernetes.io/instance"},
		"clusterclass-owned": {legacy.Topology, metav1.ManagedFieldsOperationApply, clusterv1.ClusterTopologyOwnedLabel},
	} {
		t.Run(fixture, func(t *testing.T) {
			objects := shared.objects[fixture]
			for _, object := range objects.Items {
				if object.GetKind() != "CAPTControlPlane" {
					continue
				}
				assert.True(t, slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
					return entry.Manager == string(row.keeper) && entry.Operation == row.operation
				}), "%v", object.GetManagedFields())
				if row.label != "" {
					assert.Contains(t, object.GetLabels(), row.label)
				}
			}
			for _, manifest := range objects.Manifests {
				assert.Empty(t, manifest.GetUID())
				assert.NotContains(t, manifest.GetAnnotations(), "kubectl.kubernetes.io/last-applied-configuration")
				_, found, _ := unstructured.NestedString(manifest.Object, "spec", "workspaceTemplateApplyName")
				assert.False(t, found, "%s %s: CAPT wrote it", manifest.GetKind(), manifest.GetName())
			}
		})
	}
}
