// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestBeforeAdoptionNothingIsBuilt runs the manager over every known kind of legacy fleet: without references, with
// several candidates, with references to what another cluster has, without status. Nothing is created, changed or deleted.
func TestBeforeAdoptionNothingIsBuilt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sandbox.Options{})
	for name, fixture := range legacy.Named() {
		fixture.ControlPlaneTemplates = 0
		_, err := w.Create(t.Context(), fixture, legacy.NamesOf(name))
		require.NoError(t, err, name)
	}
	require.NoError(t, w.Upgrade(t.Context(), legacy.WebhooksOnly))
	before, untouched := w.legacyObjects(), w.untouched()

	require.NoError(t, w.StartControllers(t.Context()))
	w.await(func() string {
		for name, object := range w.legacyObjects() {
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
	w.awaitReconciled()

	untouched.require(t)
	for _, event := range w.managerWrites(untouched.since) {
		require.Equal(t, "patch status", event.Verb+" "+event.ObjectRef.Subresource, event.RequestURI)
	}
	// What is being deleted reports that, and an owner without a status has none to keep.
	kept := func(objects map[string]*unstructured.Unstructured) map[string]*unstructured.Unstructured {
		maps.DeleteFunc(objects, func(_ string, object *unstructured.Unstructured) bool {
			return object.GetDeletionTimestamp() != nil || strings.HasPrefix(object.GetNamespace(), "status-wiped")
		})
		return objects
	}
	w.requireOnlyConditions(kept(before), kept(w.legacyObjects()))

	again := time.Now()
	require.NoError(t, w.StartControllers(t.Context()))
	w.awaitReconciled()
	require.Empty(t, w.managerWrites(again))
}
