// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// A wrong name: Terraform would destroy what runs there, and make a VPC in the same state.
func TestAWrongReferenceRewritesNothing(t *testing.T) {
	ofEKS := builder.With(func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TemplateRef.Name = "eks" })
	for name, option := range map[string]builder.Option{
		"an EKS cluster":             ofEKS,
		"the VPC of another cluster": builder.WithVariables(map[string]string{"cluster_name": "prod"}),
		"another VPC":                builder.WithVariables(map[string]string{"cluster_name": "demo", "vpc_name": "prod"}),
		"one of unknown content":     builder.WithVariables(nil),
	} {
		t.Run(name, func(t *testing.T) {
			unrelated := builder.WorkspaceTemplateApply("unrelated", option)
			w := newWorld(t, builder.Cluster("demo"), unrelated, builder.CAPTCluster("demo", owned, builder.WithApplyRef("unrelated")))
			require.NoError(t, w.reconcile())
			assert.Zero(t, w.applies)
			assert.Empty(t, w.get().Finalizers, "it is not held for what is not its own")
			assert.Equal(t, "False ReferenceConflict", builder.Story(w.get().Status.Conditions)["Ready"])
			assert.Equal(t, unrelated.Spec, w.apply("unrelated").Spec)
			assert.Empty(t, w.apply("unrelated").OwnerReferences)
		})
	}
}

func TestAReferencedApplyIsUsedIfItMatches(t *testing.T) {
	w := newWorld(t, builder.Cluster("demo"), builder.WorkspaceTemplateApply("by-hand"), builder.CAPTCluster("demo", owned, builder.WithApplyRef("by-hand")))
	require.NoError(t, w.reconcile())
	assert.Equal(t, builder.UID("CAPTCluster", "demo"), w.apply("by-hand").OwnerReferences[0].UID)
}

// What the CAPTCluster controls goes before the VPC, and is waited for.
func TestSafety06WhatTheCAPTClusterControlsIsDeletedBeforeTheVPC(t *testing.T) {
	holding := builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer)
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting())
	w := newWorld(t, builder.Cluster("demo"), captCluster,
		builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithWorkspaceName("demo-vpc"), holding),
		builder.WorkspaceTemplateApply("demo-dns", builder.OwnedBy(captCluster), builder.WaitingForWorkspace("demo-vpc", ""), holding))
	require.NoError(t, w.reconcile())
	assert.False(t, w.apply("demo-dns").DeletionTimestamp.IsZero())
	assert.True(t, w.apply("demo-vpc").DeletionTimestamp.IsZero())
	assert.Zero(t, w.applies)
	assert.Equal(t, "waiting for WorkspaceTemplateApply demo-dns to be deleted", meta.FindStatusCondition(w.get().Status.Conditions, infrav1.DeletingCondition).Message)

	require.NoError(t, w.Client.Patch(context.Background(), w.apply("demo-dns"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	require.NoError(t, w.reconcile())
	assert.False(t, w.apply("demo-vpc").DeletionTimestamp.IsZero())
	assert.Equal(t, []string{infrav1.CAPTClusterFinalizer}, w.get().Finalizers)
}

// The control plane may wait for another policy of the VPC.
func TestSafety05ThePolicyOfTheVPCIsWrittenWhileTheControlPlaneIsDeleted(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer), builder.Deleting(),
		builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain }))
	w := newWorld(t, builder.Cluster("demo"), captCluster, builder.CAPTControlPlane("demo"),
		builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster), builder.WithWorkspaceName("demo-vpc")))
	for range 2 {
		require.NoError(t, w.reconcile())
		assert.Equal(t, 1, w.applies, "written once")
		assert.Equal(t, infrav1.DeletionPolicyRetain, w.apply("demo-vpc").Spec.DeletionPolicy)
	}
}

// A restored CAPTCluster is garbage-collected when the UID of its Cluster is dead. It never had the WorkspaceTemplateApply.
func TestSafety04ARestoredOwnerDeletesNothingThatItNeverHad(t *testing.T) {
	restored := builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc"), builder.WithFinalizers(infrav1.CAPTClusterFinalizer),
		builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.With(func(c *infrav1.CAPTCluster) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "dead"}}
		}), builder.Deleting())
	vpc := builder.WorkspaceTemplateApply("demo-vpc", builder.WithVariables(map[string]string{"cluster_name": "demo"}),
		builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer))
	w := newWorld(t, vpc, restored)
	require.NoError(t, w.reconcile())
	require.NotNil(t, w.apply("demo-vpc"))
	assert.Empty(t, w.apply("demo-vpc").OwnerReferences)
	assert.True(t, w.apply("demo-vpc").DeletionTimestamp.IsZero())
}
