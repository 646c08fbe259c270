// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// The owner writes nothing while it is paused; an edit of the template and the garbage collector reach what it controls all the same.
func TestSafety17ThePauseOfTheControllerPausesTheObject(t *testing.T) {
	ctx := context.Background()
	for name, owner := range map[string]client.Object{"CAPTCluster": builder.CAPTCluster("demo"), "CAPTControlPlane": builder.CAPTControlPlane("demo")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner)))
			w.mustReconcile("demo-vpc")
			w.provide("demo-vpc", builder.AtRest)
			w.mustReconcile("demo-vpc")
			before := w.workspace("demo-vpc").GetResourceVersion()

			builder.Paused()(owner)
			require.NoError(t, w.client.Update(ctx, owner))
			assert.Contains(t, w.reconciler.ofOwner(ctx, owner), request("demo-vpc"), "the pause wakes it")
			template := &infrav1.WorkspaceTemplate{}
			require.NoError(t, w.client.Get(ctx, client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}, template))
			template.Spec.Template.Spec.ForProvider.Module += "# changed\n"
			require.NoError(t, w.client.Update(ctx, template))
			w.mustReconcile("demo-vpc")
			assert.Equal(t, before, w.workspace("demo-vpc").GetResourceVersion(), "the edit does not reach Terraform")
			paused := meta.FindStatusCondition(w.get("demo-vpc").Status.Conditions, clusterv1.PausedCondition)
			assert.Equal(t, name+" demo, which controls this object, is paused: the object has the cluster.x-k8s.io/paused annotation", paused.Message)
			w.writes = nil
			w.mustReconcile("demo-vpc")
			assert.Empty(t, w.writes, "at rest nothing is written")

			require.NoError(t, w.client.Delete(ctx, w.get("demo-vpc"))) // As the garbage collector does in a foreground deletion.
			w.mustReconcile("demo-vpc")
			assert.NotContains(t, w.writes, "delete Workspace")

			owner.SetAnnotations(nil)
			require.NoError(t, w.client.Update(ctx, owner))
			w.mustReconcile("demo-vpc")
			assert.Contains(t, w.writes, "delete Workspace")
		})
	}
}

// An object of the same name that does not control it, such as one that was recreated, pauses nothing.
func TestSafety17OnlyTheControllerPauses(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithUID("another"), builder.Paused())
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo"))))
	w.mustReconcile("demo-vpc")
	assert.NotContains(t, builder.Story(w.get("demo-vpc").Status.Conditions), clusterv1.PausedCondition)
}

// The cache lists in any order; another order would be another message, and another status write.
func TestSafety23DependentsAreNamedInOneOrder(t *testing.T) {
	ctx := context.Background()
	onTop := func(name string) client.Object {
		return builder.WorkspaceTemplateApply(name, builder.WaitingForWorkspace("demo-vpc", ""), builder.WithRecordedWorkspace(builder.Workspace(name, builder.AtRest)))
	}
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), onTop("c"), onTop("a"), onTop("b"))
	w.mustReconcile("demo-vpc")
	w.reconciler.Client = shuffled{w.reconciler.Client}
	names, err := w.reconciler.dependentsOf(ctx, w.get("demo-vpc"))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, names)
}

// shuffled is a cache that lists from the last to the first.
type shuffled struct{ client.Client }

func (c shuffled) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Client.List(ctx, list, options...)
	if applies, ok := list.(*infrav1.WorkspaceTemplateApplyList); ok {
		slices.Reverse(applies.Items)
	}
	return err
}
