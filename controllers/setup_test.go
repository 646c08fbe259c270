// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"

	"github.com/capt-provider/capt/controllers"
)

// Without the mark the CRD migrator would list and patch everything again after each start.
func TestTheCacheKeepsTheMarkOfMigratedDefinitions(t *testing.T) {
	const mark = clusterv1.CRDMigrationObservedGenerationAnnotation
	for name, row := range map[string]struct{ has, keeps map[string]string }{
		"marked": {map[string]string{mark: "2", "long": "text"}, map[string]string{mark: "2"}},
		"not":    {map[string]string{"long": "text"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: row.has}}
			kept, err := controllers.CacheOptions().DefaultTransform(object)
			require.NoError(t, err)
			assert.Equal(t, row.keeps, kept.(*metav1.PartialObjectMetadata).Annotations)
		})
	}
}

func TestPhasesAreThoseOfTheMigrator(t *testing.T) {
	phases, err := controllers.ParsePhases([]string{"StorageVersionMigration", "CleanupManagedFields"})
	require.NoError(t, err)
	assert.Equal(t, []crdmigrator.Phase{crdmigrator.StorageVersionMigrationPhase, crdmigrator.CleanupManagedFieldsPhase}, phases)
	_, err = controllers.ParsePhases([]string{"All"})
	assert.ErrorContains(t, err, `"All" is not a phase; valid values are StorageVersionMigration and CleanupManagedFields`)
}

// kept is what the cache keeps of an object.
func kept[O any](t *testing.T, transform toolscache.TransformFunc, object O) O {
	t.Helper()
	kept, err := transform(object)
	require.NoError(t, err)
	return kept.(O)
}

// The text of the module and managedFields are most of a Workspace, and equal in many.
func TestCachedWorkspacesShareEqualParts(t *testing.T) {
	workspace := func(name, module string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "managedFields": []any{map[string]any{"manager": name, "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}},
			"spec":     map[string]any{"forProvider": map[string]any{"module": module}},
		}}
	}
	transform := controllers.CacheOptions().DefaultTransform
	long := strings.Repeat("resource\n", 1000)
	a, b := kept(t, transform, workspace("a", strings.Clone(long))), kept(t, transform, workspace("b", strings.Clone(long)))
	assert.Equal(t, workspace("a", long), a)
	assert.Equal(t, workspace("b", long), b)
	assert.Equal(t, workspace("c", long+"edited"), kept(t, transform, workspace("c", long+"edited")))

	text := func(w *unstructured.Unstructured) *byte {
		module, _, err := unstructured.NestedString(w.Object, "spec", "forProvider", "module")
		require.NoError(t, err)
		return unsafe.StringData(module)
	}
	assert.Same(t, text(a), text(b))
	fields := func(w *unstructured.Unstructured) uintptr {
		entries, _, err := unstructured.NestedFieldNoCopy(w.Object, "metadata", "managedFields")
		require.NoError(t, err)
		return reflect.ValueOf(entries.([]any)[0].(map[string]any)["fieldsV1"]).Pointer()
	}
	assert.Equal(t, fields(a), fields(b))
}

func TestTheCacheKeepsOfClustersWhatControllersRead(t *testing.T) {
	cluster := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: []metav1.Condition{{Type: "Available"}}, Deprecated: &clusterv1.ClusterDeprecatedStatus{}}}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	status := kept(t, controllers.CacheOptions().DefaultTransform, cluster).Status
	assert.Equal(t, clusterv1.ClusterStatus{Initialization: cluster.Status.Initialization}, status)
	assert.True(t, *status.Initialization.InfrastructureProvisioned)
}

// The keys show whether a connection Secret has all outputs.
func TestTheCacheKeepsTheKeysOfSecrets(t *testing.T) {
	secret := metav1.TypeMeta{Kind: "Secret"}
	object := &metav1.PartialObjectMetadata{TypeMeta: secret, ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "provider", FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:vpc_id":{}},"f:metadata":{"f:labels":{}}}`)},
		{Manager: "another", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:zones":{}}}`)},
	}}}
	entries := kept(t, controllers.CacheOptions().DefaultTransform, object).ManagedFields
	require.Len(t, entries, 1)
	assert.JSONEq(t, `{"f:data":{".":{},"f:vpc_id":{},"f:zones":{}}}`, string(entries[0].FieldsV1.GetRawBytes()))
	assert.Nil(t, kept(t, controllers.CacheOptions().DefaultTransform, &metav1.PartialObjectMetadata{TypeMeta: secret}).ManagedFields)
	object.Kind = "Namespace"
	assert.Nil(t, kept(t, controllers.CacheOptions().DefaultTransform, object).ManagedFields)
}
