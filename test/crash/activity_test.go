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
	told, err := metrics.Read(ctx, url)
	return activity{
		reconciled: told.Sum("controller_runtime_reconcile_total"),
		applies:    told.By("controller_runtime_reconcile_total", "controller")["workspacetemplateapply"],
		pending:    told.Sum("workqueue_depth", "controller_runtime_active_workers"),
	}, err
}
