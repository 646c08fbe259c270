// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// What is refused because of its contents is corrected by an edit, which no owner reference leads from.
func TestSafety20AnEditOfAReferencedObjectEnqueuesTheOwner(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithIndex(&infrav1.CAPTCluster{}, owner.ReferenceIndex, references).WithObjects(
		builder.CAPTCluster("demo", builder.WithApplyRef("by-hand")), builder.CAPTCluster("other", builder.WithApplyRef("another")), builder.CAPTCluster("fresh"),
		builder.CAPTCluster("elsewhere", builder.WithNamespace("elsewhere"), builder.WithApplyRef("by-hand"))).Build()
	r := &Reconciler{Engine: engine.Engine{Client: c}}
	demo := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "demo"}}
	assert.Equal(t, []ctrl.Request{demo}, r.requests().ReferringTo(context.Background(), builder.WorkspaceTemplateApply("by-hand")))
	assert.Empty(t, r.requests().ReferringTo(context.Background(), builder.WorkspaceTemplateApply("unknown")))
}

// The API server and the cache list in any order; another order would be another message.
func TestSafety23ControlPlanesAreNamedInOneOrder(t *testing.T) {
	labeled := builder.WithLabel(clusterv1.ClusterNameLabel, "demo")
	w := newWorld(t, builder.CAPTControlPlane("c", labeled), builder.CAPTControlPlane("b", labeled), builder.CAPTControlPlane("a"))
	w.Uncached = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if controlPlanes, ok := list.(*controlplanev1.CAPTControlPlaneList); ok {
				slices.Reverse(controlPlanes.Items)
			}
			return err
		},
	})
	cluster := builder.Cluster("demo", builder.With(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef.Name = "a" }))
	names, err := w.controlPlanes(context.Background(), builder.CAPTCluster("demo", labeled), cluster)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, names)
}
