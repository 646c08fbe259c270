// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package previews

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform/planlog"
)

func TestPlanned(t *testing.T) {
	types := func(count int) (types []string) {
		for i := range count {
			types = append(types, fmt.Sprintf("aws_type_%02d", i))
		}
		return types
	}
	for name, row := range map[string]struct {
		changes planlog.Changes
		want    *infrav1.PlannedChanges
	}{
		"each action, in the order of their danger": {
			planlog.Changes{
				Counts: planlog.Counts{Create: 1, Update: 2, Replace: 3, Delete: 4, Import: 5, Forget: 6, Move: 7}, Total: 28, Destroys: []string{"aws_vpc"},
				Resources:  []planlog.Resource{{Address: "aws_vpc.a", Type: "aws_vpc", Action: planlog.Replace, Reason: "cannot_update"}},
				DriftTotal: 8, Drift: []planlog.Resource{{Address: "aws_vpc.b"}}, OutputTotal: 9, Outputs: []planlog.Output{{Name: "o"}}, Warnings: 10,
			},
			&infrav1.PlannedChanges{
				Counts: []infrav1.PlannedCount{
					{Action: infrav1.PlanReplace, Count: 3}, {Action: infrav1.PlanDelete, Count: 4}, {Action: infrav1.PlanForget, Count: 6},
					{Action: infrav1.PlanUpdate, Count: 2}, {Action: infrav1.PlanCreate, Count: 1}, {Action: infrav1.PlanImport, Count: 5}, {Action: infrav1.PlanMove, Count: 7},
				},
				Destroys: []string{"aws_vpc"}, Drifted: 8, Outputs: 9,
				Resources: []infrav1.PlannedResource{{Address: "aws_vpc.a", Type: "aws_vpc", Action: infrav1.PlanReplace, Reason: "cannot_update"}},
			},
		},
		"only outputs":    {planlog.Changes{OutputTotal: 1}, &infrav1.PlannedChanges{Outputs: 1}},
		"nothing":         {planlog.Changes{}, &infrav1.PlannedChanges{Unknown: "the plan is not empty, and lists no resource and no output that changes"}},
		"as many types":   {planlog.Changes{Total: 64, Destroys: types(64)}, &infrav1.PlannedChanges{Destroys: types(64)}},
		"more types":      {planlog.Changes{Total: 65, Destroys: types(65)}, &infrav1.PlannedChanges{Unknown: "resources of 65 types would be replaced or deleted, and at most 64 types are recorded"}},
		"a type too long": {planlog.Changes{Total: 1, Resources: []planlog.Resource{{Type: strings.Repeat("x", 257)}}}, &infrav1.PlannedChanges{Unknown: "a type of resource has a name of more than 256 bytes"}},
	} {
		assert.Equal(t, row.want, planned(&row.changes), name)
	}
	assert.Len(t, unknown(strings.Repeat("x", 2000)).Unknown, 1024)
}

func TestExchangesOfAPreviewAreCounted(t *testing.T) {
	q, key := newQueue(t), in("a", "x")
	q.Exchange(key, "first", "1")
	assert.Zero(t, q.Exchanged(key, "first"), "it has no slot")
	q.take(key, "a/vpc")
	q.Exchange(key, "first", "1")
	q.Exchange(key, "first", "1")
	assert.Equal(t, 1, q.Exchanged(key, "first"), "the cache was stale")
	q.Exchange(key, "first", "2")
	assert.Equal(t, 2, q.Exchanged(key, "first"))
	assert.Zero(t, q.Exchanged(key, "second"))
	q.Exchange(key, "second", "3")
	assert.Equal(t, 1, q.Exchanged(key, "second"))
	q.release(key)
	assert.Zero(t, q.Exchanged(key, "second"))
}

// A result that is recorded with the limited message is not recorded again.
func TestTheMessageOfAResultIsLimited(t *testing.T) {
	f := &Facts{Now: time.Unix(100, 0), Revision: "a", Assumed: infrav1.PreviewFailed, Message: strings.Repeat("x", 2*maxMessage)}
	f.Recorded = Decide(f).Result
	assert.Len(t, f.Recorded.Message, maxMessage)
	f.Now = f.Now.Add(time.Second)
	assert.Same(t, f.Recorded, Decide(f).Result)
	f.Rejected = f.Message
	assert.Len(t, Decision{}.Recorded(f).Message, maxMessage)
}
