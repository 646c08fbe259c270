// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
	"github.com/capt-provider/capt/test/builder"
)

const waits = "False Queued: queued: Terraform changes one WorkspaceTemplateApply of Cluster demo with label capt.cluster.x-k8s.io/serialize=fargate-profiles " +
	"at a time. To list them: kubectl get workspacetemplateapply -n default " +
	"-l cluster.x-k8s.io/cluster-name=demo,capt.cluster.x-k8s.io/serialize=fargate-profiles"

// profile is one that is serialized with the other Fargate profiles of Cluster demo, a second younger than the one before.
func profile(name string, options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	age := time.Duration(name[len(name)-1]) * time.Second
	return builder.WorkspaceTemplateApply(name, append([]builder.Option{builder.WithCreation(builder.Created.Add(age)),
		builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup)}, options...)...)
}

// team is an environment of profiles, which reconciles the enqueued ones.
type team struct {
	*environment
	woken []string
}

func newTeam(t *testing.T, objects ...client.Object) *team {
	env := &team{environment: newEnvironment(t, append(objects, builder.WorkspaceTemplate("vpc"))...)}
	env.listen()
	return env
}

func (env *team) listen() {
	env.reconciler.serializer.EnqueueWith(func(key client.ObjectKey) { env.woken = append(env.woken, key.Name) })
}

// restart makes a reconciler without cached state.
func (env *team) restart() {
	env.reconciler = &Reconciler{
		Engine: env.reconciler.Engine, Workspaces: env.reconciler.Workspaces, Clock: env.reconciler.Clock, RateLimiter: serialize.NewRateLimiter(),
	}
	env.woken = nil
	env.listen()
}

// run reconciles these, and all that are woken.
func (env *team) run(names ...string) {
	env.Helper()
	for steps := 0; len(names) > 0; steps++ {
		require.Less(env, steps, 50, "they wake each other forever")
		env.woken = nil
		if _, err := env.reconcile(names[0]); err != nil {
			env.Logf("%s: %v", names[0], err)
		}
		names = append(names[1:], env.woken...)
	}
}

// made lists which of these have a Workspace.
func (env *team) made(names ...string) []string {
	env.Helper()
	var made []string
	for _, name := range names {
		if env.workspace(name) != nil {
			made = append(made, name)
		}
	}
	return made
}

// teamAtRest is a team whose Workspaces are all at rest.
func teamAtRest(t *testing.T, names ...string) *team {
	t.Helper()
	var objects []client.Object
	for _, name := range names {
		objects = append(objects, profile(name))
	}
	env := newTeam(t, objects...)
	for range names {
		env.run(names...)
		for _, name := range env.made(names...) {
			env.provide(name, builder.AtRest)
		}
	}
	env.run(names...)
	for _, name := range names {
		require.Equal(t, "True UpToDate: ", env.ready(name))
	}
	return env
}

func TestCreationsOfAGroupAreSerialized(t *testing.T) {
	env := newTeam(t, profile("p1"), profile("p2"), profile("p3"))
	env.run("p3", "p2", "p1")
	require.Equal(t, []string{"p1"}, env.made("p1", "p2", "p3"), "the oldest comes first")
	assert.Equal(t, waits, env.ready("p2"))
	assert.Empty(t, env.get("p2").Finalizers, "who only waits can go at any time")
	assert.Nil(t, env.get("p2").Status.StartedTime, "nothing has begun")
	assert.NotContains(t, env.ready("p1"), "Queued")

	assert.Empty(t, env.mustReconcile("p2"), "to wait costs nothing")

	env.provide("p1", builder.FirstApplyRunning)
	env.run("p1", "p2", "p3")
	assert.Equal(t, []string{"p1"}, env.made("p1", "p2", "p3"))
	assert.Len(t, env.events(), 3, "each of the three has reported its state once")

	env.provide("p1", builder.AtRest)
	env.run("p1")
	require.Equal(t, []string{"p1", "p2"}, env.made("p1", "p2", "p3"))
	assert.Equal(t, "True UpToDate: ", env.ready("p1"))
	assert.Equal(t, waits, env.ready("p3"))
	env.provide("p2", builder.AtRest)
	env.run("p2")
	require.Equal(t, []string{"p1", "p2", "p3"}, env.made("p1", "p2", "p3"))
}

// The rate limit of updates is used by the object that holds the lock; no other one starts meanwhile.
func TestTheActiveMemberWaitsForTheRateLimit(t *testing.T) {
	env := teamAtRest(t, "p1", "p2")
	env.reconciler.RateLimiter.Reserve(client.ObjectKey{Name: "first-of-the-fleet"}, now)
	env.template(builder.WithModule("# new"))
	got, err := env.reconcile("p2")
	require.NoError(t, err)
	assert.Positive(t, got.RequeueAfter)
	assert.Contains(t, env.ready("p2"), "has not been updated to the current template and variables yet")
	env.run("p1")
	assert.Equal(t, waits, env.ready("p1"))

	env.reconciler.RateLimiter = serialize.NewRateLimiter()
	env.run("p1", "p2")
	module, _, _ := unstructured.NestedString(env.workspace("p2").Object, "spec", "forProvider", "module")
	assert.Equal(t, "# new", module, "it kept the lock")
}

func TestARevertedEditReleasesTheGroup(t *testing.T) {
	env := teamAtRest(t, "p1", "p2")
	env.reconciler.RateLimiter.Reserve(client.ObjectKey{Name: "first-of-the-fleet"}, now)
	before := builder.WorkspaceTemplate("vpc").Spec
	env.template(builder.WithModule("# new"))
	env.run("p1", "p2")
	require.Equal(t, waits, env.ready("p2"))

	env.template(builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec = before }))
	env.run("p1")
	assert.Equal(t, "True UpToDate: ", env.ready("p1"))
	assert.Equal(t, "True UpToDate: ", env.ready("p2"), "it was woken")
}

// Whether an error holds the others up depends on whether a retry is expected to help.
func TestATransientErrorKeepsTheMemberActive(t *testing.T) {
	for name, row := range map[string]struct {
		row   builder.Row
		error string
		keeps bool
	}{
		"a quota":                  {builder.FirstApplyFailed, "", false},
		"a lock":                   {builder.FirstApplyFailed, "create failed: Error acquiring the state lock: state is already locked by another", true},
		"throttled":                {builder.UpdateFailed, "", true},
		"a module that is nowhere": {builder.PlanFailed, "connect failed: cannot initialize Terraform: Failed to download module: dial tcp: lookup modules.example.invalid: no such host", false},
		"a mistake":                {builder.PlanFailed, "", false},
		"no ProviderConfig":        {builder.ProviderConfigMissing, "", false},
		"interrupted":              {builder.Interrupted, "", false},
		"paused":                   {builder.WorkspacePaused, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTeam(t, profile("p1"), profile("p2"))
			env.run("p1", "p2")
			var options []builder.Option
			if row.error != "" {
				options = append(options, builder.WithError(row.error))
			}
			env.provide("p1", row.row, options...)
			env.run("p1")
			assert.Equal(t, row.keeps, env.workspace("p2") == nil, env.ready("p1"))
		})
	}
}

// One that is at work is waited for, see test/faults.
func TestAfterARestartAMemberThatRestsReleasesTheGroup(t *testing.T) {
	env := newTeam(t, profile("p1"), profile("p2"), profile("p3"))
	env.run("p1", "p2", "p3")
	env.provide("p1", builder.AtRest)
	env.restart()
	env.run("p2", "p3")
	env.mustReconcile("p1") // It reports once that it is ready.
	env.restart()
	env.run("p2", "p3")
	assert.Equal(t, []string{"p1"}, env.made("p1", "p2", "p3"))
	env.run("p1")
	assert.Equal(t, []string{"p1", "p2"}, env.made("p1", "p2", "p3"), "it was at rest, and nothing had to be written to show it")
}

// An object that is never applied, or that this manager does not reconcile, blocks no other one.
func TestInactiveMembersBlockNone(t *testing.T) {
	for name, first := range map[string]*infrav1.WorkspaceTemplateApply{
		"paused":                          profile("p1", builder.Paused()),
		"waiting for a Secret":            profile("p1", builder.WaitingForSecret("gone")),
		"without a template":              profile("p1", builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "gone" })),
		"of another manager":              profile("p1", builder.WithLabel(clusterv1.WatchLabel, "other")),
		"externally managed":              profile("p1", builder.WithAnnotation(clusterv1.ManagedByAnnotation, "")),
		"of another Cluster":              profile("p1", builder.WithLabel(clusterv1.ClusterNameLabel, "other")),
		"of another group":                profile("p1", builder.WithLabel(naming.SerializeLabel, "others")),
		"of another namespace":            profile("p1", builder.WithNamespace("other")),
		"without a Cluster":               profile("p1", builder.With(func(a *infrav1.WorkspaceTemplateApply) { delete(a.Labels, clusterv1.ClusterNameLabel) })),
		"deleted, with another finalizer": profile("p1", builder.Deleting(), builder.WithFinalizers("example.com/other")),
	} {
		t.Run(name, func(t *testing.T) {
			mine := builder.WithLabel(clusterv1.WatchLabel, "mine")
			if first.Labels[clusterv1.WatchLabel] == "" {
				mine(first)
			}
			env := newTeam(t, first, profile("p2", mine))
			env.reconciler.WatchFilterValue = "mine"
			env.run("p2", "p1")
			assert.NotNil(t, env.workspace("p2"))
		})
	}
}

// A request that is not answered may have been carried out; one that is refused was not.
func TestAFailedWriteReleasesTheGroupOnlyWhenRefused(t *testing.T) {
	resource := schema.GroupResource{Resource: "workspaces"}
	for name, row := range map[string]struct {
		err          error
		keeps, waits bool
	}{
		"an admission rule":     {apierrors.NewForbidden(resource, "p1", errors.New("not here")), false, false},
		"the schema":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Workspace"}, "p1", nil), false, true},
		"an unknown field":      {apierrors.NewInternalError(errors.New("failed to create typed patch object: field not declared in schema")), false, true},
		"no answer":             {errors.New("connection reset by peer"), true, false},
		"a timeout":             {apierrors.NewTimeoutError("later", 1), true, false},
		"an answer of no value": {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTeam(t, profile("p1"), profile("p2"))
			env.run("p2", "p1")
			require.Equal(t, []string{"p1"}, env.made("p1", "p2"))
			env.remove(env.workspace("p1"))
			env.FailOn("apply Workspace", row.err)
			_, err := env.reconcile("p1")
			require.Equal(t, row.waits, err == nil)
			env.Refuse = nil
			env.run("p2")
			assert.Equal(t, row.keeps, env.workspace("p2") == nil)
			if !row.waits {
				env.run("p1", "p2")
				assert.Equal(t, row.keeps, env.workspace("p1") != nil, "it goes on if it kept the turn, and waits if it did not")
			}
		})
	}
}

func TestLeavingTheGroupEnqueuesWaitingMembers(t *testing.T) {
	env := newTeam(t, profile("p1"), profile("p2"), profile("p3"))
	env.run("p1", "p2", "p3")
	before := env.get("p1")
	after := before.DeepCopy()
	delete(after.Labels, naming.SerializeLabel)
	require.True(t, membershipChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}))
	require.True(t, membershipChanged().Delete(event.DeleteEvent{Object: before}))
	changed := before.DeepCopy()
	changed.Status.WorkspaceName = "something else"
	require.False(t, membershipChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: changed}), "a change of status is none of series")

	var woken []string
	for _, request := range env.reconciler.ofGroup(t.Context(), before) {
		woken = append(woken, request.Name)
	}
	assert.Equal(t, []string{"p2", "p3"}, woken)
	assert.Empty(t, env.reconciler.ofGroup(t.Context(), after))

	env.update(after)
	env.run(woken...)
	assert.Equal(t, []string{"p1", "p2"}, env.made("p1", "p2", "p3"))
	env.run("p1")
}

// A WorkspaceTemplateApply that is gone leaves nothing in memory, and no object that waits for it.
func TestADeletedMemberBlocksNone(t *testing.T) {
	env := teamAtRest(t, "p1", "p2")
	env.edit("p1", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	env.provide("p1", builder.FirstApplyRunning)
	env.run("p1", "p2")
	env.remove(env.get("p1"))
	env.run("p1", "p1")
	env.remove(env.get("p2"))
	env.run("p2")
	assert.NotNil(t, env.workspace("p2").GetDeletionTimestamp())
}

// After a restart, no member starts before all others were reconciled once. A preview that cannot be written must not make all others queue.
func TestAMemberWhosePreviewIsRefusedDoesNotHoldItsGroup(t *testing.T) {
	template := stagedTemplate("# 2")
	template.Spec.Rollout.Preview = infrav1.RolloutPreviewAlways
	old, revision := stored(t, stagedTemplate("# 1"))
	runs := func(hash string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRevision = hash })
	}
	env := newTeam(t, profile("p1", runs(old)), profile("p2", runs(old)))
	env.remove(builder.WorkspaceTemplate("vpc"))
	env.create(template)
	env.create(revision)
	env.run("p1", "p2")
	env.provide("p1", builder.AtRest)
	_, err := env.reconcile("p1")
	require.NoError(t, err)
	require.Empty(t, env.made("p2"))
	env.template(builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout.State = infrav1.RolloutPaused }))
	env.restart()
	env.FailOn("delete Workspace", apierrors.NewForbidden(schema.GroupResource{Resource: "workspaces"}, "preview", errors.New("a policy refuses")))
	_, err = env.reconcile("p1")
	require.ErrorContains(t, err, "a policy refuses")
	env.run("p2")
	assert.Equal(t, []string{"p2"}, env.made("p2"))
}
