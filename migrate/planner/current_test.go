// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// What was decided for an earlier plan may be about objects that are gone, or that a later plan adopted without that decision.
func TestDecisionsOfEarlierPlansCountAsLongAsTheyFit(t *testing.T) {
	s, other := newFixture("demo", "team-a").withWorkspaces(t), newFixture("other", "team-a").withWorkspaces(t)
	fits := &migrate.Decisions{
		Owners: []migrate.OwnerDecision{
			{UID: s.plane.UID, Take: s.eks.UID}, {UID: s.network.UID, Pin: true}, {UID: other.plane.UID, Skip: true}, {UID: other.network.UID, Take: other.vpc.UID},
		},
		Workspaces: []migrate.WorkspaceDecision{{UID: sharedVPC, BelongsTo: s.vpc.UID}, {UID: "Workspace/other-vpc", BelongsTo: s.vpc.UID}},
	}
	all := &migrate.Decisions{
		Owners:     append([]migrate.OwnerDecision{{UID: "gone", Skip: true}, {UID: s.vpc.UID, Take: "gone"}}, fits.Owners...),
		Workspaces: append([]migrate.WorkspaceDecision{{UID: "gone", BelongsTo: s.vpc.UID}, {UID: sharedEKS, BelongsTo: "gone"}}, fits.Workspaces...),
	}
	assert.Equal(t, fits, planner.Current(snapshot(t, s, other), all))
	assert.Nil(t, planner.Current(snapshot(t, s, other), nil))

	adopt(s.vpc, s.eks, other.vpc, other.eks)
	s.plane.Spec.ControlPlaneEndpoint.Host, other.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint(), other.endpoint()
	fits.Owners = append(fits.Owners[:2:2], fits.Owners[3])
	fits.Workspaces = fits.Workspaces[:1]
	for _, more := range []migrate.OwnerDecision{{UID: s.plane.UID, Take: other.eks.UID}, {UID: s.plane.UID, Skip: true}, {UID: s.vpc.UID, Skip: true}} {
		tried := *all
		tried.Owners = append(tried.Owners, more)
		current := planner.Current(snapshot(t, s, other), &tried)
		require.Equal(t, fits, current, "%v", more)
	}
	assert.Equal(t, map[string]plan.UnitState{"team-a/demo": plan.Adopted, "team-a/other": plan.Adopted}, states(planFor(t, fits, s, other)))
}
