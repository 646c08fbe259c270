// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
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
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// everything is a management cluster with every known kind of legacy fleet.
type everything struct {
	*environment
	objects map[string]*legacy.Objects
	// read is what captctl read before the upgrade.
	read *migrate.Snapshot
}

// TestEveryKindOfFleet upgrades every known kind of legacy fleet, and then runs the manager over it.
func TestEveryKindOfFleet(t *testing.T) {
	t.Parallel()
	env := &everything{environment: newEnvironment(t, sandbox.Options{}), objects: map[string]*legacy.Objects{}}
	env.create()
	require.Len(t, env.objects, len(legacy.Named()))
	env.read = env.snapshot(t, time.Now())
	require.Error(t, env.Upgrade(t.Context(), legacy.WebhooksOnly), "objects of "+legacy.OlderTemplate+" would go with their definition")
	_, err := env.TakeTemplates(t.Context())
	require.NoError(t, err)
	require.NoError(t, env.Upgrade(t.Context(), legacy.WebhooksOnly))

	t.Run("it is read before the upgrade as it is served after it", env.isReadAsItIsServedLater)
	for name, objects := range env.objects {
		t.Run(name, func(t *testing.T) { env.requireUpgraded(t, objects) })
	}
	t.Run("plans find what belongs together", env.plansFindWhatBelongsTogether)
	t.Run("tools leave their marks", env.toolsLeaveTheirMarks)
	t.Run("before the adoption nothing is built", env.nothingIsBuilt)
}

// create creates every fixture under the older definitions.
func (env *everything) create() {
	env.Helper()
	var group errgroup.Group
	var lock sync.Mutex
	for name, fleet := range legacy.Named() {
		group.Go(func() error {
			objects, err := env.Create(env.Context(), fleet, legacy.NamesOf(name))
			lock.Lock()
			defer lock.Unlock()
			env.objects[name] = objects
			return err
		})
	}
	require.NoError(env, group.Wait())
}

// snapshot is what captctl reads.
func (env *environment) snapshot(t *testing.T, now time.Time) *migrate.Snapshot {
	t.Helper()
	captctl, err := env.Client(sandbox.Captctl)
	require.NoError(t, err)
	snapshot, err := migrate.Read(t.Context(), captctl, "", now)
	require.NoError(t, err)
	return snapshot
}

// What captctl reads of a management cluster that nothing of this version was installed in is what the API server and the webhook
// serve later, for every fixture.
func (env *everything) isReadAsItIsServedLater(t *testing.T) {
	assert.Empty(t, fixture.AuditEvents(t, env.Sandbox, audit.Filter{User: sandbox.CaptctlUser, Verbs: audit.Writes}), "reading writes nothing")
	snapshot := env.snapshot(t, env.read.Taken)
	require.NotEmpty(t, snapshot.Applies)
	requireSameSnapshot(t, env.read, snapshot)
}

// requireSameSnapshot compares what was read before and after the upgrade: objects, reports and plans.
func requireSameSnapshot(t *testing.T, untouched, upgraded *migrate.Snapshot) {
	t.Helper()
	untouched.Namespaces = upgraded.Namespaces // The manager has a new one.
	require.Equal(t, upgraded, untouched)

	plans := [2][]byte{}
	for i, snapshot := range []*migrate.Snapshot{untouched, upgraded} {
		p, err := planner.New(snapshot, nil)
		require.NoError(t, err)
		plans[i], err = json.Marshal(p)
		require.NoError(t, err)
	}
	require.JSONEq(t, string(plans[1]), string(plans[0]))
}

func (env *everything) requireUpgraded(t *testing.T, objects *legacy.Objects) {
	for _, object := range objects.Items {
		if object.GetKind() != legacy.OlderTemplate {
			env.requireKept(t, &object)
		}
	}
	for _, adoption := range objects.Adoptions {
		env.requireRendered(t, adoption)
	}
}

// requireKept reads an object in today's version.
func (env *everything) requireKept(t *testing.T, before *unstructured.Unstructured) {
	t.Helper()
	after := &unstructured.Unstructured{}
	gvk := before.GroupVersionKind()
	older := migrate.IsOlder(before.GetAPIVersion())
	if older {
		gvk.Version = migrate.Version
	}
	after.SetGroupVersionKind(gvk)
	require.NoError(t, env.Admin.Get(t.Context(), client.ObjectKeyFromObject(before), after))
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
func (env *everything) requireRendered(t *testing.T, adoption legacy.Adoption) {
	t.Helper()
	apply, template, workspace := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}, &unstructured.Unstructured{}
	require.NoError(t, env.Admin.Get(t.Context(), adoption.Apply, apply))
	require.Equal(t, adoption.ApplyUID, apply.UID)
	key := types.NamespacedName{Namespace: apply.Spec.TemplateRef.Namespace, Name: apply.Spec.TemplateRef.Name}
	require.NoError(t, env.Admin.Get(t.Context(), key, template))
	require.Equal(t, terraform.ScopeCluster, template.Spec.WorkspaceScope)
	workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	require.NoError(t, env.Admin.Get(t.Context(), types.NamespacedName{Name: adoption.Workspace}, workspace))

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
func (env *everything) plansFindWhatBelongsTogether(t *testing.T) {
	snapshot := env.snapshot(t, time.Now())
	p, err := planner.New(snapshot, nil)
	require.NoError(t, err)
	members := map[types.UID]plan.Member{}
	for _, unit := range p.Units {
		for _, member := range unit.Members {
			members[member.Object.UID] = member
		}
	}
	for name, objects := range env.objects {
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
	if adoption.Disputed {
		assert.Equal(t, migrate.OwnerAmbiguous, member.State, "%s", member.Object)
		return
	}
	assert.Equal(t, migrate.Adoptable, member.State, "%s", member.Object)
	require.NotNil(t, member.WorkspaceTemplateApply, "%s", member.Object)
	assert.Equal(t, adoption.ApplyUID, member.WorkspaceTemplateApply.UID)
	require.NotNil(t, member.Workspace, "%s", member.Object)
	assert.Equal(t, adoption.Workspace, member.Workspace.Name)
}

// A tool that applies objects from Git is recognized by what it left on them, which is also what it would write again.
func (env *everything) toolsLeaveTheirMarks(t *testing.T) {
	for fleet, row := range map[string]struct {
		applier   legacy.Applier
		operation metav1.ManagedFieldsOperationType
		label     string
	}{
		"reference-set":      {legacy.Kubectl, metav1.ManagedFieldsOperationUpdate, ""},
		"flux-managed":       {legacy.Flux, metav1.ManagedFieldsOperationApply, "kustomize.toolkit.fluxcd.io/name"},
		"argocd-managed":     {legacy.ArgoCD, metav1.ManagedFieldsOperationUpdate, "app.kubernetes.io/instance"},
		"clusterclass-owned": {legacy.Topology, metav1.ManagedFieldsOperationApply, clusterv1.ClusterTopologyOwnedLabel},
	} {
		t.Run(fleet, func(t *testing.T) {
			objects := env.objects[fleet]
			for _, object := range objects.Items {
				if object.GetKind() != "CAPTControlPlane" {
					continue
				}
				assert.True(t, slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
					return entry.Manager == string(row.applier) && entry.Operation == row.operation
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

// nothingIsBuilt runs the manager over fleets without references, with several candidates, with references to what another cluster has, without
// status. Nothing is created, changed or deleted.
func (env *everything) nothingIsBuilt(t *testing.T) {
	before, untouched := env.legacyObjects(), env.untouched()

	require.NoError(t, env.StartControllers(t.Context()))
	env.await(func() string {
		for name, object := range env.legacyObjects() {
			awaited := infrav1.AdoptionRequiredCondition
			if object.GetDeletionTimestamp() != nil {
				awaited = infrav1.DeletingCondition
			}
			_, conditions := splitStatus(t, object)
			if object.GetKind() != "WorkspaceTemplate" && conditions[awaited]["status"] != "True" {
				return name + " does not report " + awaited
			}
		}
		return ""
	})
	env.awaitReconciled()

	untouched.require(t)
	for _, event := range env.managerWrites(untouched.since) {
		require.Equal(t, "patch status", event.Verb+" "+event.ObjectRef.Subresource, event.RequestURI)
	}
	// What is being deleted reports that, and an owner without a status has none to keep.
	kept := func(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
		maps.DeleteFunc(objects, func(_ string, object *unstructured.Unstructured) bool {
			return object.GetDeletionTimestamp() != nil || strings.HasPrefix(object.GetNamespace(), "status-wiped")
		})
		return objects
	}
	env.requireOnlyConditions(kept(before), kept(env.legacyObjects()))

	again := time.Now()
	require.NoError(t, env.StartControllers(t.Context()))
	env.awaitReconciled()
	require.Empty(t, env.managerWrites(again))
}
