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
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

func without(object *unstructured.Unstructured, names ...string) *unstructured.Unstructured {
	object = object.DeepCopy()
	for _, name := range names {
		unstructured.RemoveNestedField(object.Object, "metadata", name)
	}
	return object
}

func TestEveryObjectOfALegacyFleetIsRewrittenAndNothingElseHappens(t *testing.T) {
	t.Parallel()
	rewriter := storage.NewRewriter(shared.client)
	before := shared.all(t, "fleet", migrate.Version)
	require.Greater(t, len(before), 15)
	older := 0
	for i := range before {
		object := &before[i]
		inOlder := shared.read(t, object, migrate.LegacyVersion)
		require.NotEmpty(t, ownership.Speaks(object))
		changed, err := rewriter.Rewrite(t.Context(), item(object))
		require.NoError(t, err)
		require.True(t, changed)

		now := shared.read(t, object, migrate.Version)
		require.Empty(t, ownership.Speaks(now))
		require.Equal(t, object.GetGeneration(), now.GetGeneration())
		moved := []string{"resourceVersion", "managedFields", "ownerReferences"}
		assert.Equal(t, without(object, moved...).Object, without(now, moved...).Object)
		assert.Equal(t, without(inOlder, moved...).Object, without(shared.read(t, object, migrate.LegacyVersion), moved...).Object)
		was, is := object.GetOwnerReferences(), now.GetOwnerReferences()
		require.Len(t, is, len(was))
		for i := range was {
			if migrate.IsOlder(was[i].APIVersion) {
				older++
			}
			was[i].APIVersion, is[i].APIVersion = "", ""
		}
		require.Equal(t, was, is, "UIDs, flags and order are kept")
		requireSameManagers(t, object, now)

		changed, err = rewriter.Rewrite(t.Context(), item(object))
		require.NoError(t, err)
		require.False(t, changed)
		require.Equal(t, now.Object, shared.read(t, object, migrate.Version).Object, "the second time nothing is written")
	}
	require.Greater(t, older, 1)
	for _, resource := range []string{"workspacetemplates", "workspacetemplateapplies", "captclusters"} {
		stored := shared.stored(t, infrastructure, resource+"/fleet/")
		require.NotEmpty(t, stored)
		for key, value := range stored {
			require.Equal(t, infrastructure+"/v1beta2", value.apiVersion, key)
		}
	}
}

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
)

// emptied is a manager whose only field, a default of the older definitions, means nothing in v1beta2.
const emptied = "CAPTControlPlane lighthouse- manager status"

// requireSameManagers says that nobody came and nobody who still has a field went, and captctl owns nothing.
func requireSameManagers(t *testing.T, was, is *unstructured.Unstructured) {
	t.Helper()
	managers := func(object *unstructured.Unstructured) (found []string) {
		for _, entry := range object.GetManagedFields() {
			name := fmt.Sprintf("%s %s %s %s", object.GetKind(), cmp.Or(object.GetGenerateName(), object.GetName()), entry.Manager, entry.Subresource)
			if name != emptied {
				found = append(found, fmt.Sprintf("%s %s %s", name, entry.Operation, entry.Time))
			}
		}
		slices.Sort(found)
		return found
	}
	assert.Equal(t, managers(was), managers(is))
	sets(t, is)
}
