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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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
	require.NoError(t, index.Register(t.Context(), indexer{client: clients}))
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

// indexer gives the indexes of the controller to the client.
type indexer struct {
	ctrl.Manager
	client *fake.ClientBuilder
}

func (i indexer) GetFieldIndexer() client.FieldIndexer { return i }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	i.client.WithIndex(obj, field, extract)
	return nil
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
