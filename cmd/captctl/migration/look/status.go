/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package look

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/flags"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
)

// Status is how far migrations have come.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	// Lock is held by a run that is at work, or died a few seconds ago.
	Lock *Lock `json:"lock,omitempty"`
	// Plans that were begun, the one that was asked for or all of them.
	Plans []journal.State `json:"plans"`
}

// Lock is who keeps other runs from writing.
type Lock struct {
	// Holder is the host, the process, and something that no other run has.
	Holder string `json:"holder"`
	// Since is when it took the lock, and Until when the lease runs out unless it is renewed.
	Since metav1.Time `json:"since"`
	Until metav1.Time `json:"until"`
}

// StatusOptions are the options of status.
type StatusOptions struct {
	*cli.Environment
	journal flags.Journal
	output  *output.Flag

	planID string
}

// NewStatus is the command status.
func NewStatus(environment *cli.Environment) *cobra.Command {
	o := &StatusOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "status [PLAN_ID]",
		Short: "Show how far plans have come, and who is at work",
		Long: `Shows the plans that were begun in this cluster, from the journal in it: what was asked for last,
how far that came, and why it ended if it did not end well; and which run has the lock. Nothing is
written.

ADOPTION counts patches, and STORAGE objects: those that are as the command wants them, of all.
Apply wants objects in v1beta2, and rollback the owner references that they had. An OUTCOME of
Partly can be resumed. "under way, or killed" is one of both; the lock tells which.

The exit code is 0 whatever is found.`,
		Example: `  # All plans
  captctl migrate status

  # One of them, for a program
  captctl migrate status 0123456789ab -o json | jq -r '.plans[0].outcome'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.journal.PlanIDs(environment.Access),
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.journal.Add(command, environment.Access)
	return command
}

// Complete takes the ID.
func (o *StatusOptions) Complete(args []string) error {
	if len(args) > 0 {
		o.planID = args[0]
	}
	return nil
}

// Validate checks the flags.
func (o *StatusOptions) Validate() error { return o.output.Validate() }

// Run reads and prints.
func (o *StatusOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	states, err := execute.Status(ctx, reader, o.journal.Namespace, o.planID)
	if err != nil {
		return err
	}
	now := o.Clock.Now()
	holder, err := lock.Held(ctx, reader, o.journal.Namespace, now)
	if err != nil {
		return err
	}
	return o.Printer(o.output.Format()).Document(document(states, holder), func(p *output.Printer) { view.Migrations(p, states, holder, now) })
}

func document(states []journal.State, holder *lock.Holder) Status {
	status := Status{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Status"}, Plans: states}
	if states == nil {
		status.Plans = []journal.State{}
	}
	if holder != nil {
		status.Lock = &Lock{Holder: holder.Identity, Since: metav1.NewTime(holder.Since), Until: metav1.NewTime(holder.Until)}
	}
	return status
}
