// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/test/builder"
)

// newEnvironment is the reconciler of templates behind the gate.
func newEnvironment(t *testing.T, objects ...client.Object) *workspacetemplate.Reconciler {
	t.Helper()
	c := builder.Clients(objects...).WithStatusSubresource(&infrav1.WorkspaceTemplate{}).
		WithIndex(&infrav1.WorkspaceTemplateApply{}, workspacetemplate.UserIndex, func(object client.Object) []string {
			return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
		}).Build()
	return &workspacetemplate.Reconciler{
		Engine: engine.Engine{Client: c, Recorder: events.NewFakeRecorder(16), State: &engine.StateCache{}, Gate: &Gate{}, Uncached: c},
		Clock:  builder.NewClock(),
	}
}

// The finalizer of CAPT v0.3 holds the template as well.
func TestATemplateIsTakenOverWhenItsUsersAreAdopted(t *testing.T) {
	legacy := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	unadopted := builder.WorkspaceTemplateApply("demo-vpc", legacy)
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateFinalizer)),
		unadopted, builder.WorkspaceTemplateApply("other-vpc", legacy, builder.WithWorkspaceName("other-vpc")),
		builder.WorkspaceTemplate("unused", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateFinalizer)))
	reconcile := func(name string) *infrav1.WorkspaceTemplate {
		t.Helper()
		template, key := &infrav1.WorkspaceTemplate{}, client.ObjectKey{Namespace: builder.Namespace, Name: name}
		_, err := env.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		require.NoError(t, env.Client.Get(t.Context(), key, template))
		return template
	}
	for name, summary := range map[string]string{"vpc": "True Used", "unused": "False NotUsed"} {
		template := reconcile(name)
		assert.Equal(t, []string{infrav1.LegacyWorkspaceTemplateFinalizer}, template.Finalizers)
		assert.Equal(t, summary, builder.ConditionSummary(template.Status.Conditions)["InUse"])
		template.Status.Conditions = nil
		assert.Equal(t, infrav1.WorkspaceTemplateStatus{}, template.Status, "only conditions are written")
	}

	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(unadopted), unadopted))
	unadopted.Spec.WorkspaceName = "demo-vpc"
	require.NoError(t, env.Client.Update(t.Context(), unadopted))
	template := reconcile("vpc")
	assert.Equal(t, []string{infrav1.WorkspaceTemplateFinalizer}, template.Finalizers)
	assert.Equal(t, ptr.To(int32(2)), template.Status.Users)

	unused := reconcile("unused")
	require.NoError(t, env.Client.Delete(t.Context(), unused))
	_, err := env.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(unused)})
	require.NoError(t, err)
	assert.True(t, engine.Absent(env.Client.Get(t.Context(), client.ObjectKeyFromObject(unused), unused)), "nothing keeps it")
}

func TestTheMarksOfAnObjectThatAwaitsAdoptionKeepNoTemplateOfAnotherNamespace(t *testing.T) {
	elsewhere := []builder.Option{builder.WithNamespace("stranger"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRef.Namespace = builder.Namespace
	})}
	proving := builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Annotations = map[string]string{naming.ProveAnnotation: "1"}
		apply.Spec.WorkspaceName, apply.Status.WorkspaceRef = "own", &infrav1.WorkspaceReference{Name: "own", UID: "1"}
	})
	legacy := builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)
	of := func(name string, options ...builder.Option) client.Object {
		return builder.WorkspaceTemplateApply(name, append(options, elsewhere...)...)
	}
	for name, row := range map[string]struct {
		user  client.Object
		users []string
	}{
		"a finalizer":              {of("a", legacy), nil},
		"a request for a proof":    {of("a", proving), nil},
		"a record of CAPT v0.3":    {of("a", legacy, builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.WorkspaceName = "a" })), []string{"stranger/a"}},
		"the namespace of its own": {builder.WorkspaceTemplateApply("a", legacy), []string{"default/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			template := builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateFinalizer))
			env := newEnvironment(t, template, row.user, builder.WorkspaceTemplateApply("adopted", builder.WithWorkspaceName("adopted")))
			_, err := env.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)})
			require.NoError(t, err)
			require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template))
			assert.Equal(t, row.users != nil, slices.Contains(template.Finalizers, infrav1.LegacyWorkspaceTemplateFinalizer), "it awaits adoption")
			message := conditions.GetMessage(template, infrav1.InUseCondition)
			for _, user := range append(row.users, "default/adopted") {
				assert.Contains(t, message, user)
			}
			assert.Equal(t, slices.Contains(row.users, "stranger/a"), strings.Contains(message, "stranger/a"))
		})
	}
}
