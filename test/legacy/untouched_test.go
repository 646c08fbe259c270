// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Cluster API before v1.11 serves nothing else.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// What captctl reads of a management cluster that nothing of this version was installed in is what the API server and the webhook
// serve later, for every fixture.
func TestAnUntouchedFleetIsReadAsItIsServedLater(t *testing.T) {
	events, err := shared.AuditEvents(audit.Filter{User: sandbox.CaptctlUser, Verbs: audit.Writes})
	require.NoError(t, err)
	assert.Empty(t, events, "reading writes nothing")
	captctl, err := shared.Client(sandbox.Captctl)
	require.NoError(t, err)
	snapshot, err := migrate.Read(t.Context(), captctl, "", shared.untouched.Taken)
	require.NoError(t, err)
	require.NotEmpty(t, snapshot.Applies)
	requireSame(t, shared.untouched, snapshot)
}

// requireSame compares what was read before and after the upgrade: objects, reports and plans.
func requireSame(t *testing.T, untouched, upgraded *migrate.Snapshot) {
	t.Helper()
	untouched.Namespaces = upgraded.Namespaces         // The manager has a new one.
	untouched.OlderTemplates = upgraded.OlderTemplates // They were removed for the upgrade.
	require.Equal(t, upgraded, untouched)

	plans := [2][]byte{}
	for i, snapshot := range []*migrate.Snapshot{untouched, upgraded} {
		p, err := planner.New(snapshot, planner.Options{Now: snapshot.Taken})
		require.NoError(t, err)
		plans[i], err = json.Marshal(p)
		require.NoError(t, err)
	}
	require.JSONEq(t, string(plans[1]), string(plans[0]))
}

// Cluster API before v1.11 serves Clusters in v1beta1 only.
func TestAFleetOfAnOlderClusterAPIIsRead(t *testing.T) {
	w := startWorld(t)
	_, err := w.Create(t.Context(), legacy.Reference(nil), legacy.ReferenceNames())
	require.NoError(t, err)
	served, err := migrate.Read(t.Context(), w.Admin, "", time.Now())
	require.NoError(t, err)
	require.NotEmpty(t, served.Clusters)
	captctl := serveOlderClusters(t, w, served.Clusters)
	older, err := migrate.Read(t.Context(), captctl, "", served.Taken)
	require.NoError(t, err)
	require.Len(t, older.Clusters, len(served.Clusters))
	for i := range older.Clusters {
		assert.Equal(t, served.Clusters[i].Spec, older.Clusters[i].Spec, served.Clusters[i].Name)
	}
	want, err := planner.New(served, planner.Options{Now: served.Taken})
	require.NoError(t, err)
	got, err := planner.New(older, planner.Options{Now: served.Taken})
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// serveOlderClusters makes v1beta1 the only version of Clusters, and returns a client that found out.
func serveOlderClusters(t *testing.T, w *legacy.World, clusters []clusterv1.Cluster) client.Client {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "clusters." + clusterv1.GroupVersion.Group}, definition))
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		version.Served = version.Name == clusterv1beta1.GroupVersion.Version
		version.Storage = version.Served
	}
	require.NoError(t, w.Admin.Update(t.Context(), definition))
	var captctl client.Client
	require.Eventually(t, func() bool {
		var err error
		captctl, err = w.Client(sandbox.Captctl)
		return err == nil && meta.IsNoMatchError(captctl.List(t.Context(), &clusterv1.ClusterList{}))
	}, time.Minute, 100*time.Millisecond)
	for i := range clusters {
		older := olderCluster(t, &clusters[i])
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(older.GroupVersionKind())
			require.NoError(c, w.Admin.Get(t.Context(), client.ObjectKeyFromObject(older), live))
			live.Object["spec"] = older.Object["spec"]
			require.NoError(c, w.Admin.Update(t.Context(), live))
		}, time.Minute, 100*time.Millisecond)
	}
	return captctl
}

func olderCluster(t *testing.T, cluster *clusterv1.Cluster) *unstructured.Unstructured {
	t.Helper()
	older := &clusterv1beta1.Cluster{}
	require.NoError(t, clusterv1beta1.Convert_v1beta2_Cluster_To_v1beta1_Cluster(cluster, older, nil))
	ref := func(ref clusterv1.ContractVersionedObjectReference) *corev1.ObjectReference {
		return &corev1.ObjectReference{APIVersion: ref.APIGroup + "/v1beta1", Kind: ref.Kind, Namespace: cluster.Namespace, Name: ref.Name}
	}
	older.Spec.InfrastructureRef, older.Spec.ControlPlaneRef = ref(cluster.Spec.InfrastructureRef), ref(cluster.Spec.ControlPlaneRef)
	older.SetGroupVersionKind(clusterv1beta1.GroupVersion.WithKind("Cluster"))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(older)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: object}
}
