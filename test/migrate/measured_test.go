// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/legacy"
)

// requireNoDecision upgrades a reference fleet, and proves that captctl can adopt all of it without a decision.
func requireNoDecision(t *testing.T, w *legacy.World) {
	t.Helper()
	untouched, err := migrate.Read(t.Context(), w.Admin, "", time.Now())
	require.NoError(t, err)
	require.NoError(t, w.Upgrade(t.Context(), legacy.WebhooksOnly))
	snapshot, err := migrate.Read(t.Context(), w.Admin, "", untouched.Taken)
	require.NoError(t, err)
	requireSameSnapshot(t, untouched, snapshot)
	p, err := planner.New(snapshot, planner.Options{Now: snapshot.Taken})
	require.NoError(t, err)
	// A CAPTCluster with an existing VPC has nothing. The 25 WorkspaceTemplateApplies are of 9 owners, and 16 without one.
	counts := map[migrate.OwnerState]int{}
	for i := range p.Units {
		assert.Equal(t, plan.Adoptable, p.Units[i].State, p.Units[i].Name())
		for _, member := range p.Units[i].Members {
			counts[member.State]++
		}
	}
	assert.Equal(t, map[migrate.OwnerState]int{migrate.Adoptable: 25, migrate.NothingToAdopt: 1}, counts)
	for _, finding := range p.Findings {
		assert.Equal(t, migrate.Warning, finding.Severity, "%s %s: %s", finding.Reason, finding.Object, finding.Message)
		assert.Contains(t, []string{planner.ReasonPermissionGranted, planner.ReasonInvalidClusterEndpoint}, finding.Reason, finding.Message)
	}
}

// load creates objects that were read from a management cluster, with their status.
func load(t *testing.T, w *legacy.World, objects []unstructured.Unstructured) {
	t.Helper()
	require.NoError(t, w.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}))
	uids := map[string]types.UID{}
	for i := range objects {
		object := &objects[i]
		if object.GetKind() == "Secret" || object.GetKind() == "Deployment" {
			continue
		}
		status, has := object.Object["status"]
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		owners := object.GetOwnerReferences()
		for j := range owners {
			owners[j].UID = uids[owners[j].Kind+object.GetNamespace()+owners[j].Name]
			require.NotEmpty(t, owners[j].UID)
		}
		object.SetOwnerReferences(owners)
		if object.GetKind() == "Cluster" {
			toHub(t, object)
		}
		require.NoError(t, w.Admin.Create(t.Context(), object))
		uids[object.GetKind()+object.GetNamespace()+object.GetName()] = object.GetUID()
		if has && object.GetKind() != "Cluster" {
			object.Object["status"] = status
			require.NoError(t, w.Admin.Status().Update(t.Context(), object))
		}
	}
}

// toHub converts what counts of a Cluster: there is no webhook of Cluster API.
func toHub(t *testing.T, cluster *unstructured.Unstructured) {
	t.Helper()
	spec := map[string]any{}
	for _, field := range []string{"infrastructureRef", "controlPlaneRef"} {
		ref, _, err := unstructured.NestedStringMap(cluster.Object, "spec", field)
		require.NoError(t, err)
		group, _, _ := strings.Cut(ref["apiVersion"], "/")
		spec[field] = map[string]any{"apiGroup": group, "kind": ref["kind"], "name": ref["name"]}
	}
	if host, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host"); host != "" {
		spec["controlPlaneEndpoint"] = map[string]any{"host": host, "port": int64(443)}
	}
	cluster.SetAPIVersion(clusterv1.GroupVersion.String())
	cluster.SetAnnotations(nil)
	cluster.Object["spec"] = spec
	delete(cluster.Object, "status")
}
