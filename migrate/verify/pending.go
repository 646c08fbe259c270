// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"time"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
)

// nothingPending: starting the manager changes no Workspace. What the plan compared may have been edited since.
func nothingPending(ctx context.Context, w *world, c *Check) error {
	snapshot, err := migrate.Read(ctx, w.reader, w.plan.Namespace, time.Now())
	if err != nil {
		return err
	}
	findings, compared, err := planner.Pending(snapshot)
	if err != nil {
		return err
	}
	for _, finding := range findings {
		if finding.Reason == planner.ReasonPendingChange {
			c.wrong(finding.Object, "%s", finding.Message)
		} else {
			c.note(finding.Object, "%s", finding.Message)
		}
	}
	c.conclude(compared, "adopted Workspaces", "the manager would change none of them",
		"would now be changed by the manager, and Terraform would run. Do not start it before each edit is reverted, or meant")
	return nil
}
