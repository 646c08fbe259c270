// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// Chains that users build themselves have no owner who could hold the deletion.
func TestSafety05ARetainedWorkspaceKeepsItsDependencies(t *testing.T) {
	ctx := t.Context()
	onTop := builder.WorkspaceTemplateApply("eks", builder.WaitingForWorkspace("demo-vpc", ""), builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain))
	for name, allow := range map[string]func(w *world){
		"the other one is retained": func(w *world) {
			w.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) { a.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
		},
		"it is allowed by name": func(w *world) {
			eks := w.get("eks")
			builder.WithAnnotation(naming.AllowReleaseFromAnnotation, "demo-vpc")(eks)
			w.update(eks)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), onTop.DeepCopy())
			w.rest("demo-vpc")
			w.rest("eks")

			w.remove(w.get("eks"))
			w.mustReconcile("eks")
			require.NotNil(t, w.get("eks"))
			deleting := w.deleting("eks")
			assert.Equal(t, infrav1.DeletionPolicyConflictReason, deleting.Reason)
			assert.Contains(t, w.reconciler.related(ctx, w.get("demo-vpc")), request("eks"), "another policy is noticed")

			allow(w)
			w.mustReconcile("eks")
			err := w.API.Get(ctx, request("eks").NamespacedName, &infrav1.WorkspaceTemplateApply{})
			assert.True(t, engine.Absent(err), "it is released: %v", err)
			assert.NotContains(t, w.Writes, "delete Workspace")
		})
	}
}
