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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/observed"
	"github.com/capt-provider/capt/test/builder"
)

func TestLifecycle(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))

	assert.Equal(t, []string{"patch", "apply Workspace", "status"}, w.mustReconcile("demo-vpc"), "the name is written down before the Workspace is made")
	assert.Equal(t, "demo-vpc", w.get("demo-vpc").Spec.WorkspaceName)
	assert.Equal(t, []string{infrav1.WorkspaceTemplateApplyFinalizer}, w.get("demo-vpc").Finalizers)
	assert.Equal(t, "False Provisioning: waiting for provider-terraform to run terraform init and plan", w.ready("demo-vpc"))

	w.provide("demo-vpc", builder.FirstApplyDone)
	w.mustReconcile("demo-vpc")
	assert.Equal(t, "False Provisioning: waiting for Terraform to apply the module for the first time", w.ready("demo-vpc"))

	w.provide("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	w.mustReconcile("demo-vpc")
	assert.Equal(t, "True UpToDate: ", w.ready("demo-vpc"))
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, w.get("demo-vpc").Status.Outputs)

	assert.Empty(t, w.mustReconcile("demo-vpc"), "at rest nothing is written")

	w.remove(w.get("demo-vpc"))
	assert.Contains(t, w.mustReconcile("demo-vpc"), "delete Workspace")
	assert.Contains(t, w.ready("demo-vpc"), "False Deleting: waiting for Terraform to destroy the resources of Workspace demo-vpc")

	gone := w.workspace("demo-vpc")
	gone.SetFinalizers(nil)
	w.update(gone)
	require.Nil(t, w.workspace("demo-vpc"))
	assert.Equal(t, []string{"patch"}, w.mustReconcile("demo-vpc"), "an object that is gone gets no status")
	w.mustReconcile("demo-vpc")
}

// Defect 2: a Workspace that was created a moment before the crash is found again, and is not leaked.
func TestACrashAtTheCreation(t *testing.T) {
	for at, want := range map[string][]string{"status": {"status"}, "apply Workspace": {"apply Workspace", "status"}} {
		w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
		w.FailOn(at, errors.New("killed"))
		_, err := w.reconcile("demo-vpc")
		require.Error(t, err)
		require.Nil(t, w.get("demo-vpc").Status.WorkspaceRef)
		w.Refuse = nil
		assert.Equal(t, want, w.mustReconcile("demo-vpc"), at)
		assert.Equal(t, "demo-vpc", w.get("demo-vpc").Status.WorkspaceRef.Name)
	}
}

// Defect 8.
func TestAChangeOfTheTemplateReachesTheWorkspace(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	w.rest("demo-vpc")

	w.template(builder.WithModule("# new"))
	w.mustReconcile("demo-vpc")
	assert.Equal(t, "apply Workspace", w.Writes[0])
	forProvider := w.workspace("demo-vpc").Object["spec"].(map[string]any)["forProvider"].(map[string]any)
	assert.Equal(t, "# new", forProvider["module"])
	assert.NotContains(t, forProvider, "vars", "what is no longer in the template is taken away")
}

func TestAForeignWorkspaceIsNotModified(t *testing.T) {
	theirs := builder.Workspace("demo-vpc", builder.AtRest)
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), theirs)
	assert.Equal(t, []string{"status"}, w.mustReconcile("demo-vpc"))
	assert.Contains(t, w.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc exists and belongs to another object")
	assert.Empty(t, w.get("demo-vpc").Finalizers)
	assert.Equal(t, theirs.GetUID(), w.workspace("demo-vpc").GetUID())
}

func TestTheOlderOfTwoObjectsWithOneWorkspaceContinues(t *testing.T) {
	named := builder.WithWorkspaceName("demo-vpc")
	w := newWorld(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("demo-vpc", named, builder.WithCreation(builder.Created.Add(time.Second))),
		builder.WorkspaceTemplateApply("demo-vpc-apply", named))

	w.mustReconcile("demo-vpc")
	assert.Nil(t, w.workspace("demo-vpc"))
	assert.Contains(t, w.ready("demo-vpc"), "False WorkspaceConflict: Workspace demo-vpc belongs to WorkspaceTemplateApply demo-vpc-apply, which is older")

	w.mustReconcile("demo-vpc-apply")
	assert.Equal(t, "default/demo-vpc-apply", w.workspace("demo-vpc").GetAnnotations()["capt.cluster.x-k8s.io/workspace-template-apply"])
}

// Both would render an adopted Workspace the same. Deleting the younger must not destroy what the older one has.
func TestAnAdoptedWorkspaceIsHeldAndDeletingAYoungerOwnerKeepsIt(t *testing.T) {
	named := builder.WithWorkspaceName("demo-vpc")
	w := newWorld(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("older", named, legacyStatus("demo-vpc"), builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)),
		builder.WorkspaceTemplateApply("younger", named, builder.WithCreation(builder.Created.Add(time.Second))))
	legacy := newScene(t).withWorkspace(builder.AtRest)
	workspace := builder.Workspace("demo-vpc", builder.AtRest)
	workspace.Object["spec"] = legacy.Rendered.Object.DeepCopy().Object["spec"]
	w.create(workspace)

	assert.Equal(t, []string{"patch", "status"}, w.mustReconcile("older"), "the older one adopts it: it is held, and the Workspace is not written")
	assert.ElementsMatch(t, []string{infrav1.WorkspaceTemplateApplyFinalizer, infrav1.LegacyWorkspaceTemplateApplyFinalizer}, w.get("older").Finalizers)
	assert.Equal(t, "True UpToDate: ", w.ready("older"))
	assert.Empty(t, w.mustReconcile("older"))
	w.mustReconcile("younger")
	require.Nil(t, w.get("younger").Status.WorkspaceRef)

	w.edit("younger", func(a *infrav1.WorkspaceTemplateApply) {
		a.Finalizers = []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}
	})
	w.remove(w.get("younger"))
	assert.Equal(t, []string{"patch"}, w.mustReconcile("younger"))
	assert.NotNil(t, w.workspace("demo-vpc"))
}

func TestARetainedWorkspaceIsKeptWithAnEvent(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)))
	w.mustReconcile("demo-vpc")
	w.events()
	w.remove(w.get("demo-vpc"))
	assert.Equal(t, []string{"patch"}, w.mustReconcile("demo-vpc"))
	assert.NotNil(t, w.workspace("demo-vpc"))
	assert.Equal(t, []string{"Normal WorkspaceRetained Workspace demo-vpc and its cloud resources are kept: spec.deletionPolicy is Retain"}, w.events())
}

func TestAFailedCreationIsReported(t *testing.T) {
	workspaces := schema.GroupResource{Resource: "workspaces"}
	for want, row := range map[string]struct {
		err   error
		after time.Duration // Zero when the error is retried.
	}{
		"False WorkspaceRejected: the API server rejected the Workspace: ": {apierrors.NewInvalid(schema.GroupKind{Kind: "Workspace"}, "demo-vpc", nil), observed.RejectedInterval},
		"False WorkspaceKindMissing":                                       {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Workspace"}}, servedInterval},
		"False WorkspaceNotWritten: the Workspace cannot be written: ":     {apierrors.NewForbidden(workspaces, "demo-vpc", errors.New("exceeded quota: pods")), 0},
	} {
		w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
		w.FailOn("apply Workspace", row.err)
		got, err := w.reconcile("demo-vpc")
		assert.Equal(t, ctrl.Result{RequeueAfter: row.after}, got)
		assert.Contains(t, w.ready("demo-vpc"), want)
		assert.Equal(t, row.after == 0, err != nil)
		if row.after == 0 {
			require.ErrorContains(t, err, "exceeded quota")
			assert.Contains(t, w.ready("demo-vpc"), "exceeded quota")
		}
	}
}

func TestAMissingKindIsReportedAndWatched(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	for _, scope := range terraform.Scopes() {
		w.remove(builder.WorkspaceDefinition(scope))
	}
	w.Writes = nil
	got, err := w.reconcile("demo-vpc")
	require.NoError(t, err)
	assert.Zero(t, got, "the definition is watched")
	assert.Contains(t, w.ready("demo-vpc"), "False WorkspaceKindMissing")
	assert.Equal(t, []string{"status"}, w.Writes)
}

func TestAClusterWideTemplateCreatesAClusterWideWorkspace(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc", builder.WithScope(terraform.ScopeCluster)), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	ref := w.get("demo-vpc").Status.WorkspaceRef
	require.NotNil(t, ref)
	assert.Equal(t, "tf.upbound.io/v1beta1", ref.APIVersion)
	assert.Empty(t, ref.Namespace)
	assert.Regexp(t, "^default-demo-vpc-[a-z2-7]{5}$", ref.Name)
}

func TestADeletedRetainedWorkspaceIsNotRecreated(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)))
	w.mustReconcile("demo-vpc")
	w.remove(w.workspace("demo-vpc"))
	assert.NotContains(t, w.mustReconcile("demo-vpc"), "apply Workspace")
	assert.Contains(t, w.ready("demo-vpc"), "To recreate it, set spec.deletionPolicy to Delete")
}

// A namespace, or a foreground deletion, deletes all at once. What was made in that moment is not in status, and never will be; yet
// what it stands on must not be destroyed under it.
func TestADependentCreatedDuringDeletionIsWaitedFor(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("eks"),
		builder.WorkspaceTemplateApply("profile", builder.WaitingForWorkspace("eks", builder.Namespace)))
	w.rest("eks")
	w.FailOn("status", errors.New("the API server is gone"))
	_, err := w.reconcile("profile")
	require.Error(t, err)
	require.NotNil(t, w.workspace("profile"))
	w.Refuse = nil

	for _, name := range []string{"eks", "profile"} {
		w.remove(w.get(name))
	}
	w.mustReconcile("eks")
	assert.Nil(t, w.workspace("eks").GetDeletionTimestamp())
	deleting := w.deleting("eks")
	assert.Equal(t, infrav1.WaitingForDependentsReason, deleting.Reason)

	w.mustReconcile("profile")
	w.mustReconcile("profile")
	require.Nil(t, w.workspace("profile"), "it was destroyed")
	w.mustReconcile("eks")
	assert.NotNil(t, w.workspace("eks").GetDeletionTimestamp(), "now nothing stands on it")
}

func TestSafety13NoWorkspaceIsCreatedFromADeletedTemplate(t *testing.T) {
	held := builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer)
	w := newWorld(t, builder.WorkspaceTemplate("vpc", builder.Deleting(), held), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	assert.Nil(t, w.workspace("demo-vpc"))
	assert.Contains(t, w.ready("demo-vpc"), "False TemplateDeleting: WorkspaceTemplate default/vpc is being deleted and cannot be used by new objects")
	assert.Empty(t, w.mustReconcile("demo-vpc"))

	t.Run("its users go on", func(t *testing.T) {
		w := newWorld(t, builder.WorkspaceTemplate("vpc", held), builder.WorkspaceTemplateApply("demo-vpc"))
		w.mustReconcile("demo-vpc")
		w.provide("demo-vpc", builder.AtRest)
		w.remove(builder.WorkspaceTemplate("vpc"))
		w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables = map[string]string{"cluster_name": "other"} })
		assert.Contains(t, w.mustReconcile("demo-vpc"), "apply Workspace")

		w.remove(w.workspace("demo-vpc"))
		gone := w.workspace("demo-vpc")
		if gone != nil {
			gone.SetFinalizers(nil)
			w.update(gone)
		}
		w.mustReconcile("demo-vpc")
		assert.NotNil(t, w.workspace("demo-vpc"), "a deleted Workspace is recreated")
	})
}

// A template that was stored before the rule: nothing is made from it, and what was made is reported and destroyed.
func TestSafety15DuplicateKeys(t *testing.T) {
	twice := builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.Vars = append(params.Vars, params.Vars[0]) })
	const message = "False TemplateInvalid: WorkspaceTemplate default/vpc: spec.template.spec.forProvider.vars[1].key: Duplicate value"
	w := newWorld(t, builder.WorkspaceTemplate("vpc", twice), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	assert.Nil(t, w.workspace("demo-vpc"))
	assert.Contains(t, w.ready("demo-vpc"), message)

	w = newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	w.remove(builder.WorkspaceTemplate("vpc"))
	w.create(builder.WorkspaceTemplate("vpc", twice))
	w.provide("demo-vpc", builder.AtRest, builder.WithOutputs(map[string]any{"vpc_id": "vpc-1"}))
	w.mustReconcile("demo-vpc")
	assert.Contains(t, w.ready("demo-vpc"), message)
	assert.Equal(t, map[string]string{"vpc_id": "vpc-1"}, w.get("demo-vpc").Status.Outputs)
	assert.NotContains(t, w.Writes, "apply Workspace")

	w.remove(w.get("demo-vpc"))
	assert.Contains(t, w.mustReconcile("demo-vpc"), "delete Workspace")
}

func TestADeletedApplyIsIgnored(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	w.FailOn("patch", apierrors.NewNotFound(schema.GroupResource{}, "demo-vpc"))
	assert.NotContains(t, w.mustReconcile("demo-vpc"), "apply Workspace", "it would have no owner")
}
