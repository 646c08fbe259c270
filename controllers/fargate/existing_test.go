// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fargate

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// Which profile a WorkspaceTemplateApply is for, it says itself; status may be lost.
func TestAnObsoleteProfileIsDeleted(t *testing.T) {
	w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("keep"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)),
		owned("demo-keep-fargate-apply", "keep"), owned("demo-old-fargate-apply", "old"),
		owned("by-hand", ""), builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", builder.OwnedBy(builder.CAPTControlPlane("demo"))),
		builder.WorkspaceTemplateApply("of-others", builder.WithLabel(naming.SerializeLabel, naming.FargateProfilesGroup), builder.WithVariables(map[string]string{"profile_name": "old"})),
		vpcSecret())
	f := w.plan(cluster())
	require.Len(t, f.Obsolete, 1)
	assert.Equal(t, "old", f.Obsolete[0].Name)
	w.act(f)
	var names []string
	for _, apply := range w.applies() {
		names = append(names, apply.Name)
	}
	assert.ElementsMatch(t, []string{"demo-keep-fargate-apply", "by-hand", "demo-eks-controlplane-apply", "of-others"}, names)
	assert.True(t, w.held())
}

// A manager that has just taken over may know of a profile that its predecessor made, and not yet of the spec that asks for it.
func TestAStaleSpecDeletesNothing(t *testing.T) {
	held := builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)
	w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("a"), held, builder.WithGeneration(2)), owned("demo-a-fargate-apply", "a", builder.UpToDate(nil)))
	w.controlPlane = builder.CAPTControlPlane("demo", held, builder.WithGeneration(1))
	f, err := w.ObserveExisting(ctx, w.controlPlane)
	if err == nil {
		w.act(w.planOf(&f, Intent{}))
	}
	assert.Len(t, w.applies(), 1)
	assert.True(t, apierrors.IsConflict(err), "the event of the change causes the next reconcile")
}

// A Cluster that cannot be read for a moment must not cause deletions.
func TestProfilesAreKeptWhileTheClusterIsUnknown(t *testing.T) {
	w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("a", "b"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer)),
		owned("demo-a-fargate-apply", "a", builder.UpToDate(nil)))
	f, err := w.ObserveExisting(ctx, w.controlPlane)
	require.NoError(t, err)
	w.act(w.planOf(&f, Intent{}))
	assert.Len(t, w.applies(), 1)
	assert.True(t, w.held())
	assert.Equal(t, []string{"a"}, statuses(*w.planOf(&f, Intent{})))

	w.Cached = newClient(w.controlPlane)
	f, err = w.ObserveExisting(ctx, w.controlPlane)
	require.NoError(t, err)
	w.act(w.planOf(&f, Intent{}))
	assert.True(t, w.held(), "a cache that has seen none of them says nothing about a spec that has some")
}

func TestTheFinalizerIsRemovedWithTheLastProfile(t *testing.T) {
	held := builder.WithFinalizers(controlplanev1.CAPTControlPlaneFinalizer, controlplanev1.FargateProfileFinalizer)
	w := newWorld(t, builder.CAPTControlPlane("demo", held), owned("demo-a-fargate-apply", "a", builder.WithFinalizers("terraform"), builder.Deleting()))
	w.act(w.plan(cluster()))
	assert.True(t, w.held())

	w = newWorld(t, builder.CAPTControlPlane("demo", held))
	w.act(w.plan(cluster()))
	assert.Equal(t, []string{controlplanev1.CAPTControlPlaneFinalizer}, w.controlPlane.Finalizers)
}

// The cache may not have seen yet what was made a moment ago.
func TestTheFinalizerIsKeptForProfilesThatAreNotInTheCache(t *testing.T) {
	for name, deleted := range map[string]builder.Option{"taken out of spec": builder.With(func(*controlplanev1.CAPTControlPlane) {}), "deleted": builder.Deleting()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, builder.CAPTControlPlane("demo", builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), deleted), owned("demo-a-fargate-apply", "a"))
			w.Cached = newClient(w.controlPlane)
			assert.Len(t, w.plan(cluster()).Obsolete, 1)
		})
	}
}

func TestADeletedControlPlaneDeletesItsProfiles(t *testing.T) {
	w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("a", "b"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), builder.Deleting()),
		owned("demo-a-fargate-apply", "a"), owned("demo-b-fargate-apply", "b"))
	f := w.plan(cluster())
	assert.Len(t, f.Obsolete, 2)
	w.act(f)
	assert.Empty(t, w.applies())
	w.act(w.planOf(&Facts{}, Intent{}))
	found, err := engine.Get(ctx, w.Cached, client.ObjectKeyFromObject(w.controlPlane), &controlplanev1.CAPTControlPlane{})
	require.NoError(t, err)
	assert.Nil(t, found, "nothing holds it any more")
}

// The profiles of a thousand clusters of a namespace would be sent with each step of the deletion of each.
func TestADeletedControlPlaneListsItsOwnProfilesOnly(t *testing.T) {
	w := newWorld(t, builder.CAPTControlPlane("demo", withProfiles("a", "b"), builder.WithLabel(clusterv1.ClusterNameLabel, "demo"),
		builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), builder.Deleting()),
		owned("demo-a-fargate-apply", "a", builder.WithLabel(clusterv1.ClusterNameLabel, "demo")), owned("demo-b-fargate-apply", "b"))
	for i := range 100 {
		name := fmt.Sprintf("prod-%d-fargate-apply", i)
		require.NoError(t, w.Cached.Create(ctx, owned(name, "a", builder.WithUID(types.UID(name)), builder.WithLabel(clusterv1.ClusterNameLabel, "prod"),
			alone, builder.OwnedBy(builder.CAPTControlPlane("prod")))))
	}
	sent := 0
	w.Uncached = interceptor.NewClient(w.Cached.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			sent += meta.LenList(list)
			return err
		},
	})
	f, err := w.ObserveExisting(ctx, w.controlPlane)
	require.NoError(t, err)
	assert.Equal(t, 1, sent)
	assert.Len(t, f.Obsolete, 2, "the cache knows of the one that lost its label")
}

// EKS does not delete a cluster that has profiles, and no other controller deletes those that the control plane does not control.
// What it neither refers to nor has written is kept.
func TestADeletedControlPlaneDeletesOrphans(t *testing.T) {
	unlabeled := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Labels = nil })
	referring := builder.With(func(c *controlplanev1.CAPTControlPlane) {
		c.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "by-hand"}
	})
	scheme := naming.FargateWorkspaceTemplateApply("demo", "a")
	for what, row := range map[string]struct {
		there  *infrav1.WorkspaceTemplateApply
		refers bool
		goes   bool
	}{
		"its owner reference is gone":     {owned(scheme, "a", alone), false, true},
		"its label is gone":               {owned(scheme, "a", unlabeled), false, true},
		"referred to, never written":      {owned("by-hand", "a", alone, unlabeled), true, true},
		"never written, nor referred to":  {owned(scheme, "a", alone, unlabeled), false, false},
		"of another control plane":        {owned(scheme, "a", alone, builder.OwnedBy(builder.CAPTControlPlane("other"))), false, false},
		"referred to, of another profile": {owned("by-hand", "b", alone), true, false},
	} {
		t.Run(what, func(t *testing.T) {
			options := []builder.Option{withProfiles("a"), builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.WithFinalizers(controlplanev1.FargateProfileFinalizer), builder.Deleting()}
			if row.refers {
				options = append(options, referring)
			}
			w := newWorld(t, builder.CAPTControlPlane("demo", options...), row.there)
			f := w.plan(cluster())
			assert.Equal(t, row.goes, len(f.Obsolete) == 1, "the EKS cluster is deleted after it")
			w.act(f)
			assert.Equal(t, row.goes, len(w.applies()) == 0)
		})
	}
}
