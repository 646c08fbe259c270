// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/controllers/storedversions"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// agent is the user agent of the manager in this process.
const agent = "capt-manager-under-test"

// startMigration runs a manager with the migration of stored versions alone, and returns what stops it.
func (w *world) startMigration(t *testing.T, skip ...crdmigrator.Phase) (stop func()) {
	t.Helper()
	ctrl.SetLogger(klog.Background())
	config := w.sandbox.Config()
	config.UserAgent, config.WarningHandler = agent, rest.NoWarnings{}
	same := true
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: controllers.Scheme(), Cache: controllers.CacheOptions(), Client: controllers.ClientOptions(),
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &same},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, storedversions.SetupWithManager(ctx, mgr, storedversions.Options{SkipPhases: skip}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	require.True(t, mgr.GetCache().WaitForCacheSync(ctx))
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// migrated are the writes of the manager in this process.
func (w *world) migrated(t *testing.T) (writes []string) {
	t.Helper()
	events, err := w.sandbox.AuditEvents(audit.Filter{Verbs: audit.Writes})
	require.NoError(t, err)
	for _, event := range events {
		if event.UserAgent == agent {
			writes = append(writes, line(event))
		}
	}
	return writes
}

func line(event auditv1.Event) string {
	ref := event.ObjectRef
	return strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s %s", event.Verb, ref.Resource, ref.Namespace, ref.Name, ref.Subresource))
}

// requireAwaiting waits until the metric shows how many objects await adoption.
func requireAwaiting(t *testing.T, want int) {
	t.Helper()
	require.Eventually(t, func() bool {
		families, err := ctrlmetrics.Registry.Gather()
		require.NoError(t, err)
		found := -1.0
		for _, family := range families {
			if family.GetName() != "capt_objects_awaiting_adoption" {
				continue
			}
			found = 0
			for _, metric := range family.GetMetric() {
				found += metric.GetGauge().GetValue()
			}
		}
		return found == float64(want)
	}, patience, tick, "%d objects", want)
}

// awaited are the objects of a management cluster that await adoption, in the order in which they are adopted here: owners first, so that
// the last one is a WorkspaceTemplateApply.
func awaited(t *testing.T, c client.Client) (objects []client.Object) {
	t.Helper()
	for _, list := range []client.ObjectList{&controlplanev1.CAPTControlPlaneList{}, &infrav1.CAPTClusterList{}, &infrav1.WorkspaceTemplateApplyList{}} {
		require.NoError(t, c.List(t.Context(), list))
		require.NoError(t, meta.EachListItem(list, func(item runtime.Object) error {
			if object := item.(client.Object); adoption.Awaited(object) {
				objects = append(objects, object)
			}
			return nil
		}))
	}
	return objects
}

// adopt does what a user would do without captctl.
func adopt(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	patch := `{"spec":{"workspaceTemplateApplyRef":{"name":"` + object.GetName() + `"}}}`
	if apply, ok := object.(*infrav1.WorkspaceTemplateApply); ok {
		patch = `{"spec":{"workspaceName":"` + adoption.Unadopted(apply) + `"}}`
	}
	require.NoError(t, c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// snapshot is everything of every object of CAPT but its resourceVersion, in both versions, by path.
func (w *world) snapshot(t *testing.T) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, version := range []string{migrate.LegacyVersion, migrate.Version} {
		for _, object := range w.all(t, "", version) {
			key := fmt.Sprintf("%s %s %s/%s", version, object.GetKind(), object.GetNamespace(), object.GetName())
			found[key] = without(&object, "resourceVersion").Object
		}
	}
	return found
}

// The objects of all namespaces are rewritten without a change, also those that break rules of v1beta2, once the last one of CAPT v0.3
// is adopted, and not before.
func TestTheManagerRewritesEverythingUnchangedAfterTheLastAdoption(t *testing.T) {
	w := startWorld(t)
	require.NoError(t, w.writeHistory(t.Context()))
	typed, err := client.New(w.sandbox.Config(), client.Options{Scheme: builder.Scheme()})
	require.NoError(t, err)
	both := []string{migrate.LegacyVersion, migrate.Version}
	waiting := awaited(t, typed)
	require.Greater(t, len(waiting), len(namespaces))
	before := w.everything(t)

	// Nothing happens, and the metric says why.
	stop := w.startMigration(t)
	requireAwaiting(t, len(waiting))
	last := waiting[len(waiting)-1]
	for _, object := range waiting[:len(waiting)-1] {
		adopt(t, typed, object)
	}
	requireAwaiting(t, 1)
	stop()
	require.Empty(t, w.migrated(t))
	require.Equal(t, both, w.storedVersions(t)["WorkspaceTemplateApply"])

	// With the phase skipped nothing happens either, although nothing awaits adoption any more.
	adopt(t, typed, last)
	stop = w.startMigration(t, crdmigrator.StorageVersionMigrationPhase)
	stop()
	require.Empty(t, w.migrated(t))
	older := 0
	for _, value := range w.everything(t) {
		if strings.HasSuffix(value.apiVersion, "/"+migrate.LegacyVersion) {
			older++
		}
	}
	require.Equal(t, len(before)-len(waiting), older, "only what was adopted is stored in v1beta2")

	unchanged := w.snapshot(t)
	stop = w.startMigration(t)
	defer func() { stop() }()
	w.awaitMigrated(t)
	for key, value := range w.everything(t) {
		require.Regexp(t, "/v1beta2$", value.apiVersion, key)
	}
	for kind, versions := range w.storedVersions(t) {
		require.Equal(t, []string{migrate.Version}, versions, kind)
	}
	now := w.snapshot(t)
	require.Len(t, now, len(unchanged))
	for key, object := range unchanged {
		require.Equal(t, object, now[key], key)
	}

	w.requireNothingMoreIsWritten(t)
	stop()
	stop = w.startMigration(t)
	w.requireNothingMoreIsWritten(t)
}

// awaitMigrated waits until the migrator has marked every definition with two versions.
func (w *world) awaitMigrated(t *testing.T) {
	t.Helper()
	for _, kind := range migrate.Kinds() {
		if kind.Kind == "CAPTClusterTemplate" {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		require.Eventually(t, func() bool {
			require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Name: kind.Definition()}, definition))
			return definition.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation] == fmt.Sprint(definition.Generation)
		}, patience, tick, kind.Kind)
	}
}

// requireNothingMoreIsWritten changes a definition, as an upgrade of CAPT does. There is one worker, so when that is marked all earlier
// events were handled, and the mark must be the only write.
func (w *world) requireNothingMoreIsWritten(t *testing.T) {
	t.Helper()
	values, writes := w.everything(t), w.migrated(t)
	const name = "workspacetemplateapplies." + infrastructure
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
	category := fmt.Sprintf("generation-%d", definition.Generation)
	require.NoError(t, w.client.Patch(t.Context(), definition, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"names":{"categories":["`+category+`"]}}}`))))
	w.awaitMigrated(t)
	require.Equal(t, []string{"patch customresourcedefinitions//" + name}, w.migrated(t)[len(writes):])
	require.Equal(t, values, w.everything(t), "revisions in etcd are the same")
}

// The installed manager does it with the rights that it has, also one that reconciles another shard.
func TestTheInstalledManagerWaitsForObjectsOfOtherShards(t *testing.T) {
	w, err := legacy.Start(t.Context(), sandbox.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	var adoptions []legacy.Adoption
	for _, name := range []string{"reference-set", "helpers-present"} {
		fixture := legacy.Named()[name]
		objects, err := w.Create(t.Context(), fixture, legacy.NamesOf(name))
		require.NoError(t, err)
		adoptions = append(adoptions, objects.Adoptions...)
	}
	require.NoError(t, w.Upgrade(t.Context(), legacy.WebhooksOnly))
	const skip, shard = "--skip-crd-migration-phases=StorageVersionMigration", "--watch-filter=another-shard"

	require.NoError(t, w.StartControllers(t.Context(), shard))
	require.Eventually(t, func() bool {
		return strings.Contains(w.Logs(sandbox.Manager, 200), "Waiting to migrate stored versions")
	}, patience, tick)
	require.Empty(t, definitionWrites(t, w))

	require.NoError(t, w.StartControllers(t.Context(), shard, skip))
	for _, a := range adoptions {
		patch(t, w.Admin, &infrav1.WorkspaceTemplateApply{}, a.Apply, `{"spec":{"workspaceName":"`+a.Workspace+`"}}`)
		var owner client.Object = &infrav1.CAPTCluster{}
		if a.Kind == "CAPTControlPlane" {
			owner = &controlplanev1.CAPTControlPlane{}
		}
		patch(t, w.Admin, owner, a.Owner, `{"spec":{"workspaceTemplateApplyRef":{"name":"`+a.Apply.Name+`"}}}`)
	}
	left := awaited(t, w.Admin)
	require.NotEmpty(t, left, "the helpers")
	for _, helper := range left {
		patch(t, w.Admin, helper, client.ObjectKeyFromObject(helper), `{"spec":{"deletionPolicy":"Retain"}}`) // As captctl leaves them alone.
	}
	require.Empty(t, awaited(t, w.Admin))
	require.Empty(t, definitionWrites(t, w))

	require.NoError(t, w.StartControllers(t.Context(), shard))
	require.Eventually(t, func() bool {
		for _, kind := range []string{"captclusters." + infrastructure, "captcontrolplanes." + controlPlane, "workspacetemplates." + infrastructure, "workspacetemplateapplies." + infrastructure} {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: kind}, definition))
			if !slices.Equal(definition.Status.StoredVersions, []string{migrate.Version}) {
				return false
			}
		}
		return true
	}, patience, tick, w.Logs(sandbox.Manager, 20))
}

func patch(t *testing.T, c client.Client, object client.Object, key types.NamespacedName, body string) {
	t.Helper()
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	require.NoError(t, c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))))
}

// definitionWrites are the manager's.
func definitionWrites(t *testing.T, w *legacy.World) (writes []string) {
	t.Helper()
	events, err := w.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Resource: "customresourcedefinitions"})
	require.NoError(t, err)
	for _, event := range events {
		writes = append(writes, line(event))
	}
	return writes
}
