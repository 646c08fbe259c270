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

package execute_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/builder"
)

// adopted is a world whose plan was carried out, and the fleet before that.
func adopted(t *testing.T) (*world, map[string]string) {
	t.Helper()
	w := newWorld(t)
	before := w.fleet()
	_, err := w.apply()
	require.NoError(t, err)
	w.told()
	return w, before
}

func (w *world) rollBack(object string) (*execute.Result, error) {
	w.options.BackupDir = ""
	return execute.Rollback(w.Context(), w.plan.ID, object, w.options)
}

func TestARollbackGivesTheFleetAsItWas(t *testing.T) {
	w, before := adopted(t)
	require.NotEqual(t, before, w.fleet())
	result, err := w.rollBack("")
	require.NoError(t, err)
	assert.Equal(t, journal.Counts{Total: 7, Written: 7}, result.Steps)
	assert.Equal(t, before, w.fleet())
	assert.Len(t, w.rewriter.restored, 6)
	told := w.told()
	assert.Less(t, index(told, "patch CAPTControlPlane a"), index(told, "patch WorkspaceTemplateApply a-apply"), "the owner first")
	assert.Less(t, index(told, "patch WorkspaceTemplateApply a-apply"), index(told, "patch WorkspaceTemplate eks"))

	_, err = w.rollBack("")
	require.NoError(t, err)
	assert.Empty(t, w.told(), "not even the lock")
	_, err = execute.Resume(t.Context(), w.plan.ID, w.options)
	require.ErrorContains(t, err, "was being taken back")

	after, err := w.apply()
	require.NoError(t, err, "and it can be carried out again")
	assert.Equal(t, 7, after.Steps.Written)
}

func index(list []string, wanted string) int {
	for i, text := range list {
		if text == wanted {
			return i
		}
	}
	return -1
}

func TestOneUnitIsTakenBack(t *testing.T) {
	w, before := adopted(t)
	whole := w.fleet()
	for name := range before {
		if name != "CAPTControlPlane b" && name != "WorkspaceTemplateApply b-apply" {
			before[name] = whole[name]
		}
	}
	result, err := w.rollBack("captcontrolplane/default/b")
	require.NoError(t, err)
	assert.Equal(t, 2, result.Steps.Written)
	assert.Equal(t, before, w.fleet())
	assert.ElementsMatch(t, []string{"WorkspaceTemplateApply default/b-apply", "CAPTControlPlane default/b"}, w.rewriter.restored)

	_, err = w.rollBack("CAPTControlPlane/default/other")
	require.ErrorContains(t, err, "writes no CAPTControlPlane/default/other")
	_, err = w.rollBack("b")
	require.ErrorContains(t, err, "KIND/NAMESPACE/NAME")
}

func TestWhatChangedSinceIsNotTakenBack(t *testing.T) {
	w, before := adopted(t)
	w.upgrade("b")
	kept := w.fleet()
	result, err := w.rollBack("")
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
	require.Len(t, result.Failures, 1)
	assert.Equal(t, "CAPTControlPlane default/b", result.Failures[0].Object.String())
	assert.Contains(t, result.Failures[0].Error, "changed; it was left as it is")
	for _, name := range []string{"CAPTControlPlane b", "WorkspaceTemplateApply b-apply", "WorkspaceTemplate eks"} {
		before[name] = kept[name]
	}
	assert.Equal(t, before, w.fleet(), "all of b stays as it is, with the permission for its template, and the others go back")
	assert.Len(t, w.rewriter.restored, 4)
}

// The manager has written into what was adopted. An owner that lost its reference alone would be built anew.
func TestAnOwnerKeepsItsReferenceWhenTheRestIsNotTakenBack(t *testing.T) {
	w, _ := adopted(t)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"variables":{"addons":"[]"}}}`))
	require.NoError(t, w.base.Patch(t.Context(), builder.WorkspaceTemplateApply("b-apply"), patch))
	kept := w.fleet()
	result, err := w.rollBack("")
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
	require.Len(t, result.Failures, 1)
	assert.Equal(t, "WorkspaceTemplateApply default/b-apply", result.Failures[0].Object.String())
	now := w.fleet()
	for _, name := range []string{"CAPTControlPlane b", "WorkspaceTemplateApply b-apply", "WorkspaceTemplate eks"} {
		assert.Equal(t, kept[name], now[name])
	}
}

func TestNothingIsTakenBackWhen(t *testing.T) {
	for name, row := range map[string]struct {
		given   func(*world)
		outcome migrate.Outcome
		says    string
	}{
		"an older manager runs": {func(w *world) {
			w.options.OlderManagerRuns = func(context.Context) (string, error) { return "Deployment capt-system/older", nil }
		}, migrate.NotPermitted, "Deployment capt-system/older runs, and would build a second cluster"},
		"the migration was finalized": {func(w *world) {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(w, w.base.Get(w.Context(), client.ObjectKey{Name: "captcontrolplanes.controlplane.cluster.x-k8s.io"}, definition))
			definition.Status.StoredVersions = []string{migrate.Version}
			require.NoError(w, w.base.Status().Update(w.Context(), definition))
		}, migrate.Failed, "finalized"},
		"it was never begun": {func(w *world) { w.plan.ID = "000000000000" }, migrate.Failed, "never begun"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := adopted(t)
			row.given(w)
			_, err := w.rollBack("")
			require.ErrorContains(t, err, row.says)
			assert.Equal(t, row.outcome, migrate.OutcomeOf(err))
			assert.Empty(t, w.told())
		})
	}
}

func TestARollbackThatIsKilledIsGoneOnWith(t *testing.T) {
	whole, before := adopted(t)
	_, err := whole.rollBack("")
	require.NoError(t, err)
	for n := range len(whole.told()) {
		w, _ := adopted(t)
		count := 0
		w.after = func(string) error {
			if count++; count > n {
				return errKilled
			}
			return nil
		}
		_, _ = w.rollBack("")
		w.after = nil
		w.expire()
		_, err := w.rollBack("")
		require.NoError(t, err)
		assert.Equal(t, before, w.fleet(), "killed after write %d", n+1)
	}
}
