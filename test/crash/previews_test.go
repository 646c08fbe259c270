// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// rollingOut is a namespace with a template whose edits are previewed, and one user of it.
type rollingOut struct {
	*environment
	// arguments and module are how often the arguments of the plan and the module were changed. Only another module is a change for Terraform.
	arguments, module int
}

// edit is an edit of the template.
type edit struct {
	// changes is true if Terraform changes something.
	changes bool
	// fails is true if the first plan of the preview fails, so that the manager replaces it twice: by one without -json, and back.
	fails bool
}

// The manager is killed at each write of a rollout with a preview. Each time, the rollout ends with the revision assigned, what Terraform changed
// recorded, no preview and no Secret of one, and Terraform has applied only what the real Workspace changed.
func TestKillingTheManagerDuringAPreviewLeavesNothingOfIt(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			env := &rollingOut{environment: newEnvironment(t, startServer(t), scope)}
			env.follow("creation", edit{}, 1, proxy.Target{})
			env.killedAtEachWrite(edit{})
			env.killedAtEachWrite(edit{changes: true})
			env.killedAtEachWrite(edit{changes: true, fails: true})
			deletion.begin(env.environment)
			env.await("everything goes", func(ctx context.Context) error { return env.gone(ctx) })
			env.requireOneWorkspace("in the end")
		})
	}
}

// killedAtEachWrite edits the template without a kill, and then once for each write of that, which ends the manager.
func (env *rollingOut) killedAtEachWrite(e edit) {
	env.Helper()
	applies := 0
	if e.changes {
		applies = 1
	}
	writes := map[string]int{}
	for _, write := range env.follow("an edit", e, applies, proxy.Target{}) {
		writes[kinds(write)[0]]++
	}
	env.Logf("writes: %v", writes)
	if e.fails {
		require.GreaterOrEqual(env, writes["POST workspaces"], 3*2, "the preview is replaced twice; a first request of each has no effect")
	}
	for _, kind := range []string{"POST workspaces", "PATCH workspaces", "DELETE workspaces", "PATCH workspacetemplateapplies/status", "PATCH workspacetemplates/status", "POST controllerrevisions"} {
		require.Positive(env, writes[kind], kind)
	}
	moments := []proxy.Moment{proxy.After}
	if everything {
		moments = append(moments, proxy.Before)
	}
	for _, moment := range moments {
		for _, kind := range slices.Sorted(maps.Keys(writes)) {
			for n := 1; n <= writes[kind]; n++ {
				env.follow(fmt.Sprintf("killed %s %s %d", moment, kind, n), e, applies, proxy.Target{
					Number: n, Moment: moment, Matches: func(r *http.Request) bool { return kinds(proxy.Write{Method: r.Method, Path: r.URL.Path})[0] == kind },
				})
				if n == 1 { // Later ones may be saved by the restart.
					require.NotNil(env, env.killedAt, kind)
				}
			}
		}
	}
}

// follow edits the template and waits until its user has followed. It returns what the manager wrote.
func (env *rollingOut) follow(what string, e edit, applies int, target proxy.Target) []proxy.Write {
	env.Helper()
	before := env.operations()
	env.killed, env.killedAt = env.server.proxy.Arm(target), nil
	if env.arguments++; e.changes {
		env.module++
		env.arguments--
	}
	user := types.NamespacedName{Namespace: env.namespace, Name: applyName}
	if e.fails {
		script := scripted.Script{Plan: scripted.Step{Stderr: "\nError: no connection\n", Times: 1}}
		require.NoError(env, env.server.terraform.SetScript(fixture.PreviewKey(env, env, env.scope, user), script))
	}
	env.apply(env.template())
	if what == "creation" {
		env.apply(workspaceTemplateApply("10.0.0.0/16"))
	}
	env.eventually(what, env.rolledOut)
	env.awaitSilence()
	env.eventually(what, env.rolledOut)
	after := env.operations()
	require.Equal(env, applies, after[scripted.Apply]-before[scripted.Apply], "applies, %s", what)
	require.Zero(env, after[scripted.Destroy], what)
	require.Empty(env, env.observed.previews.mayDoMore(), what)
	if e.changes {
		env.requirePlanned(user, e.fails && env.killedAt != nil, what)
	}
	if what != "creation" {
		require.NotEmpty(env, env.observed.previews.take(), "nothing was previewed, %s", what)
	}
	require.Equal(env, []string{connectionSecret}, env.secrets(), what)
	return env.server.proxy.Writes()
}

// requirePlanned requires that the preview recorded what Terraform changes. After a restart, it may be a reason instead: a manager does not know that its
// predecessor replaced a preview, and does not do it again.
func (env *rollingOut) requirePlanned(user types.NamespacedName, mayBeUnknown bool, what string) {
	env.Helper()
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(env, env.Get(env.Context(), user, apply))
	changes := apply.Status.Preview.Changes
	require.NotNil(env, changes, what)
	if mayBeUnknown && changes.Unknown != "" {
		require.Empty(env, changes.Resources, what)
		return
	}
	require.Empty(env, changes.Unknown, what)
	require.Equal(env, []infrav1.PlannedResource{{Address: "terraform_data.vpc", Type: "terraform_data", Action: infrav1.PlanUpdate}}, changes.Resources, what)
}

// template is the template as the edits so far left it.
func (env *rollingOut) template() string {
	document := strings.Replace(template(env.scope), "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, preview: Always}\n", 1)
	document = strings.Replace(document, "source: Inline\n", fmt.Sprintf("source: Inline\n        planArgs: [-parallelism=%d]\n", 1+env.arguments), 1)
	return strings.Replace(document, "input = var.cidr\n", fmt.Sprintf("input = var.cidr # %d\n", env.module), 1)
}

// rolledOut is nil when the rollout of the content is complete, and the user is at rest without a preview.
func (env *rollingOut) rolledOut(ctx context.Context) error {
	if err := env.ready(ctx, "10.0.0.0/16"); err != nil {
		return err
	}
	template, apply := &infrav1.WorkspaceTemplate{}, &infrav1.WorkspaceTemplateApply{}
	if err := env.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: templateName}, template); err != nil {
		return err
	}
	if err := env.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: applyName}, apply); err != nil {
		return err
	}
	want := fmt.Sprintf("-parallelism=%d", 1+env.arguments)
	arguments, revision := template.Spec.Template.Spec.ForProvider.PlanArgs, rollout.HashOf(template)
	switch s := template.Status.Rollout; {
	case !slices.Contains(arguments, want):
		return fmt.Errorf("the template has %v", arguments)
	case s.Revision != revision || s.Stage != infrav1.RolloutComplete:
		return fmt.Errorf("the rollout of %s is at stage %s, the content is %s", s.Revision, s.Stage, revision)
	case apply.Spec.TemplateRevision != revision || apply.Status.WrittenTemplateRevision != revision:
		return fmt.Errorf("the user has revision %s, and its Workspace %s, not %s", apply.Spec.TemplateRevision, apply.Status.WrittenTemplateRevision, revision)
	}
	key := types.NamespacedName{Namespace: fixture.ScopeNamespace(env.scope, env.namespace), Name: naming.PreviewWorkspace(env.scope, apply)}
	if fixture.Workspace(env, env.Client, env.scope, key) != nil {
		return fmt.Errorf("preview %s exists", key)
	}
	return env.recorded(ctx, template, revision)
}

// recorded is nil when the ControllerRevision of a revision shows that it was rolled out.
func (env *rollingOut) recorded(ctx context.Context, template *infrav1.WorkspaceTemplate, revision string) error {
	stored := &appsv1.ControllerRevision{}
	if err := env.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: naming.TemplateRevision(template.Name, revision)}, stored); err != nil {
		return err
	}
	if stored.Annotations[naming.RolledOutAnnotation] != "true" {
		return fmt.Errorf("revision %s is not recorded as rolled out", revision)
	}
	return nil
}

// secrets are the names of the Secrets in the namespace.
func (env *rollingOut) secrets() (names []string) {
	env.Helper()
	list := &corev1.SecretList{}
	require.NoError(env, env.List(env.Context(), list, client.InNamespace(env.namespace)))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
