// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/dependencies"
	"github.com/capt-provider/capt/test/builder"
)

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
		"nothing is allowed":            {infrav1.AllowedNamespaces{}, false},
		"it is named":                   {infrav1.AllowedNamespaces{Names: []string{"other", "default"}}, true},
		"another is named":              {infrav1.AllowedNamespaces{Names: []string{"other"}}, false},
		"every one may":                 {infrav1.AllowedNamespaces{Names: []string{"*"}}, true},
		"its labels match":              {infrav1.AllowedNamespaces{Selector: labels("team", "blue")}, true},
		"its labels do not match":       {infrav1.AllowedNamespaces{Selector: labels("team", "red")}, false},
		"an empty selector matches all": {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{}}, true},
		"an invalid selector": {infrav1.AllowedNamespaces{Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Resembles"}},
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "blue"}}},
				builder.WorkspaceTemplate("vpc", builder.WithNamespace("shared"), allowing(row.allowed)),
				builder.WorkspaceTemplateApply("demo-vpc", fromNamespace("shared")))
			w.mustReconcile("demo-vpc")
			assert.Equal(t, row.want, w.workspace("demo-vpc") != nil)
			if !row.want {
				assert.Contains(t, w.ready("demo-vpc"), "False TemplateNotFound")
			}
		})
	}
}

func TestATemplateOfItsOwnNamespaceNeedsNoPermission(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", fromNamespace("default")))
	w.mustReconcile("demo-vpc")
	assert.NotNil(t, w.workspace("demo-vpc"))
}

func secret(namespace, name string, data map[string]string) *corev1.Secret {
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		object.Data[key] = []byte(value)
	}
	return object
}

// Defect 11: provider-terraform creates connection Secrets before it fills them.
func TestWaitingForASecret(t *testing.T) {
	for name, row := range map[string]struct {
		secret client.Object
		wait   builder.Option
		want   string // Empty when nothing is waited for.
	}{
		"it does not exist":          {nil, builder.WaitingForSecret("s", "a"), "Secret s does not exist"},
		"it is empty":                {secret("default", "s", nil), builder.WaitingForSecret("s"), "Secret s is empty"},
		"its only value is empty":    {secret("default", "s", map[string]string{"a": ""}), builder.WaitingForSecret("s"), "Secret s is empty"},
		"any value will do":          {secret("default", "s", map[string]string{"b": "x"}), builder.WaitingForSecret("s"), ""},
		"a key is missing":           {secret("default", "s", map[string]string{"a": "x"}), builder.WaitingForSecret("s", "a", "b"), "Secret s has no value for key b"},
		"a key is empty":             {secret("default", "s", map[string]string{"a": "x", "b": ""}), builder.WaitingForSecret("s", "a", "b"), "Secret s has no value for key b"},
		"two keys are missing":       {secret("default", "s", nil), builder.WaitingForSecret("s", "a", "b"), "Secret s has no value for key a; Secret s has no value for key b"},
		"every key is there":         {secret("default", "s", map[string]string{"a": "x", "b": "y"}), builder.WaitingForSecret("s", "a", "b"), ""},
		"it is in another namespace": {secret("other", "s", map[string]string{"a": "x"}), builder.WaitingForSecret("s"), "Secret s does not exist"},
		"another namespace is asked for": {secret("other", "s", map[string]string{"a": "x"}), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Spec.WaitForSecrets = []infrav1.SecretDependency{{Name: "s", Namespace: "other"}}
		}), "Secret s must be in namespace default"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", row.wait))
			if row.secret != nil {
				assert.NoError(t, w.API.Create(t.Context(), row.secret))
			}
			w.mustReconcile("demo-vpc")
			assert.Equal(t, row.want == "", w.workspace("demo-vpc") != nil)
			if row.want != "" {
				assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(w.ready("demo-vpc")))
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
			w := newWorld(t, objects...)
			w.mustReconcile("demo-vpc")
			assert.Equal(t, row.want == "", w.workspace("demo-vpc") != nil)
			if row.want != "" {
				assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(w.ready("demo-vpc")))
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
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), row.writer, builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForSecret("s")))
			w.mustReconcile("demo-vpc")
			assert.Equal(t, "False WaitingForDependencies: "+row.want, withoutSince(w.ready("demo-vpc")))
			assert.Empty(t, w.mustReconcile("demo-vpc"))
			if row.writer.GetNamespace() == builder.Namespace {
				assert.Contains(t, w.reconciler.related(t.Context(), row.writer), request("demo-vpc"))
			}
		})
	}
}

func TestATemplateOutsideTheWatchedNamespaceIsReadFromTheAPIServer(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("team")))
	w.reconciler.Namespace = "team"
	w.reconciler.Uncached = newWorld(t, builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"team"}}
	}))).API
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("team"))
	apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: builder.Namespace}
	f := &Facts{}
	w.reconciler.observeTemplate(t.Context(), apply, f)
	require.NoError(t, f.LookupError)
	assert.NotNil(t, f.Template)
}

// withoutSince is a message without the times.
func withoutSince(message string) string {
	return strings.ReplaceAll(message, " (since "+now.UTC().Format(time.RFC3339)+")", "")
}

func TestMissingDependenciesHaveATime(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForSecret("s", "a", "b")))
	w.mustReconcile("demo-vpc")
	first := metav1.NewTime(now).Rfc3339Copy()
	require.True(t, equality.Semantic.DeepEqual([]infrav1.MissingDependency{{Kind: "Secret", Name: "s", Message: "Secret s does not exist", Since: &first}}, w.get("demo-vpc").Status.MissingDependencies))

	w.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(time.Hour))
	w.create(secret("default", "s", map[string]string{"a": "x"}))
	w.mustReconcile("demo-vpc")
	require.True(t, equality.Semantic.DeepEqual([]infrav1.MissingDependency{{Kind: "Secret", Name: "s", Key: "b", Message: "Secret s has no value for key b", Since: &first}},
		w.get("demo-vpc").Status.MissingDependencies), "the key was missing all the time")
	assert.Contains(t, w.ready("demo-vpc"), "(since 2026-01-03T03:04:05Z)")

	w.update(secret("default", "s", map[string]string{"a": "", "b": "y"}))
	w.mustReconcile("demo-vpc")
	assert.True(t, w.get("demo-vpc").Status.MissingDependencies[0].Since.Equal(ptr.To(metav1.NewTime(now.Add(time.Hour)))), "key a was there before")
}

func TestMessagesNameAtMost20Dependencies(t *testing.T) {
	message := dependencies.Message(lacking(slices.Repeat([]string{"Secret s does not exist"}, 64)...))
	assert.Equal(t, 20, strings.Count(message, "Secret s"))
	assert.Contains(t, message, "and 44 more, see status.missingDependencies")
}
