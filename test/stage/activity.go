// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/metrics"
)

// Activity is what the manager's own metrics say of its controllers, by their names.
type Activity struct {
	// Reconciles is how often any object was looked at, and Errors how often that ended in an error.
	Reconciles, Errors map[string]float64
	// Pending is what is left to do.
	Pending float64
}

// Since is how often each controller has looked at any object since before; those that have not are left out.
func (a Activity) Since(before Activity) map[string]float64 {
	return since(a.Reconciles, before.Reconciles)
}

// ErrorsSince is how often each controller has failed since before; those that have not are left out.
func (a Activity) ErrorsSince(before Activity) map[string]float64 {
	return since(a.Errors, before.Errors)
}

func since(after, before map[string]float64) map[string]float64 {
	more := map[string]float64{}
	for controller, count := range after {
		if count > before[controller] {
			more[controller] = count - before[controller]
		}
	}
	return more
}

// Activity reads the metrics of the manager.
func (s *Stage) Activity(ctx context.Context) (Activity, error) {
	url, err := s.MetricsURL(sandbox.Manager)
	if err != nil {
		return Activity{}, err
	}
	told, err := metrics.Read(ctx, url)
	return Activity{
		Reconciles: told.By("controller_runtime_reconcile_total", "controller"),
		Errors:     told.By("controller_runtime_reconcile_errors_total", "controller"),
		Pending:    told.Sum("workqueue_depth", "controller_runtime_active_workers"),
	}, err
}

// AwaitRest waits until the manager's controllers have had nothing to do for a while, and tells what they did until then.
func (w *World) AwaitRest(silence time.Duration) Activity {
	w.Helper()
	var last Activity
	began := time.Now()
	w.Insist(func() string {
		now, err := w.Activity(w.Context())
		require.NoError(w, err)
		if len(now.Since(last)) > 0 || now.Pending > 0 {
			last, began = now, time.Now()
		}
		if time.Since(began) < silence {
			return "the controllers have done something a moment ago"
		}
		return ""
	})
	return last
}
