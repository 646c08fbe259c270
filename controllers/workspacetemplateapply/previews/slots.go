// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package previews

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MaxPreviews is how many previews there are at the same time: each occupies a worker of provider-terraform. Only the leader runs previews. The limit
// counts those of all managers in the cache, so that shards with --watch-filter share it; if two create one at the same moment, it can be exceeded.
const MaxPreviews = 5

const (
	// slotTimeout is how long a preview counts. Its object ends it before, after previewTimeout. An object that is no longer reconciled, for example
	// because a user excluded it from this manager, must not keep its slot.
	slotTimeout = previewTimeout + time.Minute
	// keptTimeout is how long a free slot is kept for the object that was enqueued for it. After that, the next one gets it.
	keptTimeout = time.Minute
	// slotInterval is how often one object of those that wait tries to get a slot without an event: another manager may have ended a preview, or the
	// object that was enqueued may not be reconciled any more.
	slotInterval = 30 * time.Second
	// fullInterval is how long the result holds that previews of other managers leave no slot.
	fullInterval = 5 * time.Second
)

// Slots limits the number of previews. A free slot goes to the namespace and the template that have the fewest, so that neither can keep the others
// waiting. The zero value is ready. Safe for concurrent use.
type Slots struct {
	mu    sync.Mutex
	taken map[client.ObjectKey]slot
	// waiting are in the order of arrival, apart from what is fair.
	waiting map[client.ObjectKey]*waiter
	// served has the number of the last slot of each namespace and of each template.
	served map[share]int
	number int
	// fullUntil is until when previews of other managers leave no slot, without another list.
	fullUntil time.Time
	// enqueue requests a reconcile, and does not block; nil before the controller runs.
	enqueue func(client.ObjectKey)
}

// share is what slots are divided between: a namespace, or a template by its namespace/name.
type share struct{ namespace, template string }

type slot struct {
	template string
	until    time.Time
	// exchanged is how often the preview of a revision was replaced by its other form, and last the UID of the last one.
	exchanged int
	revision  string
	last      types.UID
}

type waiter struct {
	template string
	// requested is true if a user requested the plan, or if it is a check: it waits for all others.
	requested bool
	arrival   int
	// keptUntil is until when a slot is kept for it; zero if it was not enqueued.
	keptUntil time.Time
}

// EnqueueWith sets how objects are enqueued.
func (s *Slots) EnqueueWith(enqueue func(client.ObjectKey)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue = enqueue
}

// Take returns zero if an object may have a preview of a template, and otherwise when to try again. An object that waits is enqueued when it gets a
// slot. others lists the objects with a preview in the cache, also of other managers and of before a restart. It is called under the lock, so that none
// is missed, and only if this manager has a free slot.
func (s *Slots) Take(key client.ObjectKey, template string, now time.Time, others func() ([]client.ObjectKey, error)) (time.Duration, error) {
	return s.take(key, waiter{template: template}, now, others)
}

// TakeRequested is Take for a plan that a user requested, or a check: previews that CAPT needs come first.
func (s *Slots) TakeRequested(key client.ObjectKey, template string, now time.Time, others func() ([]client.ObjectKey, error)) (time.Duration, error) {
	return s.take(key, waiter{template: template, requested: true}, now, others)
}

func (s *Slots) take(key client.ObjectKey, as waiter, now time.Time, others func() ([]client.ObjectKey, error)) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	if _, has := s.taken[key]; has {
		return 0, nil
	}
	s.wait(key, as)
	if len(s.taken) >= MaxPreviews || now.Before(s.fullUntil) {
		return s.interval(), nil
	}
	free, exists, err := s.free(key, others)
	switch {
	case err != nil:
		return 0, err
	case exists:
		s.hold(key, as.template, now)
		return 0, nil
	case free <= 0:
		s.fullUntil, s.waiting[key].keptUntil = now.Add(fullInterval), time.Time{}
		return s.interval(), nil
	}
	if w := s.waiting[key]; !now.Before(w.keptUntil) { // It comes late.
		w.keptUntil = time.Time{}
	}
	if s.serve(free, now, key); s.waiting[key].keptUntil.IsZero() {
		return s.interval(), nil
	}
	s.hold(key, as.template, now)
	return 0, nil
}

// free returns how many slots are free, and whether the object has one from before a restart.
func (s *Slots) free(key client.ObjectKey, others func() ([]client.ObjectKey, error)) (free int, exists bool, err error) {
	list, err := others()
	used := map[client.ObjectKey]bool{}
	for _, other := range list {
		used[other] = true
	}
	exists = used[key]
	for other := range s.taken {
		used[other] = true
	}
	return MaxPreviews - len(used), exists, err
}

// wait adds an object to those that wait.
func (s *Slots) wait(key client.ObjectKey, as waiter) {
	if w := s.waiting[key]; w != nil && w.template == as.template && w.requested == as.requested {
		return
	}
	if s.waiting == nil {
		s.waiting = map[client.ObjectKey]*waiter{}
	}
	s.number++
	as.arrival = s.number
	s.waiting[key] = &as
}

// interval returns when an object that waits tries again. It grows with their number, so that they try one after the other.
func (s *Slots) interval() time.Duration {
	return slotInterval * time.Duration(1+len(s.waiting)/MaxPreviews)
}

// expire removes slots whose objects did not end their preview.
func (s *Slots) expire(now time.Time) {
	for key, slot := range s.taken {
		if !now.Before(slot.until) {
			delete(s.taken, key)
		}
	}
}

// serve enqueues the objects that get the free slots, unless they are being reconciled. An object that did not come in time is skipped; its next
// reconcile adds it again.
func (s *Slots) serve(free int, now time.Time, reconciled client.ObjectKey) {
	load := map[share]int{}
	for key, slot := range s.taken {
		load[share{namespace: key.Namespace}]++
		load[share{template: slot.template}]++
	}
	for key, w := range s.waiting {
		switch {
		case w.keptUntil.IsZero():
			continue
		case !now.Before(w.keptUntil):
			delete(s.waiting, key)
			continue
		}
		free--
		load[share{namespace: key.Namespace}]++
		load[share{template: w.template}]++
	}
	for ; free > 0; free-- {
		key, w := s.next(load)
		if w == nil {
			return
		}
		w.keptUntil = now.Add(keptTimeout)
		load[share{namespace: key.Namespace}]++
		load[share{template: w.template}]++
		if s.enqueue != nil && key != reconciled {
			s.enqueue(key)
		}
	}
}

// next returns the object that gets the next slot: one whose plan no user requested, of the namespace and the template with the fewest previews, and of those the ones that waited longest.
func (s *Slots) next(load map[share]int) (best client.ObjectKey, w *waiter) {
	var rank [5]int
	for key, other := range s.waiting {
		namespace, template := share{namespace: key.Namespace}, share{template: other.template}
		last := 0
		if other.requested {
			last = 1
		}
		of := [5]int{last, load[namespace] + load[template], s.served[namespace], s.served[template], other.arrival}
		if other.keptUntil.IsZero() && (w == nil || slices.Compare(of[:], rank[:]) < 0) {
			best, w, rank = key, other, of
		}
	}
	return best, w
}

// Hold is called for an object with a preview, which may be from before a restart.
func (s *Slots) Hold(key client.ObjectKey, template string, created, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, has := s.taken[key]; !has {
		s.hold(key, template, created)
		s.expire(now)
	}
}

func (s *Slots) hold(key client.ObjectKey, template string, since time.Time) {
	if s.taken == nil {
		s.taken, s.served = map[client.ObjectKey]slot{}, map[share]int{}
	}
	s.number++
	s.taken[key] = slot{template: template, until: since.Add(slotTimeout)}
	s.served[share{namespace: key.Namespace}], s.served[share{template: template}] = s.number, s.number
	delete(s.waiting, key)
	if len(s.waiting) == 0 && len(s.served) > 2*MaxPreviews {
		clear(s.served) // Their number is not limited.
	}
}

// Exchange is called after a preview of a revision was deleted, to be created in its other form.
func (s *Slots) Exchange(key client.ObjectKey, revision string, preview types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken, has := s.taken[key]
	switch {
	case !has, taken.last == preview: // The cache was stale.
		return
	case taken.revision != revision:
		taken.exchanged, taken.revision = 0, revision
	}
	taken.exchanged++
	taken.last = preview
	s.taken[key] = taken
}

// Exchanged returns how often the preview of a revision was replaced by its other form.
func (s *Slots) Exchanged(key client.ObjectKey, revision string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken := s.taken[key]; taken.revision == revision {
		return taken.exchanged
	}
	return 0
}

// Count returns how many objects have a preview, and how many wait for a slot.
func (s *Slots) Count() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken), len(s.waiting)
}

// Release is called for an object without a preview that needs none.
func (s *Slots) Release(key client.ObjectKey, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had := s.taken[key]
	w := s.waiting[key]
	delete(s.taken, key)
	delete(s.waiting, key)
	if had || w != nil && !w.keptUntil.IsZero() {
		s.expire(now)
		s.serve(MaxPreviews-len(s.taken), now, key)
	}
}
