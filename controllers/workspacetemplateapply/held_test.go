// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// In a foreground deletion of the owner, the garbage collector deletes the WorkspaceTemplateApply.
func TestWhatAnOwnerControlsIsHeldWithItByALiveCluster(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting())
	cluster := builder.Cluster("demo")
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), cluster, owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner)))
	env.rest("demo-vpc")
	env.remove(env.get("demo-vpc"))
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, "True "+infrav1.UsedByClusterReason, builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)[infrav1.DeletingCondition])
	assert.Contains(t, conditions.GetMessage(env.get("demo-vpc"), infrav1.DeletingCondition), "Cluster demo refers to CAPTCluster demo and is not being deleted")
	assert.Empty(t, env.mustReconcile("demo-vpc"), "at rest nothing is written")

	before := owner.DeepCopy()
	engine.Set(before, engine.True(infrav1.DeletingCondition, infrav1.UsedByClusterReason, ""))
	assert.True(t, ownerChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: owner}), "the end of the hold wakes it")
	env.remove(cluster)
	assert.Contains(t, env.mustReconcile("demo-vpc"), "delete Workspace")
}

// Every user can write the annotation of clusterctl move. It pauses what the owner controls as soon as the cache has it, and grants nothing before.
func TestTheAnnotationOfAMoveDoesNotEndTheHoldOfACluster(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting())
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.Cluster("demo"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner)))
	env.rest("demo-vpc")
	env.reconciler.Uncached = interceptor.NewClient(env.API, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if _, isOwner := object.(*infrav1.CAPTCluster); isOwner {
				builder.WithAnnotation(clusterctlv1.DeleteForMoveAnnotation, "")(object)
			}
			return err
		},
	})
	env.remove(env.get("demo-vpc"))
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"), "nothing is deleted")
	assert.Equal(t, "True "+infrav1.UsedByClusterReason, builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)[infrav1.DeletingCondition])
}

// The owner was deleted while it was paused, and its condition does not show yet that the pause has ended.
func TestTheDeletionOfAPausedOwnerDoesNotShowThatNothingHoldsIt(t *testing.T) {
	owner := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting())
	engine.Set(owner, engine.True(infrav1.DeletingCondition, infrav1.DeletingReason, ""), engine.PausedCondition("by a user"))
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.Cluster("demo"), owner, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(owner)))
	env.rest("demo-vpc")
	env.remove(env.get("demo-vpc"))
	assert.Equal(t, []string{"status"}, env.mustReconcile("demo-vpc"))
	assert.Equal(t, "True "+infrav1.UsedByClusterReason, builder.ConditionSummary(env.get("demo-vpc").Status.Conditions)[infrav1.DeletingCondition])

	before := owner.DeepCopy()
	engine.Set(owner, engine.PausedCondition(""))
	assert.True(t, ownerChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: owner}), "the end of the pause wakes it")
}
