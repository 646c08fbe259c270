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

// Package execute_test carries plans out on a real API server, with the older CAPT's objects, and takes them back.
package execute_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// journalNamespace is where CAPT is installed.
const journalNamespace = "capt-system"

// world is a fleet of the older CAPT under today's definitions.
type world struct {
	*testing.T
	*legacy.World
	captctl client.WithWatch
	options execute.Options
}

func newWorld(t *testing.T, fixtures ...string) *world {
	t.Helper()
	return newWorldOf(t, func(started *legacy.World) {
		for _, name := range fixtures {
			fixture, found := legacy.Named()[name]
			require.True(t, found, name)
			_, err := started.Create(t.Context(), fixture, legacy.NamesOf(name))
			require.NoError(t, err)
		}
	})
}

// newWorldOf has what create makes of CAPT v0.3's, upgraded.
func newWorldOf(t *testing.T, create func(*legacy.World)) *world {
	t.Helper()
	started, err := legacy.Start(t.Context(), sandbox.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(started.Logs(sandbox.Manager, 40))
		}
		require.NoError(t, started.Stop(context.Background()))
	})
	w := &world{T: t, World: started}
	create(started)
	require.NoError(t, w.Upgrade(t.Context()))
	w.captctl, err = w.Client(sandbox.Captctl)
	require.NoError(t, err)
	w.options = execute.Options{
		Client: w.captctl, Namespace: journalNamespace, BackupDir: filepath.Join(t.TempDir(), "backup"), JournalDir: t.TempDir(), Workers: 4,
		LeaseDuration:    time.Second,
		NewRewriter:      func(c client.Client) execute.Rewriter { return storage.NewRewriter(c) },
		OlderManagerRuns: func(context.Context) (string, error) { return "", nil },
	}
	return w
}

// plan is one of the fleet as it is now.
func (w *world) plan(scope migrate.Scope) *migrate.Plan {
	w.Helper()
	now := time.Now()
	snapshot, err := migrate.Read(w.Context(), w.captctl, "", now)
	require.NoError(w, err)
	plan, err := planner.New(snapshot, planner.Options{Scope: scope, Now: now, Lifetime: time.Hour})
	require.NoError(w, err)
	require.Empty(w, plan.Undecided())
	return plan
}

// fleet is every object that could be touched, without what every write changes.
func (w *world) fleet() map[string]string {
	w.Helper()
	fleet := map[string]string{}
	take := func(object *unstructured.Unstructured) error {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		object.SetGeneration(0)
		text, err := json.MarshalIndent(object.Object, "", " ")
		fleet[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
		return err
	}
	for _, kind := range migrate.Kinds() {
		require.NoError(w, migrate.Each(w.Context(), w.Admin, kind.GroupVersionKind, "", take))
	}
	require.NoError(w, migrate.Each(w.Context(), w.Admin, clusterv1.GroupVersion.WithKind("Cluster"), "", take))
	for _, scope := range terraform.Scopes() {
		require.NoError(w, migrate.Each(w.Context(), w.Admin, scope.GroupVersionKind(), "", take))
	}
	return fleet
}

// written is what captctl has sent so far to write: verb and resource.
func (w *world) written() (found []string) {
	w.Helper()
	events, err := w.Writes(sandbox.CaptctlUser)
	require.NoError(w, err)
	for _, event := range events {
		found = append(found, event.Verb+" "+event.ObjectRef.Resource)
	}
	return found
}
