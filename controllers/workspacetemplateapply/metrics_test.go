// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/test/builder"
)

func TestAnUnclaimedWorkspaceIsAMetric(t *testing.T) {
	env, registry := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc")), prometheus.NewRegistry()
	env.reconciler.Unclaimed = metrics.NewUnclaimed(registry)
	env.mustReconcile("demo-vpc")
	created := env.workspace("demo-vpc")
	created.SetUID("one") // An API server would have set it.
	env.update(created)
	env.mustReconcile("demo-vpc")
	env.reconciler.Clock = clocktesting.NewFakePassiveClock(now.Add(time.Hour))
	env.mustReconcile("demo-vpc")
	assert.InDelta(t, 3600, testutil.ToFloat64(registry), 60)
	env.provide("demo-vpc", builder.FirstApplyDone)
	env.mustReconcile("demo-vpc")
	assert.Zero(t, testutil.CollectAndCount(registry))
}
