// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/test/builder"
)

// fleet is an environment of six: three that clusterctl may move, one that it cannot, one that has no Workspace yet, and one that
// waits for the kind.
func fleet(t *testing.T) *environment {
	t.Helper()
	var objects []client.Object
	for name, until := range map[string]string{"one": blockUntilPaused, "two": blockUntilPaused, "three": blockUntilLabeled, "wide": blockUntilManual} {
		objects = append(objects, builder.WorkspaceTemplateApply(name, builder.WithAnnotation(clusterctlv1.BlockMoveAnnotation, until)))
	}
	return newEnvironment(t, append(objects, builder.WorkspaceTemplateApply("new"),
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
		"a label": {func(d *apiextensionsv1.CustomResourceDefinition) {
			builder.WithLabel(clusterctlv1.ClusterctlLabel, "")(d)
		}, 4, 1},
		"it begins to go": {func(d *apiextensionsv1.CustomResourceDefinition) { builder.Deleting()(d) }, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			for scope, want := range map[terraform.Scope]int{terraform.ScopeNamespaced: row.namespaced, terraform.ScopeCluster: row.anywhere} {
				env, changed := fleet(t), definition(scope, row.change)
				woken := 0
				if definitionChanged().Update(event.UpdateEvent{ObjectOld: definition(scope, nil), ObjectNew: changed}) {
					woken = len(env.reconciler.ofDefinition(t.Context(), changed))
				}
				assert.Equal(t, want, woken, scope)
			}
		})
	}

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
func TestThePauseOfTheControllerPausesTheObject(t *testing.T) {
	ctx := t.Context()
	for name, owner := range map[string]client.Object{"CAPTCluster": builder.CAPTCluster("demo"), "CAPTControlPlane": builder.CAPTControlPlane("demo")} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner)))
			env.rest("demo-vpc")
			before := env.workspace("demo-vpc").GetResourceVersion()

			builder.Paused()(owner)
			env.update(owner)
			assert.Contains(t, env.reconciler.ofOwner(ctx, owner), request("demo-vpc"), "the pause wakes it")
			env.template(builder.WithModule("# changed"))
			env.mustReconcile("demo-vpc")
			assert.Equal(t, before, env.workspace("demo-vpc").GetResourceVersion(), "the edit does not reach Terraform")
			assert.Equal(t, name+" demo, which controls this object, is paused: the object has the cluster.x-k8s.io/paused annotation", env.paused())
			assert.Empty(t, env.mustReconcile("demo-vpc"), "at rest nothing is written")

			env.remove(env.get("demo-vpc")) // As the garbage collector does in a foreground deletion.
			assert.NotContains(t, env.mustReconcile("demo-vpc"), "delete Workspace")

			owner.SetAnnotations(nil)
			env.update(owner)
			assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
		})
	}
}

// A foreground deletion of the owner deletes all that it controls. Otherwise, only its own WorkspaceTemplateApply is protected: the owner deletes
// that of a profile which was removed from its spec.
func TestTheProtectionOfTheControllerKeepsTheWorkspace(t *testing.T) {
	deleting := func(object client.Object) {
		builder.Deleting()(object)
		builder.WithFinalizers("test/hold")(object)
	}
	protected := builder.WithDeletionProtection(infrav1.DeletionProtectionEnabled)
	for name, row := range map[string]struct {
		owner client.Object
		keeps bool
	}{
		"CAPTCluster":                          {builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), protected), true},
		"CAPTControlPlane":                     {builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-vpc"), protected), true},
		"CAPTControlPlane, being deleted":      {builder.CAPTControlPlane("demo", builder.WithApplyRef("other"), protected, deleting), true},
		"CAPTControlPlane, of another":         {builder.CAPTControlPlane("demo", builder.WithApplyRef("other"), protected), false},
		"CAPTControlPlane, not protected":      {builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-vpc"), deleting), false},
		"CAPTCluster, protection was disabled": {builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), builder.WithDeletionProtection(infrav1.DeletionProtectionDisabled)), false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), row.owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(row.owner)))
			env.rest("demo-vpc")
			env.remove(env.get("demo-vpc"))
			writes := env.mustReconcile("demo-vpc")
			if !row.keeps {
				assert.Contains(t, writes, "delete Workspace")
				return
			}
			assert.Equal(t, []string{"status"}, writes)
			kind, _, _ := strings.Cut(name, ",")
			assert.Equal(t, "True "+infrav1.DeletionProtectedReason, builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)[infrav1.DeletingCondition])
			assert.Contains(t, conditions.GetMessage(env.get("demo-vpc"), infrav1.DeletingCondition), "spec.deletionProtection of "+kind+" demo, which controls this object, is Enabled")
			assert.Empty(t, env.mustReconcile("demo-vpc"), "at rest nothing is written")

			before := row.owner.DeepCopyObject().(client.Object)
			builder.WithDeletionProtection(infrav1.DeletionProtectionDisabled)(row.owner)
			env.update(row.owner)
			assert.True(t, ownerChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: row.owner}), "the change wakes it")
			assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
		})
	}
}

// An object of the same name that does not control it, such as one that was recreated, pauses nothing.
func TestOnlyTheControllerPauses(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithUID("another"), builder.Paused())
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(builder.CAPTCluster("demo"))))
	env.mustReconcile("demo-vpc")
	assert.NotContains(t, builder.ConditionSummary(env.get("demo-vpc").Status.Conditions), clusterv1.PausedCondition)
}

// The cache lists in any order; another order would be another message, and another status write.
func TestDependentsAreNamedInOneOrder(t *testing.T) {
	ctx := t.Context()
	onTop := func(name string) client.Object {
		return builder.WorkspaceTemplateApply(name, builder.WaitingForWorkspace("demo-vpc", ""), builder.WithRecordedWorkspace(builder.Workspace(name, builder.AtRest)))
	}
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), onTop("c"), onTop("a"), onTop("b"))
	env.mustReconcile("demo-vpc")
	env.reconciler.Client = interceptor.NewClient(env.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			slices.Reverse(list.(*infrav1.WorkspaceTemplateApplyList).Items)
			return err
		},
	})
	waits, err := env.reconciler.dependentsOf(ctx, env.get("demo-vpc"))
	require.NoError(t, err)
	assert.Contains(t, waits.Message, "waiting for the deletion of WorkspaceTemplateApply a, b, c")
}

// label labels the definition of a scope's Workspaces, as the manual says.
func (env *environment) label(scope terraform.Scope, labels ...string) {
	env.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(env, env.API.Get(env.T.Context(), client.ObjectKey{Name: workspace.DefinitionOf(scope)}, definition))
	definition.Labels = map[string]string{}
	for _, label := range labels {
		definition.Labels[label] = ""
	}
	env.update(definition)
}

// atRest is an environment with a WorkspaceTemplateApply of a Cluster whose Workspace is at rest.
func atRest(t *testing.T, labels ...string) *environment {
	t.Helper()
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.Cluster("demo"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithLabel(clusterv1.ClusterNameLabel, "demo")))
	env.label(terraform.ScopeNamespaced, labels...)
	env.rest("demo-vpc")
	require.Contains(t, env.ready("demo-vpc"), "True UpToDate")
	return env
}

// pause sets spec.paused of the Cluster, as clusterctl does.
func (env *environment) pause(paused bool) {
	env.Helper()
	cluster := &clusterv1.Cluster{}
	require.NoError(env, env.API.Get(env.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}, cluster))
	cluster.Spec.Paused = ptr.To(paused)
	env.update(cluster)
}

// block is until when clusterctl is kept from moving the object; empty when it is not.
func (env *environment) block() string {
	env.Helper()
	return env.get("demo-vpc").Annotations[clusterctlv1.BlockMoveAnnotation]
}

func (env *environment) paused() string {
	env.Helper()
	return conditions.GetMessage(env.get("demo-vpc"), clusterv1.PausedCondition)
}

var moved = []string{clusterctlv1.ClusterctlLabel, clusterctlv1.ClusterctlMoveHierarchyLabel}

func TestAnObjectWithAWorkspaceBlocksMoveUntilPaused(t *testing.T) {
	env := atRest(t, moved...)
	assert.Equal(t, blockUntilPaused, env.block())
	assert.Equal(t, env.workspace("demo-vpc").GetAnnotations()["crossplane.io/external-name"], env.get("demo-vpc").Annotations[naming.ExternalNameAnnotation])

	env.pause(true)
	assert.Equal(t, []string{"patch", "status"}, env.mustReconcile("demo-vpc"))
	assert.Empty(t, env.block())
	assert.Equal(t, "Cluster spec.paused is set to true", env.paused())
	assert.Empty(t, env.mustReconcile("demo-vpc"), "it is not put back while the object is paused")

	env.pause(false)
	assert.Equal(t, []string{"patch", "status"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, blockUntilPaused, env.block())
	assert.Empty(t, env.mustReconcile("demo-vpc"))

	// The manager before this one did not know of moves.
	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = nil })
	assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"), "with one write")
	assert.Equal(t, blockUntilPaused, env.block())
	assert.Empty(t, env.mustReconcile("demo-vpc"))
}

// What would be lost, or go on in two places, is not moved.
func TestMoveWaits(t *testing.T) {
	row := func(row builder.Row) func(env *environment) {
		return func(env *environment) { env.provide("demo-vpc", row) }
	}
	for name, moment := range map[string]struct {
		before, after func(env *environment)
		want          string
	}{
		"Terraform is running": {nil, row(builder.FirstApplyRunning), "clusterctl move would wait: Workspace demo-vpc is not up to date (" + infrav1.ProvisioningReason + ")"},
		"an update failed":     {nil, row(builder.UpdateFailed), "Workspace demo-vpc is not up to date (" + infrav1.ApplyFailedReason + ")"},
		"a plan failed":        {nil, row(builder.PlanFailed), "Workspace demo-vpc is not up to date (" + infrav1.PlanFailedReason + ")"},
		"a deletion": {func(env *environment) {
			env.remove(env.get("demo-vpc"))
			require.Contains(env, env.mustReconcile("demo-vpc"), "delete Workspace")
		}, nil, "Workspace demo-vpc is not up to date (WorkspaceDeleting)"},
		"a change that is paused": {nil, func(env *environment) { env.template(builder.WithModule("# new")) }, "Workspace demo-vpc is not up to date"},
		"the Workspace is gone: it would be recreated elsewhere, although it may not be wanted any more": {nil, func(env *environment) {
			env.remove(env.workspace("demo-vpc"))
			env.destroyed("demo-vpc")
		}, "Workspace demo-vpc does not exist"},
		"the policy, of which the user may have installed others": {nil, func(env *environment) {
			env.remove(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "my-capt-moved-workspaces"}})
		}, "clusterctl move would wait: ValidatingAdmissionPolicyBinding capt-moved-workspaces, which protects moved Workspaces from provider-terraform, is not installed"},
	} {
		t.Run(name, func(t *testing.T) {
			env := atRest(t, moved...)
			for _, step := range []func(env *environment){moment.before, func(env *environment) { env.pause(true) }, moment.after} {
				if step != nil {
					step(env)
				}
			}
			env.mustReconcile("demo-vpc")
			assert.Equal(t, blockUntilPaused, env.block())
			assert.Contains(t, env.paused(), moment.want)
		})
	}
}

func TestOneClusterctlLabelIsNotEnough(t *testing.T) {
	for name, row := range map[string]struct {
		labels []string
		want   string
	}{
		"none":             {nil, blockUntilLabeled},
		"found, not moved": {[]string{clusterctlv1.ClusterctlLabel}, blockUntilLabeled},
		"moved, not found": {[]string{clusterctlv1.ClusterctlMoveLabel, clusterctlv1.ClusterctlMoveHierarchyLabel}, blockUntilLabeled},
		"without Secrets":  {[]string{clusterctlv1.ClusterctlLabel, clusterctlv1.ClusterctlMoveLabel}, blockUntilPaused},
		"with Secrets":     {moved, blockUntilPaused},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, atRest(t, row.labels...).block()) })
	}
}

// clusterctl looks at the labels before it pauses. One that waits already would move the object without its Workspace.
func TestLabelsAddedAfterThePauseDoNotAllowMove(t *testing.T) {
	env := atRest(t)
	env.pause(true)
	env.mustReconcile("demo-vpc")
	assert.Contains(t, env.paused(), "kubectl label crd workspaces.tf.m.upbound.io clusterctl.cluster.x-k8s.io= clusterctl.cluster.x-k8s.io/move-hierarchy=")
	env.label(terraform.ScopeNamespaced, moved...)
	env.mustReconcile("demo-vpc")
	assert.Equal(t, blockUntilLabeled, env.block())
	assert.Contains(t, env.paused(), "Workspace demo-vpc could not be moved yet when clusterctl listed the objects")
}

func TestAClusterWideWorkspaceMustBeMovedManually(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)), builder.Cluster("demo"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithLabel(clusterv1.ClusterNameLabel, "demo")))
	env.mustReconcile("demo-vpc")
	assert.Regexp(t, "^default-demo-vpc-[a-z2-7]{5}$", env.get("demo-vpc").Status.WorkspaceRef.Name)
	env.pause(true)
	env.mustReconcile("demo-vpc")
	assert.Equal(t, blockUntilManual, env.block())
	assert.Contains(t, env.paused(), "is cluster-wide, and clusterctl cannot move it")
}

func TestThePauseOfASingleObjectDoesNotAllowMove(t *testing.T) {
	env := atRest(t, moved...)
	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[clusterv1.PausedAnnotation] = "" })
	env.mustReconcile("demo-vpc")
	assert.Equal(t, blockUntilPaused, env.block())
	assert.NotContains(t, env.paused(), "clusterctl")
}

// clusterctl takes all annotations away but its mark, that which paused the object among them.
func TestDeletionByMoveDestroysNothing(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	})
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
	env.remove(env.get("demo-vpc"))
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
	assert.Contains(t, env.get("demo-vpc").Finalizers, infrav1.WorkspaceTemplateApplyFinalizer)
	assert.Contains(t, env.paused(), "clusterctl move is moving the object")
}

// A move makes the Workspace first, and takes status away. Should the owner, or another version of CAPT, want something else
// than before, the Workspace is still the object's own.
func TestAMovedWorkspaceIsOwnedAlthoughItDiffers(t *testing.T) {
	for name, kept := range map[string]bool{"moved": true, "left behind by an earlier object": false} {
		t.Run(name, func(t *testing.T) {
			there := builder.Workspace("demo-vpc", builder.AtRest, builder.WithCreation(builder.Created.Add(-1)),
				builder.WithAnnotation(naming.ClaimAnnotation, "default/demo-vpc"), builder.WithAnnotation("crossplane.io/external-name", "state"))
			apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"))
			if kept {
				builder.WithAnnotation(naming.ExternalNameAnnotation, "state")(apply)
			}
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithModule("# new"), inNoAccount()), there, apply)
			env.mustReconcile("demo-vpc")
			assert.Equal(t, !kept, meta.IsStatusConditionTrue(env.get("demo-vpc").Status.Conditions, infrav1.WorkspaceConflictCondition))
			env.mustReconcile("demo-vpc")
			assert.Equal(t, "state", env.workspace("demo-vpc").GetAnnotations()["crossplane.io/external-name"])
		})
	}
}
