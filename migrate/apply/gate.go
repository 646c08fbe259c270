// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// Gate returns the render gate for Options.Gate: it reads the objects of a unit and plans the unit again.
func Gate(reader client.Reader, p *plan.Plan, now clock.PassiveClock) func(context.Context, *plan.Unit) error {
	return func(ctx context.Context, unit *plan.Unit) error {
		snapshot, err := migrate.ReadObjects(ctx, reader, unit.Objects(), now.Now())
		if err != nil {
			return err
		}
		return planner.Recheck(snapshot, p.Decisions, unit)
	}
}
