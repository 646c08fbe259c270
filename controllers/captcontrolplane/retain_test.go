// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// Nothing is deleted while what is to be retained stands on what would be destroyed: neither the EKS cluster nor its profiles.
func TestSafety05NothingOfARetainedControlPlaneIsDeletedBeforeTheConflictIsResolved(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef(applyName), builder.Deleting(),
		builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer))
	recorded := func(name string) builder.Option {
		return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			builder.WithWorkspaceName(name)(apply)
			builder.WithRecordedWorkspace(builder.Workspace(name, builder.AtRest))(apply)
			builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)(apply)
		})
	}
	w := newWorld(t, builder.Cluster("demo"), controlPlane,
		builder.WorkspaceTemplateApply("demo-vpc", recorded("net"), builder.OwnedBy(builder.CAPTCluster("demo"))),
		builder.WorkspaceTemplateApply(applyName, ofTemplate("eks"), builder.OwnedBy(controlPlane), recorded("eks"), builder.WaitingForWorkspace("net", ""), builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)),
		builder.WorkspaceTemplateApply("demo-profile", ofTemplate("fargate"), builder.OwnedBy(controlPlane), recorded("profile"), builder.WithLabel(naming.TurnsLabel, naming.FargateTurns)))
	isDeleted := func(name string) bool {
		return !read(w, name, &infrav1.WorkspaceTemplateApply{}).DeletionTimestamp.IsZero()
	}
	assert.Equal(t, []string{"status"}, w.reconcile())
	assert.False(t, isDeleted("demo-profile"))
	assert.False(t, isDeleted(applyName))
	deleting := meta.FindStatusCondition(w.get().Status.Conditions, controlplanev1.DeletingCondition)
	assert.Equal(t, infrav1.DeletionPolicyConflictReason, deleting.Reason)
	assert.Contains(t, deleting.Message, "Set spec.vpc.template.deletionPolicy of CAPTCluster demo to Retain, or spec.deletionPolicy of WorkspaceTemplateApply "+applyName+" to Delete")
	assert.Empty(t, w.reconcile(), "at rest nothing is written")

	vpc := read(w, "demo-vpc", &infrav1.WorkspaceTemplateApply{})
	assert.Len(t, w.requests().Matching(t.Context(), nil), 1, "another policy of the VPC is noticed")
	vpc.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	require.NoError(t, w.Client.Update(context.Background(), vpc))
	w.reconcile()
	assert.True(t, isDeleted("demo-profile"))
}
