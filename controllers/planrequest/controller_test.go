// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planrequest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/test/builder"
)

type environment struct {
	*testing.T
	*builder.API
	reconciler *Reconciler
	request    *infrav1.PlanRequest
}

func newEnvironment(t *testing.T, request *infrav1.PlanRequest, objects ...client.Object) *environment {
	t.Helper()
	clients := builder.Clients(append(objects, request)...).WithStatusSubresource(&infrav1.PlanRequest{})
	require.NoError(t, index.Register(t.Context(), builder.Indexes{ClientBuilder: clients}))
	clients.WithIndex(&infrav1.WorkspaceTemplateApply{}, workspacetemplate.UserIndex, func(object client.Object) []string {
		return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
	})
	env := &environment{T: t, API: builder.NewAPI(clients), request: request}
	env.reconciler = &Reconciler{Engine: engine.Engine{
		Client: env.API, Recorder: events.NewFakeRecorder(8), State: &engine.StateCache{}, Uncached: env.API, Gate: engine.OpenGate{},
	}}
	env.at(0)
	return env
}

func (env *environment) at(d time.Duration) {
	env.reconciler.Clock = clocktesting.NewFakePassiveClock(builder.Created.Add(d))
}

// look reconciles, and returns when to look again.
func (env *environment) look() time.Duration {
	env.Helper()
	env.Writes = nil
	result, err := env.reconciler.Reconcile(env.T.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(env.request)})
	require.NoError(env, err)
	if err := env.Get(env.T.Context(), client.ObjectKeyFromObject(env.request), env.request); !apierrors.IsNotFound(err) {
		require.NoError(env, err)
	}
	return result.RequeueAfter
}

func (env *environment) plan(apply *infrav1.WorkspaceTemplateApply, result infrav1.PreviewResult) {
	env.Helper()
	apply.Status.Plans = []infrav1.RequestedPlan{{RequestUID: env.request.UID, RequestName: "r", Plan: infrav1.RevisionPreview{Result: result}}}
	require.NoError(env, env.Update(env.T.Context(), apply))
}

func (env *environment) reason() string {
	return conditions.GetReason(env.request, infrav1.CompleteCondition)
}

func TestARequestIsCompleteWhenEachObjectHasAResult(t *testing.T) {
	a, b := builder.WorkspaceTemplateApply("a"), builder.WorkspaceTemplateApply("b")
	env := newEnvironment(t, builder.PlanRequest("r", []string{"a", "b", "absent"}), a, b, builder.WorkspaceTemplateApply("c"))
	assert.Equal(t, maxAge, env.look())
	assert.Equal(t, infrav1.PlanningReason, env.reason())
	assert.Equal(t, ptr.To[int32](3), env.request.Status.Total)
	assert.Equal(t, ptr.To[int32](1), env.request.Status.Unavailable)
	assert.Equal(t, ptr.To[int32](0), env.request.Status.Failed)
	env.look()
	assert.Empty(t, env.Writes, "nothing changed")

	env.plan(a, infrav1.PreviewEmpty)
	env.look()
	assert.Equal(t, ptr.To[int32](1), env.request.Status.Planned)
	assert.Nil(t, env.request.Status.CompletionTime)
	env.plan(b, infrav1.PreviewChanges)
	env.look()
	assert.Equal(t, infrav1.ChangesFoundReason, env.reason())
	assert.Equal(t, ptr.To[int32](1), env.request.Status.Changed)
	assert.Equal(t, ptr.To[int32](1), env.request.Status.Unknown)
	assert.NotNil(t, env.request.Status.CompletionTime)

	env.plan(a, infrav1.PreviewFailed)
	assert.Equal(t, time.Hour, env.look())
	assert.Empty(t, env.Writes, "a result is final")
	env.at(time.Hour)
	env.look()
	assert.True(t, apierrors.IsNotFound(env.Get(t.Context(), client.ObjectKeyFromObject(env.request), env.request)))
}

func TestARequestForATemplateCountsItsPermittedUsers(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces.Names = []string{"permitted"}
	}))
	env := newEnvironment(t, builder.PlanRequestFor("r", template), template,
		builder.WorkspaceTemplateApply("a"), builder.WorkspaceTemplateApply("other", builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "eks" })),
		user("permitted"), user("refused"))
	env.look()
	assert.Equal(t, ptr.To[int32](2), env.request.Status.Total)
	assert.NotContains(t, conditions.GetMessage(env.request, infrav1.CompleteCondition), "refused")
}

func user(namespace string) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply("b", builder.WithNamespace(namespace), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef.Namespace = builder.Namespace
	}))
}

func TestARequestWithoutObjectsIsComplete(t *testing.T) {
	for name, request := range map[string]*infrav1.PlanRequest{
		"no template": builder.PlanRequestFor("r", builder.WorkspaceTemplate("absent")),
		"all of none": builder.PlanRequest("r", nil, builder.With(func(r *infrav1.PlanRequest) { r.Spec.Scope = infrav1.PlanScopeNamespace })),
	} {
		env := newEnvironment(t, request)
		env.look()
		assert.Equal(t, infrav1.NothingChangesReason, env.reason(), name)
	}
}

// No manager may reconcile an object.
func TestARequestEndsAfterADay(t *testing.T) {
	env := newEnvironment(t, builder.PlanRequest("r", nil, builder.With(func(r *infrav1.PlanRequest) {
		r.Spec.Scope, r.Spec.TTLSecondsAfterFinished = infrav1.PlanScopeNamespace, ptr.To[int32](0)
	})), builder.WorkspaceTemplateApply("a"))
	env.look()
	assert.Equal(t, infrav1.PlanningReason, env.reason())
	env.at(maxAge)
	env.look()
	assert.Equal(t, infrav1.PlansMissingReason, env.reason())
	env.look()
	assert.True(t, apierrors.IsNotFound(env.Get(t.Context(), client.ObjectKeyFromObject(env.request), env.request)))
}

func TestAPlanReconcilesTheRequestsThatWaitForIt(t *testing.T) {
	env := newEnvironment(t, builder.PlanRequest("r", []string{"a"}))
	want := []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(env.request)}}
	assert.Equal(t, want, env.reconciler.ofApply(t.Context(), builder.WorkspaceTemplateApply("a")))
	assert.Empty(t, env.reconciler.ofApply(t.Context(), builder.WorkspaceTemplateApply("b")))
}
