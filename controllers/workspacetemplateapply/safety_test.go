// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/builder"
)

// Each of these would destroy, double or forget what a Workspace made.

func TestNoWorkspaceIsCreatedForADeletedApply(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	gone := false
	env.Refuse = func(string) error {
		if !gone {
			gone = true
			return env.API.Delete(t.Context(), env.get("demo-vpc"))
		}
		return nil
	}
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
}

func TestATemplateOfTheOtherScopeCreatesNoSecondWorkspace(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("wide", builder.WithScope(terraform.ScopeCluster)),
		builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	ref := env.get("demo-vpc").Status.WorkspaceRef

	for name, forget := range map[string]bool{"status known": false, "status lost": true} {
		env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.TemplateRef.Name = "wide" })
		if forget {
			apply := env.get("demo-vpc")
			apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
			require.NoError(t, env.API.Status().Update(t.Context(), apply))
		}
		assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace", name)
		env.mustReconcile("demo-vpc")
		assert.Equal(t, ref, env.get("demo-vpc").Status.WorkspaceRef, name)
		assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceScopeConflict: Workspace demo-vpc has scope Namespaced", name)
	}

	env.remove(env.get("demo-vpc"))
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace", "the one that is there")
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: name}}
}

func TestTheClaimPrecedesAnOlderObjectThatNamesTheWorkspaceLater(t *testing.T) {
	older := builder.WorkspaceTemplateApply("older", builder.WithCreation(builder.Created.Add(-time.Hour)))
	older.Spec.TemplateRef.Name = "missing"
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), older, builder.WorkspaceTemplateApply("x"))
	env.mustReconcile("x")
	env.provide("x", builder.AtRest)

	env.edit("older", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.WorkspaceName, a.Spec.TemplateRef.Name = "x", "vpc"
	})
	env.mustReconcile("older")
	env.mustReconcile("x")
	assert.Contains(t, env.ready("older"), "False WorkspaceConflict")
	assert.Contains(t, env.ready("x"), "True UpToDate")
	assert.Contains(t, env.reconciler.relatedApplies(t.Context(), env.get("older")), request("x"))
}

// Fleets have the same names in every namespace.
func TestAnObjectOfTheSameNameInAnotherNamespaceCausesNoReconcile(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("x"))
	env.mustReconcile("x")
	require.NotNil(t, env.get("x").Status.WorkspaceRef)
	stranger := builder.WorkspaceTemplateApply("x", builder.WithNamespace("other"), builder.WithWorkspaceName("x"))
	assert.Empty(t, env.reconciler.relatedApplies(t.Context(), stranger))
}

// The Workspace cannot be rendered, so a spec that changed since is not reported as applied.
func TestWithoutATemplateAChangedSpecIsNotUpToDate(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.remove(builder.WorkspaceTemplate("vpc"))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"), "the template blocks changes only")

	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables, a.Generation = infrav1.TextVariables(map[string]string{"cluster_name": "other"}), a.Generation+1
	})
	for range 2 {
		env.mustReconcile("demo-vpc")
		assert.Contains(t, env.ready("demo-vpc"), "False TemplateNotFound")
	}
}

func TestARecreatedAdoptedWorkspaceKeepsItsState(t *testing.T) {
	for name, adopted := range map[string]*infrav1.WorkspaceTemplateApply{
		"status knows": builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("network"), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.upbound.io/v1beta1", Kind: "Workspace", Name: "network", UID: "1", ExternalName: "legacy-state"}
		})),
		"provider-terraform named the state": builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("legacy-state"), builder.With(func(a *infrav1.WorkspaceTemplateApply) {
			a.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.upbound.io/v1beta1", Kind: "Workspace", Name: "legacy-state", UID: "1"}
		})),
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)), adopted)
			env.mustReconcile("demo-vpc")
			made := &unstructured.Unstructured{}
			made.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
			require.NoError(t, env.API.Get(t.Context(), client.ObjectKey{Name: adopted.Spec.WorkspaceName}, made))
			assert.Equal(t, "legacy-state", made.GetAnnotations()["crossplane.io/external-name"])
		})
	}
}

func TestAForbiddenDependencyBlocksNeitherStatusNorDeletion(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", builder.WaitingForSecret("s")), builder.SecretWith("s", map[string]string{"a": "x"}))
	env.rest("demo-vpc")
	env.reconciler.Secrets = engine.NewSecrets(env.API, builder.FailingGet[*corev1.Secret](env.API, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", nil)))
	_, err := env.reconcile("demo-vpc")
	require.ErrorContains(t, err, "forbidden", "it is tried again")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	assert.Equal(t, "Unknown LookupFailed", builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)["DependenciesReady"])

	env.remove(env.get("demo-vpc"))
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
}

// Nothing wakes the object when a definition or a policy of the API server changes.
func TestARejectedWorkspaceIsSentAgainEveryTenMinutes(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	clock := clocktesting.NewFakePassiveClock(now)
	env.reconciler.Clock = clock
	sent, logged := 0, &bytes.Buffer{}
	env.Refuse = func(write string) error {
		if write != "apply Workspace" {
			return nil
		}
		sent++
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Workspace"}, "demo-vpc", nil)
	}
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{}))
	for round := 1; round <= 4; round++ {
		env.Writes = nil
		got, err := env.reconciler.Reconcile(ctx, request("demo-vpc"))
		require.NoError(t, err)
		require.Equal(t, round == 1, slices.Contains(env.Writes, "status"), "the same rejection is not written again")
		require.Equal(t, previews.RejectedInterval, got.RequeueAfter, "round %d", round)
		require.Equal(t, round, sent)

		clock.SetTime(clock.Now().Add(previews.RejectedInterval / 2))
		env.Writes = nil
		got, err = env.reconciler.Reconcile(ctx, request("demo-vpc")) // Something else wakes it, as its own status does.
		require.NoError(t, err)
		require.Equal(t, previews.RejectedInterval/2, got.RequeueAfter)
		require.Equal(t, round, sent)
		require.Empty(t, env.Writes)
		require.Contains(t, env.ready("demo-vpc"), "False WorkspaceRejected")
		clock.SetTime(clock.Now().Add(previews.RejectedInterval / 2))
	}
	assert.Equal(t, 1, strings.Count(logged.String(), "The Workspace is not as it was written"), "equal rejections are logged once")

	_, err := env.reconciler.Reconcile(ctx, request("demo-vpc"))
	require.NoError(t, err)
	env.Refuse = nil
	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.Variables = infrav1.TextVariables(map[string]string{"cluster_name": "other"})
	})
	_, err = env.reconciler.Reconcile(ctx, request("demo-vpc"))
	require.NoError(t, err)
	assert.NotNil(t, env.workspace("demo-vpc"), "a change is sent at once")
}

// Chains that users build themselves have no owner who could hold the deletion.
func TestARetainedWorkspaceKeepsItsDependencies(t *testing.T) {
	ctx := t.Context()
	onTop := builder.WorkspaceTemplateApply("eks", builder.WaitingForWorkspace("demo-vpc", ""), builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain))
	for name, allow := range map[string]func(env *environment){
		"the other one is retained": func(env *environment) {
			env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
		},
		"it is allowed by name": func(env *environment) {
			eks := env.get("eks")
			builder.WithAnnotation(naming.AllowReleaseFromAnnotation, "demo-vpc")(eks)
			env.update(eks)
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), onTop.DeepCopy())
			env.rest("demo-vpc")
			env.rest("eks")

			env.remove(env.get("eks"))
			env.mustReconcile("eks")
			require.NotNil(t, env.get("eks"))
			assert.Equal(t, infrav1.DeletionPolicyConflictReason, conditions.GetReason(env.get("eks"), infrav1.DeletingCondition))
			assert.Contains(t, env.reconciler.relatedApplies(ctx, env.get("demo-vpc")), request("eks"), "another policy is noticed")

			allow(env)
			env.mustReconcile("eks")
			err := env.API.Get(ctx, request("eks").NamespacedName, &infrav1.WorkspaceTemplateApply{})
			assert.True(t, engine.Absent(err), "it is released: %v", err)
			assert.NotContains(t, env.Writes, "delete Workspace")
		})
	}
}

// What is seen again is not taken for new, and a Secret that an error quotes may have changed since.
func TestWhatWasSeenIsRemembered(t *testing.T) {
	seen := lastSeen{}
	assert.Zero(t, seen.UnreconciledFor("one", now, 0))
	assert.Equal(t, time.Minute, seen.UnreconciledFor("one", now.Add(time.Minute), 0))
	assert.Zero(t, seen.UnreconciledFor("two", now.Add(time.Minute), 0), "another Workspace")
	assert.Zero(t, seen.UnreconciledFor("three", now, time.Hour), "what status has is about another change")
	seen = lastSeen{} // After a restart.
	assert.Equal(t, time.Hour, seen.UnreconciledFor("three", now, time.Hour), "as status has it")
	assert.Equal(t, time.Hour+time.Minute, seen.UnreconciledFor("three", now.Add(time.Minute), time.Hour))
	for _, message := range []string{"first", "again"} {
		report := seen.Failure("hash", func() (failure.Report, bool) { return failure.Report{Message: message}, true })
		assert.Equal(t, "first", report.Message)
	}
}

// Terraform would destroy what it created in the other state, and keep what is in the first one.
func TestAnotherStateIsReportedAndNotDestroyed(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	live := env.workspace("demo-vpc")
	first := live.GetAnnotations()["crossplane.io/external-name"]
	set := func(state string) {
		live = env.workspace("demo-vpc")
		annotations := live.GetAnnotations()
		annotations["crossplane.io/external-name"] = state
		live.SetAnnotations(annotations)
		env.update(live)
	}
	set("other")
	for range 2 { // It must not record the other one meanwhile.
		env.mustReconcile("demo-vpc")
		assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: another client has changed the Terraform state of Workspace demo-vpc from "+first+" to other")
	}
	set(first)
	env.mustReconcile("demo-vpc")
	assert.Contains(t, env.ready("demo-vpc"), "True UpToDate")

	set("other")
	env.remove(env.get("demo-vpc"))
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
	assert.Contains(t, conditions.GetMessage(env.get("demo-vpc"), infrav1.DeletingCondition), "another client has changed the Terraform state")
	set(first)
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
}
