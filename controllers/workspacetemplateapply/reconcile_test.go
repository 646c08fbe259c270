// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/test/builder"
)

func TestLifecycle(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))

	assert.Equal(t, []string{"patch", "apply Workspace", "status"}, env.mustReconcile("demo-vpc"), "the name is written down before the Workspace is made")
	assert.Equal(t, "demo-vpc", env.get("demo-vpc").Spec.WorkspaceName)
	assert.Equal(t, []string{infrav1.WorkspaceTemplateApplyFinalizer}, env.get("demo-vpc").Finalizers)
	assert.Equal(t, blockUntilLabeled, env.block())
	assert.Equal(t, "False Provisioning: waiting for provider-terraform to run terraform init and plan", env.ready("demo-vpc"))

	env.provide("demo-vpc", builder.FirstApplyDone)
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "False Provisioning: waiting for Terraform to apply the module for the first time", env.ready("demo-vpc"))

	env.provide("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	env.mustReconcile("demo-vpc")
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, env.get("demo-vpc").Status.Outputs)

	assert.Empty(t, env.mustReconcile("demo-vpc"), "at rest nothing is written")

	env.remove(env.get("demo-vpc"))
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
	assert.Contains(t, env.ready("demo-vpc"), "False Deleting: waiting for Terraform to destroy the resources of Workspace demo-vpc")

	assert.NotContains(t, env.mustReconcile("demo-vpc"), "delete Workspace", "it is being destroyed")
	env.destroyed("demo-vpc")
	require.Nil(t, env.workspace("demo-vpc"))
	assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"), "an object that is gone gets no status")
	env.mustReconcile("demo-vpc")
}

func TestTheOlderOfTwoObjectsWithOneWorkspaceContinues(t *testing.T) {
	named := builder.WithWorkspaceName("demo-vpc")
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("demo-vpc", named, builder.WithCreation(builder.Created.Add(time.Second))),
		builder.WorkspaceTemplateApply("demo-vpc-apply", named))

	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.workspace("demo-vpc"))
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc belongs to WorkspaceTemplateApply demo-vpc-apply, which is older")

	env.mustReconcile("demo-vpc-apply")
	assert.Equal(t, "default/demo-vpc-apply", env.workspace("demo-vpc").GetAnnotations()["capt.cluster.x-k8s.io/workspace-template-apply"])
}

// Both would render an adopted Workspace the same. Deleting the younger must not destroy what the older one has.
func TestAnAdoptedWorkspaceIsHeldAndDeletingAYoungerOwnerKeepsIt(t *testing.T) {
	named := builder.WithWorkspaceName("demo-vpc")
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("older", named, legacyStatus("demo-vpc"), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)),
		builder.WorkspaceTemplateApply("younger", named, builder.WithCreation(builder.Created.Add(time.Second))))
	legacy := newFixture(t).withWorkspace(builder.AtRest)
	workspace := builder.Workspace("demo-vpc", builder.AtRest)
	workspace.Object["spec"] = legacy.Rendered.Object.DeepCopy().Object["spec"]
	env.create(workspace)

	assert.Equal(t, []string{"patch", "status"}, env.mustReconcile("older"), "the older one adopts it: it is held, and the Workspace is not written")
	assert.ElementsMatch(t, []string{infrav1.WorkspaceTemplateApplyFinalizer, infrav1.LegacyWorkspaceTemplateApplyFinalizer}, env.get("older").Finalizers)
	assert.Equal(t, "True UpToDate: ", env.ready("older"))
	assert.Empty(t, env.mustReconcile("older"))
	env.mustReconcile("younger")
	require.Nil(t, env.get("younger").Status.WorkspaceRef)

	env.edit("younger", func(a *infrav1.WorkspaceTemplateApply) {
		a.Finalizers = []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}
	})
	env.remove(env.get("younger"))
	assert.Equal(t, []string{"patch"}, env.mustReconcile("younger"))
	assert.NotNil(t, env.workspace("demo-vpc"))
}

func TestAFailedCreationIsReported(t *testing.T) {
	workspaces := schema.GroupResource{Resource: "workspaces"}
	for want, row := range map[string]struct {
		err   error
		after time.Duration // Zero when the error is retried.
	}{
		"False WorkspaceRejected: the API server rejected the Workspace: ": {apierrors.NewInvalid(schema.GroupKind{Kind: "Workspace"}, "demo-vpc", nil), previews.RejectedInterval},
		"False WorkspaceKindMissing":                                       {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Workspace"}}, servedInterval},
		"False WorkspaceNotWritten: the Workspace cannot be written: ":     {apierrors.NewForbidden(workspaces, "demo-vpc", errors.New("exceeded quota: pods")), 0},
	} {
		env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
		env.FailOn("apply Workspace", row.err)
		got, err := env.reconcile("demo-vpc")
		assert.Equal(t, ctrl.Result{RequeueAfter: row.after}, got)
		assert.Contains(t, env.ready("demo-vpc"), want)
		assert.Equal(t, row.after == 0, err != nil)
		if row.after == 0 {
			require.ErrorContains(t, err, "exceeded quota")
			assert.Contains(t, env.ready("demo-vpc"), "exceeded quota")
		}
	}
}

// A neighbor's policy may change what CAPT writes. Nothing else shows that, and the module looks guilty.
func TestAWorkspaceThatAdmissionChangesIsReported(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.reconciler.Workspaces.Client = interceptor.NewClient(env.API, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			err := c.Apply(ctx, object, options...)
			content := object.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()
			require.NoError(t, unstructured.SetNestedField(content, "# other", "spec", "forProvider", "module"))
			return err
		},
	})
	got, err := env.reconcile("demo-vpc")
	require.NoError(t, err)
	assert.Equal(t, ctrl.Result{RequeueAfter: previews.RejectedInterval}, got)
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceRejected: the API server stored another value of spec.forProvider.module of Workspace demo-vpc than CAPT wrote, and Terraform may run with it")
	assert.NotNil(t, env.get("demo-vpc").Status.WorkspaceRef, "it is owned")
}

func TestAMissingKindIsReportedAndWatched(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	for _, scope := range terraform.Scopes() {
		env.remove(builder.WorkspaceDefinition(scope))
	}
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"), "the definition is watched")
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceKindMissing")
	assert.Empty(t, env.block(), "an object without a Workspace can be moved")
}

func TestADeletedRetainedWorkspaceIsNotRecreated(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)))
	env.mustReconcile("demo-vpc")
	env.remove(env.workspace("demo-vpc"))
	assert.NotContains(t, env.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Contains(t, env.ready("demo-vpc"), "To recreate it, set spec.deletionPolicy to Delete")
}

// A namespace, or a foreground deletion, deletes all at once. What was made in that moment is not in status, and never will be; yet
// what it stands on must not be destroyed under it.
func TestADependentCreatedDuringDeletionIsWaitedFor(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("eks"),
		builder.WorkspaceTemplateApply("profile", builder.WaitingForWorkspace("eks", builder.Namespace)))
	env.rest("eks")
	env.FailOn("status", errors.New("the API server is gone"))
	_, err := env.reconcile("profile")
	require.Error(t, err)
	require.NotNil(t, env.workspace("profile"))
	env.Refuse = nil

	for _, name := range []string{"eks", "profile"} {
		env.remove(env.get(name))
	}
	env.mustReconcile("eks")
	assert.Nil(t, env.workspace("eks").GetDeletionTimestamp())
	deleting := conditions.Get(env.get("eks"), infrav1.DeletingCondition)
	assert.Equal(t, infrav1.WaitingForDependentsReason, deleting.Reason)
	assert.Contains(t, deleting.Message, "is destroyed after its dependents: waiting for the deletion of WorkspaceTemplateApply profile")
	assert.NotContains(t, deleting.Message, "Nothing deletes")
	assert.Contains(t, env.reconciler.relatedApplies(t.Context(), env.get("profile")), request("eks"), "its end wakes what waits for it")

	env.mustReconcile("profile")
	env.mustReconcile("profile")
	require.Nil(t, env.workspace("profile"), "it was destroyed")
	env.mustReconcile("eks")
	assert.NotNil(t, env.workspace("eks").GetDeletionTimestamp(), "now nothing stands on it")
}

func TestNoWorkspaceIsCreatedFromADeletedTemplate(t *testing.T) {
	held := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", builder.Deleting(), held), builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.workspace("demo-vpc"))
	assert.Contains(t, env.ready("demo-vpc"), "False TemplateDeleting: WorkspaceTemplate default/vpc is being deleted and cannot be used by new objects")
	assert.Empty(t, env.mustReconcile("demo-vpc"))

	t.Run("its users go on", func(t *testing.T) {
		env := newEnvironment(t, builder.WorkspaceTemplate("vpc", held), builder.WorkspaceTemplateApply("demo-vpc"))
		env.mustReconcile("demo-vpc")
		env.provide("demo-vpc", builder.AtRest)
		env.remove(builder.WorkspaceTemplate("vpc"))
		env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
			a.Spec.Variables = infrav1.TextVariables(map[string]string{"cluster_name": "other"})
		})
		assert.Contains(t, env.mustReconcile("demo-vpc"), "apply Workspace")

		env.remove(env.workspace("demo-vpc"))
		env.destroyed("demo-vpc")
		env.mustReconcile("demo-vpc")
		assert.NotNil(t, env.workspace("demo-vpc"), "a deleted Workspace is recreated")
	})
}

// A template that was stored before the rule: nothing is made from it, and what was made is reported and destroyed.
func TestDuplicateKeys(t *testing.T) {
	twice := builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.Vars = append(params.Vars, params.Vars[0]) })
	const message = "False TemplateInvalid: WorkspaceTemplate default/vpc: spec.template.spec.forProvider.vars[1].key: Duplicate value"
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc", twice), builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	assert.Nil(t, env.workspace("demo-vpc"))
	assert.Contains(t, env.ready("demo-vpc"), message)

	env = newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	env.remove(builder.WorkspaceTemplate("vpc"))
	env.create(builder.WorkspaceTemplate("vpc", twice))
	env.provide("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	env.mustReconcile("demo-vpc")
	assert.Contains(t, env.ready("demo-vpc"), message)
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, env.get("demo-vpc").Status.Outputs)
	assert.NotContains(t, env.Writes, "apply Workspace")

	env.remove(env.get("demo-vpc"))
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
}

func TestARecoveryActionIsCarriedOutOnce(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.mustReconcile("demo-vpc")
	env.provide("demo-vpc", builder.FirstApplyFailed)
	env.mustReconcile("demo-vpc")
	request := func(value string) {
		env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
			builder.WithAnnotation(naming.RecoveryAnnotation, value)(apply)
		})
	}
	request("Reapply/another/1")
	assert.Empty(t, env.mustReconcile("demo-vpc"), "it is for another Workspace")
	reapply := "Reapply/" + string(env.workspace("demo-vpc").GetUID()) + "/2"
	request(reapply)
	assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, reapply, env.workspace("demo-vpc").GetAnnotations()[naming.RecoveryAnnotation])
	assert.Empty(t, env.mustReconcile("demo-vpc"))
	request("ClearInterruptedCreate/" + string(env.workspace("demo-vpc").GetUID()) + "/3")
	assert.Empty(t, env.mustReconcile("demo-vpc"), "the create was not interrupted")
}

// Only the checksum shows that a run which changes nothing has ended. It is replaced before the provider is notified, and once.
func TestARequestedRunIsForwardedOnce(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	request := runs.Request(runs.Action, env.workspace("demo-vpc").GetUID(), now)
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, request)(apply)
	})
	assert.Equal(t, []string{"status", "patch"}, env.mustReconcile("demo-vpc"))
	workspace := env.workspace("demo-vpc")
	assert.Equal(t, request, workspace.GetAnnotations()[naming.RecoveryAnnotation])
	assert.Equal(t, request, checksumOf(workspace))
	assert.Empty(t, env.mustReconcile("demo-vpc"))
	assert.Equal(t, "True UpToDate: ", env.ready("demo-vpc"))
}

// The provider waits for its backoff before each attempt to destroy, and before it looks whether all is destroyed.
func TestARunStartsTheNextAttemptToDestroy(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.provide("demo-vpc", builder.AtRest)
	env.remove(env.get("demo-vpc"))
	env.mustReconcile("demo-vpc")
	request := runs.Request(runs.Action, env.workspace("demo-vpc").GetUID(), now)
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, request)(apply)
	})
	env.provide("demo-vpc", builder.Destroying)
	env.mustReconcile("demo-vpc")
	annotation := func(name string) string { return env.workspace("demo-vpc").GetAnnotations()[name] }
	assert.Empty(t, annotation(naming.RecoveryAnnotation), "no attempt has failed")
	env.provide("demo-vpc", builder.DestroyFailed)
	env.mustReconcile("demo-vpc")
	assert.Equal(t, request, annotation(naming.RecoveryAnnotation))
	assert.Empty(t, env.mustReconcile("demo-vpc"))
	assert.Empty(t, annotation(naming.ResumedAnnotation), "it still fails")
	env.provide("demo-vpc", builder.Destroying)
	env.mustReconcile("demo-vpc")
	assert.Equal(t, request, annotation(naming.ResumedAnnotation))
	assert.Empty(t, env.mustReconcile("demo-vpc"))
}

// Otherwise the checksum of before would look like the result of the run.
func TestARunThatIsRequestedDuringAnUpdateHasNoResultBeforeItEnds(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.template(builder.WithModule("# new"))
	env.mustReconcile("demo-vpc")
	changed := env.workspace("demo-vpc")
	changed.SetGeneration(changed.GetGeneration() + 1)
	env.update(changed)
	request := runs.Request(runs.Action, env.workspace("demo-vpc").GetUID(), now)
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, request)(apply)
	})
	assert.Equal(t, []string{"status", "patch", "status"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, request, checksumOf(env.workspace("demo-vpc")))
	assert.Contains(t, env.ready("demo-vpc"), "False Provisioning")
}

// A provider before v1 shows that it has observed a change by another status only.
func TestARunThatIsRequestedDuringAnUpdateDoesNotEndIt(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.provide("demo-vpc", builder.AtRest, builder.OfV0(), builder.WithGeneration(2))
	env.template(builder.WithModule("# new"))
	env.mustReconcile("demo-vpc")
	request := runs.Request(runs.Action, env.workspace("demo-vpc").GetUID(), now)
	env.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		builder.WithAnnotation(naming.RecoveryAnnotation, request)(apply)
	})
	assert.Equal(t, []string{"patch"}, env.mustReconcile("demo-vpc"))
	assert.Contains(t, env.ready("demo-vpc"), "False Provisioning")
}
