// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

func TestActionAndStatus(t *testing.T) {
	held, deleting := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer), builder.Deleting()
	others := builder.WithFinalizers("other")
	used := []string{"default/demo-vpc"}
	for name, row := range map[string]struct {
		options                []builder.Option
		users                  []string
		want                   Action
		valid, inUse, deleting string
	}{
		"new":                             {nil, nil, Hold, "True Valid", "False NotUsed", "False NotDeleting"},
		"new and used at once":            {nil, used, Hold, "True Valid", "True Used", "False NotDeleting"},
		"held":                            {[]builder.Option{held}, nil, Observe, "True Valid", "False NotUsed", "False NotDeleting"},
		"held, broken and used":           {[]builder.Option{held, builder.WithModule("}")}, used, Observe, "False TemplateInvalid", "True Used", "False NotDeleting"},
		"deleted while it is used":        {[]builder.Option{held, deleting}, used, Observe, "True Valid", "True Used", "True WaitingForUsers"},
		"deleted, and the last user went": {[]builder.Option{held, deleting}, nil, Release, "True Valid", "False NotUsed", "True Deleting"},
		"deleted without our finalizer: none is added (defect 24)": {
			[]builder.Option{others, deleting}, used, Observe, "True Valid", "True Used", "True WaitingForUsers"},
	} {
		t.Run(name, func(t *testing.T) {
			template := builder.WorkspaceTemplate("vpc", append(row.options, builder.WithGeneration(4))...)
			f, err := newEnvironment(t).observe(t.Context(), template, engine.GateDecision{})
			require.NoError(t, err)
			f.Users = row.users
			p := Plan{Action: action(template, f)}
			assert.Equal(t, row.want, p.Action)
			status(template, f, p)
			assert.Equal(t, map[string]string{"Valid": row.valid, "InUse": row.inUse, "Deleting": row.deleting}, builder.ConditionSummary(template.Status.Conditions))
			assert.Equal(t, ptr.To(int32(len(row.users))), template.Status.Users)
			assert.Equal(t, int64(4), template.Status.ObservedGeneration)
			assert.Regexp(t, "^[0-9a-f]{64}$", template.Status.Revision)
		})
	}
}

func newEnvironment(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	c := builder.Clients(objects...).WithStatusSubresource(&infrav1.WorkspaceTemplate{}).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, UserIndex, func(object client.Object) []string {
			return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
		}).Build()
	return &Reconciler{Engine: engine.Engine{Client: c, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{}, Gate: engine.OpenGate{}, Uncached: c}, Clock: builder.NewClock()}
}

func TestATemplateStaysUntilItsLastUserIsGone(t *testing.T) {
	ctx := context.Background()
	shared := builder.WithNamespace("shared")
	inShared := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Namespace = "shared" })
	user := builder.WorkspaceTemplateApply("demo-vpc", inShared)
	allowing := builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"default"}}
	})
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", shared, allowing),
		user, builder.WorkspaceTemplateApply("of-another-template"),
		builder.WorkspaceTemplateApply("not-permitted", inShared, builder.WithNamespace("stranger")),
		builder.WorkspaceTemplateApply("with-a-finalizer-of-v0.3", inShared, builder.WithNamespace("stranger"), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)))
	key := client.ObjectKey{Namespace: "shared", Name: "vpc"}
	template := &infrav1.WorkspaceTemplate{}
	reconcile := func() {
		t.Helper()
		_, err := env.Reconcile(ctx, ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
	}

	reconcile()
	require.NoError(t, env.Client.Get(ctx, key, template))
	assert.Equal(t, []string{infrav1.WorkspaceTemplateFinalizer}, template.Finalizers)
	assert.Equal(t, ptr.To(int32(1)), template.Status.Users)

	require.NoError(t, env.Client.Delete(ctx, template))
	reconcile()
	require.NoError(t, env.Client.Get(ctx, key, template))
	deleting := meta.FindStatusCondition(template.Status.Conditions, infrav1.DeletingCondition)
	assert.Contains(t, deleting.Message, "default/demo-vpc")

	require.NoError(t, env.Client.Delete(ctx, user))
	reconcile()
	assert.True(t, engine.Absent(env.Client.Get(ctx, key, template)))
}

func TestUsersWithAnotherRevisionAreReported(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer))
	current := rollout.HashOf(template)
	user := func(name, revision, failed string, options ...builder.Option) client.Object {
		return builder.WorkspaceTemplateApply(name, append(options, builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.TemplateRevision, apply.Status.LastFailedRevision = revision, failed
		}))...)
	}
	newcomer, updated, deleted := user("new", "", ""), user("updated", current, ""), user("deleted", "old", "", builder.Deleting(), builder.WithFinalizers("other"))
	for name, row := range map[string]struct {
		users           []client.Object
		outdated        int32
		status, message string
	}{
		"none has another one": {[]client.Object{newcomer, updated, deleted}, 0, "", ""},
		"some have":            {[]client.Object{newcomer, updated, user("b", "old", ""), user("a", "old", "")}, 2, "True RollingOut", "2 of 4 users are not up to date with revision " + current[:12] + ": default/a, default/b"},
		"Terraform fails for some": {
			[]client.Object{updated, user("a", "old", ""), user("b", "old", "rendered")}, 2, "True RolloutFailing",
			"2 of 3 users are not up to date with revision " + current[:12] + ": default/b, default/a. Terraform fails for 1 of them: see their conditions",
		},
		"a failure of a user with the current one": {[]client.Object{user("a", current, "rendered")}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			template := template.DeepCopy()
			f, err := newEnvironment(t, row.users...).observe(t.Context(), template, engine.GateDecision{})
			require.NoError(t, err)
			status(template, f, Plan{})
			assert.Equal(t, row.status, builder.ConditionSummary(template.Status.Conditions)["RollingOut"])
			assert.Equal(t, ptr.To(row.outdated), template.Status.OutdatedUsers)
			if condition := meta.FindStatusCondition(template.Status.Conditions, infrav1.RollingOutCondition); condition != nil {
				assert.Equal(t, row.message, condition.Message)
				f.Outdated, f.Failing = nil, nil
				status(template, f, Plan{})
				assert.Equal(t, "False RolledOut", builder.ConditionSummary(template.Status.Conditions)["RollingOut"])
			}
		})
	}
}
