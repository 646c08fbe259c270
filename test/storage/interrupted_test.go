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
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

var errKilled = errors.New("killed")

// killed is a client that does n writes and is lost then: the answer to the last one is lost, too.
func killed(writes int) client.WithWatch {
	return interceptor.NewClient(shared.client, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if writes == 0 {
				return errKilled
			}
			writes--
			if err := c.Update(ctx, object, options...); err != nil {
				return err
			}
			if writes == 0 {
				return errKilled
			}
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if writes == 0 {
				return errKilled
			}
			writes--
			if err := c.Patch(ctx, object, patch, options...); err != nil {
				return err
			}
			if writes == 0 {
				return errKilled
			}
			return nil
		},
	})
}

// rewritable is what Rewrite may change, less what differs in objects that were made alike at another time.
func rewritable(object *unstructured.Unstructured) []any {
	managed := object.GetManagedFields()
	for i := range managed {
		managed[i].Time = nil
	}
	return []any{managed, object.GetOwnerReferences(), object.Object["spec"]}
}

func TestWhoeverGoesOnAfterAKillComesToTheSameEnd(t *testing.T) {
	t.Parallel()
	straight := map[string][]any{}
	for _, object := range shared.all(t, "straight", migrate.Version) {
		_, err := storage.NewRewriter(shared.client).Rewrite(t.Context(), item(&object))
		require.NoError(t, err)
		straight[object.GetKind()+object.GetGenerateName()+nameOf(&object)] = rewritable(shared.read(t, &object, migrate.Version))
	}
	between := 0
	for _, object := range shared.all(t, "interrupted", migrate.Version) {
		for writes := range 2 {
			_, err := storage.NewRewriter(killed(writes)).Rewrite(t.Context(), item(&object))
			require.ErrorIs(t, err, errKilled)
		}
		if _, unsettled := sets(t, shared.read(t, &object, migrate.Version))["captctl Update "]; unsettled {
			between++
		}
		_, err := storage.NewRewriter(shared.client).Rewrite(t.Context(), item(&object))
		require.NoError(t, err)
		require.Equal(t, straight[object.GetKind()+object.GetGenerateName()+nameOf(&object)], rewritable(shared.read(t, &object, migrate.Version)))
	}
	require.Greater(t, between, 1, "some take two writes, and were interrupted between them")
}

func nameOf(object *unstructured.Unstructured) string {
	if object.GetGenerateName() != "" {
		return ""
	}
	return object.GetName()
}

func TestAWriteOfSomebodyElseInBetweenIsNotLost(t *testing.T) {
	t.Parallel()
	most := 0
	for _, object := range shared.all(t, "busy", migrate.Version) {
		writes := 0
		c := interceptor.NewClient(shared.client, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, own client.Object, options ...client.UpdateOption) error {
				if writes++; writes%2 == 1 { // Before the first write, which is tried again, and before the second one.
					patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/seen":"%d"}}}`, writes))
					if err := c.Patch(ctx, object.DeepCopy(), patch, client.FieldOwner("somebody")); err != nil {
						return err
					}
				}
				return c.Update(ctx, own, options...)
			},
		})
		changed, err := storage.NewRewriter(c).Rewrite(t.Context(), item(&object))
		require.NoError(t, err)
		require.True(t, changed)
		most = max(most, writes)
		now := shared.read(t, &object, migrate.Version)
		require.NotEmpty(t, now.GetLabels()["example.com/seen"])
		require.Empty(t, ownership.Speaks(now))
		require.Contains(t, sets(t, now), "somebody Update ")
		require.NotContains(t, sets(t, now), "captctl Update ")
	}
	require.Equal(t, 4, most, "some take two writes, and each was in vain once")
}

func TestAnotherObjectOfTheNameIsRefusedAndOneThatIsGoneIsNot(t *testing.T) {
	t.Parallel()
	rewriter := storage.NewRewriter(shared.client)
	object := &shared.all(t, "busy", migrate.Version)[0]
	other := item(object)
	other.UID = "another"
	_, err := rewriter.Rewrite(t.Context(), other)
	require.Equal(t, migrate.Stale, migrate.OutcomeOf(err), "%v", err)
	other.OwnerReferences = []metav1.OwnerReference{{}}
	require.Equal(t, migrate.Stale, migrate.OutcomeOf(restore(t, rewriter, other)))
	other.Name = "gone"
	changed, err := rewriter.Rewrite(t.Context(), other)
	require.NoError(t, err)
	require.False(t, changed)
}

func TestOwnerReferencesAreRestored(t *testing.T) {
	t.Parallel()
	rewriter := storage.NewRewriter(shared.client)
	restored := 0
	for _, object := range shared.all(t, "restored", migrate.Version) {
		_, err := rewriter.Rewrite(t.Context(), item(&object))
		require.NoError(t, err)
		moved := shared.read(t, &object, migrate.Version)

		for writes := range 3 {
			if err := restore(t, storage.NewRewriter(killed(writes)), item(&object)); err != nil {
				require.ErrorIs(t, err, errKilled)
			}
		}
		require.NoError(t, restore(t, rewriter, item(&object)))
		now := shared.read(t, &object, migrate.Version)
		require.Equal(t, without(object.DeepCopy(), "managedFields", "resourceVersion").Object, without(now, "managedFields", "resourceVersion").Object)
		require.Equal(t, moved.GetManagedFields(), now.GetManagedFields(), "everybody has what they had, and captctl nothing")
		if !equalReferences(moved, now) {
			restored++
		}

		wrote, err := rewriter.Restore(t.Context(), item(&object))
		require.NoError(t, err)
		require.False(t, wrote)
		require.Equal(t, now.Object, shared.read(t, &object, migrate.Version).Object, "the second time nothing is written")
	}
	require.Positive(t, restored)
}

func TestARestoreThatMeetsSomebodyElsesWriteTriesAgain(t *testing.T) {
	t.Parallel()
	object := decode(olderManifests[2])
	object.SetName("busy-restore")
	object.SetNamespace("restored")
	require.NoError(t, shared.client.Create(t.Context(), object))
	object = shared.read(t, object, migrate.Version)
	_, err := storage.NewRewriter(shared.client).Rewrite(t.Context(), item(object))
	require.NoError(t, err)
	writes := 0
	c := interceptor.NewClient(shared.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, own client.Object, patch client.Patch, options ...client.PatchOption) error {
			if writes++; writes%2 == 1 {
				label := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/seen":"%d"}}}`, writes))
				if err := c.Patch(ctx, object.DeepCopy(), label, client.FieldOwner("somebody")); err != nil {
					return err
				}
			}
			return c.Patch(ctx, own, patch, options...)
		},
	})
	require.NoError(t, restore(t, storage.NewRewriter(c), item(object)))
	require.Equal(t, 4, writes, "two writes, and each was in vain once")
	now := shared.read(t, object, migrate.Version)
	require.Equal(t, object.GetOwnerReferences(), now.GetOwnerReferences())
	require.NotContains(t, sets(t, now), "captctl Update ")
	require.Contains(t, sets(t, now), "somebody Update ")
}

func restore(t *testing.T, rewriter *storage.Rewriter, item migrate.StorageItem) error {
	t.Helper()
	_, err := rewriter.Restore(t.Context(), item)
	return err
}

func equalReferences(a, b *unstructured.Unstructured) bool {
	was, is := a.GetOwnerReferences(), b.GetOwnerReferences()
	for i := range was {
		if was[i].APIVersion != is[i].APIVersion {
			return false
		}
	}
	return true
}

func TestOwnerReferencesThatSomebodyChangedSinceAreNotRestored(t *testing.T) {
	t.Parallel()
	rewriter := storage.NewRewriter(shared.client)
	object := decode(olderManifests[2])
	object.SetName("changed-since")
	object.SetNamespace("restored")
	require.NoError(t, shared.client.Create(t.Context(), object))
	object = shared.read(t, object, migrate.Version)
	before := item(object)
	_, err := rewriter.Rewrite(t.Context(), before)
	require.NoError(t, err)

	patch := func(references string) {
		t.Helper()
		require.NoError(t, shared.client.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":`+references+`}}`))))
	}
	uid := string(before.OwnerReferences[0].UID)
	added := `{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"5f0c0a4e-7d3b-4e57-a5a1-0d2c6a9b1c11"}`
	patch(`[{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"CAPTControlPlane","name":"another","uid":"` + uid + `"}]`)
	err = restore(t, rewriter, before)
	require.Equal(t, migrate.Stale, migrate.OutcomeOf(err), "%v", err)
	require.ErrorContains(t, err, "the owner reference to CAPTControlPlane from-git was changed")

	patch(`[` + added + `]`)
	err = restore(t, rewriter, before)
	require.Equal(t, migrate.Stale, migrate.OutcomeOf(err), "%v", err)
	require.ErrorContains(t, err, "is gone")

	patch(`[` + added + `,{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"CAPTControlPlane","name":"from-git","uid":"` + uid + `"}]`)
	require.NoError(t, restore(t, rewriter, before))
	references := shared.read(t, object, migrate.Version).GetOwnerReferences()
	require.Equal(t, "ConfigMap", references[0].Kind, "what was added since is left to whoever added it")
	require.Equal(t, before.OwnerReferences[0], references[1])
}

func TestObjectsThatV1Beta2HoldsItsRulesAgainstAreRewrittenToo(t *testing.T) {
	t.Parallel()
	rewriter := storage.NewRewriter(shared.client)
	for name := range stubborn {
		var object *unstructured.Unstructured
		for _, candidate := range shared.all(t, "stubborn", migrate.Version) {
			if candidate.GetName() == hyphenated(name) {
				object = &candidate
			}
		}
		require.NotNil(t, object, name)
		err := shared.client.Update(t.Context(), object.DeepCopy())
		require.ErrorContains(t, err, "invalid", "it is no test without a refusal")

		older := shared.read(t, object, migrate.LegacyVersion)
		changed, err := rewriter.Rewrite(t.Context(), item(object))
		require.NoError(t, err, name)
		require.True(t, changed)
		now := shared.read(t, object, migrate.Version)
		require.Empty(t, ownership.Speaks(now))
		require.Equal(t, older.Object["spec"], shared.read(t, object, migrate.LegacyVersion).Object["spec"])
		require.Equal(t, object.GetGeneration(), now.GetGeneration())
		require.NotContains(t, sets(t, now), "captctl Update ")
		changed, err = rewriter.Rewrite(t.Context(), item(object))
		require.NoError(t, err, name)
		require.False(t, changed)
	}
}
