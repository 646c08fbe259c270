// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// fleet is a world of six: three that clusterctl may move, one that it cannot, one that has no Workspace yet, and one that
// waits for the kind.
func fleet(t *testing.T) *world {
	t.Helper()
	var objects []client.Object
	for name, until := range map[string]string{"one": blockUntilPaused, "two": blockUntilPaused, "three": blockUntilLabeled, "wide": blockUntilManual} {
		objects = append(objects, builder.WorkspaceTemplateApply(name, builder.WithAnnotation(clusterctlv1.BlockMoveAnnotation, until)))
	}
	return newWorld(t, append(objects, builder.WorkspaceTemplateApply("new"),
		builder.WorkspaceTemplateApply("waiting", builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Reason: infrav1.WorkspaceKindMissingReason}}
		})))...)
}

// A change of a definition enqueues those objects for which it can matter, and no others: there may be thousands.
func TestADefinitionReconcilesAffectedObjects(t *testing.T) {
	definition := func(scope terraform.Scope, change func(*apiextensionsv1.CustomResourceDefinition)) client.Object {
		made := builder.WorkspaceDefinition(scope)
		if change != nil {
			change(made)
		}
		return made
	}
	label := func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Labels = map[string]string{clusterctlv1.ClusterctlLabel: ""}
	}
	for name, row := range map[string]struct {
		change               func(*apiextensionsv1.CustomResourceDefinition)
		namespaced, anywhere int // How many wake by the definition of Workspaces in namespaces, and of those that are cluster-wide.
	}{
		"nothing, at a resync": {nil, 0, 0},
		"status": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.ResourceVersion, d.Status.StoredVersions = "2", []string{"v1beta1"}
		}, 0, 0},
		"an annotation": {func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Annotations = map[string]string{"note": ""}
		}, 0, 0},
		"another version": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Generation++ }, 0, 0},
		"a label":         {label, 4, 1},
		"it begins to go": {func(d *apiextensionsv1.CustomResourceDefinition) {
			at := metav1.NewTime(builder.Created)
			d.DeletionTimestamp = &at
		}, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			for scope, want := range map[terraform.Scope]int{terraform.ScopeNamespaced: row.namespaced, terraform.ScopeCluster: row.anywhere} {
				w, changed := fleet(t), definition(scope, row.change)
				woken := 0
				if definitionChanged().Update(event.UpdateEvent{ObjectOld: definition(scope, nil), ObjectNew: changed}) {
					woken = len(w.reconciler.ofDefinition(t.Context(), changed))
				}
				assert.Equal(t, want, woken, scope)
			}
		})
	}
}

func TestDefinitionPredicate(t *testing.T) {
	matters, stranger := definitionChanged(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"}}
	for _, scope := range terraform.Scopes() {
		definition := builder.WorkspaceDefinition(scope)
		assert.True(t, matters.Create(event.CreateEvent{Object: definition}))
		assert.True(t, matters.Delete(event.DeleteEvent{Object: definition}))
	}
	assert.False(t, matters.Create(event.CreateEvent{Object: stranger}))
	assert.False(t, matters.Delete(event.DeleteEvent{Object: stranger}))
}

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
