// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
)

// Read returns the status of the migration.
func Read(ctx context.Context, o Options) (*Status, error) {
	o.Decided = true
	fleet, err := Survey(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Status{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Status"}, Units: fleet.Standing, Lock: fleet.Lock, Findings: fleet.Findings,
	}
	for i := range fleet.Journals {
		s.Plans = append(s.Plans, summary(&fleet.Journals[i]))
	}
	s.Definitions, err = definitions(ctx, o.Reader)
	return s, err
}

func summary(state *apply.State) Plan {
	p := Plan{ID: state.PlanID, Started: state.Started, Updated: state.Updated, Run: state.Run, Backup: state.Backup, Units: map[apply.Phase]int{}}
	for _, unit := range state.Units {
		p.Units[unit.Phase]++
	}
	return p
}

// definitions that are installed.
func definitions(ctx context.Context, reader client.Reader) (found []Definition, err error) {
	installed, err := migrate.Definitions(ctx, reader)
	for _, kind := range migrate.Kinds() {
		if definition := installed[kind.Definition()]; definition != nil {
			found = append(found, Definition{Name: definition.Name, StoredVersions: definition.Status.StoredVersions})
		}
	}
	return found, err
}
