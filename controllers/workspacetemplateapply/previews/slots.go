// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package previews

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxPreviews is how many previews there are at the same time: each occupies a worker of provider-terraform. Only the leader runs previews. The limit
// counts those of all managers in the cache, so that shards with --watch-filter share it; if two create one at the same moment, it can be exceeded.
const MaxPreviews = 5

// Slots limits the number of previews. The zero value is ready. Safe for concurrent use.
type Slots struct {
	mu      sync.Mutex
	taken   map[client.ObjectKey]bool
	waiting []client.ObjectKey
	// enqueue requests a reconcile, and does not block; nil before the controller runs.
	enqueue func(client.ObjectKey)
}

// EnqueueWith sets how objects are enqueued.
func (s *Slots) EnqueueWith(enqueue func(client.ObjectKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue = enqueue
}

// Take reports whether an object may have a preview. existing lists those that have one, which may be from before a restart: it is called under
// the lock, so that none is missed. An object that must wait is enqueued when a slot is free.
func (s *Slots) Take(key client.ObjectKey, existing func() ([]client.ObjectKey, error)) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[key] {
		return true, nil
	}
	others, err := existing()
	if err != nil {
		return false, err
	}
	used := map[client.ObjectKey]bool{}
	for _, other := range others {
		used[other] = true
	}
	for other := range s.taken {
		used[other] = true
	}
	if len(used) >= MaxPreviews && !used[key] {
		if !slices.Contains(s.waiting, key) {
			s.waiting = append(s.waiting, key)
		}
		return false, nil
	}
	s.hold(key)
	return true, nil
}

// Hold is called for an object with a preview, which may be from before a restart.
func (s *Slots) Hold(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold(key)
}

func (s *Slots) hold(key client.ObjectKey) {
	if s.taken == nil {
		s.taken = map[client.ObjectKey]bool{}
	}
	s.taken[key] = true
	s.stopWaiting(key)
}

// Count returns how many objects have a preview, and how many wait for a slot.
func (s *Slots) Count() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken), len(s.waiting)
}

// Release is called for an object without a preview that needs none.
func (s *Slots) Release(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, key)
	s.stopWaiting(key)
	if len(s.taken) < MaxPreviews && len(s.waiting) > 0 && s.enqueue != nil {
		next := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.enqueue(next)
	}
}

func (s *Slots) stopWaiting(key client.ObjectKey) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other client.ObjectKey) bool { return other == key })
}
