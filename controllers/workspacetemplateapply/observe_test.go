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
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/dependencies"
	"github.com/capt-provider/capt/test/builder"
)

// leftBehind is a Workspace that an earlier WorkspaceTemplateApply of the same name left behind, on purpose.
func leftBehind(options ...builder.Option) *unstructured.Unstructured {
	key := types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}
	return builder.Workspace("demo-vpc", builder.AtRest, append([]builder.Option{
		builder.WithAnnotation(naming.ClaimAnnotation, naming.Claim(key)),
		builder.WithAnnotation(render.ExternalNameAnnotation, naming.ExternalName(key)),
		builder.WithCreation(builder.Created.Add(-90 * 24 * time.Hour)),
	}, options...)...)
}

// lagging is a client whose cache has not got the Workspaces yet.
type lagging struct{ client.WithWatch }

func (l lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() == terraform.WorkspaceKind {
		key.Name = "not-there-yet"
	}
	return l.WithWatch.Get(ctx, key, object, opts...)
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
				env.reconciler.Workspaces.Client = lagging{env.API}
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
func TestSafety24OlderClaimReadsOneNamespace(t *testing.T) {
	objects := []client.Object{builder.WorkspaceTemplate("vpc")}
	for i := range 1000 {
		objects = append(objects, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace(fmt.Sprintf("team-%d", i)),
			builder.WithUID(types.UID(fmt.Sprint(i))), builder.WithWorkspaceName("demo-vpc")))
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
	f := &Facts{Name: "demo-vpc", Template: builder.WorkspaceTemplate("vpc")}
	claim, err := env.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.Empty(t, claim)
	assert.Equal(t, 1, read, "itself")

	f.Template = builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster))
	claim, err = env.reconciler.olderClaim(t.Context(), apply, f)
	require.NoError(t, err)
	assert.Equal(t, "a WorkspaceTemplateApply of another namespace", claim, "a cluster-wide Workspace can be claimed from every namespace")
}

func allowing(allowed infrav1.AllowedNamespaces) builder.Option {
	return builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.AllowedNamespaces = allowed })
}

func fromNamespace(namespace string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Namespace = namespace })
}

// The namespace of the reference counts, here and everywhere.
func TestDefect13ATemplateOfAnotherNamespaceMustAllowTheNamespace(t *testing.T) {
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
			env := newEnvironment(t,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "blue"}}},
				builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"), allowing(row.allowed)),
				builder.WorkspaceTemplateApply("demo-vpc", fromNamespace("shared")))
			env.mustReconcile("demo-vpc")
			assert.Equal(t, row.want, env.workspace("demo-vpc") != nil)
			if !row.want {
				assert.Contains(t, env.ready("demo-vpc"), "False TemplateNotFound")
			}
		})
	}
}

// Defect 11: provider-terraform creates connection Secrets before it fills them.
func TestWaitingForASecret(t *testing.T) {
	elsewhere := builder.SecretWith("s", map[string]string{"a": "x"})
	elsewhere.Namespace = "other"
	for name, row := range map[string]struct {
		secret client.Object
		wait   builder.Option
		want   string // Empty when nothing is waited for.
	}{
		"it does not exist":          {nil, builder.WaitingForSecret("s", "a"), "Secret s does not exist"},
		"it is empty":                {builder.SecretWith("s", nil), builder.WaitingForSecret("s"), "Secret s is empty"},
		"its only value is empty":    {builder.SecretWith("s", map[string]string{"a": ""}), builder.WaitingForSecret("s"), "Secret s is empty"},
		"any value will do":          {builder.SecretWith("s", map[string]string{"b": "x"}), builder.WaitingForSecret("s"), ""},
		"a key is missing":           {builder.SecretWith("s", map[string]string{"a": "x"}), builder.WaitingForSecret("s", "a", "b"), "Secret s has no value for key b"},
		"a key is empty":             {builder.SecretWith("s", map[string]string{"a": "x", "b": ""}), builder.WaitingForSecret("s", "a", "b"), "Secret s has no value for key b"},
		"two keys are missing":       {builder.SecretWith("s", nil), builder.WaitingForSecret("s", "a", "b"), "Secret s has no value for key a; Secret s has no value for key b"},
		"every key is there":         {builder.SecretWith("s", map[string]string{"a": "x", "b": "y"}), builder.WaitingForSecret("s", "a", "b"), ""},
		"it is in another namespace": {elsewhere.DeepCopy(), builder.WaitingForSecret("s"), "Secret s does not exist"},
		"another namespace is asked for": {elsewhere.DeepCopy(), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "s", Namespace: "other"}}
		}), "Secret s must be in namespace default"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", row.wait))
			if row.secret != nil {
				assert.NoError(t, env.API.Create(t.Context(), row.secret))
			}
			env.mustReconcile("demo-vpc")
			assert.Equal(t, row.want == "", env.workspace("demo-vpc") != nil)
			if row.want != "" {
				assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(env.ready("demo-vpc")))
			}
		})
	}
}

func TestWaitingForAWorkspace(t *testing.T) {
	owner := func(options ...builder.Option) client.Object {
		return builder.WorkspaceTemplateApply("other", append([]builder.Option{builder.WithWorkspaceName("net")}, options...)...)
	}
	notSeen := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.ObservedGeneration = 0 })
	for name, row := range map[string]struct {
		objects   []client.Object
		namespace string
		want      string
	}{
		"it does not exist":                     {nil, "", "Workspace net does not exist"},
		"its owner is up to date":               {[]client.Object{owner(builder.UpToDate(nil))}, "", ""},
		"its owner is not ready":                {[]client.Object{owner(builder.NotUpToDate("Provisioning", "at work"))}, "", "Workspace net is not up to date"},
		"its owner failed":                      {[]client.Object{owner(builder.NotUpToDate("PlanFailed", "no zones"))}, "", "Workspace net is not up to date: WorkspaceTemplateApply other is not ready: no zones"},
		"its owner failed in another namespace": {[]client.Object{owner(builder.WithNamespace("net-team"), builder.NotUpToDate("PlanFailed", "no zones"))}, "net-team", "Workspace net of namespace net-team does not exist, or is not up to date"},
		"its owner's status is outdated":        {[]client.Object{owner(builder.UpToDate(nil), notSeen)}, "", "Workspace net is not up to date"},
		"no owner, up to date":                  {[]client.Object{builder.Workspace("net", builder.AtRest)}, "", ""},
		"no owner, updating":                    {[]client.Object{builder.Workspace("net", builder.Updating)}, "", "Workspace net is not up to date"},
		"no owner, cluster-wide":                {[]client.Object{builder.Workspace("net", builder.AtRest, builder.InClusterScope())}, "", ""},
		"it is named with its namespace":        {[]client.Object{owner(builder.WithNamespace("net-team"), builder.UpToDate(nil))}, "net-team", ""},
		"it is in another namespace":            {[]client.Object{owner(builder.WithNamespace("net-team"), builder.UpToDate(nil))}, "", "Workspace net does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(row.objects, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForWorkspace("net", row.namespace)))
			env := newEnvironment(t, objects...)
			env.mustReconcile("demo-vpc")
			assert.Equal(t, row.want == "", env.workspace("demo-vpc") != nil)
			if row.want != "" {
				assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(env.ready("demo-vpc")))
			}
		})
	}
}

func TestAMissingConnectionSecretHasTheFailureOfItsWriter(t *testing.T) {
	writes := builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "s"}
	})
	for name, row := range map[string]struct {
		writer client.Object
		want   string
	}{
		"failed":            {builder.WorkspaceTemplateApply("writer", writes, builder.NotUpToDate("ApplyFailed", "VpcLimitExceeded")), "Secret s does not exist: WorkspaceTemplateApply writer is not ready: VpcLimitExceeded"},
		"in progress":       {builder.WorkspaceTemplateApply("writer", writes, builder.NotUpToDate("Provisioning", "50%")), "Secret s does not exist"},
		"another namespace": {builder.WorkspaceTemplateApply("writer", writes, builder.WithNamespace("other"), builder.NotUpToDate("ApplyFailed", "hidden")), "Secret s does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), row.writer, builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForSecret("s")))
			env.mustReconcile("demo-vpc")
			assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(env.ready("demo-vpc")))
			assert.Empty(t, env.mustReconcile("demo-vpc"))
			if row.writer.GetNamespace() == builder.Namespace {
				assert.Contains(t, env.reconciler.relatedApplies(t.Context(), row.writer), request("demo-vpc"))
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

// withoutSince is a message without the times.
func withoutSince(message string) string {
	return strings.ReplaceAll(message, " (since "+now.UTC().Format(time.RFC3339)+")", "")
}

func TestMissingDependenciesHaveATime(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForSecret("s", "a", "b")))
	env.mustReconcile("demo-vpc")
	first := metav1.NewTime(now).Rfc3339Copy()
	require.True(t, equality.Semantic.DeepEqual([]infrav1.MissingDependency{{Kind: "Secret", Name: "s", Message: "Secret s does not exist", Since: &first}}, env.get("demo-vpc").Status.MissingDependencies))

	env.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(time.Hour))
	env.create(builder.SecretWith("s", map[string]string{"a": "x"}))
	env.mustReconcile("demo-vpc")
	require.True(t, equality.Semantic.DeepEqual([]infrav1.MissingDependency{{Kind: "Secret", Name: "s", Key: "b", Message: "Secret s has no value for key b", Since: &first}},
		env.get("demo-vpc").Status.MissingDependencies), "the key was missing all the time")
	assert.Contains(t, env.ready("demo-vpc"), "(since 2026-01-03T03:04:05Z)")

	env.update(builder.SecretWith("s", map[string]string{"a": "", "b": "y"}))
	env.mustReconcile("demo-vpc")
	assert.True(t, env.get("demo-vpc").Status.MissingDependencies[0].Since.Equal(ptr.To(metav1.NewTime(now.Add(time.Hour)))), "key a was there before")
}

func TestMessagesNameAtMost20Dependencies(t *testing.T) {
	message := dependencies.Message(lacking(slices.Repeat([]string{"Secret s does not exist"}, 64)...))
	assert.Equal(t, 20, strings.Count(message, "Secret s"))
	assert.Contains(t, message, "and 44 more, see status.missingDependencies")
}
