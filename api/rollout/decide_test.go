// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

const (
	before = "revision-old"
	target = "revision-new"
)

var now = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// on returns a user that runs a revision and has been Ready for a minute.
func on(name, revision string, changes ...func(*User)) User {
	u := User{
		Key: types.NamespacedName{Namespace: "ns", Name: name}, Created: true, ReadySince: now.Add(-time.Minute),
		Assigned: revision, Written: revision, Applied: revision,
	}
	for _, change := range changes {
		change(&u)
	}
	return u
}

// assigned makes Terraform update a user to the target.
func assigned(u *User) { u.Assigned, u.ReadySince = target, time.Time{} }

// failing makes the update of a user fail.
func failing(u *User) { assigned(u); u.Written, u.Failed = target, target }

// planned gives a user the result of a preview of the target.
func planned(result infrav1.PreviewResult) func(*User) {
	return func(u *User) {
		u.Preview = infrav1.RevisionPreview{TemplateRevision: target, Result: result, Message: "why"}
	}
}

func labeled(u *User) { u.Labels = labels.Set{"canary": "yes"} }
func paused(u *User)  { u.Paused = true }
func held(u *User)    { u.Held = true }
func isNew(u *User) {
	*u = User{Key: u.Key}
}

func history(rolledOut string) History {
	return History{{Hash: target, Number: 2, RolledOut: rolledOut == target}, {Hash: before, Number: 1, RolledOut: rolledOut != ""}}
}

func selecting() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
}

func TestNext(t *testing.T) {
	type policy = infrav1.WorkspaceTemplateRollout
	old := func(names ...string) (users []User) {
		for _, name := range names {
			users = append(users, on(name, before))
		}
		return users
	}
	one := infrav1.RolloutCanaries{Count: 1}
	for name, row := range map[string]struct {
		policy          policy
		users           []User
		approve, resume string
		assign          string // Names of users that get the target, or name=revision.
		stage           infrav1.RolloutStage
		reason          string
		message         string
	}{
		"all follow, five at a time": {
			policy{}, old("a", "b", "c", "d", "e", "f"), "", "", "a b c d e", infrav1.RolloutRemaining, infrav1.RollingOutReason, "0 of 6 users have revision revision-new; updating: ns/a, ns/b"},
		"as many as are free": {
			policy{MaxConcurrent: 2}, []User{on("a", target), on("b", before, assigned), on("c", before), on("d", before)}, "", "",
			"c", infrav1.RolloutRemaining, infrav1.RollingOutReason, "1 of 4 users have revision revision-new; updating: ns/b, ns/c; waiting: ns/d"},
		"one that Terraform updates to another revision counts": {
			policy{MaxConcurrent: 1}, []User{on("a", before), on("b", before, func(u *User) { u.Applied = "older" })}, "", "",
			"b", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"canaries first": {
			policy{Canary: one}, old("a", "b"), "", "", "a", infrav1.RolloutCanary, infrav1.RollingOutReason, "updating: ns/a; waiting: ns/b"},
		"canaries by label; a Cluster without labels is none": {
			policy{Canary: infrav1.RolloutCanaries{Selector: selecting()}}, []User{on("a", before), on("b", before, labeled)}, "", "",
			"b", infrav1.RolloutCanary, infrav1.RollingOutReason, ""},
		"the selector matches none": {
			policy{Canary: infrav1.RolloutCanaries{Selector: selecting()}}, old("a"), "", "",
			"", infrav1.RolloutCanary, infrav1.RolloutWaitingReason, "spec.rollout.canary.selector matches no Cluster"},
		"the selector is invalid": {
			policy{Canary: infrav1.RolloutCanaries{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"-": ""}}}}, old("a"), "", "",
			"", infrav1.RolloutCanary, infrav1.RolloutWaitingReason, "selector is invalid"},
		"a canary is updated": {
			policy{Canary: one}, []User{on("a", before, assigned), on("b", before)}, "", "", "", infrav1.RolloutCanary, infrav1.RollingOutReason, ""},
		"a canary is not Ready": {
			policy{Canary: one}, []User{on("a", target, func(u *User) { u.ReadySince = time.Time{} }), on("b", before)}, "", "",
			"", infrav1.RolloutCanary, infrav1.RollingOutReason, ""},
		"a canary is not Ready for long enough": {
			policy{Canary: infrav1.RolloutCanaries{Count: 1, SoakSeconds: 90}}, []User{on("a", target), on("b", before)}, "", "",
			"", infrav1.RolloutSoaking, infrav1.RollingOutReason, "The canaries must stay Ready until 2026-01-02T03:04:35Z"},
		"it is": {
			policy{Canary: infrav1.RolloutCanaries{Count: 1, SoakSeconds: 60}}, []User{on("a", target), on("b", before)}, "", "",
			"b", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"a failure stops": {
			policy{}, []User{on("a", before, failing), on("b", before)}, "", "",
			"", infrav1.RolloutRemaining, infrav1.RolloutStoppedReason, "failed: ns/a; waiting: ns/b. The rollout stopped because the revision fails"},
		"so does a Workspace that cannot be written": {
			policy{}, []User{on("a", before, assigned, func(u *User) { u.Blocked = true }), on("b", before)}, "", "",
			"", infrav1.RolloutRemaining, infrav1.RolloutStoppedReason, "failed: ns/a"},
		"a failure of another revision does not": {
			policy{}, []User{on("a", before, func(u *User) { u.Failed = before }), on("b", before)}, "", "",
			"a b", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"resumed after a failure": {
			policy{Canary: one}, []User{on("a", before, failing), on("b", before)}, "", target, "b", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"another revision was resumed": {
			policy{}, []User{on("a", before, failing), on("b", before)}, "", before, "", infrav1.RolloutRemaining, infrav1.RolloutStoppedReason, ""},
		"failures are ignored": {
			policy{OnFailure: infrav1.RolloutFailureContinue}, []User{on("a", before, failing), on("b", before)}, "", "",
			"b", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"but not of canaries": {
			policy{OnFailure: infrav1.RolloutFailureContinue, Canary: one}, []User{on("a", before, failing), on("b", before)}, "", "",
			"", infrav1.RolloutCanary, infrav1.RolloutStoppedReason, ""},
		"paused": {
			policy{State: infrav1.RolloutPaused}, old("a"), "", "", "", infrav1.RolloutRemaining, infrav1.RolloutWaitingReason, "The rollout is paused"},
		"not approved": {
			policy{Approval: infrav1.RolloutApprovalAlways}, old("a"), before, "",
			"", infrav1.RolloutWaitingForApproval, infrav1.RolloutWaitingReason, "set the annotation capt.cluster.x-k8s.io/approve to revision-new"},
		"approved": {
			policy{Approval: infrav1.RolloutApprovalAlways}, old("a"), target, "", "a", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"paused users keep their revision": {
			policy{}, []User{on("a", before, paused), on("b", target)}, "", "", "", infrav1.RolloutRemaining, infrav1.RollingOutReason, "Paused users keep their revision until they are unpaused: ns/a"},
		"users with a change of their own are left out": {
			policy{}, []User{on("a", before, held), on("b", target)}, "", "", "", infrav1.RolloutRemaining, infrav1.RollingOutReason, "Users with a change of their own keep their revision until it is applied or reverted: see the conditions of ns/a"},
		"an update that waits with a change of its own is not in progress": {
			policy{MaxConcurrent: 1}, []User{on("a", before, assigned, held), on("b", "older", held, func(u *User) { u.Assigned = before }), on("c", before)}, "", "",
			"c", infrav1.RolloutRemaining, infrav1.RollingOutReason, "0 of 3 users have revision revision-new; updating: ns/c; waiting: ns/a, ns/b"},
		"and the message names it": {
			policy{}, []User{on("a", before, assigned, held), on("b", target)}, "", "", "", infrav1.RolloutRemaining, infrav1.RollingOutReason, "see the conditions of ns/a"},
		"a change during an update of Terraform does not end it": {
			policy{MaxConcurrent: 1}, []User{on("a", before, assigned, held, func(u *User) { u.Written = target }), on("b", before)}, "", "",
			"", infrav1.RolloutRemaining, infrav1.RollingOutReason, "updating: ns/a"},
		"a user that returns from another template keeps what its Workspace has": {
			policy{State: infrav1.RolloutPaused}, []User{on("a", before, func(u *User) { u.Assigned = "of another template" })}, "", "", "a=" + before, infrav1.RolloutRemaining, infrav1.RolloutWaitingReason, ""},
		"complete": {
			policy{Approval: infrav1.RolloutApprovalAlways}, []User{on("a", target)}, "", "", "", infrav1.RolloutComplete, infrav1.RolledOutReason, ""},
		"complete without users":            {policy{}, nil, "", "", "", infrav1.RolloutComplete, infrav1.RolledOutReason, ""},
		"without users, but not approved":   {policy{Approval: infrav1.RolloutApprovalAlways}, nil, "", "", "", infrav1.RolloutWaitingForApproval, infrav1.RolloutWaitingReason, ""},
		"new users get what was rolled out": {policy{}, []User{on("a", before, assigned), on("b", "", isNew)}, "", "", "b=" + before, infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"a user that is created with the target takes no part": {
			policy{MaxConcurrent: 1}, []User{on("a", before, assigned, func(u *User) { u.Applied = "" }), on("b", before)}, "", "",
			"b", infrav1.RolloutRemaining, infrav1.RollingOutReason, "0 of 1 users have"},
		"a user without an assignment keeps its revision": {
			policy{State: infrav1.RolloutPaused}, []User{on("a", before, func(u *User) { u.Assigned = "" })}, "", "", "a=" + before, infrav1.RolloutRemaining, infrav1.RolloutWaitingReason, ""},
		"also one that is not stored, until it is updated": {
			policy{MaxConcurrent: 1}, []User{on("a", "gone", func(u *User) { u.Assigned = "" }), on("b", "gone")}, "", "",
			"a", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"one that has the target is not updated": {
			policy{Approval: infrav1.RolloutApprovalAlways}, []User{on("a", target, func(u *User) { u.Assigned = "" })}, "", "",
			"a=" + target, infrav1.RolloutComplete, infrav1.RolledOutReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Next(Facts{Now: now, Policy: row.policy, Target: target, History: history(before), Approve: row.approve, Resume: row.resume, Users: row.users})
			var got []string
			for _, a := range d.Assign {
				assignment := a.User.Name + "=" + a.Revision
				got = append(got, strings.TrimSuffix(assignment, "="+target))
			}
			assert.Equal(t, strings.TrimSuffix(row.assign, "="+target), strings.Join(got, " "))
			assert.Equal(t, row.stage, d.Stage)
			assert.Equal(t, row.reason, d.Reason)
			assert.Contains(t, d.Message, row.message)
		})
	}
}

// New users and later failures do not start a rollout again.
func TestARolloutThatWasCompletedStaysComplete(t *testing.T) {
	facts := Facts{Now: now, Target: target, History: history(target), Approve: "", Policy: infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}}
	facts.Users = []User{on("a", target), on("b", target, failing), on("c", target, assigned, func(u *User) { u.Applied = "" }), on("d", "", isNew)}
	d := Next(facts)
	assert.Equal(t, infrav1.RolloutComplete, d.Stage)
	assert.Equal(t, []Assignment{{facts.Users[3].Key, target}}, d.Assign)
	assert.Equal(t, "1 of 2 users have revision revision-new; failed: ns/b", d.Message)
}

// Terraform, users and the template change at random, and decisions are made from stale facts now and then. No user is updated too early.
func TestNoUserIsUpdatedTooEarly(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		fleet := newFleet(random)
		for range 60 {
			fleet.step(t, seed)
		}
	}
}

type fleet struct {
	*rand.Rand
	Facts
	before []User
	// plans are the results of the previews, which become known later.
	plans []infrav1.PreviewResult
}

// isEmpty reports whether Terraform would change nothing for a user, as a preview shows.
func (f *fleet) isEmpty(index int) bool {
	return f.Policy.IsPreviewed() && f.plans[index] == infrav1.PreviewEmpty
}

func newFleet(random *rand.Rand) *fleet {
	f := &fleet{Rand: random, Facts: Facts{Now: now, Target: target, History: history(before)}}
	f.Policy = infrav1.WorkspaceTemplateRollout{MaxConcurrent: int32(1 + random.IntN(3)), Canary: infrav1.RolloutCanaries{Count: int32(random.IntN(3)), SoakSeconds: 90}}
	if random.IntN(2) == 0 {
		f.Policy.Approval = infrav1.RolloutApprovalAlways
	}
	if random.IntN(2) == 0 {
		f.Policy.Strategy, f.Policy.Preview = infrav1.RolloutStaged, infrav1.RolloutPreviewAlways
		if random.IntN(2) == 0 {
			f.Policy.Approval = infrav1.RolloutApprovalOnChanges
		}
	}
	for i := range 1 + random.IntN(8) {
		f.Users = append(f.Users, on(fmt.Sprint("user-", i), before))
		f.plans = append(f.plans, []infrav1.PreviewResult{infrav1.PreviewEmpty, infrav1.PreviewChanges, infrav1.PreviewChanges}[random.IntN(3)])
	}
	f.before = append(f.before, f.Users...)
	return f
}

// step decides once, from current or stale facts, and lets time pass.
func (f *fleet) step(t *testing.T, seed uint64) {
	t.Helper()
	seen := f.Facts
	if f.IntN(3) == 0 {
		seen.Users = f.before
	}
	d := Next(seen)
	f.before = append([]User(nil), f.Users...)
	inProgress := 0
	for _, a := range d.Assign {
		for i := range f.Users {
			if u := &f.Users[i]; u.Key == a.User && u.Assigned != a.Revision {
				assigned(u)
				f.check(t, seed, i)
			}
		}
	}
	for i := range f.Users {
		u := &f.Users[i]
		if f.Policy.IsPreviewed() && f.IntN(3) == 0 {
			planned(f.plans[i])(u)
		}
		if u.State(target) != UserUpdating {
			continue
		}
		if !f.isEmpty(i) {
			inProgress++
		}
		switch f.IntN(6) {
		case 0, 1:
			u.Written, u.Applied, u.ReadySince = target, target, f.Now
		case 2:
			if f.IntN(6) == 0 {
				failing(u)
			}
		}
	}
	require.LessOrEqual(t, inProgress, f.Policy.ConcurrencyLimit(), "seed %d", seed)
	f.Now = f.Now.Add(30 * time.Second)
	if f.IntN(5) == 0 {
		f.Approve = target
	}
}

// check is called when a user gets the target.
func (f *fleet) check(t *testing.T, seed uint64, index int) {
	t.Helper()
	require.True(t, f.Policy.Approval != infrav1.RolloutApprovalAlways || f.Approve == target, "seed %d: not approved", seed)
	if f.isEmpty(index) {
		return
	}
	require.True(t, f.Policy.Approval != infrav1.RolloutApprovalOnChanges || f.Approve == target, "seed %d: changes are not approved", seed)
	var canaries []int
	for i := range f.Users {
		require.True(t, !f.Policy.IsPreviewed() || f.Users[i].Preview.Result != "", "seed %d: not all users are previewed", seed)
		if !f.isEmpty(i) && len(canaries) < int(f.Policy.Canary.Count) {
			canaries = append(canaries, i)
		}
	}
	for _, i := range canaries {
		if !slices.Contains(canaries, index) {
			canary := f.Users[i]
			require.Equal(t, UserCurrent, canary.State(target), "seed %d: a canary does not have the revision", seed)
			require.GreaterOrEqual(t, f.Now.Sub(canary.ReadySince), 90*time.Second, "seed %d: too early", seed)
		}
	}
}

func TestTheUsersAreNamedButNotAllOfThem(t *testing.T) {
	assert.Equal(t, "a, b", Names([]string{"a", "b"}))
	assert.Equal(t, "a, b, c, d, e", Names([]string{"a", "b", "c", "d", "e"}))
	assert.Equal(t, "a, b, c, d, e and 2 more", Names([]string{"a", "b", "c", "d", "e", "f", "g"}))
}

// Assignments that no stage decides about: users that have the revision, are new, or whose Workspace is not known yet.
func TestUsersWithoutAStage(t *testing.T) {
	abbreviated := func(u *User) { u.Abbreviated = true }
	refuses := func(u *User) { u.Refused = []string{before} }
	unrecorded := func(u *User) { u.Unrecorded, u.Assigned = true, "" }
	for name, row := range map[string]struct {
		user User
		want string // The revision that is assigned; empty if none is.
	}{
		"an abbreviated revision":              {on("a", target, abbreviated), target},
		"an abbreviated revision, refused":     {on("a", target, abbreviated, func(u *User) { u.Refused = []string{target} }), ""},
		"an abbreviated revision, paused":      {on("a", target, abbreviated, paused), ""},
		"new":                                  {on("a", "", isNew), before},
		"new, with the revision":               {on("a", "", isNew, func(u *User) { u.Assigned = before }), ""},
		"new, paused":                          {on("a", "", isNew, paused), ""},
		"new, but the API server rejects it":   {on("a", "", isNew, refuses), ""},
		"not known whether it has a Workspace": {on("a", "", isNew, unrecorded), ""},
	} {
		d := Next(Facts{Now: now, Target: target, History: history(before), Users: []User{row.user}, Policy: infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}})
		if row.want == "" {
			assert.Empty(t, d.Assign, name)
			continue
		}
		assert.Equal(t, []Assignment{{User: row.user.Key, Revision: row.want}}, d.Assign, name)
	}
}

// Status has the time when the rollout started only if status is about this revision.
func TestTheStartOfARollout(t *testing.T) {
	template, stored := stored(t, "one", "two")
	revision, number := HashOf(template), stored.Find(HashOf(template)).Number
	started := metav1.NewTime(now)
	for name, row := range map[string]struct {
		status infrav1.WorkspaceTemplateRolloutStatus
		want   time.Time
	}{
		"this revision":    {infrav1.WorkspaceTemplateRolloutStatus{Revision: revision, Number: number, StartTime: &started}, now},
		"another revision": {infrav1.WorkspaceTemplateRolloutStatus{Revision: "another", Number: number, StartTime: &started}, time.Time{}},
		"it came back":     {infrav1.WorkspaceTemplateRolloutStatus{Revision: revision, Number: number - 1, StartTime: &started}, time.Time{}},
		"no time":          {infrav1.WorkspaceTemplateRolloutStatus{Revision: revision, Number: number}, time.Time{}},
	} {
		template.Status.Rollout = row.status
		assert.Equal(t, row.want, FactsOf(template, infrav1.WorkspaceTemplateRollout{}, stored, nil, now).Started, name)
	}
	template.Status.Rollout = infrav1.WorkspaceTemplateRolloutStatus{Revision: revision, Number: number, StartTime: &started}
	assert.Zero(t, FactsOf(template, infrav1.WorkspaceTemplateRollout{}, nil, nil, now).Started, "the revision is not stored")
}
