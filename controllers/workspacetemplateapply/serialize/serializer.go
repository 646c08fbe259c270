// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package serialize limits how many Workspaces change at the same time: one per group, and a number per second.
package serialize

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
)

// Group is a set of WorkspaceTemplateApplies that are serialized: Terraform creates, changes or destroys the Workspace of one of them at a
// time.
type Group struct{ Namespace, Cluster, Label string }

// GroupOf is the group of an object. Most have none.
func GroupOf(object client.Object) (group Group, ok bool) {
	labels := object.GetLabels()
	group = Group{object.GetNamespace(), labels[clusterv1.ClusterNameLabel], labels[naming.SerializeLabel]}
	return group, group.Cluster != "" && group.Label != ""
}

// Labels of the members of the group.
func (g Group) Labels() client.MatchingLabels {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: g.Cluster, naming.SerializeLabel: g.Label}
}

// QueuedMessage is the message of members that wait. It does not name the active one: each change would be a status write of all others.
func (g Group) QueuedMessage() string {
	return fmt.Sprintf("queued: Terraform changes one WorkspaceTemplateApply of Cluster %s with label %s=%s at a time. "+
		"To list them: kubectl get workspacetemplateapply -n %s -l %s=%s,%s=%s",
		g.Cluster, naming.SerializeLabel, g.Label, g.Namespace, clusterv1.ClusterNameLabel, g.Cluster, naming.SerializeLabel, g.Label)
}

// Serializer records which member of each group is active, from the last reconcile of each. A member that this process has not reconciled
// yet may be active, so after a restart no other one starts before it was reconciled. The zero value is ready. Safe for concurrent use.
type Serializer struct {
	mu      sync.Mutex
	members map[client.ObjectKey]member
	// enqueue requests a reconcile, and does not block; nil before the controller runs.
	enqueue func(client.ObjectKey)
}

type member struct {
	group   Group
	name    string
	created time.Time
	// active is true while Terraform works on the Workspace.
	active bool
	// waiting is true after a refused Acquire.
	waiting bool
}

func newMember(object client.Object, group Group, active bool) member {
	return member{group: group, name: object.GetName(), created: object.GetCreationTimestamp().Time, active: active}
}

// byAge orders the oldest first.
func byAge(a, b member) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) }

// Acquire makes an object the active member of its group, and reports whether it is active: if no member is active and no older one waits, or
// if it was active before. An object that must wait is enqueued when the result may have changed. others lists the other members of the group.
// It is called under the lock, so that a member that acquires concurrently is not missed.
func (s *Serializer) Acquire(object client.Object, group Group, active bool, others func() ([]client.ObjectKey, error)) (bool, error) {
	key := client.ObjectKeyFromObject(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.members[key]
	me := newMember(object, group, active || before.active && before.group == group)
	if !me.active {
		keys, err := others()
		if err != nil {
			return false, err
		}
		me.waiting = slices.ContainsFunc(keys, func(other client.ObjectKey) bool { return s.precedes(other, me) })
		me.active = !me.waiting
	}
	s.update(key, me)
	return me.active, nil
}

// precedes reports whether another member must be served before the one that acquires.
func (s *Serializer) precedes(other client.ObjectKey, me member) bool {
	m, known := s.members[other]
	return !known || m.active || m.waiting && byAge(m, me) < 0
}

// Record records whether a member that does not acquire is active.
func (s *Serializer) Record(object client.Object, group Group, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(client.ObjectKeyFromObject(object), newMember(object, group, active))
}

// update enqueues waiting members when the object may no longer precede them. A member that still waits changes nothing: two of them would
// enqueue each other forever.
func (s *Serializer) update(key client.ObjectKey, now member) {
	before, known := s.members[key]
	if s.members == nil {
		s.members = map[client.ObjectKey]member{}
	}
	s.members[key] = now
	released := !known || before.active || before.waiting && !now.waiting
	if now.active || !released || s.enqueue == nil {
		return
	}
	for _, waiting := range s.queue(now.group) {
		if waiting != key {
			s.enqueue(waiting)
		}
	}
}

// queue lists the waiting members of a group, the oldest first.
func (s *Serializer) queue(group Group) []client.ObjectKey {
	var keys []client.ObjectKey
	for key, m := range s.members {
		if m.waiting && m.group == group {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return byAge(s.members[a], s.members[b]) })
	return keys
}

// Waiting lists the waiting members of a group.
func (s *Serializer) Waiting(group Group) []client.ObjectKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue(group)
}

// Forget removes an object that was deleted or is no longer a member. The event about it enqueues waiting members.
func (s *Serializer) Forget(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, key)
}

// EnqueueWith sets how objects are enqueued.
func (s *Serializer) EnqueueWith(enqueue func(client.ObjectKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue = enqueue
}

// updatesPerSecond limits updates of Workspaces. Each update makes the provider plan, and an edit of a template updates the Workspaces of
// all its users: a user who sees the first failures has time to revert the edit.
const updatesPerSecond = 10

// RateLimiter limits the rate of updates of Workspaces, regardless of their cause. Create it with NewRateLimiter. It is safe for concurrent use.
type RateLimiter struct {
	limiter *rate.Limiter
	mu      sync.Mutex
	waiting map[client.ObjectKey]*rate.Reservation
}

// NewRateLimiter returns a RateLimiter with the default rate.
func NewRateLimiter() *RateLimiter {
	return &RateLimiter{limiter: rate.NewLimiter(updatesPerSecond, 1), waiting: map[client.ObjectKey]*rate.Reservation{}}
}

// Reserve returns how long an object has to wait; zero means that it may update now, and ends its reservation. An object that is
// reconciled early or late keeps its reservation.
func (l *RateLimiter) Reserve(key client.ObjectKey, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	reservation, waiting := l.waiting[key]
	if !waiting {
		reservation = l.limiter.ReserveN(now, 1)
		l.waiting[key] = reservation
	}
	if left := reservation.DelayFrom(now); left > 0 {
		return left
	}
	delete(l.waiting, key)
	return 0
}

// Cancel cancels the reservation of an object that has nothing to update any more.
func (l *RateLimiter) Cancel(key client.ObjectKey, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reservation, waiting := l.waiting[key]; waiting {
		reservation.CancelAt(now)
		delete(l.waiting, key)
	}
}
