// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package storedversions

import (
	"fmt"
	"slices"

	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
)

// ParsePhases returns the phases that the flag --skip-crd-migration-phases names. The CRD migrator would refuse others only when it
// starts.
func ParsePhases(names []string) ([]crdmigrator.Phase, error) {
	phases := make([]crdmigrator.Phase, 0, len(names))
	for _, name := range names {
		known := []crdmigrator.Phase{crdmigrator.StorageVersionMigrationPhase, crdmigrator.CleanupManagedFieldsPhase}
		phase := crdmigrator.Phase(name)
		if !slices.Contains(known, phase) {
			return nil, fmt.Errorf("%q is not a phase; valid values are %s and %s", name, known[0], known[1])
		}
		phases = append(phases, phase)
	}
	return phases, nil
}
