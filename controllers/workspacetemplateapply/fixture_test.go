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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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

// world is a reconciler with an API server, and what was written to it.
type world struct {
	*testing.T
	reconciler *Reconciler
	client     client.WithWatch
	recorder   *events.FakeRecorder
	// writes in their order: the verb and the kind.
	writes []string
	// fail is asked before each write.
	fail func(write string) error
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
	builders := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithRESTMapper(mapper).WithObjects(objects...).
		WithStatusSubresource(&infrav1.WorkspaceTemplateApply{}).WithReturnManagedFields().
		WithInterceptorFuncs(w.interceptor())
	require.NoError(t, index.Register(context.Background(), indexer{client: builders}))
	w.client = builders.Build()
	w.reconciler = &Reconciler{
		Engine: engine.Engine{Client: w.client, Recorder: w.recorder, State: &engine.StateCache{}},
		Workspaces: &workspace.Client{Client: w.client, Uncached: w.client, Watch: func(context.Context, terraform.Scope) error {
			return nil
		}},
		Uncached: w.client, Clock: clocktesting.NewFakePassiveClock(now), RateLimiter: serialize.NewRateLimiter(),
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

func (w *world) write(write string) error {
	if w.fail != nil {
		if err := w.fail(write); err != nil {
			return err
		}
	}
	w.writes = append(w.writes, write)
	return nil
}

func (w *world) interceptor() interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if err := w.write("apply Workspace"); err != nil {
				return err
			}
			return c.Apply(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := w.write("patch WorkspaceTemplateApply"); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := w.write("delete " + obj.GetObjectKind().GroupVersionKind().Kind); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := w.write("patch " + sub); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}
}

func (w *world) reconcile(name string) (ctrl.Result, error) {
	w.Helper()
	w.writes = nil
	key := client.ObjectKey{Namespace: builder.Namespace, Name: name}
	return w.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
}

func (w *world) mustReconcile(name string) {
	w.Helper()
	got, err := w.reconcile(name)
	require.NoError(w, err)
	if got.RequeueAfter == 2*time.Minute { // A Workspace was made a moment ago, and has no owner yet.
		return
	}
	if got.RequeueAfter == ownersInterval && strings.Contains(w.ready(name), "owner ") {
		return
	}
	assert.Equal(w, ctrl.Result{}, got)
}

func (w *world) get(name string) *infrav1.WorkspaceTemplateApply {
	w.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(w, w.client.Get(context.Background(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, apply))
	return apply
}

// workspace is a namespaced Workspace of the API server, nil when there is none.
// edit changes a WorkspaceTemplateApply as its user does.
func (w *world) edit(name string, change func(*infrav1.WorkspaceTemplateApply)) {
	w.Helper()
	apply := w.get(name)
	change(apply)
	require.NoError(w, w.client.Update(context.Background(), apply))
}

func (w *world) workspace(name string) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	err := w.client.Get(context.Background(), client.ObjectKey{Namespace: builder.Namespace, Name: name}, object)
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
	require.NoError(w, w.client.Update(context.Background(), object))
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
