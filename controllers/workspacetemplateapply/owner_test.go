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
	ctx := t.Context()
	for name, owner := range map[string]client.Object{"CAPTCluster": builder.CAPTCluster("demo"), "CAPTControlPlane": builder.CAPTControlPlane("demo")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner)))
			w.rest("demo-vpc")
			before := w.workspace("demo-vpc").GetResourceVersion()

			builder.Paused()(owner)
			w.update(owner)
			assert.Contains(t, w.reconciler.ofOwner(ctx, owner), request("demo-vpc"), "the pause wakes it")
			w.template(builder.WithModule("# changed"))
			w.mustReconcile("demo-vpc")
			assert.Equal(t, before, w.workspace("demo-vpc").GetResourceVersion(), "the edit does not reach Terraform")
			paused := meta.FindStatusCondition(w.get("demo-vpc").Status.Conditions, clusterv1.PausedCondition)
			assert.Equal(t, name+" demo, which controls this object, is paused: the object has the cluster.x-k8s.io/paused annotation", paused.Message)
			assert.Empty(t, w.mustReconcile("demo-vpc"), "at rest nothing is written")

			w.remove(w.get("demo-vpc")) // As the garbage collector does in a foreground deletion.
			assert.NotContains(t, w.mustReconcile("demo-vpc"), "delete Workspace")

			owner.SetAnnotations(nil)
			w.update(owner)
			assert.Contains(t, w.mustReconcile("demo-vpc"), "delete Workspace")
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
	ctx := t.Context()
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
