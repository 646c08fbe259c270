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
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage"
)

// counted is a Progress that remembers the phases.
type counted struct {
	lock   sync.Mutex
	phases []string
	totals []int
	done   []int
}

func (c *counted) Phase(name string, total int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.phases, c.totals, c.done = append(c.phases, name), append(c.totals, total), append(c.done, 0)
}

func (c *counted) Add(count int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.done[len(c.done)-1] += count
}

func adoptedAll(context.Context) error { return nil }

func options(c client.Client) storage.Options {
	return storage.Options{Client: c, Plan: &migrate.Plan{}, Adopted: adoptedAll, Workers: 4, Progress: migrate.Silent{}}
}

// storedVersions of all definitions of CAPT that are installed.
func (w *world) storedVersions(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, kind := range migrate.Kinds() {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: kind.Definition()}, definition); err == nil {
			found[kind.Kind] = definition.Status.StoredVersions
		}
	}
	return found
}

// everything that etcd holds of CAPT.
func (w *world) everything(t *testing.T) map[string]value {
	t.Helper()
	all := w.stored(t, infrastructure, "")
	maps.Copy(all, w.stored(t, controlPlane, ""))
	return all
}

func TestAfterFinalizeEveryByteInEtcdIsOfV1Beta2(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	require.NoError(t, w.writeHistory(t.Context()))
	generations := map[types.UID]int64{}
	for _, namespace := range namespaces {
		for _, object := range w.all(t, namespace, migrate.Version) {
			generations[object.GetUID()] = object.GetGeneration()
		}
	}
	before := w.everything(t)
	require.Len(t, before, len(generations))
	for key, value := range before {
		require.Regexp(t, "/v1beta1$", value.apiVersion, key)
	}

	progress := &counted{}
	o := options(w.client)
	o.Progress = progress
	report, err := storage.Finalize(t.Context(), o)
	require.NoError(t, err)

	after := w.everything(t)
	require.Len(t, after, len(before))
	for key, value := range after {
		require.Regexp(t, "/v1beta2$", value.apiVersion, key)
	}
	for kind, versions := range w.storedVersions(t) {
		require.Equal(t, []string{migrate.Version}, versions, kind)
	}
	require.Equal(t, progress.totals, progress.done, "%v", progress.phases)
	written := 0
	for _, kind := range report.Kinds {
		written += kind.Written
		require.Equal(t, []string{migrate.Version}, kind.After)
		if kind.Objects > 0 {
			require.Equal(t, 2, kind.Passes, "%s: one pass that changes everything, and one that proves it", kind.Kind)
			require.Equal(t, []string{migrate.LegacyVersion, migrate.Version}, kind.Before)
		}
	}
	require.Equal(t, len(before), written)
	for _, namespace := range namespaces {
		for _, object := range w.all(t, namespace, migrate.Version) {
			require.Equal(t, generations[object.GetUID()], object.GetGeneration(), "%s %s", object.GetKind(), object.GetName())
		}
	}

	report, err = storage.Finalize(t.Context(), o)
	require.NoError(t, err)
	for _, kind := range report.Kinds {
		require.Equal(t, 1, kind.Passes)
		require.Zero(t, kind.Written)
	}
	require.Equal(t, after, w.everything(t), "a write that changes nothing does not reach etcd: revisions are the same")
}

func TestFinalizeTellsItsWritesFromThoseOfOthers(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	require.NoError(t, w.installOlder(t.Context()))
	require.NoError(t, w.upgrade(t.Context()))
	object := decode(newerManifests[1])
	object.SetNamespace("default")
	require.NoError(t, w.client.Create(t.Context(), object))

	writes := 0
	busy := interceptor.NewClient(w.client, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, own client.Object, options ...client.UpdateOption) error {
			if writes++; writes == 1 {
				if err := c.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
					return err
				}
			}
			return c.Update(ctx, own, options...)
		},
	})
	report, err := storage.Finalize(t.Context(), options(busy))
	require.NoError(t, err)
	require.Equal(t, 2, writes, "the first one met another's, and the second one changed nothing")
	for _, kind := range report.Kinds {
		require.Equal(t, 1, kind.Passes)
		require.Zero(t, kind.Written)
	}

	// Something that changes whatever passes is no proof.
	restless := interceptor.NewClient(w.client, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, own client.Object, options ...client.UpdateOption) error {
			own.SetAnnotations(map[string]string{"example.com/at": own.GetResourceVersion()})
			return c.Update(ctx, own, options...)
		},
	})
	_, err = storage.Finalize(t.Context(), options(restless))
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.ErrorContains(t, err, "objects of CAPTCluster still change")
}

func TestFinalizeRefusesWhatIsNotReady(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	require.NoError(t, w.installOlder(t.Context()))
	object := decode(olderManifests[1])
	object.SetNamespace("default")
	require.NoError(t, w.client.Create(t.Context(), object))

	_, err := storage.Finalize(t.Context(), options(w.client))
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.ErrorContains(t, err, "does not have v1beta2")

	require.NoError(t, w.upgrade(t.Context()))
	both := w.storedVersions(t)
	require.Equal(t, []string{migrate.LegacyVersion, migrate.Version}, both["CAPTCluster"])

	o := options(w.client)
	o.Plan = &migrate.Plan{Findings: []migrate.Finding{{Severity: migrate.Ambiguous, Message: "whose?"}}}
	_, err = storage.Finalize(t.Context(), o)
	require.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)

	o = options(w.client)
	o.Adopted = func(context.Context) error { return migrate.Pending.Errorf("one is not") }
	_, err = storage.Finalize(t.Context(), o)
	require.Equal(t, migrate.Pending, migrate.OutcomeOf(err), "%v", err)
	require.Equal(t, both, w.storedVersions(t))
	require.Regexp(t, "v1beta1$", w.stored(t, infrastructure, "captclusters/default/")["/registry/"+infrastructure+"/captclusters/default/from-git"].apiVersion)

	// What is not installed has no objects.
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = "captclustertemplates." + infrastructure
	require.NoError(t, w.client.Delete(t.Context(), definition))
	require.Eventually(t, func() bool { return len(w.storedVersions(t)) == len(both)-1 }, patience, tick)
	report, err := storage.Finalize(t.Context(), options(w.client))
	require.NoError(t, err)
	require.Equal(t, "not installed", report.Kinds[1].Note)
	for _, versions := range w.storedVersions(t) {
		require.Equal(t, []string{migrate.Version}, versions)
	}
}
