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

package storage_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/verify"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// Every way in which legacy fleets are known to be, with the manager's webhooks and with the rights that captctl asks for.
func TestTheStoragePhaseOfEveryFixtureTouchesNothingElse(t *testing.T) {
	t.Parallel()
	w, err := legacy.Start(t.Context(), sandbox.Options{Log: os.Stderr})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	for name, fixture := range legacy.Named() {
		fixture.ControlPlaneTemplates = 0
		_, err := w.Create(t.Context(), fixture, legacy.NamesOf(name))
		require.NoError(t, err, name)
	}
	require.NoError(t, w.Upgrade(t.Context()))
	captctl, err := w.Client(sandbox.Captctl)
	require.NoError(t, err)
	snapshot, err := migrate.Read(t.Context(), captctl, "", time.Now())
	require.NoError(t, err)
	plan, err := planner.New(snapshot, planner.Options{Scope: migrate.ScopeStorage, Now: time.Now(), Lifetime: time.Hour})
	require.NoError(t, err)
	require.NotEmpty(t, plan.Baseline.Workspaces)
	generations := map[types.UID]int64{}
	for _, item := range plan.Storage {
		generations[item.UID] = generation(t, w, item)
	}

	report, err := verify.Run(t.Context(), captctl, plan, verify.Options{})
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.False(t, report.OK)
	progress := &counted{}
	progress.Phase("storage", len(plan.Storage))
	counts, err := storage.NewRewriter(captctl).Run(t.Context(), plan.Storage, 4, progress)
	require.NoError(t, err)
	require.Equal(t, storage.Counts{Written: len(plan.Storage)}, counts)
	require.Equal(t, progress.totals, progress.done)
	for _, item := range plan.Storage {
		require.Equal(t, generations[item.UID], generation(t, w, item), item.ObjectRef)
	}

	for range 2 {
		finalized, err := storage.Finalize(t.Context(), storage.Options{
			Client: captctl, Plan: plan, Adopted: verify.Adopted(captctl, plan), Workers: 4, Progress: migrate.Silent{},
		})
		require.NoError(t, err)
		for _, kind := range finalized.Kinds {
			require.Equal(t, []string{migrate.Version}, kind.After)
			require.Equal(t, 1, kind.Passes, "%s: the storage phase has left nothing", kind.Kind)
		}
	}
	report, err = verify.Run(t.Context(), captctl, plan, verify.Options{})
	require.NoError(t, err)
	require.True(t, report.OK)

	writes, err := w.Writes(sandbox.CaptctlUser)
	require.NoError(t, err)
	trimmed := 0
	for _, write := range writes {
		switch write.ObjectRef.Resource {
		case "customresourcedefinitions":
			require.Equal(t, "patch status", write.Verb+" "+write.ObjectRef.Subresource)
			trimmed++
		default:
			require.Equal(t, "update", write.Verb)
			require.Contains(t, []string{infrastructure, controlPlane}, write.ObjectRef.APIGroup)
			require.Empty(t, write.ObjectRef.Subresource)
		}
	}
	require.Equal(t, 4, trimmed, "two kinds are new, and were never stored in another version")
}

func generation(t *testing.T, w *legacy.World, item migrate.StorageItem) int64 {
	t.Helper()
	object := &unstructured.Unstructured{}
	for _, kind := range migrate.Kinds() {
		if kind.Kind == item.Kind {
			object.SetGroupVersionKind(kind.GroupVersionKind)
		}
	}
	require.NoError(t, w.Admin.Get(t.Context(), types.NamespacedName{Namespace: item.Namespace, Name: item.Name}, object))
	return object.GetGeneration()
}
