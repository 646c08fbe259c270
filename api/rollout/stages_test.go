// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func staged(change func(p *infrav1.WorkspaceTemplateRollout)) infrav1.WorkspaceTemplateRollout {
	policy := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}
	change(&policy)
	return policy
}

func keys(users []*User) (names []string) {
	for _, u := range users {
		names = append(names, u.Key.Name)
	}
	return names
}

func isLate(u *User) { u.late = true }

// A late user is a canary only if no other one can be.
func TestLateUsersAreCanariesLast(t *testing.T) {
	one := staged(func(p *infrav1.WorkspaceTemplateRollout) { p.Canary.Count = 1 })
	all := staged(func(p *infrav1.WorkspaceTemplateRollout) { p.Canary.Selector = &metav1.LabelSelector{} })
	for _, row := range []struct {
		policy infrav1.WorkspaceTemplateRollout
		users  []User
		want   []string
	}{
		{one, []User{on("a", before, isLate), on("b", before), on("c", before)}, []string{"b"}},
		{all, []User{on("a", before, isLate), on("b", before), on("c", before)}, []string{"b", "c"}},
		{all, []User{on("a", before, isLate), on("b", before, paused)}, []string{"a"}},
		{infrav1.WorkspaceTemplateRollout{}, []User{on("a", before)}, nil},
	} {
		selected, err := since(time.Minute, row.policy, row.users...).selectCanaries()
		require.NoError(t, err)
		assert.Equal(t, row.want, keys(selected))
	}
	for name, row := range map[string]struct {
		user User
		want bool
	}{
		"waiting":                    {on("a", before), true},
		"without changes":            {on("a", before, func(u *User) { u.plan = infrav1.PreviewEmpty }), false},
		"paused":                     {on("a", before, paused), false},
		"paused with the target":     {on("a", before, assigned, paused), true},
		"paused, and was the canary": {on("a", target, paused), true},
		"rejected, and paused":       {on("a", before, paused, func(u *User) { u.Refused = []string{target} }), true},
		"left behind":                {on("a", before, isLate, func(u *User) { u.plan = infrav1.PreviewUnavailable }), false},
	} {
		r := since(time.Minute, one, row.user)
		assert.Equal(t, row.want, r.canBeCanary(&r.users[0]), name)
	}
}

func TestARolloutWithoutCanaryWaits(t *testing.T) {
	canary := staged(func(p *infrav1.WorkspaceTemplateRollout) { p.Canary.Count = 1 })
	onDestroy := canary
	onDestroy.Approval = infrav1.RolloutApprovalOnDestroy
	for name, row := range map[string]struct {
		policy infrav1.WorkspaceTemplateRollout
		user   User
		resume string
		want   bool
	}{
		"none":                     {canary, on("a", before, paused), "", true},
		"none is wanted":           {infrav1.WorkspaceTemplateRollout{}, on("a", before, paused), "", false},
		"none, and it was resumed": {canary, on("a", before, paused), target, false},
		"all were left behind":     {canary, on("a", before, paused, isLate), "", false},
		"what changes is withheld": {onDestroy, on("a", before, planned(infrav1.PreviewChanges), func(u *User) { u.plan = infrav1.PreviewChanges }), "", false},
		"nothing changes":          {canary, on("a", before, func(u *User) { u.plan = infrav1.PreviewEmpty }), "", false},
	} {
		r := since(time.Minute, row.policy, row.user)
		r.Resume = row.resume
		assert.Equal(t, row.want, r.noCanary(), name)
		assert.Equal(t, !row.want, r.canariesDone(), name)
	}
}

func TestWhatNeedsAnApproval(t *testing.T) {
	onChanges := staged(func(p *infrav1.WorkspaceTemplateRollout) { p.Approval = infrav1.RolloutApprovalOnChanges })
	previewed := onChanges
	previewed.Preview = infrav1.RolloutPreviewAlways
	plan := func(result infrav1.PreviewResult) func(*User) { return func(u *User) { u.plan = result } }
	for name, row := range map[string]struct {
		policy infrav1.WorkspaceTemplateRollout
		user   User
		want   bool // Whether users may follow without one.
	}{
		"not previewed":                  {onChanges, on("a", before), false},
		"paused, not previewed":          {onChanges, on("a", before, paused), true},
		"paused, with changes":           {previewed, on("a", before, paused, plan(infrav1.PreviewChanges)), false},
		"waits for its preview":          {previewed, on("a", before), true},
		"cannot be previewed":            {previewed, on("a", before, plan(infrav1.PreviewUnavailable)), true},
		"with changes":                   {previewed, on("a", before, plan(infrav1.PreviewChanges)), false},
		"without changes":                {previewed, on("a", before, plan(infrav1.PreviewEmpty)), true},
		"has the target":                 {onChanges, on("a", target), true},
		"approval is wanted in any case": {staged(func(p *infrav1.WorkspaceTemplateRollout) { p.Approval = infrav1.RolloutApprovalAlways }), on("a", target), false},
	} {
		r := since(time.Minute, row.policy, row.user)
		assert.Equal(t, row.want, r.approved(), name)
		r.Approve = target
		assert.True(t, r.approved(), name)
	}
	r := since(time.Minute, onChanges, on("a", before))
	assert.False(t, r.proven(), "nothing shows that the content is wanted")
	r.Approve = target
	assert.True(t, r.proven())
	assert.True(t, since(time.Minute, onChanges, on("a", before, assigned)).proven())
	assert.True(t, since(time.Minute, infrav1.WorkspaceTemplateRollout{}, on("a", before)).proven())
}

func TestWhoFollows(t *testing.T) {
	two := staged(func(p *infrav1.WorkspaceTemplateRollout) { p.MaxConcurrent = 2 })
	empty := func(u *User) { u.plan = infrav1.PreviewEmpty }
	for name, row := range map[string]struct {
		users []User
		want  []string
	}{
		"two at a time":             {[]User{on("a", before), on("b", before), on("c", before)}, []string{"a", "b"}},
		"late ones last":            {[]User{on("a", before, isLate), on("b", before), on("c", before)}, []string{"b", "c"}},
		"one is updated":            {[]User{on("a", before, assigned), on("b", before), on("c", before)}, []string{"b"}},
		"one is without changes":    {[]User{on("a", before, assigned, empty), on("b", before), on("c", before)}, []string{"b", "c"}},
		"one has a plan of its own": {[]User{on("a", before, empty), on("b", before)}, []string{"b"}},
		"one is paused":             {[]User{on("a", before, paused), on("b", before)}, []string{"b"}},
		"one is in flight":          {[]User{on("a", before, func(u *User) { u.Assigned, u.Written = "x", "x" }), on("b", before), on("c", before)}, []string{"a", "b"}},
	} {
		r := since(time.Minute, two, row.users...)
		r.selectNext(pointers(r.users))
		assert.Equal(t, row.want, keys(r.assigned), name)
	}
	r := since(time.Minute, staged(func(p *infrav1.WorkspaceTemplateRollout) { p.Preview = infrav1.RolloutPreviewAlways }), on("a", before))
	r.selectNext(pointers(r.users))
	assert.Empty(t, r.assigned, "it is not previewed")
}

// Users are counted once. What keeps a user that has the revision is not reported.
func TestWhoIsCounted(t *testing.T) {
	stalled := func(u *User) { assigned(u); u.overdue = true }
	r := since(time.Minute, infrav1.WorkspaceTemplateRollout{}, on("a", before, paused), on("b", before, held), on("c", before), on("d", target, paused),
		on("e", target, held), on("f", before, stalled, isLate), on("g", before, stalled))
	var d Decision
	r.count(&d)
	assert.Equal(t, Decision{
		Waiting: []string{"ns/a", "ns/b", "ns/c"}, Paused: []string{"ns/a"}, Held: []string{"ns/b"}, Current: []string{"ns/d", "ns/e"}, LeftBehind: []string{"ns/f"}, Stalled: []string{"ns/g"},
	}, d)
}

func TestWhyARolloutDoesNotProceed(t *testing.T) {
	users, r := []string{"ns/a"}, since(time.Minute, infrav1.WorkspaceTemplateRollout{})
	for want, d := range map[string]Decision{
		"stalled users":                           {Reason: infrav1.RolloutStoppedReason, Stalled: users},
		"failed users":                            {Reason: infrav1.RolloutStoppedReason, Stalled: users, Failed: users},
		"a change of their own":                   {Held: users, Paused: users, LeftBehind: users},
		"Paused users":                            {Paused: users, LeftBehind: users},
		"that it left behind":                     {LeftBehind: users},
		"1 users have":                            {Stage: infrav1.RolloutComplete, Failed: users},
		"left behind: ns/a":                       {Stage: infrav1.RolloutComplete, LeftBehind: users},
		"0 of 0 users have revision revision-new": {},
	} {
		assert.Contains(t, r.message(&d), want)
		if d.Reason == "" && d.Stage == "" {
			d.Updating = users
			assert.Empty(t, r.why(&d), "users are updated")
		}
	}
	assert.Empty(t, r.message(&Decision{Stage: infrav1.RolloutComplete}))
}

// Without a revision that was rolled out, none is assigned to a new user.
func TestNoRevisionIsNotAssigned(t *testing.T) {
	user := on("a", "", isNew)
	user.Assigned = "another"
	assert.Empty(t, Next(Facts{Now: now, Target: target, History: History{{Hash: target}}, Users: []User{user}, Policy: staged(func(*infrav1.WorkspaceTemplateRollout) {})}).Assign)
}

// A selector that matches no user matters once users have been previewed.
func TestPreviewsComeBeforeCanaries(t *testing.T) {
	policy := staged(func(p *infrav1.WorkspaceTemplateRollout) {
		p.Preview, p.Canary.Selector = infrav1.RolloutPreviewAlways, selecting()
	})
	facts := Facts{Now: now, Started: now, Target: target, History: history(before), Users: []User{on("a", before)}, Policy: policy}
	d := Next(facts)
	assert.Equal(t, Decision{Stage: infrav1.RolloutPreviewing, Reason: infrav1.RollingOutReason}, Decision{Stage: d.Stage, Reason: d.Reason, Resumable: d.Resumable})
	facts.Users[0].Preview = infrav1.RevisionPreview{TemplateRevision: target, Result: infrav1.PreviewChanges}
	d = Next(facts)
	assert.Equal(t, Decision{Stage: infrav1.RolloutCanary, Reason: infrav1.RolloutWaitingReason, Resumable: true}, Decision{Stage: d.Stage, Reason: d.Reason, Resumable: d.Resumable})
}
