// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// guarded reads objects unless CAPT v0.3 has written them since a time.
type guarded struct {
	client.Reader
	since time.Time
}

func (g guarded) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := g.Reader.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if writes := migrate.LegacyWrites(object, g.since); len(writes) > 0 {
		return fmt.Errorf("CAPT v0.3 runs again: %s %s: %s. Stop it as \"captctl migrate check\" shows, and run the same command again",
			object.GetObjectKind().GroupVersionKind().Kind, key, writes[0])
	}
	return nil
}

// Gate returns the render gate for Options.Gate: it reads the objects of a unit and plans the unit again. It fails if CAPT v0.3 has written one of
// them since Gate was called: a run can take hours, and v0.3 can be started meanwhile.
func Gate(reader client.Reader, p *plan.Plan, now clock.PassiveClock) func(context.Context, *plan.Unit) error {
	reader = guarded{reader, now.Now()}
	return func(ctx context.Context, unit *plan.Unit) error {
		snapshot, err := migrate.ReadObjects(ctx, reader, unit.Objects(), now.Now())
		if err != nil {
			return err
		}
		return planner.Recheck(snapshot, p.Decisions, unit)
	}
}
