// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// Workspaces that CAPT v0.3 left in a cluster are neither duplicated nor forgotten before they are adopted.

// legacyStatus is what CAPT v0.3 noted.
func legacyStatus(workspace string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.WorkspaceName, apply.Status.Applied = workspace, metav1.ConditionTrue
	})
}

// legacyWorld has a template in the cluster scope, as v1beta1 is converted, and a Workspace of CAPT v0.3's.
func legacyWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return newWorld(t, append(objects,
		builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)),
		builder.Workspace("demo", builder.AtRest, builder.InClusterScope()))...)
}

func TestAWorkspaceOfV03IsNotCreatedAgain(t *testing.T) {
	finalizer := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	withConditions := func(conditions ...metav1.Condition) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.Conditions = conditions })
	}
	created := metav1.NewTime(builder.Created)
	ready := withConditions(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available", LastTransitionTime: created},
		metav1.Condition{Type: "Synced", Status: metav1.ConditionTrue, Reason: "ReconcileSuccess", LastTransitionTime: created, ObservedGeneration: 1})
	failed := withConditions(metav1.Condition{Type: "Synced", Status: metav1.ConditionFalse, Reason: "ReconcileError", Message: "connect failed", LastTransitionTime: created})
	for name, row := range map[string]struct {
		options []builder.Option
		noted   string
	}{
		"as it was left":            {[]builder.Option{finalizer, legacyStatus("demo"), ready}, "demo"},
		"as it was left, failed":    {[]builder.Option{finalizer, legacyStatus("demo"), failed}, "demo"},
		"ready, but never observed": {[]builder.Option{finalizer, ready}, ""},
		"status lost":               {[]builder.Option{finalizer}, ""},
		"finalizer lost":            {[]builder.Option{legacyStatus("demo")}, "demo"},
		"rolled back, all but the recorded Workspace": {[]builder.Option{builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "demo", UID: "1"}
		})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply", row.options...))
			before := w.get("demo-apply")
			assert.Equal(t, []string{"status"}, w.mustReconcile("demo-apply"))
			after := w.get("demo-apply")
			required := meta.FindStatusCondition(after.Status.Conditions, infrav1.AdoptionRequiredCondition)
			require.NotNil(t, required)
			assert.Equal(t, "Workspace demo was created by CAPT v0.3 for this object and has not been adopted: "+
				"nothing is written or deleted. Adopt it with captctl migrate (see captctl migrate check); if it belongs to another object, set spec.workspaceName to another name", required.Message)
			want := builder.Story(before.Status.Conditions)
			want["AdoptionRequired"] = "True AdoptionRequired"
			assert.Equal(t, want, builder.Story(after.Status.Conditions), "readiness stays as it was")
			before.Status.Conditions, after.Status.Conditions, after.ResourceVersion = nil, nil, before.ResourceVersion
			assert.Equal(t, before, after)
			assert.Equal(t, row.noted, after.Status.WorkspaceName, "it is evidence")
			assert.Empty(t, w.mustReconcile("demo-apply"))
		})
	}
}

// A helper that CAPT v0.3 never built, and that a migration retains, needs nothing: an alert on AdoptionRequired must end.
func TestAHelperThatIsLeftAloneDoesNotAwaitAdoption(t *testing.T) {
	helper := builder.WorkspaceTemplateApply("demo-spot-role-create", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), builder.OwnedBy(builder.CAPTControlPlane("demo")))
	w := legacyWorld(t, helper)
	required := func() string {
		w.mustReconcile("demo-spot-role-create")
		return builder.Story(w.get("demo-spot-role-create").Status.Conditions)["AdoptionRequired"]
	}
	assert.Equal(t, "True AdoptionRequired", required())
	w.edit("demo-spot-role-create", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	assert.Equal(t, "False LeftAlone", required())
	assert.Empty(t, w.mustReconcile("demo-spot-role-create"))

	apply := w.get("demo-spot-role-create")
	apply.Status.WorkspaceName = "demo-spot-role-create"
	require.NoError(t, w.API.Status().Update(t.Context(), apply))
	assert.Equal(t, "True AdoptionRequired", required(), "CAPT v0.3 built it")
}

// An object from Git has no status of CAPT v0.3 to keep. Its owner, and the user, must see why it waits.
func TestAnObjectFromGitBesideAWorkspaceOfCAPTv03ReportsWhyItWaits(t *testing.T) {
	w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply"))
	assert.Equal(t, []string{"status"}, w.mustReconcile("demo-apply"))
	after := w.get("demo-apply")
	assert.Equal(t, after.Generation, after.Status.ObservedGeneration)
	assert.Equal(t, "True AdoptionRequired", builder.Story(after.Status.Conditions)["AdoptionRequired"])
	assert.Equal(t, "False AdoptionRequired: Workspace demo was created by CAPT v0.3 for this object and has not been adopted: "+
		"nothing is written or deleted. Adopt it with captctl migrate (see captctl migrate check); if it belongs to another object, set spec.workspaceName to another name", w.ready("demo-apply"))
	assert.Empty(t, w.mustReconcile("demo-apply"))
}

func TestAnAdoptedObjectNoLongerAwaitsAdoption(t *testing.T) {
	w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply", legacyStatus("demo")))
	w.mustReconcile("demo-apply")
	apply := w.get("demo-apply")
	assert.Equal(t, "True AdoptionRequired", builder.Story(apply.Status.Conditions)["AdoptionRequired"])
	apply.Spec.WorkspaceName = "demo"
	w.update(apply)
	w.mustReconcile("demo-apply")
	assert.Equal(t, "False AdoptionNotRequired", builder.Story(w.get("demo-apply").Status.Conditions)["AdoptionRequired"])

	w = newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("another"))
	w.mustReconcile("another")
	assert.NotContains(t, builder.Story(w.get("another").Status.Conditions), "AdoptionRequired")
}

func TestDeletionKeepsAWorkspaceOfV03(t *testing.T) {
	w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply",
		builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), legacyStatus("demo")))
	w.remove(w.get("demo-apply"))
	assert.Equal(t, []string{"status"}, w.mustReconcile("demo-apply"))
	assert.Contains(t, w.ready("demo-apply"), "set spec.deletionPolicy to Retain to keep the cloud resources")

	w.edit("demo-apply", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	w.mustReconcile("demo-apply")
	assert.Error(t, w.API.Get(t.Context(), request("demo-apply").NamespacedName, &infrav1.WorkspaceTemplateApply{}), "it is released")
}

func TestAWorkspaceOfV03DoesNotBlockOtherObjects(t *testing.T) {
	for name, option := range map[string]builder.Option{"adopted there": builder.WithWorkspaceName("demo"), "not adopted": legacyStatus("demo")} {
		t.Run(name, func(t *testing.T) {
			w := legacyWorld(t, builder.WorkspaceTemplateApply("demo-apply", option, builder.WithNamespace("other")), builder.WorkspaceTemplateApply("demo-apply"))
			assert.Contains(t, w.mustReconcile("demo-apply"), "apply Workspace")
		})
	}
}

// The kubeconfig helper of CAPT v0.3 writes its Secret to the namespace default, wherever its cluster is.
func TestAnAdoptedHelperKeepsItsSecretInAnotherNamespace(t *testing.T) {
	live := builder.Workspace("demo-kubeconfig", builder.AtRest, builder.InClusterScope())
	require.NoError(t, unstructured.SetNestedStringMap(live.Object, map[string]string{"name": "demo-outputs-kubeconfig", "namespace": "default"},
		"spec", "writeConnectionSecretToRef"))
	helper := builder.WorkspaceTemplateApply("demo-kubeconfig-apply", builder.WithNamespace("team-a"), builder.WithWorkspaceName("demo-kubeconfig"),
		builder.WithConnectionSecret("demo-outputs-kubeconfig", "default"), builder.WithRecordedWorkspace(live),
		builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Namespace = "default" }))
	template := builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster), builder.WithNamespace("default"),
		builder.With(func(template *infrav1.WorkspaceTemplate) {
			template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"team-a"}}
		}))
	w := newWorld(t, live, helper, template, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	key := client.ObjectKeyFromObject(helper)
	reconcile := func() *infrav1.WorkspaceTemplateApply {
		t.Helper()
		_, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, w.API.Get(t.Context(), key, apply))
		return apply
	}
	apply := reconcile()
	assert.Equal(t, "True Rendered", builder.Story(apply.Status.Conditions)[infrav1.RenderedCondition])
	assert.NotContains(t, w.Writes, "apply Workspace")

	// Another Secret of that namespace is none of its own.
	apply.Spec.WriteConnectionSecretToRef.Name = "another"
	w.update(apply)
	assert.Equal(t, "False TemplateInvalid", builder.Story(reconcile().Status.Conditions)[infrav1.RenderedCondition])
	assert.NotContains(t, w.Writes, "apply Workspace")
}
