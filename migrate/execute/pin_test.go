// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package execute_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/test/builder"
)

// newPinnedWorld has a plan whose first unit creates a template before it writes anything else.
func newPinnedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	template := builder.WorkspaceTemplate("a-pinned")
	template.APIVersion, template.Kind, template.UID = infrav1.GroupVersion.String(), "WorkspaceTemplate", ""
	data, err := json.Marshal(template)
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(data))
	hash, err := migrate.ContentHash(object)
	require.NoError(t, err)
	create := migrate.Step{
		Object: migrate.Ref("WorkspaceTemplate", template), Create: data, Patch: []migrate.Operation{}, Inverse: []migrate.Operation{},
		Precondition: migrate.Precondition{After: hash},
	}
	w.plan.Units[0].Steps = append([]migrate.Step{create}, w.plan.Units[0].Steps...)
	require.NoError(t, w.plan.Seal())
	return w
}

const createsTemplate = "create WorkspaceTemplate a-pinned"

func TestATemplateIsCreatedOnceWhereverARunIsKilled(t *testing.T) {
	for name, hook := range map[string]func(w *world, fail func(string) error){
		"before": func(w *world, fail func(string) error) { w.before = fail },
		"after":  func(w *world, fail func(string) error) { w.after = fail },
	} {
		t.Run(name, func(t *testing.T) {
			w := newPinnedWorld(t)
			hook(w, func(write string) error {
				if write == createsTemplate {
					return errKilled
				}
				return nil
			})
			_, err := w.apply()
			require.Error(t, err)
			w.before, w.after = nil, nil
			w.told()

			result, err := w.apply()
			require.NoError(t, err)
			assert.Equal(t, result.Steps.Total, result.Steps.Written+result.Steps.Already)
			creates := slices.DeleteFunc(w.told(), func(write string) bool { return write != createsTemplate })
			assert.Len(t, creates, map[string]int{"before": 1, "after": 0}[name])
		})
	}
}

func TestTheAnswerToACreationMayBeLost(t *testing.T) {
	w := newPinnedWorld(t)
	first := true
	w.after = func(write string) error {
		if write == createsTemplate && first {
			first = false
			return lost()
		}
		return nil
	}
	result, err := w.apply()
	require.NoError(t, err)
	assert.Equal(t, result.Steps.Total, result.Steps.Written)
}

// captctl deletes nothing: a rollback leaves the template, and says so. The plan can be applied again.
func TestARollbackLeavesTheTemplate(t *testing.T) {
	w := newPinnedWorld(t)
	before := w.fleet()
	_, err := w.apply()
	require.NoError(t, err)
	w.told()
	result, err := execute.Rollback(t.Context(), w.plan.ID, "", w.options)
	require.NoError(t, err)
	assert.Equal(t, []migrate.ObjectRef{w.plan.Units[0].Steps[0].Object}, result.Left)
	for _, write := range w.told() {
		assert.False(t, strings.HasPrefix(write, "delete"), write)
	}
	after := w.fleet()
	require.Contains(t, after, "WorkspaceTemplate a-pinned")
	delete(after, "WorkspaceTemplate a-pinned")
	assert.Equal(t, before, after)

	result, err = w.apply()
	require.NoError(t, err)
	assert.Equal(t, 1, result.Steps.Already, "the template is there")
}

func TestAnotherObjectOfTheNameMakesAPlanStale(t *testing.T) {
	w := newPinnedWorld(t)
	other := builder.WorkspaceTemplate("a-pinned")
	other.Spec.Template.Spec.ForProvider.Module = "# another"
	require.NoError(t, w.base.Create(t.Context(), other))
	_, err := w.apply()
	assert.Equal(t, migrate.Stale, migrate.OutcomeOf(err), "%v", err)
	assert.ErrorContains(t, err, "a-pinned")
}
