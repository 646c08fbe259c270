// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package apply applies plans and rolls them back, one unit after the other, while the manager runs. The plan lists the fields to write; a live
// field that has the planned value is not written again. A run that was killed is resumed by running it again, from any host.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
)

// shutdownTimeout is how long a run that was interrupted may take to write its last state.
const shutdownTimeout = 10 * time.Second

// run is one call of Apply or Rollback.
type run struct {
	Options
	plan          *plan.Plan
	reads         client.Reader // reads retries each request.
	writes        *lock.Writer  // writes sends every write. It fails once the Lease is lost; in a dry run, the API server keeps nothing.
	journal       *journalWriter
	otherPlans    []Journal // The journals of other plans.
	mutex         sync.Mutex
	results       map[string]*UnitResult
	halted        bool        // Set when a Workspace changed: no other unit is started.
	unplannable   int         // How many units were reverted because no plan is possible: like a failure, most likely for all units.
	donePhase     Phase       // The phase of a unit for which nothing is left to do.
	managerSilent atomic.Bool // Set when the manager did not report a unit that was rolled back: no other one waits for it.
}

// work does one unit and returns what it did. An error means that the unit failed.
type work func(ctx context.Context, unit *plan.Unit, result *UnitResult) error

// Apply writes a plan, or what is missing of it after an interruption. The outcome of the error is NeedsDecision if the plan does not adopt some
// units, and Partly if units failed that are written in part or after others.
func Apply(ctx context.Context, p *plan.Plan, o Options) (*Result, error) {
	r := newRun(p, o)
	units, left, err := r.selectAdoptable()
	if err != nil {
		return nil, err
	}
	r.donePhase = PhaseApplied
	result, err := r.runUnits(ctx, map[bool]string{false: "Applying", true: "Proving and applying"}[r.Prove], units, r.writeBackup, r.apply)
	if result == nil || len(left) == 0 {
		return result, err
	}
	result.Units = append(result.Units, left...)
	slices.SortFunc(result.Units, func(a, b UnitResult) int { return strings.Compare(a.Unit, b.Unit) })
	return result, cmp.Or(err, undecidedError(left))
}

// Rollback reverts what a plan wrote. What was changed since is left: the outcome of the error is Partly in the run that finds it. The unit is
// rolled back nevertheless: another rollback has nothing to write, reports the same and succeeds.
func Rollback(ctx context.Context, p *plan.Plan, o Options) (*Result, error) {
	r := newRun(p, o)
	units, err := r.selected(p)
	if err != nil {
		return nil, err
	}
	r.donePhase, r.FixClusterEndpoints = PhaseRolledBack, true // What was written of Clusters is reverted.
	return r.runUnits(ctx, "Rolling back", units, r.requireJournal, r.rollBack)
}

func newRun(p *plan.Plan, o Options) *run {
	o.Concurrency = max(o.Concurrency, 1)
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	o.Progress = cmp.Or[migrate.Progress](o.Progress, migrate.Silent{})
	r := &run{Options: o, plan: p, reads: migrate.RetryingReader(o.Client), results: map[string]*UnitResult{}}
	r.journal = &journalWriter{reader: r.reads, namespace: o.Namespace, clock: o.Clock}
	return r
}

func (o *Options) selected(p *plan.Plan) (units []*plan.Unit, err error) {
	units, missing := p.Select(o.Units)
	if len(missing) > 0 {
		return nil, fmt.Errorf("plan %s does not contain %s: name Clusters as NAMESPACE/NAME; \"captctl migrate show\" lists them", p.ID, strings.Join(missing, ", "))
	}
	return units, nil
}

// selectAdoptable returns the selected units that the plan adopts, and the results of the others. One of these that the user named is an error.
func (r *run) selectAdoptable() (units []*plan.Unit, left []UnitResult, err error) {
	selected, err := r.selected(r.plan)
	if err != nil {
		return nil, nil, err
	}
	for _, unit := range selected {
		if unit.State == plan.Adoptable || unit.State == plan.Adopted {
			units = append(units, unit)
			continue
		}
		result := UnitResult{Unit: unit.Name(), Outcome: LeftOut, State: unit.State, Message: "there is nothing to adopt"}
		findings := r.plan.FindingsOf(unit)
		if i := slices.IndexFunc(findings, migrate.Finding.Undecided); i >= 0 {
			result.Message = findings[i].Reason + ": " + findings[i].Message
		}
		left = append(left, result)
	}
	if len(r.Units) > 0 && len(left) > 0 {
		return nil, nil, cmp.Or(undecidedError(left), fmt.Errorf("plan %s does not adopt %s, which is %s: %s", r.plan.ID, left[0].Unit, left[0].State, left[0].Message))
	}
	return units, left, nil
}

// undecidedError is the error for units that the plan does not adopt before the user decides; nil if there is none.
func undecidedError(left []UnitResult) error {
	left = slices.DeleteFunc(slices.Clone(left), func(result UnitResult) bool {
		return result.State != plan.NeedsDecision && result.State != plan.Blocked
	})
	if len(left) == 0 {
		return nil
	}
	return migrate.NeedsDecision.Errorf("the plan does not adopt %d units; the first: %s is %s: %s. Decide, or remove what blocks it, and create a new plan",
		len(left), left[0].Unit, left[0].State, left[0].Message)
}

// runUnits takes the lock and works on units. begin comes right before the journal is written; in a dry run it writes nothing.
func (r *run) runUnits(ctx context.Context, phase string, units []*plan.Unit, begin func(context.Context) error, work work) (*Result, error) {
	if err := r.requireSameCluster(ctx); err != nil {
		return nil, err
	}
	if err := r.Check(ctx); err != nil {
		return nil, err
	}
	if len(units) == 0 {
		return r.result(ctx, nil)
	}
	identity := lock.Identity()
	if r.DryRun {
		r.writes = lock.NewWriter(client.NewDryRunClient(r.Client), func() error { return nil }, r.FixClusterEndpoints)
	} else {
		held, working, err := lock.Acquire(ctx, lock.Options{
			Client: r.Client, Namespace: r.Namespace, Identity: identity, Duration: r.LeaseDuration,
			Waiting: func(other lock.Holder) {
				r.Progress.Phase(fmt.Sprintf("Waiting for the Lease of %s", other), 0)
			},
		})
		if err != nil {
			return nil, err
		}
		defer func() {
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			held.Release(release)
		}()
		ctx, r.writes = working, lock.NewWriter(r.Client, held.Check, r.FixClusterEndpoints)
		r.journal.writes = r.writes
	}
	if err := r.readJournals(ctx); err != nil {
		return nil, err
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	if !r.DryRun {
		r.journal.state.Run = identity
		if err := r.journal.save(ctx); err != nil {
			return nil, err
		}
	}
	return r.workOnUnits(ctx, phase, units, work)
}

func (r *run) requireSameCluster(ctx context.Context) error {
	uid, err := migrate.ClusterUID(ctx, r.reads)
	if err != nil || uid == r.plan.ClusterUID {
		return err
	}
	return fmt.Errorf("plan %s was created for another management cluster: the UID of its namespace %s is %s, here it is %s. Nothing was written; check --context",
		r.plan.ID, metav1.NamespaceSystem, r.plan.ClusterUID, uid)
}

func (r *run) readJournals(ctx context.Context) error {
	states, err := Journals(ctx, r.reads, r.Namespace)
	if err != nil {
		return err
	}
	r.journal.state = Journal{
		PlanID: r.plan.ID, Checksum: r.plan.Checksum, ClusterUID: r.plan.ClusterUID, Decisions: r.plan.Decisions, Started: metav1.NewTime(r.Clock.Now()),
	}
	for i := range states {
		switch {
		case states[i].PlanID != r.plan.ID:
			r.otherPlans = append(r.otherPlans, states[i])
		case states[i].Checksum != r.plan.Checksum:
			return fmt.Errorf("another plan with ID %s was applied in this cluster: its checksum is %s, not %s. Use the plan file that was applied, or create a new plan", r.plan.ID, states[i].Checksum, r.plan.Checksum)
		default:
			r.journal.state = states[i]
		}
	}
	return nil
}

// writeBackup writes the backup and then the plan, before the first write of an object.
func (r *run) writeBackup(ctx context.Context) (err error) {
	if r.DryRun {
		return nil
	}
	if r.journal.state.Backup, err = r.Backup(ctx, r.journal.state.Backup); err != nil {
		return err
	}
	if r.journal.state.Parts > 0 {
		return nil
	}
	return r.journal.storePlan(ctx, r.plan)
}

// requireJournal fails for a plan without a journal: "nothing to roll back" would be wrong if its journal is elsewhere.
func (r *run) requireJournal(context.Context) error {
	if r.journal.state.Parts > 0 {
		return nil
	}
	return fmt.Errorf("plan %s has no journal in namespace %s: it was never applied here, or was applied with another --journal-namespace", r.plan.ID, r.Namespace)
}

func (r *run) workOnUnits(ctx context.Context, phase string, units []*plan.Unit, work work) (*Result, error) {
	r.Progress.Phase(phase, len(units))
	var workers errgroup.Group
	workers.SetLimit(r.Concurrency)
	for _, unit := range units {
		workers.Go(func() error {
			if ctx.Err() == nil && r.mayStart() && r.workOnUnit(ctx, unit, work) != Interrupted {
				r.Progress.Add(1)
			}
			return nil
		})
	}
	_ = workers.Wait() // Each failure is in its result.
	return r.result(ctx, units)
}

func (r *run) workOnUnit(ctx context.Context, unit *plan.Unit, work work) UnitOutcome {
	result := &UnitResult{Unit: unit.Name()}
	err := work(ctx, unit, result)
	if err != nil {
		result.Outcome, result.Message = Failed, err.Error()
		if isInterrupted(ctx) && errors.Is(err, context.Cause(ctx)) {
			result.Outcome = Interrupted
			if r.journal.unit(unit.Name()).Phase == "" {
				result.Message = "interrupted before it was written"
			}
		}
		if !r.DryRun {
			record, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			defer cancel()
			if paused := r.leftPaused(record, unit); paused != "" {
				result.Message += ". " + paused
			}
			if recording := r.journal.setPhase(record, unit.Name(), r.journal.unit(unit.Name()).Phase, result.Message); recording != nil {
				result.Message = errors.Join(errors.New(result.Message), recording).Error()
			}
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	changed := (*workspaceError)(nil)
	r.halted = r.halted || errors.As(err, &changed)
	r.results[unit.Name()] = result
	return result.Outcome
}

// mayStart reports whether another unit may be started: not after too many failures, or after a Workspace changed.
func (r *run) mayStart() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	failures := r.unplannable
	for _, result := range r.results {
		if result.Outcome == Failed {
			failures++
		}
	}
	return failures <= r.MaxFailures && !r.halted
}

func (r *run) result(ctx context.Context, units []*plan.Unit) (*Result, error) {
	result := &Result{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Result"}, PlanID: r.plan.ID, DryRun: r.DryRun, Backup: r.journal.state.Backup}
	for _, unit := range units {
		of, recorded := r.results[unit.Name()], r.journal.unit(unit.Name())
		if of == nil {
			of = &UnitResult{Unit: unit.Name(), Outcome: NotStarted}
			if recorded.Phase == r.donePhase {
				of.Outcome = Unchanged // By an earlier run.
			}
		}
		of.Begun = recorded.active()
		result.Units = append(result.Units, *of)
	}
	return result, r.runError(ctx, result.Units)
}

// isInterrupted reports whether the user ended the run. If the Lease was lost, it failed.
func isInterrupted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.Canceled) }

// summary counts units by outcome. first is the first unit that was not completed, whose result has the message.
func summary(units []UnitResult) (number map[UnitOutcome]int, first string, kept []string) {
	number = map[UnitOutcome]int{}
	for i := range units {
		number[units[i].Outcome]++
		if is := units[i].Outcome; is == Failed || is == Interrupted {
			first = cmp.Or(first, units[i].Unit)
		} else if len(units[i].Kept) > 0 {
			kept = append(kept, units[i].Unit+": "+strings.Join(units[i].Kept, "; "))
		}
	}
	return number, first, kept
}

// runError returns the error of a run; nil if all units are complete and no field was kept.
func (r *run) runError(ctx context.Context, units []UnitResult) error {
	number, first, kept := summary(units)
	outcome := migrate.Failed
	if slices.ContainsFunc(units, func(unit UnitResult) bool { return r.journal.unit(unit.Unit).Phase != "" }) {
		outcome = migrate.Partly // Something is written.
	}
	again, failed, left := "Run the same command again to resume", number[Failed]+number[Interrupted], number[NotStarted]
	switch {
	case failed == 0 && number[NotProven] > 0 && ctx.Err() == nil:
		if outcome = migrate.Partly; left == 0 {
			outcome = migrate.NeedsDecision
		}
		return outcome.Errorf("%d of %d not adopted, because no plan shows that Terraform would change nothing, %d not started", number[NotProven], len(units), left)
	case failed+left == 0 && len(kept) > 0:
		return migrate.Partly.Errorf("%d units keep fields that were changed since the plan wrote them: %s", len(kept), strings.Join(kept, "; "))
	case failed+left == 0:
		return nil
	case isInterrupted(ctx):
		return migrate.Partly.Errorf("interrupted: %d of %d done, %d ended early (%s), %d not started. %s", len(units)-failed-left, len(units), failed, cmp.Or(first, "none"), left, again)
	case ctx.Err() != nil: // Another run may write now, so that nothing can be said about what is written.
		return migrate.Partly.Errorf("%w. %d of %d failed, %d not started. %s", context.Cause(ctx), failed, len(units), left, again)
	case outcome == migrate.Failed:
		again = "Nothing was written"
	}
	return outcome.Errorf("%d of %d failed, %d not started; the first: %s. %s", failed, len(units), left, first, again)
}

// DefaultWait is how long a unit may take until the manager has reported every object of it.
const DefaultWait = 5 * time.Minute

// Options say how to apply a plan, or roll it back.
type Options struct {
	Client    client.Client // Client reads from the API server itself.
	Namespace string        // Namespace of the Lease and the journal.
	// Units are the names of the units to work on; all of the plan if it is empty. Apply rejects one that the plan does not adopt.
	Units       []string
	Concurrency int // How many units are in progress at the same time.
	// MaxFailures is how many units may fail before no other is started. None is started after a Workspace was found changed.
	MaxFailures         int
	FixClusterEndpoints bool          // FixClusterEndpoints also writes spec.controlPlaneEndpoint of Clusters.
	Prove               bool          // Prove adopts a unit only if the manager reports an empty plan for each of its Workspaces.
	DryRun              bool          // DryRun sends every write to the API server, which keeps none of them. Nothing else is written.
	Wait                time.Duration // How long to wait for the manager, per unit.
	LeaseDuration       time.Duration // How long a run that was killed keeps others waiting.
	Clock               clock.Clock
	Progress            migrate.Progress
	// Backup writes the backup of a plan before the first write, or verifies the one that an earlier run wrote. A rollback needs none.
	Backup func(ctx context.Context, previous *Backup) (*Backup, error)
	// Check runs before the first write of a run. Its error lists everything that prevents the run, such as missing rights.
	Check func(ctx context.Context) error
	// Gate verifies again, right before the first write of a unit, that the manager would not change its Workspaces.
	Gate func(ctx context.Context, unit *plan.Unit) error
}

// UnitOutcome is what a run did with a unit.
type UnitOutcome string

// Outcomes of units.
const (
	Applied    UnitOutcome = "Applied"    // By this run.
	RolledBack UnitOutcome = "RolledBack" // By this run.
	Unchanged  UnitOutcome = "Unchanged"  // There was nothing to write.
	LeftOut    UnitOutcome = "LeftOut"    // The plan has no steps for the unit, or another run has decided about it since; the message says why.
	Failed     UnitOutcome = "Failed"     // The message says why. The unit may be written in part.
	NotStarted UnitOutcome = "NotStarted" // The run ended before.
	NotProven  UnitOutcome = "NotProven"  // Terraform would change something, or its plan fails: the unit is not adopted, and what was written is reverted.
	// Interrupted: the run ended while it worked on the unit, which may be written in part. The message says how it is left.
	Interrupted UnitOutcome = "Interrupted"
)

// UnitResult is one unit after a run.
type UnitResult struct {
	Unit    string         `json:"unit"`
	Outcome UnitOutcome    `json:"outcome"`
	State   plan.UnitState `json:"state,omitempty"` // State of the unit in the plan, if it was left out.
	Writes  int            `json:"writes"`          // Writes is how many objects this run wrote, with those whose answer was lost.
	Begun   bool           `json:"-"`               // Begun is true if this run or an earlier one began to write the unit, and it was not rolled back since.
	// Kept are the objects with fields that the run left as they are, because these were changed since the plan wrote them.
	Kept    []string `json:"kept,omitempty"`
	Left    []string `json:"left,omitempty"`    // Left are the objects that the plan created, after a rollback. They are not deleted.
	Message string   `json:"message,omitempty"` // Message says why the unit failed or was left out, or what the user should know.
}

// Result is what a run did.
type Result struct {
	metav1.TypeMeta `json:",inline"`
	PlanID          string       `json:"planID"`
	DryRun          bool         `json:"dryRun,omitempty"`
	Units           []UnitResult `json:"units"`
	Backup          *Backup      `json:"backup,omitempty"`
}
