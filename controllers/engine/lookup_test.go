// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capt-provider/capt/test/builder"
)

// Clusters and their objects reach the cache independently of each other.
func TestSafety18AClusterThatIsNotInTheCacheYetIsThere(t *testing.T) {
	clients := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(objects...).Build()
	}
	empty, full := clients(), clients(builder.Cluster("demo"))
	object := builder.CAPTCluster("demo", builder.OwnedBy(builder.Cluster("demo")), builder.WithLabel(clusterv1.ClusterNameLabel, "demo")).ObjectMeta
	for name, look := range map[string]func(context.Context, client.Client, client.Reader, metav1.ObjectMeta) (*clusterv1.Cluster, error){
		"owner": OwnerCluster, "label": LabeledCluster,
	} {
		t.Run(name, func(t *testing.T) {
			for _, cached := range []client.Client{full, empty} {
				cluster, err := look(t.Context(), cached, full, object)
				require.NoError(t, err)
				assert.Equal(t, "demo", cluster.Name)
			}
			_, err := look(t.Context(), empty, empty, object)
			assert.True(t, Absent(err), "it is gone: %v", err)
		})
	}
	cluster, err := OwnerCluster(t.Context(), empty, full, metav1.ObjectMeta{Namespace: builder.Namespace})
	require.NoError(t, err)
	assert.Nil(t, cluster, "without an owner")
	_, err = LabeledCluster(t.Context(), empty, full, metav1.ObjectMeta{Namespace: builder.Namespace})
	assert.True(t, errors.Is(err, util.ErrNoCluster))
}
