/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package workspacetemplateapply

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// Each of these would destroy, double or forget what a Workspace made.

func TestNoWorkspaceIsMadeForAnApplyThatIsGone(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	gone := false
	w.fail = func(string) error {
		if !gone {
			gone = true
			return w.client.Delete(context.Background(), w.get("demo-vpc"))
		}
		return nil
	}
	w.mustReconcile("demo-vpc")
	assert.NotContains(t, w.writes, "apply Workspace")
}

func TestATemplateOfTheOtherScopeDoesNotMakeASecondWorkspace(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("wide", builder.WithScope(terraform.ScopeCluster)),
		builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	w.provide("demo-vpc", builder.AtRest)
	w.mustReconcile("demo-vpc")
	ref := w.get("demo-vpc").Status.WorkspaceRef

	for name, forget := range map[string]bool{"status known": false, "status lost": true} {
		apply := w.get("demo-vpc")
		apply.Spec.TemplateRef.Name = "wide"
		require.NoError(t, w.client.Update(context.Background(), apply))
		if forget {
			apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
			require.NoError(t, w.client.Status().Update(context.Background(), apply))
		}
		w.mustReconcile("demo-vpc")
		assert.NotContains(t, w.writes, "apply Workspace", name)
		w.mustReconcile("demo-vpc")
		assert.Equal(t, ref, w.get("demo-vpc").Status.WorkspaceRef, name)
		assert.Contains(t, w.ready("demo-vpc"), "False WorkspaceScopeConflict: Workspace demo-vpc is in scope Namespaced", name)
	}

	require.NoError(t, w.client.Delete(context.Background(), w.get("demo-vpc")))
	w.mustReconcile("demo-vpc")
	assert.Contains(t, w.writes, "delete Workspace", "the one that is there")
}

func TestAWorkspaceThatWasLeftBehindIsNotTakenOverByName(t *testing.T) {
	left := builder.Workspace("demo-vpc", builder.AtRest, builder.WithCreation(builder.Created.Add(-time.Hour)),
		builder.WithAnnotation("capt.cluster.x-k8s.io/workspace-template-apply", "default/demo-vpc"))
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), left, builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	assert.Equal(t, []string{"patch status"}, w.writes)
	assert.Contains(t, w.ready("demo-vpc"), "False WorkspaceConflict")
}

func TestAWorkspaceOutlivesThoseThatWereMadeOnTopOfIt(t *testing.T) {
	onTop := builder.WorkspaceTemplateApply("eks", builder.WaitingForWorkspace("demo-vpc", ""),
		builder.WithRecordedWorkspace(builder.Workspace("eks", builder.AtRest)))
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), onTop)
	w.mustReconcile("demo-vpc")
	require.NoError(t, w.client.Delete(context.Background(), w.get("demo-vpc")))
	w.mustReconcile("demo-vpc")
	assert.NotContains(t, w.writes, "delete Workspace")
	assert.Contains(t, meta.FindStatusCondition(w.get("demo-vpc").Status.Conditions, infrav1.DeletingCondition).Message, "stays until what was made on top of it is gone: WorkspaceTemplateApply eks")

	assert.Contains(t, w.reconciler.related(context.Background(), onTop), request("demo-vpc"), "its end wakes what waits for it")
	require.NoError(t, w.client.Delete(context.Background(), w.get("eks")))
	w.mustReconcile("demo-vpc")
	assert.Contains(t, w.writes, "delete Workspace")
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: name}}
}

func TestTheClaimOnAWorkspaceBeatsAnOlderObjectThatNamesItLater(t *testing.T) {
	older := builder.WorkspaceTemplateApply("older", builder.WithCreation(builder.Created.Add(-time.Hour)))
	older.Spec.TemplateRef.Name = "missing"
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), older, builder.WorkspaceTemplateApply("x"))
	w.mustReconcile("x")
	w.provide("x", builder.AtRest)

	named := w.get("older")
	named.Spec.WorkspaceName, named.Spec.TemplateRef.Name = "x", "vpc"
	require.NoError(t, w.client.Update(context.Background(), named))
	w.mustReconcile("older")
	w.mustReconcile("x")
	assert.Contains(t, w.ready("older"), "False WorkspaceConflict")
	assert.Contains(t, w.ready("x"), "True UpToDate")
	assert.Contains(t, w.reconciler.related(context.Background(), named), request("x"))
}

func TestAnErrorOfBeforeIsNotThatOfTheChangeThatMendsIt(t *testing.T) {
	w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"))
	w.mustReconcile("demo-vpc")
	w.provide("demo-vpc", builder.UpdateFailed)
	w.mustReconcile("demo-vpc")
	require.Contains(t, w.ready("demo-vpc"), "False ApplyFailed")

	apply := w.get("demo-vpc")
	apply.Spec.Variables["cluster_name"] = "mended"
	require.NoError(t, w.client.Update(context.Background(), apply))
	w.mustReconcile("demo-vpc")
	workspace := w.workspace("demo-vpc")
	workspace.SetGeneration(2) // As the API server does; the fake one does not.
	require.NoError(t, w.client.Update(context.Background(), workspace))
	w.mustReconcile("demo-vpc")
	assert.Contains(t, w.ready("demo-vpc"), "False Provisioning")
}
