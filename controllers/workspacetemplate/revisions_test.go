// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/test/builder"
)

func TestARevisionIsReadFromTheAPIServerIfTheCacheDoesNotHaveIt(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{})
	hash := rollout.HashOf(s.settle())
	key := client.ObjectKey{Namespace: builder.Namespace, Name: naming.TemplateRevision("vpc", hash)}
	stale := builder.Clients().Build()
	found, err := Lookup{Cached: stale, Uncached: s.Client}.Revisions(t.Context()).First(key)
	require.NoError(t, err)
	assert.Equal(t, key.Name, found.Name)
	found, err = Lookup{Cached: stale, Uncached: stale}.Revisions(t.Context()).First(key)
	require.NoError(t, err)
	assert.Nil(t, found)
	_, err = Lookup{Cached: builder.FailingGet[*appsv1.ControllerRevision](stale, assert.AnError)}.Revisions(t.Context()).First(key)
	require.ErrorIs(t, err, assert.AnError)
}

// A user copied them from another management cluster, before or after the manager stored the current content here.
func TestTheTemplateGetsRevisionsWithoutAnOwner(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{State: infrav1.RolloutPaused}, user("a"))
	for _, text := range []string{"# 1", "# 2", "# 3"} {
		s.edit(module(text))
	}
	var copies, list appsv1.ControllerRevisionList
	s.settle()
	require.NoError(t, s.Client.List(t.Context(), &copies))
	require.Len(t, copies.Items, 3)
	for _, stored := range []bool{false, true} {
		for i := range copies.Items {
			require.NoError(t, s.Client.Delete(t.Context(), copies.Items[i].DeepCopy()))
		}
		if stored {
			s.settle()
		}
		for i := range copies.Items {
			revision := copies.Items[i].DeepCopy()
			revision.ResourceVersion, revision.OwnerReferences = "", nil
			require.NoError(t, client.IgnoreAlreadyExists(s.Client.Create(t.Context(), revision)))
		}
		template := s.settle()
		require.NoError(t, s.Client.List(t.Context(), &list))
		history := rollout.HistoryOf(template, list.Items)
		require.Len(t, history, 3)
		assert.Equal(t, rollout.HashOf(template), history[0].Hash)
		for i := range list.Items {
			assert.True(t, metav1.IsControlledBy(&list.Items[i], template), "already stored: %v", stored)
		}
	}
}
