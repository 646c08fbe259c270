// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// DefaultWait is how long a unit may take until the manager has reported every object of it.
const DefaultWait = 5 * time.Minute

// Options say how to apply a plan, or roll it back.
type Options struct {
	Client    client.Client
	Reader    client.Reader // Reader reads from the API server itself.
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

func (o *Options) complete(p *plan.Plan) error {
	if o.Client == nil || o.Reader == nil || o.Namespace == "" || o.Check == nil || o.Gate == nil {
		return errors.New("a client, a reader, a namespace, and functions for check and gate are required")
	}
	o.Concurrency = max(o.Concurrency, 1)
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	o.Progress = cmp.Or[migrate.Progress](o.Progress, migrate.Silent{})
	_, err := o.selected(p)
	return err
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
