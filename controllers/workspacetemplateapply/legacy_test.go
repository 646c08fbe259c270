// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"slices"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/adoption"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
	"github.com/capt-provider/capt/test/builder"
)

// now is the time of the tests.
var now = builder.Created.Add(24 * time.Hour)

// environment is a reconciler with an API server.
type environment struct {
	*testing.T
	*builder.API
	reconciler *Reconciler
	recorder   *events.FakeRecorder
}

func newEnvironment(t *testing.T, objects ...client.Object) *environment {
	objects = append(objects, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "my-capt-moved-workspaces", Labels: movePolicyLabels()}})
	env := &environment{T: t, recorder: events.NewFakeRecorder(32)}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(terraform.ScopeNamespaced.GroupVersionKind(), meta.RESTScopeNamespace)
	mapper.Add(terraform.ScopeCluster.GroupVersionKind(), meta.RESTScopeRoot)
	for _, scope := range terraform.Scopes() {
		objects = append(objects, builder.WorkspaceDefinition(scope))
	}
	clients := builder.Clients(objects...).WithRESTMapper(mapper).WithStatusSubresource(&infrav1.WorkspaceTemplateApply{})
	require.NoError(t, index.Register(t.Context(), builder.Indexes{ClientBuilder: clients}))
	clients.WithIndex(&infrav1.WorkspaceTemplateApply{}, workspacetemplate.UserIndex, func(object client.Object) []string {
		return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
	})
	env.API = builder.NewAPI(clients)
	env.CreationTime = now
	env.reconciler = &Reconciler{
		Engine: engine.Engine{Client: env.API, Recorder: env.recorder, State: &engine.StateCache{}, Uncached: env.API, Secrets: engine.NewSecrets(env.API, env.API)},
		Workspaces: &workspace.Client{Client: env.API, Uncached: env.API, Watch: func(context.Context, terraform.Scope) error {
			return nil
		}},
		Clock: clocktesting.NewFakePassiveClock(now), RateLimiter: serialize.NewRateLimiter(),
	}
	env.reconciler.Gate = &adoption.Gate{Client: env.API, Uncached: env.API, Workspaces: env.reconciler.Workspaces}
	return env
}

func (env *environment) reconcile(name string) (ctrl.Result, error) {
	env.Helper()
	env.Writes = nil
	return env.reconciler.Reconcile(env.T.Context(), request(name))
}

// mustReconcile returns the writes of a reconcile.
func (env *environment) mustReconcile(name string) []string {
	env.Helper()
	got, err := env.reconcile(name)
	require.NoError(env, err)
	isNew := got.RequeueAfter == 2*time.Minute // A Workspace was made a moment ago, and has no owner yet.
	if !isNew && (got.RequeueAfter != ownersInterval || !strings.Contains(env.ready(name), "owner ")) {
		assert.Equal(env, ctrl.Result{}, got)
	}
	return env.Writes
}

// rest creates the Workspace of a WorkspaceTemplateApply, and lets Terraform apply it.
func (env *environment) rest(name string) {
	env.Helper()
	env.mustReconcile(name)
	env.provide(name, builder.AtRest)
	env.mustReconcile(name)
}

func (env *environment) create(object client.Object) {
	env.Helper()
	require.NoError(env, env.Create(env.T.Context(), object))
}

func (env *environment) update(object client.Object) {
	env.Helper()
	require.NoError(env, env.Update(env.T.Context(), object))
}

func (env *environment) remove(object client.Object) {
	env.Helper()
	require.NoError(env, env.Delete(env.T.Context(), object))
}

// destroyed does to a Workspace what provider-terraform does in the end.
func (env *environment) destroyed(name string) {
	env.Helper()
	workspace := env.workspace(name)
	workspace.SetFinalizers(nil)
	env.update(workspace)
}

// template changes the template as its user does.
func (env *environment) template(options ...builder.Option) {
	env.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(env, env.Get(env.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}, template))
	for _, option := range options {
		option(template)
	}
	env.update(template)
}

func (env *environment) get(name string) *infrav1.WorkspaceTemplateApply {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(env, env.API.Get(env.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, apply))
	return apply
}

// edit changes a WorkspaceTemplateApply as its user does.
func (env *environment) edit(name string, change func(*infrav1.WorkspaceTemplateApply)) {
	env.Helper()
	apply := env.get(name)
	change(apply)
	env.update(apply)
}

// workspace is a namespaced Workspace of the API server, nil when there is none.
func (env *environment) workspace(name string) *unstructured.Unstructured {
	env.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	err := env.API.Get(env.T.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(env, err)
	return object
}

// provide does to a Workspace what provider-terraform does: it takes what a row of the table shows.
func (env *environment) provide(name string, row builder.Row, options ...builder.Option) {
	env.Helper()
	object := env.workspace(name)
	shown := builder.Workspace(name, row, options...)
	object.Object["status"] = shown.Object["status"]
	object.SetFinalizers(shown.GetFinalizers())
	object.SetGeneration(shown.GetGeneration())
	env.update(object)
}

// events returns the events since it was last called.
func (env *environment) events() []string {
	var events []string
	for len(env.recorder.Events) > 0 {
		events = append(events, <-env.recorder.Events)
	}
	return events
}

// ready is the condition Ready in short, with its message.
func (env *environment) ready(name string) string {
	env.Helper()
	condition := conditions.Get(env.get(name), infrav1.ReadyCondition)
	require.NotNil(env, condition)
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

const notAdopted = "Workspace demo was created by CAPT v0.3 for this object and has not been adopted: nothing is written or deleted. " +
	"Adopt it with captctl migrate (see captctl migrate check); if it belongs to another object, set spec.workspaceName to another name"

// legacyStatus is what CAPT v0.3 noted.
func legacyStatus(workspace string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.WorkspaceName, apply.Status.Applied = workspace, metav1.ConditionTrue
	})
}

// legacyEnvironment has a template in the cluster scope, as v1beta1 is converted, and a Workspace of CAPT v0.3's.
func legacyEnvironment(t *testing.T, objects ...client.Object) *environment {
	t.Helper()
	return newEnvironment(t, append(objects,
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
			env := legacyEnvironment(t, builder.WorkspaceTemplateApply("demo-apply", row.options...))
			before := env.get("demo-apply")
			assert.Equal(t, []string{"status"}, env.mustReconcile("demo-apply"))
			after := env.get("demo-apply")
			assert.Equal(t, notAdopted, conditions.GetMessage(after, infrav1.AdoptionRequiredCondition))
			want := builder.ConditionSummary(before.Status.Conditions)
			want["AdoptionRequired"] = "True AdoptionRequired"
			assert.Equal(t, want, builder.ConditionSummary(after.Status.Conditions), "readiness stays as it was")
			before.Status.Conditions, after.Status.Conditions, after.ResourceVersion = nil, nil, before.ResourceVersion
			assert.Equal(t, before, after)
			assert.Equal(t, row.noted, after.Status.WorkspaceName, "it is evidence")
			assert.Empty(t, env.mustReconcile("demo-apply"))
		})
	}
}

// A helper that CAPT v0.3 never built, and that a migration retains, needs nothing: an alert on AdoptionRequired must end.
func TestAHelperThatIsLeftAloneDoesNotAwaitAdoption(t *testing.T) {
	helper := builder.WorkspaceTemplateApply("demo-spot-role-create", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), builder.OwnedBy(builder.CAPTControlPlane("demo")))
	env := legacyEnvironment(t, helper)
	required := func() string {
		env.mustReconcile("demo-spot-role-create")
		return builder.ConditionSummary(env.get("demo-spot-role-create").Status.Conditions)["AdoptionRequired"]
	}
	assert.Equal(t, "True AdoptionRequired", required())
	env.edit("demo-spot-role-create", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	assert.Equal(t, "False NotManaged", required())
	assert.Empty(t, env.mustReconcile("demo-spot-role-create"))

	apply := env.get("demo-spot-role-create")
	apply.Status.WorkspaceName = "demo-spot-role-create"
	require.NoError(t, env.API.Status().Update(t.Context(), apply))
	assert.Equal(t, "True AdoptionRequired", required(), "CAPT v0.3 built it")
}

// An object from Git has no status of CAPT v0.3 to keep. Its owner, and the user, must see why it waits.
func TestAnObjectFromGitBesideAWorkspaceOfCAPTv03ReportsWhyItWaits(t *testing.T) {
	env := legacyEnvironment(t, builder.WorkspaceTemplateApply("demo-apply"))
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-apply"))
	after := env.get("demo-apply")
	assert.Equal(t, after.Generation, after.Status.ObservedGeneration)
	assert.Equal(t, "True AdoptionRequired", builder.ConditionSummary(after.Status.Conditions)["AdoptionRequired"])
	assert.Equal(t, "False AdoptionRequired: "+notAdopted, env.ready("demo-apply"))
	assert.Empty(t, env.mustReconcile("demo-apply"))
}

func TestAnAdoptedObjectNoLongerAwaitsAdoption(t *testing.T) {
	env := legacyEnvironment(t, builder.WorkspaceTemplateApply("demo-apply", legacyStatus("demo")))
	env.mustReconcile("demo-apply")
	apply := env.get("demo-apply")
	assert.Equal(t, "True AdoptionRequired", builder.ConditionSummary(apply.Status.Conditions)["AdoptionRequired"])
	apply.Spec.WorkspaceName = "demo"
	env.update(apply)
	env.mustReconcile("demo-apply")
	assert.Equal(t, "False AdoptionNotRequired", builder.ConditionSummary(env.get("demo-apply").Status.Conditions)["AdoptionRequired"])

	env = newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("another"))
	env.mustReconcile("another")
	assert.NotContains(t, builder.ConditionSummary(env.get("another").Status.Conditions), "AdoptionRequired")
}

// CAPT asks for the connection Secret of its own Workspaces, once. The metadata of those of CAPT v0.3 stays as it is: the provider writes the Secret at its next poll.
func TestALostConnectionSecretIsRequestedOnceAndOnlyForOwnWorkspaces(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("outputs", "default")))
	env.mustReconcile("demo-vpc")
	env.provide("demo-vpc", builder.AtRest)
	assert.Equal(t, []string{"patch", "status"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	assert.Equal(t, now.UTC().Truncate(connectionInterval).Format(time.RFC3339), env.workspace("demo-vpc").GetAnnotations()[naming.ResumedAnnotation])
	assert.Empty(t, env.mustReconcile("demo-vpc"))

	spec := env.workspace("demo-vpc").Object["spec"]
	for adopted, options := range map[bool][]builder.Option{
		true:  {builder.WithWorkspaceName("demo"), legacyStatus("demo"), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)},
		false: {legacyStatus("demo")},
	} {
		env = newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-apply", append(options, builder.WithConnectionSecret("outputs", "default"))...))
		live := builder.Workspace("demo", builder.AtRest)
		live.Object["spec"] = runtime.DeepCopyJSONValue(spec)
		env.create(live)
		env.mustReconcile("demo-apply")
		env.mustReconcile("demo-apply")
		assert.Equal(t, adopted, conditions.IsTrue(env.get("demo-apply"), infrav1.ReadyCondition))
		assert.Equal(t, live.GetAnnotations(), env.workspace("demo").GetAnnotations())
	}
}

// A manager for one namespace cannot read the others.
func TestNoConnectionSecretOfAnotherNamespaceIsRead(t *testing.T) {
	for namespace, want := range map[string]bool{"default": true, "other": false} {
		env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WithConnectionSecret("outputs", "default")))
		env.rest("demo-vpc")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "outputs", Finalizers: []string{"example.com/protect"}}}
		env.create(secret)
		env.remove(secret)
		live := env.workspace("demo-vpc")
		require.NoError(t, unstructured.SetNestedField(live.Object, namespace, "spec", "writeConnectionSecretToRef", "namespace"))
		live.SetFinalizers(append(live.GetFinalizers(), metav1.FinalizerDeleteDependents))
		env.update(live)
		env.remove(live)
		env.remove(env.get("demo-vpc"))
		_, err := env.reconcile("demo-vpc")
		require.NoError(t, err)
		message := conditions.GetMessage(env.get("demo-vpc"), infrav1.DeletingCondition)
		assert.Contains(t, message, "does not destroy Workspace demo-vpc yet")
		assert.Equal(t, want, strings.Contains(message, "example.com/protect"), message)
	}
}

func TestDeletionKeepsAWorkspaceOfV03(t *testing.T) {
	env := legacyEnvironment(t, builder.WorkspaceTemplateApply("demo-apply",
		builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), legacyStatus("demo")))
	env.remove(env.get("demo-apply"))
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-apply"))
	assert.Contains(t, env.ready("demo-apply"), "set spec.deletionPolicy to Retain to keep the cloud resources")

	env.edit("demo-apply", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	env.mustReconcile("demo-apply")
	assert.Error(t, env.API.Get(t.Context(), request("demo-apply").NamespacedName, &infrav1.WorkspaceTemplateApply{}), "it is released")
}

func TestAWorkspaceOfV03DoesNotBlockOtherObjects(t *testing.T) {
	for name, row := range map[string]struct {
		option  builder.Option
		creates bool
	}{
		"adopted there": {builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Spec.WorkspaceName = "demo"
			a.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.upbound.io/v1beta1", Kind: "Workspace", Name: "demo", UID: "u"}
		}), true},
		"not adopted": {legacyStatus("demo"), true},
		// A user of another namespace could write these. A new Workspace would create the resources of this object again.
		"only named there":                {builder.WithWorkspaceName("demo"), false},
		"with the finalizer of CAPT v0.3": {builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer), false},
	} {
		t.Run(name, func(t *testing.T) {
			env := legacyEnvironment(t, builder.WorkspaceTemplateApply("demo-apply", row.option, builder.WithNamespace("other")), builder.WorkspaceTemplateApply("demo-apply"))
			assert.Equal(t, row.creates, slices.Contains(env.mustReconcile("demo-apply"), "apply Workspace"))
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
	env := newEnvironment(t, live, helper, template, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	key := client.ObjectKeyFromObject(helper)
	reconcile := func() *infrav1.WorkspaceTemplateApply {
		t.Helper()
		_, err := env.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, env.API.Get(t.Context(), key, apply))
		return apply
	}
	apply := reconcile()
	assert.Equal(t, "True Rendered", builder.ConditionSummary(apply.Status.Conditions)[infrav1.RenderedCondition])
	assert.NotContains(t, env.Writes, "apply Workspace")

	// Another Secret of that namespace is none of its own.
	apply.Spec.WriteConnectionSecretToRef.Name = "another"
	env.update(apply)
	assert.Equal(t, "False TemplateInvalid", builder.ConditionSummary(reconcile().Status.Conditions)[infrav1.RenderedCondition])
	assert.NotContains(t, env.Writes, "apply Workspace")
}
