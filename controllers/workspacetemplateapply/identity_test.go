// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// The name of the Workspace could be the state of another namespace, or that of an adopted Workspace whose object lost its status.
func TestNoStateIsGuessedFromTheNameOfTheWorkspace(t *testing.T) {
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithScope(scope)),
				builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("state-of-another")))
			assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
			assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: Workspace state-of-another of spec.workspaceName does not exist, and nothing records its Terraform state")
			assert.Empty(t, env.mustReconcile("demo-vpc"))
		})
	}
}

func TestRetainedWorkspaceIsNotTakenOver(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)))
	env.mustReconcile("demo-vpc")
	kept := env.workspace("demo-vpc")
	require.NotNil(t, kept)
	builder.WithCreation(builder.Created.Add(-time.Hour))(kept) // The server of the test gives neither a time nor a UID.
	builder.WithUID("kept")(kept)
	env.update(kept)
	env.provide("demo-vpc", builder.AtRest)
	env.mustReconcile("demo-vpc")
	env.events()
	env.remove(env.get("demo-vpc"))
	assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, []string{"Normal WorkspaceRetained Workspace demo-vpc and its cloud resources are kept: spec.deletionPolicy is Retain"}, env.events())
	require.NotNil(t, env.workspace("demo-vpc"))
	env.mustReconcile("demo-vpc") // It is gone.

	later := builder.WorkspaceTemplateApply("demo-vpc", builder.WithUID("later"))
	later.ResourceVersion = ""
	env.create(later)
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
	assert.Nil(t, env.get("demo-vpc").Status.WorkspaceRef)
	command := "kubectl -n default annotate --overwrite workspacetemplateapply demo-vpc capt.cluster.x-k8s.io/adopt-workspace=" + string(kept.GetUID())
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc (UID "+string(kept.GetUID())+") exists and is not recorded for this object")
	assert.Contains(t, env.ready("demo-vpc"), command)

	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
		a.Annotations = map[string]string{naming.AdoptWorkspaceAnnotation: string(kept.GetUID())}
	})
	env.mustReconcile("demo-vpc")
	env.mustReconcile("demo-vpc")
	assert.Equal(t, kept.GetUID(), env.get("demo-vpc").Status.WorkspaceRef.UID)
	assert.Contains(t, env.ready("demo-vpc"), "True UpToDate")
}

// restoredApply is as kubectl get -o yaml gave it, created again.
func restoredApply(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
	key := types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}
	return builder.WorkspaceTemplateApply("demo-vpc", append([]builder.Option{
		builder.WithWorkspaceName("demo-vpc"), builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer),
		builder.WithAnnotation(naming.ExternalNameAnnotation, naming.ExternalName("", key)), builder.WithAnnotation(naming.ExternalNameUIDAnnotation, "before"),
	}, options...)...)
}

func TestARestoredCopyThatIsDeletedDestroysNothing(t *testing.T) {
	later := builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"), builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer))
	for message, apply := range map[string]*infrav1.WorkspaceTemplateApply{
		" and its cloud resources (Terraform state ":   restoredApply(),
		" is kept: it is not recorded for this object": later,
	} {
		env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), leftBehind(builder.WithUID("another")), apply)
		env.remove(env.get("demo-vpc"))
		assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"))
		sent := env.events()
		require.Len(t, sent, 1)
		assert.Contains(t, sent[0], "Warning WorkspaceLeft Workspace demo-vpc"+message)
	}
}

// The garbage collector comes a moment after the controller. What is recorded by then would be destroyed.
func TestNothingIsRecordedWhileOwnersAreMissing(t *testing.T) {
	cluster := builder.Cluster("demo")
	cluster.UID = "cluster"
	network := builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) {
		c.UID = "network"
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Name: "demo", UID: "cluster"}}
	}))
	owned := func(kind, version, name string, uid types.UID) builder.Option {
		return builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: uid}}
		})
	}
	ours := func(uid types.UID) builder.Option {
		return owned("CAPTCluster", infrav1.GroupVersion.String(), "demo", uid)
	}
	orphaned := network.DeepCopy()
	orphaned.OwnerReferences[0].UID = "before"
	for name, row := range map[string]struct {
		objects []client.Object
		apply   *infrav1.WorkspaceTemplateApply
		missing string
	}{
		"the owner is there":               {[]client.Object{cluster, network, leftBehind()}, restoredApply(ours("network")), ""},
		"by an older version":              {[]client.Object{cluster, network, leftBehind()}, restoredApply(owned("CAPTCluster", "infrastructure.cluster.x-k8s.io/v1beta1", "demo", "network")), ""},
		"no owner":                         {[]client.Object{leftBehind()}, restoredApply(), ""},
		"another owner of that name":       {[]client.Object{cluster, network, leftBehind()}, restoredApply(ours("before")), "owner CAPTCluster demo (UID before) does not exist"},
		"the owner is gone":                {[]client.Object{leftBehind()}, restoredApply(ours("network")), "owner CAPTCluster demo (UID network) does not exist"},
		"the owner will be collected, too": {[]client.Object{cluster, orphaned, leftBehind()}, restoredApply(ours("network")), "owner Cluster demo (UID before) does not exist"},
		"the Workspace is gone, too":       {nil, restoredApply(ours("network")), "owner CAPTCluster demo"},
		"of a kind that cannot be read": {[]client.Object{leftBehind()}, restoredApply(owned("Platform", "example.org/v1", "demo", "x")),
			"owner Platform demo (UID x) cannot be read"},
		"of a kind that cannot be read, but new": {nil, builder.WorkspaceTemplateApply("demo-vpc", owned("Platform", "example.org/v1", "demo", "x")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, append(row.objects, builder.WorkspaceTemplate("vpc"), row.apply)...)
			env.reconciler.Uncached = interceptor.NewClient(env.API, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					if object.GetObjectKind().GroupVersionKind().Kind == "Platform" {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "platforms"}, key.Name, nil)
					}
					return c.Get(ctx, key, object, opts...)
				},
			})
			result, err := env.reconcile("demo-vpc")
			require.NoError(t, err)
			apply := env.get("demo-vpc")
			if row.missing == "" {
				assert.NotNil(t, apply.Status.WorkspaceRef)
				return
			}
			assert.Equal(t, ownersInterval, result.RequeueAfter, "no watch reports that the owner exists")
			assert.Equal(t, []string{"status"}, env.Writes)
			assert.Nil(t, apply.Status.WorkspaceRef)
			assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: "+row.missing)
		})
	}
}

// A backup is often restored with its Clusters paused, and the garbage collector does not wait for the end of the pause.
func TestARestoredCopyIsNotRecordedWhilePaused(t *testing.T) {
	cluster := builder.Cluster("demo")
	cluster.Spec.Paused = ptr.To(true)
	apply := restoredApply(builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "CAPTCluster", Name: "demo", UID: "dead"}}
	}))
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), leftBehind(), apply, cluster)
	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.get("demo-vpc").Status.WorkspaceRef)

	env.remove(env.get("demo-vpc"))
	env.mustReconcile("demo-vpc")
	cluster.Spec.Paused = nil
	env.update(cluster)
	env.mustReconcile("demo-vpc")
	require.NotNil(t, env.workspace("demo-vpc"))
	assert.True(t, env.workspace("demo-vpc").GetDeletionTimestamp().IsZero())
}

// An owner creates its object again while the Workspace is restored. Recorded without a name in spec, that would be the Workspace of an object of CAPT v0.3.
func TestARestoredWorkspaceIsRecordedOnceSpecNamesIt(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), leftBehind(builder.WithCreation(builder.Created.Add(time.Second))), builder.WorkspaceTemplateApply("demo-vpc"))
	env.FailOn("patch", apierrors.NewInternalError(errors.New("down")))
	_, err := env.reconcile("demo-vpc")
	require.ErrorContains(t, err, "down")
	assert.Nil(t, env.get("demo-vpc").Status.WorkspaceRef)
	env.Refuse = nil
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "demo-vpc", env.get("demo-vpc").Spec.WorkspaceName)
	assert.NotNil(t, env.get("demo-vpc").Status.WorkspaceRef)
	assert.NotContains(t, env.ready("demo-vpc"), "AdoptionRequired")
}

func TestAStatePrefixIsForNewStatesOnly(t *testing.T) {
	state := func(env *environment) string {
		return env.workspace("demo-vpc").GetAnnotations()[render.ExternalNameAnnotation]
	}
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.reconciler.StatePrefix = "one"
	env.mustReconcile("demo-vpc")
	created := state(env)
	assert.Equal(t, naming.ExternalName("one", types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}), created)
	env.provide("demo-vpc", builder.AtRest)
	env.mustReconcile("demo-vpc")

	env.reconciler.StatePrefix = "two"
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "ClusterProviderConfig/aws "+created, env.get("demo-vpc").Annotations[naming.TerraformStateAnnotation], "a restored object would get another state")
	assert.Empty(t, env.mustReconcile("demo-vpc"))
	env.remove(env.workspace("demo-vpc"))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, created, state(env), "status records it")
}

func TestARestoredObjectOfAnotherPrefixCreatesNothing(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), restoredApply())
	env.reconciler.StatePrefix = "two"
	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.workspace("demo-vpc"))
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc does not exist, and this object had one with Terraform state ")
}

func inAccount(name, kind string) builder.Option {
	return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: name, Kind: kind}
	})
}

func inNoAccount() builder.Option {
	return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) { spec.ProviderConfigRef = nil })
}

// Another ProviderConfig is another account or backend: Terraform would find an empty state there, and create everything again.
func TestProviderConfigOfALiveWorkspaceIsNeverChanged(t *testing.T) {
	edit := func(options ...builder.Option) func(env *environment) {
		return func(env *environment) { env.template(options...) }
	}
	for name, row := range map[string]struct {
		before     builder.Option
		change     func(env *environment)
		is, wanted string
	}{
		"the template is edited":             {inAccount("one", ""), edit(inAccount("two", "")), "ClusterProviderConfig/one", "ClusterProviderConfig/two"},
		"with another change":                {inAccount("one", ""), edit(inAccount("two", ""), builder.WithModule("# new")), "ClusterProviderConfig/one", "ClusterProviderConfig/two"},
		"another kind":                       {inAccount("one", ""), edit(inAccount("one", "ProviderConfig")), "ClusterProviderConfig/one", "ProviderConfig/one"},
		"the reference is removed":           {inAccount("one", ""), edit(inNoAccount()), "ClusterProviderConfig/one", "ClusterProviderConfig/default"},
		"the default is replaced by another": {inNoAccount(), edit(inAccount("two", "")), "ClusterProviderConfig/default", "ClusterProviderConfig/two"},
		"a variable in its name": {inAccount("${cluster_name}", ""), func(env *environment) {
			env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				a.Spec.Variables = infrav1.TextVariables(map[string]string{"cluster_name": "other"})
			})
		}, "ClusterProviderConfig/demo", "ClusterProviderConfig/other"},
		"another template": {inAccount("one", ""), func(env *environment) {
			env.create(builder.WorkspaceTemplate("other", inAccount("two", "")))
			env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "other" })
		}, "ClusterProviderConfig/one", "ClusterProviderConfig/two"},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc", row.before), builder.WorkspaceTemplateApply("demo-vpc"))
			env.rest("demo-vpc")
			before := env.workspace("demo-vpc").Object["spec"]

			row.change(env)
			assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
			assert.Equal(t, before, env.workspace("demo-vpc").Object["spec"])
			assert.Contains(t, env.ready("demo-vpc"), "False ProviderConfigConflict: Workspace demo-vpc uses ProviderConfig "+row.is+", and providerConfigRef of WorkspaceTemplate default/")
			assert.Contains(t, env.ready("demo-vpc"), " is now "+row.wanted+": ")
			assert.NotContains(t, env.ready("demo-vpc"), "has not created anything yet")
			assert.Contains(t, env.ready("demo-vpc"), "capt.cluster.x-k8s.io/allow-provider-config="+row.wanted)

			env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Annotations[naming.AllowProviderConfigAnnotation] = "true" })
			assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace", "it must name the ProviderConfig")

			env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
				a.Annotations[naming.AllowProviderConfigAnnotation] = row.wanted
			})
			writes := env.mustReconcile("demo-vpc")
			if name == "another template" { // It is planned first.
				assert.NotNil(t, env.workspace(previewName))
				return
			}
			assert.Contains(t, writes, "apply Workspace")
		})
	}
}

// A user who has corrected a ProviderConfig that does not exist must not be advised to revert the correction only.
func TestAProviderConfigThatNeverWorkedCanBeReplaced(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", inAccount("missing", "")), builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	env.mustReconcile("demo-vpc")
	require.NotNil(t, env.workspace("demo-vpc"))
	env.template(inAccount("sandbox", ""))
	env.mustReconcile("demo-vpc")
	assert.Contains(t, env.ready("demo-vpc"), "or if Terraform has not created anything yet, run: kubectl -n default annotate --overwrite workspacetemplateapply demo-vpc "+
		"capt.cluster.x-k8s.io/allow-provider-config=ClusterProviderConfig/sandbox")
}

func TestTheDefaultProviderConfigDoesNotConflict(t *testing.T) {
	for name, row := range map[string]struct {
		live map[string]any
		want builder.Option
	}{
		"the definition filled it in":   {map[string]any{"name": "default", "kind": "ClusterProviderConfig"}, inNoAccount()},
		"the template says the default": {map[string]any{"name": "default", "kind": "ClusterProviderConfig"}, inAccount("default", "")},
		"nothing filled it in":          {nil, inAccount("default", "ClusterProviderConfig")},
	} {
		t.Run(name, func(t *testing.T) {
			adopted := builder.Workspace("demo-vpc", builder.AtRest, builder.With(func(workspace *unstructured.Unstructured) {
				spec := workspace.Object["spec"].(map[string]any)
				delete(spec, "providerConfigRef")
				if row.live != nil {
					spec["providerConfigRef"] = row.live
				}
			}))
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc", row.want), adopted,
				builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"), builder.WithRecordedWorkspace(adopted)))
			env.mustReconcile("demo-vpc") // It is held.
			assert.Contains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
			assert.NotContains(t, env.ready("demo-vpc"), infrav1.ProviderConfigConflictReason)
		})
	}
}

// The cluster scope has no kind.
func TestAnAdoptedWorkspaceKeepsItsProviderConfig(t *testing.T) {
	adopted := builder.Workspace("demo", builder.AtRest, builder.InClusterScope(), builder.With(func(workspace *unstructured.Unstructured) {
		workspace.Object["spec"].(map[string]any)["providerConfigRef"] = map[string]any{"name": "legacy"}
	}))
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster), inAccount("default", "")), adopted,
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo"), builder.WithRecordedWorkspace(adopted)))
	env.mustReconcile("demo-vpc")
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Equal(t, "legacy demo", env.get("demo-vpc").Annotations[naming.TerraformStateAnnotation], "only the Workspace has the name of the state")
	assert.Contains(t, env.ready("demo-vpc"), "uses ProviderConfig legacy, and providerConfigRef of WorkspaceTemplate default/vpc is now default:")
}

// A record could only be forged through an error in admission or conversion. Then the Workspace belongs to the object that was recorded first.
func TestARecordThatAnOlderOneContradictsDestroysNothing(t *testing.T) {
	recorded := func(namespace string, age time.Duration) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-apply", builder.WithNamespace(namespace), builder.WithUID(types.UID(namespace)), builder.WithWorkspaceName("demo"),
			builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer), builder.WithCreation(builder.Created.Add(-age)),
			builder.With(func(a *infrav1.WorkspaceTemplateApply) {
				a.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.upbound.io/v1beta1", Kind: "Workspace", Name: "demo", UID: "workspace"}
			}))
	}
	for name, row := range map[string]struct {
		other     *infrav1.WorkspaceTemplateApply
		unrecord  bool
		destroyed bool
	}{
		"recorded for an older object": {recorded("victim", time.Hour), false, false},
		"recorded for a younger one":   {recorded("victim", -time.Hour), false, true},
		"only named by an older one":   {recorded("victim", time.Hour), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if row.unrecord {
				row.other.Status.WorkspaceRef = nil
			}
			apply := recorded(builder.Namespace, 0)
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)), row.other, apply,
				builder.Workspace("demo", builder.AtRest, builder.InClusterScope(), builder.WithUID("workspace")))
			env.remove(env.get("demo-apply"))
			assert.Equal(t, row.destroyed, slices.Contains(env.mustReconcile("demo-apply"), "delete Workspace"))
			for _, event := range env.events() {
				assert.NotContains(t, event, "UID workspace")
				assert.NotContains(t, event, "victim")
			}
		})
	}
}
