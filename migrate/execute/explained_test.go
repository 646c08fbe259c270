/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package execute

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/journal"
)

// Whatever a run was at when it lost its lock, it says that, and not what failed because of it.
func TestALostLockExplainsWhatFailed(t *testing.T) {
	lost := migrate.Partly.Errorf("the lock is lost")
	failed := errors.New("listing CAPTControlPlane: context canceled")
	begun, early := &run{record: &record{store: &journal.Store{}}}, &run{record: &record{}}
	for name, test := range map[string]struct {
		run        *run
		cause, err error
		outcome    migrate.Outcome
		message    string
	}{
		"before anything was written": {early, lost, failed, migrate.Locked, "the lock is lost; nothing was written"},
		"an error that has it":        {early, lost, fmt.Errorf("listing CAPTControlPlane: %w", lost), migrate.Locked, "the lock is lost; nothing was written"},
		"a step that has it":          {begun, lost, fmt.Errorf("2 were not tried: %w", lost), migrate.Partly, "2 were not tried: the lock is lost"},
		"in the middle":               {begun, lost, failed, migrate.Partly, "the lock is lost"},
		"it was stale anyway":         {begun, lost, migrate.Stale.Errorf("stale"), migrate.Stale, "stale"},
		"somebody interrupted it":     {early, context.Canceled, failed, migrate.Failed, failed.Error()},
		"it has the lock":             {early, nil, failed, migrate.Failed, failed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			if test.cause != nil {
				cancel(test.cause)
			}
			err := test.run.explained(ctx, test.err)
			require.EqualError(t, err, test.message)
			require.Equal(t, test.outcome, migrate.OutcomeOf(err))
			require.NoError(t, test.run.explained(ctx, nil))
			cancel(nil)
		})
	}
}
