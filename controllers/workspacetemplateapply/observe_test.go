// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// leftBehind is a Workspace that an earlier WorkspaceTemplateApply of the same name left behind, on purpose.
func leftBehind(options ...builder.Option) *unstructured.Unstructured {
	key := types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}
	return builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{
		builder.WithAnnotation(naming.ClaimAnnotation, naming.Claim(key)),
		builder.WithAnnotation(render.ExternalNameAnnotation, naming.ExternalName("", key)),
		builder.WithCreation(builder.Created.Add(-90 * 24 * time.Hour)),
	}, options...)...)
}

// Creating finds what the cache did not show, after the object was prepared. What is noted then must not make it ours.
func TestCreateDoesNotTakeOverARetainedWorkspace(t *testing.T) {
	for name, row := range map[string]struct {
		left *unstructured.Unstructured
		lags bool
	}{
		"in the other scope": {left: leftBehind(builder.InClusterScope())},
		"the cache lags":     {left: leftBehind(), lags: true},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), row.left)
			if row.lags {
				absent := apierrors.NewNotFound(schema.GroupResource{Resource: "workspaces"}, "demo-vpc")
				env.reconciler.Workspaces.Client = builder.FailingGet[*unstructured.Unstructured](env.API, absent)
			}
			for range 3 {
				_, err := env.reconcile("demo-vpc")
				require.NoError(t, err)
				assert.Nil(t, env.get("demo-vpc").Status.WorkspaceRef, "it is not this object's")
			}
			env.remove(env.get("demo-vpc"))
			_, err := env.reconcile("demo-vpc")
			require.NoError(t, err)
			assert.NotContains(t, env.Writes, "delete Workspace", "what was retained would be destroyed")
		})
	}
}

// Restored from a backup, or moved, without status and without its Workspace: all that is left is where its state was.
func TestAnObjectWithAnotherRecordedStateCreatesNoWorkspace(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"),
		builder.WithAnnotation(naming.ExternalNameAnnotation, "state-of-the-older-capt")))
	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.workspace("demo-vpc"))
	assert.Equal(t, "state-of-the-older-capt", env.get("demo-vpc").Annotations[naming.ExternalNameAnnotation])
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc does not exist, and this object had one with Terraform state state-of-the-older-capt")

	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = nil })
	env.mustReconcile("demo-vpc")
	assert.NotNil(t, env.workspace("demo-vpc"), "the user has decided")
}

// A fleet: the template is edited, and this one is queued. The Workspace was last changed months ago.
func TestAWaitingUpdateHasNotStarted(t *testing.T) {
	for name, wait := range map[string]func(env *environment){
		"queued by the rate limit": func(env *environment) {
			env.reconciler.RateLimiter.Reserve(client.ObjectKey{Name: "first-of-the-fleet"}, now)
		},
		"for a Secret": func(env *environment) {
			env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				a.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "gone"}}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := atRest(t)
			wait(env)
			env.template(builder.WithModule("# new"))
			_, err := env.reconcile("demo-vpc")
			require.NoError(t, err)
			assert.NotContains(t, env.ready("demo-vpc"), "True")
			assert.Nil(t, env.get("demo-vpc").Status.StartedTime)
		})
	}
}

// The template is gone, and Terraform fails for a moment on what it applied months ago.
func TestAnErrorWithoutATemplateStartsNow(t *testing.T) {
	env := atRest(t)
	env.remove(builder.WorkspaceTemplate("vpc"))
	env.provide("demo-vpc", builder.PlanFailed)
	_, err := env.reconcile("demo-vpc")
	require.NoError(t, err)
	require.NotNil(t, env.get("demo-vpc").Status.StartedTime)
	assert.Equal(t, now.Unix(), env.get("demo-vpc").Status.StartedTime.Unix())
}

// Each of a fleet looks at those that may have its Workspace, and not at the fleet.
func TestOlderClaimReadsOneNamespace(t *testing.T) {
	objects := []client.Object{builder.WorkspaceTemplate("vpc")}
	for i := range 1000 {
		objects = append(objects, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace(fmt.Sprintf("team-%d", i)),
			builder.WithUID(types.UID(fmt.Sprint(i))), builder.WithWorkspaceName("demo-vpc"), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
				if i == 0 {
					a.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "demo-vpc"}
				}
			})))
	}
	env := newEnvironment(t, objects...)
	read := 0
	env.reconciler.Client = interceptor.NewClient(env.API, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			read += meta.LenList(list)
			return err
		},
	})
	apply := objects[500].(*infrav1.WorkspaceTemplateApply)
	f := &Facts{apply: apply, Name: "demo-vpc", Template: builder.WorkspaceTemplate("vpc")}
	claim, err := env.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.Empty(t, claim)
	assert.Equal(t, 1, read, "itself")

	f.Template = builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster))
	claim, err = env.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.Equal(t, "a WorkspaceTemplateApply of another namespace", claim, "a cluster-wide Workspace can be recorded in every namespace")

	env.remove(objects[1])
	claim, err = env.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.Empty(t, claim, "a name in spec is not a claim")
}

// The namespace of the reference counts, here and everywhere.
func TestATemplateOfAnotherNamespaceMustAllowTheNamespace(t *testing.T) {
	labels := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for name, row := range map[string]struct {
		allowed infrav1.AllowedNamespaces
		want    bool
	}{
		"nothing is allowed":      {infrav1.AllowedNamespaces{}, false},
		"it is named":             {infrav1.AllowedNamespaces{Names: []string{"other", "default"}}, true},
		"its labels match":        {infrav1.AllowedNamespaces{Selector: labels("team", "blue")}, true},
		"its labels do not match": {infrav1.AllowedNamespaces{Selector: labels("team", "red")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			template, apply := builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared")), builder.WorkspaceTemplateApply("demo-vpc")
			template.Spec.AllowedNamespaces, apply.Spec.TemplateRef.Namespace = row.allowed, "shared"
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "blue"}}}
			env := newEnvironment(t, namespace, template, apply)
			env.mustReconcile("demo-vpc")
			assert.Equal(t, row.want, env.workspace("demo-vpc") != nil)
			if !row.want {
				assert.Contains(t, env.ready("demo-vpc"), "False TemplateNotFound")
			}
		})
	}
}

// provider-terraform creates connection Secrets before it fills them.
func TestWaitingForDependencies(t *testing.T) {
	some, all := builder.WaitingForSecret("s"), builder.WaitingForSecret("s", "a", "b")
	elsewhere := builder.SecretWith("s", map[string]string{"a": "x"})
	elsewhere.Namespace = "other"
	inOther := builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "s", Namespace: "other"}}
	})
	secret := func(data map[string]string) client.Object { return builder.SecretWith("s", data) }
	writer := func(options ...builder.Option) client.Object {
		return builder.WorkspaceTemplateApply("writer", append([]builder.Option{builder.WithConnectionSecret("s", "")}, options...)...)
	}
	net, netOfTeam := builder.WaitingForWorkspace("net", ""), builder.WaitingForWorkspace("net", "net-team")
	owner := func(options ...builder.Option) client.Object {
		return builder.WorkspaceTemplateApply("other", append([]builder.Option{builder.WithWorkspaceName("net")}, options...)...)
	}
	upToDate, failed, ofTeam := builder.UpToDate(nil), builder.NotUpToDate("PlanFailed", "no zones"), builder.WithNamespace("net-team")
	notSeen := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.ObservedGeneration = 0 })
	for name, row := range map[string]struct {
		object client.Object // Nil for none.
		wait   builder.Option
		want   string // Empty when nothing is waited for.
	}{
		"no Secret":                               {nil, builder.WaitingForSecret("s", "a"), "Secret s does not exist: it needs a value for key a"},
		"Secret is empty":                         {secret(nil), some, "Secret s is empty"},
		"only value of the Secret is empty":       {secret(map[string]string{"a": ""}), some, "Secret s is empty"},
		"any value of the Secret will do":         {secret(map[string]string{"b": "x"}), some, ""},
		"a key is missing":                        {secret(map[string]string{"a": "x"}), all, "Secret s has no value for key b"},
		"a key is empty":                          {secret(map[string]string{"a": "x", "b": ""}), all, "Secret s has no value for key b"},
		"two keys are missing":                    {secret(nil), all, "Secret s has no value for key a; Secret s has no value for key b"},
		"every key is there":                      {secret(map[string]string{"a": "x", "b": "y"}), all, ""},
		"Secret in another namespace":             {elsewhere.DeepCopy(), some, "Secret s does not exist"},
		"Secret of another namespace asked for":   {elsewhere.DeepCopy(), inOther, "Secret s must be in namespace default, the namespace of this object. Correct its namespace in spec.waitForSecrets"},
		"writer of the Secret failed":             {writer(failed), some, "Secret s does not exist: WorkspaceTemplateApply writer is not ready: no zones"},
		"writer of the Secret at work":            {writer(builder.NotUpToDate("Provisioning", "50%")), some, "Secret s does not exist"},
		"writer of a Secret, another namespace":   {writer(ofTeam, failed), some, "Secret s does not exist"},
		"no Workspace":                            {nil, net, "Workspace net does not exist"},
		"Workspace with an owner":                 {owner(upToDate), net, ""},
		"owner at work":                           {owner(builder.NotUpToDate("Provisioning", "at work")), net, "Workspace net is not up to date"},
		"owner failed":                            {owner(failed), net, "Workspace net is not up to date: WorkspaceTemplateApply other is not ready: no zones"},
		"owner failed in another namespace":       {owner(ofTeam, failed), netOfTeam, "Workspace net of namespace net-team does not exist, or is not up to date"},
		"status of the owner is outdated":         {owner(upToDate, notSeen), net, "Workspace net is not up to date"},
		"Workspace without owner":                 {builder.Workspace("net", builder.AtRest), net, ""},
		"Workspace without owner, updating":       {builder.Workspace("net", builder.Updating), net, "Workspace net is not up to date"},
		"Workspace without owner, cluster-wide":   {builder.Workspace("net", builder.AtRest, builder.InClusterScope(), connected(builder.Namespace)), net, ""},
		"cluster-wide, of another namespace":      {builder.Workspace("net", builder.AtRest, builder.InClusterScope(), connected("other")), net, "Workspace net does not exist"},
		"cluster-wide, of an unknown namespace":   {builder.Workspace("net", builder.AtRest, builder.InClusterScope()), net, "Workspace net does not exist"},
		"Workspace is named with its namespace":   {owner(ofTeam, upToDate), netOfTeam, ""},
		"Workspace of another namespace, no name": {owner(ofTeam, upToDate), net, "Workspace net does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", row.wait)}
			if row.object != nil {
				objects = append(objects, row.object)
			}
			env := newEnvironment(t, objects...)
			env.mustReconcile("demo-vpc")
			assert.Equal(t, row.want == "", env.workspace("demo-vpc") != nil)
			if row.want != "" {
				assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(env.ready("demo-vpc")))
				assert.Empty(t, env.mustReconcile("demo-vpc"))
			}
			if apply, ok := row.object.(*infrav1.WorkspaceTemplateApply); ok && apply.Namespace == builder.Namespace {
				assert.Contains(t, env.reconciler.relatedApplies(t.Context(), apply), request("demo-vpc"))
			}
		})
	}
}

// connected is a Workspace whose connection Secret is in a namespace.
func connected(namespace string) builder.Option {
	return builder.With(func(workspace *unstructured.Unstructured) {
		workspace.Object["spec"].(map[string]any)["writeConnectionSecretToRef"] = map[string]any{"name": "net", "namespace": namespace}
	})
}

// In a fleet that is adopted one object at a time, an object can depend on one that is not adopted.
func TestADependencyThatV03CreatedBelongsToTheNamespaceThatStatusRecords(t *testing.T) {
	net := builder.Workspace("net", builder.AtRest, builder.InClusterScope(), connected("default")) // CAPT v0.3 wrote the Secrets of some to default.
	unadopted := func(namespace, workspace string) client.Object {
		return builder.WorkspaceTemplateApply("net-apply", builder.WithNamespace(namespace), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer),
			builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.WorkspaceName = workspace }))
	}
	adopted := func(namespace string) client.Object {
		return builder.WorkspaceTemplateApply("net-apply", builder.WithNamespace(namespace), builder.WithWorkspaceName("net"), builder.WithRecordedWorkspace(net))
	}
	for name, row := range map[string]struct {
		objects []client.Object
		found   bool
	}{
		"recorded in the namespace":                            {[]client.Object{unadopted("team", "net")}, true},
		"not recorded: a user can write such an object":        {[]client.Object{unadopted("team", "")}, false},
		"recorded in another namespace":                        {[]client.Object{unadopted("other", "net")}, false},
		"recorded in both, adopted in the other namespace":     {[]client.Object{unadopted("team", "net"), adopted("other")}, false},
		"recorded nowhere, and the Secret in another one":      {nil, false},
		"an object of the namespace that only claims the name": {[]client.Object{builder.WorkspaceTemplateApply("net", builder.WithNamespace("team"))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, append(row.objects, net.DeepCopy())...)
			apply := builder.WorkspaceTemplateApply("addon", builder.WithNamespace("team"), builder.WaitingForWorkspace("net", ""))
			missing, err := env.reconciler.missingDependencies(t.Context(), apply, now)
			require.NoError(t, err)
			if row.found {
				assert.Empty(t, missing)
			} else {
				assert.Equal(t, "Workspace net does not exist", withoutSince(missingMessage(missing)))
			}
		})
	}
}

func TestATemplateOutsideTheWatchedNamespaceIsReadFromTheAPIServer(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("team")))
	env.reconciler.Namespace = "team"
	env.reconciler.Uncached = newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"team"}}
	}))).API
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("team"))
	apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: builder.Namespace}
	f := &Facts{}
	env.reconciler.observeTemplate(t.Context(), apply, f)
	require.NoError(t, f.LookupError)
	assert.NotNil(t, f.Template)
}

// A manager that has lost its leadership may have the content of before, which the next one has replaced.
func TestATemplateThatWasChangedSinceItWasReadIsNotApplied(t *testing.T) {
	env := atRest(t)
	before := env.workspace("demo-vpc")
	env.template(builder.WithModule("# of before"))
	env.reconciler.Uncached = interceptor.NewClient(env.API, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if template, ok := object.(*infrav1.WorkspaceTemplate); ok {
				template.Generation++
			}
			return err
		},
	})
	_, err := env.reconcile("demo-vpc")
	require.ErrorContains(t, err, "WorkspaceTemplate default/vpc was changed during the reconcile")
	assert.Equal(t, before, env.workspace("demo-vpc"))
	env.reconciler.Uncached = env.API
	env.mustReconcile("demo-vpc")
	assert.NotEqual(t, before, env.workspace("demo-vpc"))
}

// withoutSince is a message without the times.
func withoutSince(message string) string {
	return strings.ReplaceAll(message, " (since "+now.UTC().Format(time.RFC3339)+")", "")
}

// What is missing from the beginning keeps its time, see test/faults.
func TestALostDependencyIsMissingSinceItWasLost(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForSecret("s", "a", "b")))
	env.create(builder.SecretWith("s", map[string]string{"a": "x"}))
	env.mustReconcile("demo-vpc")
	later := now.Add(time.Hour)
	env.reconciler.Clock = clocktesting.NewFakePassiveClock(later)
	env.update(builder.SecretWith("s", map[string]string{"a": "", "b": "y"}))
	env.mustReconcile("demo-vpc")
	assert.True(t, env.get("demo-vpc").Status.MissingDependencies[0].Since.Equal(ptr.To(metav1.NewTime(later))))
}

func TestMessagesNameAtMost20Dependencies(t *testing.T) {
	message := missingMessage(lacking(slices.Repeat([]string{"Secret s does not exist"}, 64)...))
	assert.Equal(t, 20, strings.Count(message, "Secret s"))
	assert.Contains(t, message, "and 44 more, see status.missingDependencies")
}
