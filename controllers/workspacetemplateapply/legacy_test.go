// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
	"github.com/capt-provider/capt/test/builder"
)

// now is the time of the tests.
var now = builder.Created.Add(24 * time.Hour)

// world is a reconciler with an API server.
type world struct {
	*testing.T
	*builder.API
	reconciler *Reconciler
	recorder   *events.FakeRecorder
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	objects = append(objects, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "my-capt-moved-workspaces", Labels: movePolicyLabels()}})
	w := &world{T: t, recorder: events.NewFakeRecorder(32)}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(terraform.ScopeNamespaced.GroupVersionKind(), meta.RESTScopeNamespace)
	mapper.Add(terraform.ScopeCluster.GroupVersionKind(), meta.RESTScopeRoot)
	for _, scope := range terraform.Scopes() {
		objects = append(objects, builder.WorkspaceDefinition(scope))
	}
	clients := builder.Clients(objects...).WithRESTMapper(mapper).WithStatusSubresource(&infrav1.WorkspaceTemplateApply{})
	require.NoError(t, index.Register(t.Context(), builder.Indexes{ClientBuilder: clients}))
	w.API = builder.NewAPI(clients)
	w.reconciler = &Reconciler{
		Engine: engine.Engine{Client: w.API, Recorder: w.recorder, State: &engine.StateCache{}},
		Workspaces: &workspace.Client{Client: w.API, Uncached: w.API, Watch: func(context.Context, terraform.Scope) error {
			return nil
		}},
		Uncached: w.API, Clock: clocktesting.NewFakePassiveClock(now), RateLimiter: serialize.NewRateLimiter(),
	}
	return w
}

func (w *world) reconcile(name string) (ctrl.Result, error) {
	w.Helper()
	w.Writes = nil
	key := client.ObjectKey{Namespace: builder.Namespace, Name: name}
	return w.reconciler.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: key})
}

// mustReconcile returns the writes of a reconcile.
func (w *world) mustReconcile(name string) []string {
	w.Helper()
	got, err := w.reconcile(name)
	require.NoError(w, err)
	isNew := got.RequeueAfter == 2*time.Minute // A Workspace was made a moment ago, and has no owner yet.
	if !isNew && (got.RequeueAfter != ownersInterval || !strings.Contains(w.ready(name), "owner ")) {
		assert.Equal(w, ctrl.Result{}, got)
	}
	return w.Writes
}

// rest creates the Workspace of a WorkspaceTemplateApply, and lets Terraform apply it.
func (w *world) rest(name string) {
	w.Helper()
	w.mustReconcile(name)
	w.provide(name, builder.AtRest)
	w.mustReconcile(name)
}

func (w *world) create(object client.Object) {
	w.Helper()
	require.NoError(w, w.Create(w.T.Context(), object))
}

func (w *world) update(object client.Object) {
	w.Helper()
	require.NoError(w, w.Update(w.T.Context(), object))
}

func (w *world) remove(object client.Object) {
	w.Helper()
	require.NoError(w, w.Delete(w.T.Context(), object))
}

// destroyed does to a Workspace what provider-terraform does in the end.
func (w *world) destroyed(name string) {
	w.Helper()
	workspace := w.workspace(name)
	workspace.SetFinalizers(nil)
	w.update(workspace)
}

// template changes the template as its user does.
func (w *world) template(options ...builder.Option) {
	w.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(w, w.Get(w.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}, template))
	for _, option := range options {
		option(template)
	}
	w.update(template)
}

func (w *world) deleting(name string) *metav1.Condition {
	w.Helper()
	return meta.FindStatusCondition(w.get(name).Status.Conditions, infrav1.DeletingCondition)
}

func (w *world) get(name string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(w, w.API.Get(w.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, apply))
	return apply
}

// edit changes a WorkspaceTemplateApply as its user does.
func (w *world) edit(name string, change func(*infrav1.WorkspaceTemplateApply)) {
	w.Helper()
	apply := w.get(name)
	change(apply)
	w.update(apply)
}

// workspace is a namespaced Workspace of the API server, nil when there is none.
func (w *world) workspace(name string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	err := w.API.Get(w.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w, err)
	return object
}

// provide does to a Workspace what provider-terraform does: it takes what a row of the table shows.
func (w *world) provide(name string, row builder.Row, options ...builder.Option) {
	w.Helper()
	object := w.workspace(name)
	shown := builder.Workspace(name, row, options...)
	object.Object["status"] = shown.Object["status"]
	object.SetFinalizers(shown.GetFinalizers())
	object.SetGeneration(shown.GetGeneration())
	w.update(object)
}

// events returns the events since it was last called.
func (w *world) events() []string {
	var events []string
	for {
		select {
		case event := <-w.recorder.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// ready is the condition Ready in short, with its message.
func (w *world) ready(name string) string {
	w.Helper()
	condition := meta.FindStatusCondition(w.get(name).Status.Conditions, infrav1.ReadyCondition)
	require.NotNil(w, condition)
	return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
}

// lacking makes dependencies that are missing, with what their messages say.
func lacking(messages ...string) []infrav1.MissingDependency {
	var missing []infrav1.MissingDependency
	for _, message := range messages {
		missing = append(missing, infrav1.MissingDependency{Message: message, Since: ptr.To(metav1.NewTime(builder.Created))})
	}
	return missing
}

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
