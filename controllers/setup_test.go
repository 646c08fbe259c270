// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
