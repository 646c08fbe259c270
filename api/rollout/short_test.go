// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// storedContent returns a template with a module, and the ControllerRevision of its content.
func storedContent(t *testing.T, module string) (*infrav1.WorkspaceTemplate, *appsv1.ControllerRevision) {
	t.Helper()
	template := builder.WorkspaceTemplate("vpc", builder.WithModule(module))
	revision := History(nil).Record(template)
	object, err := revision.Object(template)
	require.NoError(t, err)
	return template, object
}

func TestContentsWithTheSameBeginningOfTheHashAreTwoRevisions(t *testing.T) {
	harmless, first := storedContent(t, builder.Harmless)
	harmful, second := storedContent(t, builder.Harmful)
	require.Equal(t, builder.Short(HashOf(harmless)), builder.Short(HashOf(harmful)))
	assert.NotEqual(t, first.Name, second.Name)
	for _, first := range []*appsv1.ControllerRevision{first, builder.StoredEarlier(first)} {
		history := HistoryOf(harmful, []appsv1.ControllerRevision{*first, *second})
		require.Len(t, history, 2)
		assert.Equal(t, builder.Harmless, history.Find(HashOf(harmless)).Content.Spec.ForProvider.Module)
		assert.Equal(t, builder.Harmful, history.Find(HashOf(harmful)).Content.Spec.ForProvider.Module)
		assert.Nil(t, history.Named(builder.Short(HashOf(harmful))), "the beginning names both")
		assert.Equal(t, builder.Harmful, history.Named(HashOf(harmful)).Content.Spec.ForProvider.Module)
	}
}

func TestARevisionThatAnEarlierVersionStoredIsKept(t *testing.T) {
	template, object := storedContent(t, "# 1")
	earlier := builder.StoredEarlier(object)
	revision, err := Parse(earlier)
	require.NoError(t, err)
	assert.Equal(t, HashOf(template), revision.Hash)
	again, err := revision.Object(template)
	require.NoError(t, err)
	assert.Equal(t, earlier, again, "it is written under its name")

	_, other := storedContent(t, "# 2")
	earlier.Data = other.Data
	_, err = Parse(earlier)
	require.ErrorContains(t, err, "the name is not that of its content")
}

// The value of the label decides nothing.
func TestARevisionIsFoundWhateverItsLabelIs(t *testing.T) {
	template, object := storedContent(t, "# 1")
	object.Labels[naming.TemplateRevisionLabel] = "other"
	assert.Len(t, HistoryOf(template, []appsv1.ControllerRevision{*object}), 1)
	object.OwnerReferences = nil
	assert.Equal(t, types.NamespacedName{Namespace: template.Namespace, Name: "vpc"}, TemplateOf(object))
	assert.Len(t, HistoryOf(template, []appsv1.ControllerRevision{*object}), 1)
}

func TestARecordOfAnEarlierVersionMeansTheOnlyRevisionThatThatVersionStored(t *testing.T) {
	harmless, first := storedContent(t, builder.Harmless)
	harmful, second := storedContent(t, builder.Harmful)
	recorded, earlier := builder.Short(HashOf(harmless)), builder.StoredEarlier(first)
	history := func(objects ...*appsv1.ControllerRevision) (h History) {
		for _, object := range objects {
			h = append(h, HistoryOf(harmful, []appsv1.ControllerRevision{*object})...)
		}
		return h
	}
	assert.Equal(t, HashOf(harmless), history(earlier).resolve(recorded))
	assert.Equal(t, HashOf(harmless), history(earlier).resolve(HashOf(harmless)))
	assert.Equal(t, recorded, history(earlier, second).resolve(recorded), "it may mean either")
	assert.Equal(t, recorded, history(first).resolve(recorded), "this version records whole hashes only")
	assert.Empty(t, history(earlier).resolve(""))

	apply := builder.WorkspaceTemplateApply("demo", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRevision = recorded }))
	staged := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}
	for name, row := range map[string]struct {
		template *infrav1.WorkspaceTemplate
		stored   []*appsv1.ControllerRevision
		want     string
	}{
		"stored":                               {builder.WorkspaceTemplate("vpc"), []*appsv1.ControllerRevision{earlier}, builder.Harmless},
		"the current content":                  {harmless, []*appsv1.ControllerRevision{earlier}, builder.Harmless},
		"another current content":              {harmful, []*appsv1.ControllerRevision{earlier}, ""},
		"another stored one":                   {builder.WorkspaceTemplate("vpc"), []*appsv1.ControllerRevision{earlier, second}, ""},
		"only another one":                     {builder.WorkspaceTemplate("vpc"), []*appsv1.ControllerRevision{second}, ""},
		"only the current content, not stored": {harmful, nil, ""},
	} {
		store := Store{
			First: func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error) {
				for _, key := range keys {
					for _, object := range row.stored {
						if object.Name == key.Name {
							return object, nil
						}
					}
				}
				return nil, nil
			},
			All: func(string) (list []appsv1.ControllerRevision, _ error) {
				for _, object := range row.stored {
					list = append(list, *object)
				}
				return list, nil
			},
		}
		at, revision, err := ContentFor(apply, row.template, staged, store)
		require.NoError(t, err)
		if row.want == "" {
			assert.Nil(t, at, name)
			assert.Equal(t, recorded, revision, name)
			continue
		}
		require.NotNil(t, at, name)
		assert.Equal(t, row.want, at.Spec.Template.Spec.ForProvider.Module, name)
		assert.Equal(t, HashOf(harmless), revision, name)
	}
}

// A manager that stored it later must not find that the record means the other one.
func TestWhatARecordMayMeanIsKept(t *testing.T) {
	harmless, first := storedContent(t, builder.Harmless)
	harmful, second := storedContent(t, builder.Harmful)
	var history History
	for range maxRevisions {
		history = append(history, Revision{})
	}
	history = append(history, HistoryOf(harmful, []appsv1.ControllerRevision{*builder.StoredEarlier(first)})...)
	history = append(history, HistoryOf(harmful, []appsv1.ControllerRevision{*second})...)
	assert.Empty(t, history.Obsolete([]User{{Assigned: builder.Short(HashOf(harmless))}}))
	assert.Equal(t, []string{second.Name}, history.Obsolete([]User{{Written: HashOf(harmless)}}))
}
