// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Event is something that a user does, or a fault, at a step of a schedule.
type Event struct {
	At   int
	Name string
	// N determines the details.
	N uint64
}

// Schedule is what happens in one run. The seed determines the order of everything else.
type Schedule struct {
	Seed uint64
	// Base is the world in which it starts.
	Base   int
	Events []Event
}

// String prints the steps of a schedule, as ParseEvents reads them.
func (s Schedule) String() string {
	steps := make([]string, len(s.Events))
	for i, event := range s.Events {
		steps[i] = fmt.Sprintf("%d %s %d", event.At, event.Name, event.N)
	}
	return strings.Join(steps, "; ")
}

// ParseEvents reads the steps of a schedule.
func ParseEvents(text string) (events []Event, err error) {
	for step := range strings.SplitSeq(text, ";") {
		fields := strings.Fields(step)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%q must be a step, a name and a number", step)
		}
		event := Event{Name: strings.Join(fields[1:len(fields)-1], " ")}
		if event.At, err = strconv.Atoi(fields[0]); err != nil {
			return nil, err
		}
		if event.N, err = strconv.ParseUint(fields[len(fields)-1], 10, 64); err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

// NewSchedule returns the schedule of a seed.
func NewSchedule(seed uint64) Schedule {
	rng := rand.New(rand.NewPCG(seed, 2)) // It must be reproducible.
	s, length := Schedule{Seed: seed}, 200
	if rng.IntN(100) < 25 {
		s.Events = []Event{{At: 0, Name: "create", N: rng.Uint64() >> 1}}
	} else {
		s.Base, length = 1+rng.IntN(len(baseEvents)-1), 100
	}
	of, common := theme{sortedKeys(userActions), slices.Concat(requestFaults, providerFaults(), sortedKeys(worldFaults))}, rng.Uint64()>>1
	if rng.IntN(100) < 60 { // Actions that belong together, on the same objects.
		chosen := themes[rng.IntN(len(themes))]
		of.users = chosen.users
		if len(chosen.faults) > 0 && rng.IntN(3) > 0 {
			of.faults = chosen.faults
		}
	} else {
		common = 0
	}
	users, inOrder := len(s.Events), rng.IntN(2) == 0
	for range rng.IntN(6) {
		n := rng.Uint64() >> 1
		if common != 0 {
			n = common&^(7<<3) | n&(7<<3)
		}
		s.Events = append(s.Events, Event{At: rng.IntN(length), Name: of.users[rng.IntN(len(of.users))], N: n})
	}
	if actions := s.Events[users:]; common != 0 && inOrder { // As the theme lists them.
		at, names := make([]int, len(actions)), make([]string, len(actions))
		for i, action := range actions {
			at[i], names[i] = action.At, action.Name
		}
		slices.Sort(at)
		slices.SortStableFunc(names, func(a, b string) int { return slices.Index(of.users, a) - slices.Index(of.users, b) })
		for i := range actions {
			actions[i].At, actions[i].Name = at[i], names[i]
		}
	}
	for range rng.IntN(7) {
		s.Events = append(s.Events, Event{At: rng.IntN(length), Name: of.faults[rng.IntN(len(of.faults))], N: rng.Uint64() >> 1})
	}
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return s
}

// theme is what happens in a schedule: actions that depend on each other, and faults that matter for them; any if there are none.
type theme struct{ users, faults []string }

var themes = []theme{
	{users: []string{"stage template", "edit template", "approve", "edit template"}},
	{users: []string{"edit template", "revert template", "edit template", "revert template", "stage template"}},
	{users: []string{"break template", "repair template", "edit template", "upgrade"}},
	{users: []string{"delete", "create", "pause", "unpause", "tenant"}},
	{users: []string{"tenant", "create", "tenant", "delete apply"}},
	{users: []string{"pause", "upgrade", "edit variables", "edit template", "scale"}},
	{users: []string{"remove profiles", "delete pool", "scale", "delete apply", "delete secret", "edit variables"}},
	{users: []string{"edit template", "delete apply", "delete", "upgrade", "edit variables"}, faults: []string{"leader at apply", "leader and delete at apply", "leader and delete at get", "leader and edit at apply", "leader", "pause at apply"}},
	{users: []string{"create", "delete workspace", "delete", "edit template"}, faults: []string{"leader and delete at read before create", "leader and delete at apply", "leader at get"}},
	{users: []string{"create", "edit template", "upgrade"}, faults: []string{"unavailable at patch status", "lost reply at patch status", "refused", "unavailable"}},
	{users: []string{"delete apply", "delete", "delete workspace", "create"}, faults: []string{"lag", "lag of Workspaces", "lag and delete at create", "relist", "crash after", "kill manager"}},
}

func providerFaults() []string {
	return []string{"provider: crash before", "provider: crash after", "provider: conflict", "provider: lost reply"}
}

func (w *World) happen(event Event) {
	w.tracef("%s", event.Name)
	name, ofProvider := strings.CutPrefix(event.Name, "provider: ")
	switch {
	case userActions[name] != nil:
		userActions[name](w, event.N)
	case worldFaults[name] != nil:
		worldFaults[name](w, event.N)
	case ofProvider:
		w.armedProvider = append(w.armedProvider, name)
	default:
		w.armed = append(w.armed, name)
	}
}

const (
	// maxSteps is more than any schedule needs; more are a loop.
	maxSteps = 6000
	// rounds of an operator after the faults, and how long each takes.
	rounds        = 10
	roundDuration = 20 * time.Minute
	// quiet is for how long nothing is written at the end: the provider polls.
	quiet = pollInterval + time.Minute
)

func never() bool { return false }

// Result of a schedule.
type Result struct {
	// Violation is the broken invariant; empty if there is none.
	Violation string
	Trace     string
	Steps     int
}

// Run runs a schedule.
func Run(t *testing.T, s Schedule, traced bool) (result Result) {
	from := bases[s.Base](t)
	synctest.Test(t, func(*testing.T) {
		w := newWorld(s.Seed, from, traced)
		defer w.stop()
		w.start()
		w.play(s.Events)
		if w.violation == "" {
			w.settle()
		}
		result = Result{Violation: w.violation, Steps: w.steps}
		if traced {
			result.Trace = w.trace.String()
		}
	})
	return result
}

// play runs the steps of a schedule until all its events have happened.
func (w *World) play(events []Event) {
	for len(events) > 0 && w.violation == "" {
		if events[0].At <= w.steps {
			event := events[0]
			events = events[1:]
			w.happen(event)
			continue
		}
		if w.step() {
			continue
		}
		w.checkAwake()
		// Nothing can happen: time passes, or the next event comes.
		next := w.nextTimer()
		if next.IsZero() || time.Until(next) > 30*time.Minute || w.rng.IntN(3) == 0 {
			w.steps = events[0].At
			continue
		}
		time.Sleep(time.Until(next))
	}
}

// pass lets virtual time pass, with everything that happens meanwhile, until nothing can happen and it is enough.
func (w *World) pass(duration time.Duration, enough func() bool) {
	until := time.Now().Add(duration)
	for w.violation == "" {
		if w.steps > maxSteps {
			w.failf("liveness: no end after %d steps", w.steps)
			return
		}
		if w.step() {
			continue
		}
		w.checkAwake()
		if enough() {
			return
		}
		next := w.nextTimer()
		if next.IsZero() || next.After(until) {
			time.Sleep(time.Until(until))
			return
		}
		time.Sleep(time.Until(next))
	}
}

// settle ends all faults, and expects the end state, and then that nothing is written.
func (w *World) settle() {
	w.armed, w.armedProvider, w.hooksDown = nil, nil, 0
	w.cloud.refuse = map[string][]string{}
	w.tracef("the faults end")
	missing := "not tried"
	for round := 0; round < rounds && missing != "" && w.violation == ""; round++ {
		if round > 0 {
			w.tracef("an operator acts: %s", missing)
			w.operate()
		}
		w.pass(roundDuration, func() bool { return w.goal() == "" && !w.deletes() })
		missing = w.goal()
	}
	if missing != "" {
		w.failf("liveness: %s", missing)
	}
	for range 6 {
		before := w.store.version
		w.pass(quiet, never)
		if w.store.version == before || w.waits() || w.violation != "" {
			if missing := w.goal(); missing != "" {
				w.failf("liveness: %s, after it was reached", missing)
			}
			return
		}
		w.operate() // An object that waits for a user may fail until then.
	}
	w.failf("quiet: objects are still written")
}

// Shrink returns the shortest schedule that it finds with a violation of the same class.
func Shrink(t *testing.T, s Schedule, violation string) Schedule {
	class := classOf(violation)
	fails := func(events []Event) bool {
		return classOf(Run(t, Schedule{s.Seed, s.Base, events}, false).Violation) == class
	}
	for size := max(len(s.Events)/2, 1); ; size = max(size/2, 1) {
		removed := false
		for start := 0; start < len(s.Events); {
			shorter := slices.Delete(slices.Clone(s.Events), start, min(start+size, len(s.Events)))
			if fails(shorter) {
				s.Events, removed = shorter, true
			} else {
				start += size
			}
		}
		if size == 1 && !removed {
			return s
		}
	}
}

var names = regexp.MustCompile(`team-[ab]/?[a-z0-9-]*|one|two|three|four|[0-9]+`)

// classOf is a violation without the names of objects.
func classOf(violation string) string {
	class := names.ReplaceAllString(violation, "")
	return class[:min(len(class), 70)]
}
