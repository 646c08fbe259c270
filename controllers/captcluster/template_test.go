// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestSafety14FieldsOfAVPCThatHaveNoEffectAreReported(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc"), builder.CAPTCluster("demo", owned))
	require.NoError(t, w.reconcile())
	assert.Equal(t, 1, w.applies)
	found := meta.FindStatusCondition(w.get().Status.Conditions, infrav1.FieldsConsumedCondition)
	require.NotNil(t, found)
	assert.Contains(t, found.Message, "spec.region: has no effect: WorkspaceTemplate default/vpc does not pass ${region} to its module")

	require.NoError(t, w.Client.Delete(t.Context(), builder.WorkspaceTemplate("vpc")))
	require.NoError(t, w.Client.Create(t.Context(), builder.WorkspaceTemplate("vpc", builder.Consuming("region"))))
	require.NoError(t, w.reconcile())
	assert.NotContains(t, builder.Story(w.get().Status.Conditions), infrav1.FieldsConsumedCondition)
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	held := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", builder.Deleting(), held), builder.CAPTCluster("demo", owned))
	require.NoError(t, w.reconcile())
	assert.Zero(t, w.applies)
	assert.Equal(t, "False TemplateDeleting", builder.Story(w.get().Status.Conditions)["VPCReady"])

	t.Run("its users go on", func(t *testing.T) {
		w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplate("vpc", held), builder.CAPTCluster("demo", owned))
		require.NoError(t, w.reconcile())
		require.NoError(t, w.Client.Delete(t.Context(), builder.WorkspaceTemplate("vpc")))
		changed := w.get()
		changed.Spec.VPC.Template.Variables = map[string]string{"cidr": "10.0.0.0/16"}
		require.NoError(t, w.Client.Update(t.Context(), changed))
		require.NoError(t, w.reconcile())
		assert.Equal(t, 2, w.applies)
	})
}
