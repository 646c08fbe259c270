// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// Chains that users build themselves have no owner who could hold the deletion.
func TestSafety05ARetainedWorkspaceKeepsItsDependencies(t *testing.T) {
	ctx := context.Background()
	onTop := builder.WorkspaceTemplateApply("eks", builder.WaitingForWorkspace("demo-vpc", ""), builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain))
	for name, allow := range map[string]func(w *world){
		"the other one is retained": func(w *world) {
			vpc := w.get("demo-vpc")
			vpc.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
			require.NoError(t, w.client.Update(ctx, vpc))
		},
		"it is allowed by name": func(w *world) {
			eks := w.get("eks")
			builder.WithAnnotation(naming.AllowReleaseFromAnnotation, "demo-vpc")(eks)
			require.NoError(t, w.client.Update(ctx, eks))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc"), onTop.DeepCopy())
			w.mustReconcile("demo-vpc")
			w.provide("demo-vpc", builder.AtRest)
			w.mustReconcile("demo-vpc")
			w.mustReconcile("eks")
			w.provide("eks", builder.AtRest)
			w.mustReconcile("eks")

			require.NoError(t, w.client.Delete(ctx, w.get("eks")))
			w.mustReconcile("eks")
			require.NotNil(t, w.get("eks"))
			deleting := meta.FindStatusCondition(w.get("eks").Status.Conditions, infrav1.DeletingCondition)
			assert.Equal(t, infrav1.DeletionPolicyConflictReason, deleting.Reason)
			assert.Contains(t, w.reconciler.related(ctx, w.get("demo-vpc")), request("eks"), "another policy is noticed")

			allow(w)
			w.mustReconcile("eks")
			err := w.client.Get(ctx, request("eks").NamespacedName, &infrav1.WorkspaceTemplateApply{})
			assert.True(t, engine.Absent(err), "it is released: %v", err)
			assert.NotContains(t, w.writes, "delete Workspace")
		})
	}
}
