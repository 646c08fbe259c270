// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// since is a rollout that started some time ago, with users and a policy.
func since(started time.Duration, policy infrav1.WorkspaceTemplateRollout, users ...User) *rollout {
	return &rollout{Facts: &Facts{Now: now, Target: target, Started: now.Add(-started), Policy: policy, History: history(before)}, users: users}
}

// The decision is repeated at the earliest of the deadlines that have not passed.
func TestTheEarliestDeadlineIsAwaited(t *testing.T) {
	r := since(time.Hour, infrav1.WorkspaceTemplateRollout{})
	assert.True(t, r.passed(now))
	assert.Zero(t, r.check)
	for minutes, want := range map[int][]int{1: {2, 1, 3}, 2: {2, 3, 4}} {
		r.check = time.Time{}
		for _, deadline := range want {
			assert.False(t, r.passed(later(deadline).Time))
		}
		assert.Equal(t, later(minutes).Time, r.check)
	}
	for want, d := range map[int]Decision{
		1: {check: later(1).Time}, 2: {check: later(3).Time, SoakUntil: later(2).Time}, 3: {check: later(3).Time, SoakUntil: later(4).Time}, 4: {SoakUntil: later(4).Time},
	} {
		assert.Equal(t, later(want).Time, d.CheckAt())
	}
}

// Only users that were created after the start are late, unless all were.
func TestWhoIsLate(t *testing.T) {
	early, late := on("a", before), on("b", before, func(u *User) { u.CreatedAt = now })
	early.CreatedAt = now.Add(-time.Hour)
	r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, early, late)
	r.markLate()
	assert.Equal(t, []bool{false, true}, []bool{r.users[0].late, r.users[1].late})
	r = since(time.Minute, infrav1.WorkspaceTemplateRollout{}, late)
	r.markLate()
	assert.False(t, r.users[0].late)
	r.Started = time.Time{}
	assert.Equal(t, now, r.started())
}

// A user that cannot be previewed in time: one that is at rest gets a turn first.
func TestWhoCannotBePreviewedInTime(t *testing.T) {
	always := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways}
	running := func(u *User) { u.ReadySince = time.Time{} }
	for name, row := range map[string]struct {
		user    User
		started time.Duration
		policy  infrav1.WorkspaceTemplateRollout
		want    infrav1.PreviewResult
	}{
		"Terraform runs":          {on("a", before, running), restTimeout, always, infrav1.PreviewUnavailable},
		"Terraform runs, not yet": {on("a", before, running), restTimeout - 1, always, ""},
		"at rest":                 {on("a", before), restTimeout + turnTimeout, always, infrav1.PreviewUnavailable},
		"at rest, not yet":        {on("a", before), restTimeout + turnTimeout - 1, always, ""},
		"previewed":               {on("a", before, func(u *User) { u.plan = infrav1.PreviewEmpty }), time.Hour, always, infrav1.PreviewEmpty},
		"paused":                  {on("a", before, paused), time.Hour, always, ""},
		"with the target":         {on("a", target), time.Hour, always, ""},
		"without previews":        {on("a", before), time.Hour, infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewNever}, ""},
	} {
		r := since(row.started, row.policy, row.user)
		r.markOverdue()
		assert.Equal(t, row.want, r.users[0].plan, name)
	}
}

// An update must end within two hours; a canary must also stay Ready.
func TestWhoseUpdateTakesTooLong(t *testing.T) {
	at := func(ago time.Duration) func(*User) { return func(u *User) { u.AssignedAt = now.Add(-ago) } }
	inFlight := func(u *User) { u.Assigned, u.Written = "another", "another" }
	readyFor := func(d time.Duration) func(*User) { return func(u *User) { u.ReadySince = now.Add(-d) } }
	for name, row := range map[string]struct {
		user           User
		update, canary bool // Whether the update, and a canary with a soak of a minute, takes too long.
	}{
		"after two hours":                      {on("a", before, assigned, at(updateTimeout)), true, false},
		"before":                               {on("a", before, assigned, at(updateTimeout-1)), false, false},
		"not recorded yet":                     {on("a", before, assigned), false, false},
		"another revision":                     {on("a", before, inFlight, at(updateTimeout)), true, false},
		"no revision is being applied":         {on("a", before, at(updateTimeout)), false, false},
		"it is done":                           {on("a", target, at(updateTimeout+time.Minute), readyFor(time.Minute)), false, false},
		"it is not Ready for long enough":      {on("a", target, at(updateTimeout+time.Minute), readyFor(time.Second)), false, true},
		"the same, but there is still time":    {on("a", target, at(updateTimeout+time.Minute-1), readyFor(time.Second)), false, false},
		"it is not Ready":                      {on("a", target, at(updateTimeout+time.Minute), func(u *User) { u.ReadySince = time.Time{} }), false, true},
		"it is Ready with the former revision": {on("a", before, assigned, at(updateTimeout+time.Minute), readyFor(time.Hour)), true, true},
		"it has not got the revision":          {on("a", before, at(updateTimeout+time.Minute)), false, false},
		"it fails":                             {on("a", before, failing, at(updateTimeout+time.Minute)), false, false},
	} {
		r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, row.user)
		r.markOverdue()
		assert.Equal(t, row.update, r.users[0].overdue, name)
		r = since(time.Minute, infrav1.WorkspaceTemplateRollout{Canary: infrav1.RolloutCanaries{SoakSeconds: 60}}, row.user)
		r.canaries = []*User{&r.users[0]}
		r.markOverdueCanaries()
		assert.Equal(t, row.canary, r.users[0].overdue, "canary: "+name)
		r.users[0].overdue, r.History = false, history(target)
		r.markOverdueCanaries()
		assert.False(t, r.users[0].overdue, "the rollout was completed before: "+name)
	}
}

// For whom a rollout does not wait any more.
func TestWhoIsLeftBehind(t *testing.T) {
	stalled := func(u *User) { assigned(u); u.overdue = true }
	late := func(u *User) { u.late = true }
	unavailable := func(u *User) { u.plan = infrav1.PreviewUnavailable }
	goesOn := infrav1.WorkspaceTemplateRollout{OnFailure: infrav1.RolloutFailureContinue}
	for name, row := range map[string]struct {
		user   User
		change func(r *rollout)
		want   bool
	}{
		"stalled":                            {on("a", before, stalled), func(*rollout) {}, false},
		"stalled, and resumed":               {on("a", before, stalled), func(r *rollout) { r.Resume = target }, true},
		"stalled, and late":                  {on("a", before, stalled, late), func(*rollout) {}, true},
		"stalled after the rollout":          {on("a", before, stalled), func(r *rollout) { r.History = history(target) }, true},
		"stalled, and failures do not stop":  {on("a", before, stalled), func(r *rollout) { r.Policy = goesOn }, true},
		"the same, but a canary":             {on("a", before, stalled), func(r *rollout) { r.Policy, r.canaries = goesOn, []*User{&r.users[0]} }, false},
		"updating, and late":                 {on("a", before, assigned, late), func(*rollout) {}, false},
		"updating, paused and late":          {on("a", before, assigned, late, paused, func(u *User) { u.Written = target }), func(*rollout) {}, false},
		"paused":                             {on("a", before, paused), func(*rollout) {}, false},
		"paused, and late":                   {on("a", before, paused, late), func(*rollout) {}, true},
		"paused for two hours":               {on("a", before, paused), func(r *rollout) { r.Started = now.Add(-updateTimeout) }, true},
		"without preview":                    {on("a", before, unavailable), func(*rollout) {}, false},
		"without preview, and resumed":       {on("a", before, unavailable), func(r *rollout) { r.Resume = target }, true},
		"without preview, and late":          {on("a", before, unavailable, late), func(*rollout) {}, true},
		"paused without preview and resumed": {on("a", before, paused, unavailable), func(r *rollout) { r.Resume = target }, false},
		"waiting for a long time, and late":  {on("a", before, late), func(r *rollout) { r.Started, r.Resume = now.Add(-24*time.Hour), target }, false},
	} {
		r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, row.user)
		row.change(r)
		assert.Equal(t, row.want, r.isLeftBehind(&r.users[0]), name)
	}
	for plan, want := range map[infrav1.PreviewResult]bool{"": false, infrav1.PreviewUnavailable: false, infrav1.PreviewEmpty: true, infrav1.PreviewChanges: true} {
		r := since(time.Minute, infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways})
		assert.Equal(t, want, r.isPlanned(&User{plan: plan}), plan)
	}
}

// What stops a rollout, and when it is complete.
func TestWhatStopsARollout(t *testing.T) {
	stalled := func(u *User) { assigned(u); u.overdue = true }
	late := func(u *User) { u.late = true }
	for name, row := range map[string]struct {
		user    User
		history string
		want    bool
	}{
		"a user fails":                       {on("a", before, failing), before, true},
		"a user stalls":                      {on("a", before, stalled), before, true},
		"a late user stalls":                 {on("a", before, stalled, late), before, false},
		"a user stalls after the rollout":    {on("a", before, stalled), target, false},
		"a user is updated, and is not late": {on("a", before, assigned), before, false},
		"a user waits":                       {on("a", before), before, false},
	} {
		r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, row.user)
		r.History = history(row.history)
		assert.Equal(t, row.want, r.stopped(), name)
		r.Policy.OnFailure = infrav1.RolloutFailureContinue
		assert.False(t, r.stopped(), "it is not a canary: "+name)
		r.canaries = []*User{&r.users[0]}
		assert.Equal(t, row.want, r.stopped(), "canary: "+name)
		r.Resume = target
		assert.False(t, r.stopped(), "resumed: "+name)
	}
	r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, on("a", target), on("b", before, late))
	assert.True(t, r.complete(false), "it does not wait for late users")
	assert.False(t, r.complete(true))
	assert.False(t, since(time.Minute, infrav1.WorkspaceTemplateRollout{}, on("a", target), on("b", before, assigned)).complete(false), "it waits for others")
	r.unobserved = true
	assert.False(t, r.complete(false), "a user that was moved may exist")
	r.Started = now.Add(-restTimeout)
	assert.True(t, r.complete(false))
	assert.True(t, since(updateTimeout, infrav1.WorkspaceTemplateRollout{}, on("a", target), on("b", before, paused)).complete(true), "it does not wait for who is left behind")
	r = since(time.Minute, infrav1.WorkspaceTemplateRollout{}, on("a", target), on("b", before, stalled))
	r.History = history(target)
	assert.True(t, r.complete(false), "one that stalls after the rollout is left behind")
	r.History = history(before)
	assert.False(t, r.complete(false))
	r.History = nil
	assert.False(t, r.rolledOut(), "the revision is not stored")
	for hash, want := range map[string]bool{"missing": false, "new": false, "approved": true, "rolled out": true} {
		assert.Equal(t, want, History{{Hash: "new"}, {Hash: "approved", Approval: Approval{By: "a"}}, {Hash: "rolled out", RolledOut: true}}.isProven(hash), hash)
	}
}

// Other users wait until the canary that was Ready last has been so for long enough.
func TestUntilWhenCanariesSoak(t *testing.T) {
	ready := func(minutes int) User { return on("a", target, func(u *User) { u.ReadySince = later(minutes).Time }) }
	never := on("b", target, func(u *User) { u.ReadySince = time.Time{} })
	stalls := on("c", target, func(u *User) { u.overdue, u.ReadySince = true, later(3).Time })
	r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, ready(0), ready(2), ready(1), never, stalls)
	r.canaries = pointers(r.users)
	assert.Zero(t, r.soakUntil())
	r.Policy.Canary.SoakSeconds = 60
	assert.Equal(t, later(4).Time, r.soakUntil())
	r.Resume = target
	assert.Equal(t, later(3).Time, r.soakUntil(), "one that stalls is skipped after a resume")
	r.canaries = r.canaries[3:4]
	assert.Zero(t, r.soakUntil(), "none is Ready")
}
