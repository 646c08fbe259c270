// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"context"

	"github.com/capt-provider/capt/test/sandbox/metrics"
)

// activity is what a manager's own metrics say of its controllers.
type activity struct {
	// reconciled is how often any object was looked at, and applies how often a WorkspaceTemplateApply.
	reconciled, applies float64
	// pending is what is left to do.
	pending float64
}

// observeActivity reads the metrics of the manager.
func observeActivity(ctx context.Context, url string) (activity, error) {
	scraped, err := metrics.Read(ctx, url)
	return activity{
		reconciled: scraped.Sum("controller_runtime_reconcile_total"),
		applies:    scraped.By("controller_runtime_reconcile_total", "controller")["workspacetemplateapply"],
		pending:    scraped.Sum("workqueue_depth", "controller_runtime_active_workers"),
	}, err
}
