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

package flags

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/preflight"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/verify"
)

// DefaultWorkers keep an API server busy without being a burden.
const DefaultWorkers = 4

// renewWithin is how long a renewal of the lock may wait for its turn.
const renewWithin = lock.DefaultDuration / 3

// none and server are the values of --dry-run.
const none, server = "none", "server"

// Run are the flags of commands that write a plan, or take it back.
type Run struct {
	Checks
	backup, journalDir string
	canary             string
	workers            int
	maxFailures        int
	dryRun             string
	lease              time.Duration
}

// Add adds the flags that all of them have.
func (r *Run) Add(command *cobra.Command, environment *cli.Environment) {
	r.Checks.Add(command, environment)
	environment.Access.AddRateFlags(command.Flags())
	flags := command.Flags()
	flags.StringVar(&r.journalDir, "journal-dir", "", "Folder for the journal on this host (default $XDG_STATE_HOME/captctl, or ~/.local/state/captctl).")
	flags.IntVar(&r.workers, "workers", DefaultWorkers, "How many owners or objects are written at a time.")
	flags.StringVar(&r.dryRun, "dry-run", none, `"server" sends every write and asks the API server to keep none; nothing else is written either.`)
	flags.Lookup("dry-run").NoOptDefVal = server
	// For tests, which kill runs by the hundred and wait for each lease.
	flags.DurationVar(&r.lease, "lease-duration", lock.DefaultDuration, "For how long a run that died keeps others waiting.")
	flags.Lookup("lease-duration").Hidden = true
	cli.CompleteFlag(command, "journal-dir", cli.Folders)
	cli.CompleteFlag(command, "dry-run", cobra.FixedCompletions([]cobra.Completion{none, server}, cobra.ShellCompDirectiveNoFileComp))
}

// AddForward adds those of commands that carry a plan out.
func (r *Run) AddForward(command *cobra.Command, environment *cli.Environment) {
	flags := command.Flags()
	flags.StringVar(&r.backup, "backup", "", "Folder for the backup. It must be empty or not there, or hold the backup for this plan.")
	flags.StringVar(&r.canary, "canary", "", "NAMESPACE/NAME of an owner or a Cluster that is adopted and verified before all others.")
	flags.IntVar(&r.maxFailures, "max-failures", 0, "How many steps and objects may fail before no more are begun.")
	cli.CompleteFlag(command, "backup", cli.Folders)
	cli.CompleteFlag(command, "canary", environment.Access.CompleteClusters())
}

// Validate checks the flags.
func (r *Run) Validate(environment *cli.Environment) error {
	switch {
	case r.workers < 1:
		return errors.New("--workers must be at least 1")
	case r.lease < time.Second:
		return errors.New("--lease-duration must be at least 1s")
	case r.maxFailures < 0:
		return errors.New("--max-failures must not be negative")
	case r.dryRun == "client":
		return errors.New("--dry-run=client is captctl migrate show; use that, or --dry-run=server")
	case r.dryRun != none && r.dryRun != server:
		return fmt.Errorf("--dry-run is none or server, not %q", r.dryRun)
	}
	if r.canary != "" {
		if _, err := namespacedName(r.canary); err != nil {
			return fmt.Errorf("--canary %q: %w", r.canary, err)
		}
	}
	if err := environment.Access.ValidateRate(); err != nil {
		return err
	}
	return errors.Join(r.Checks.Validate(), r.validateWorkers(environment.Access.QPS))
}

// validateWorkers refuses so many that the lock could be lost: a renewal waits for its turn behind one request of each.
func (r *Run) validateWorkers(qps float32) error {
	if most := int(float64(qps) * renewWithin.Seconds()); r.workers > most {
		return fmt.Errorf("%d workers and --qps %g do not go together: the lock could not be renewed in time. Give a higher --qps, or at most %d --workers", r.workers, qps, most)
	}
	return nil
}

// Execution has everything that a run needs.
func (r *Run) Execution(environment *cli.Environment, progress migrate.Progress, phases ...preflight.Phase) (execute.Options, error) {
	connected, err := environment.Access.Client()
	if err != nil {
		return execute.Options{}, err
	}
	checks, err := r.Options(environment, migrate.Silent{}, phases...)
	if err != nil {
		return execute.Options{}, err
	}
	dir := r.journalDir
	if dir == "" {
		if dir, err = journal.DefaultDir(); err != nil {
			return execute.Options{}, fmt.Errorf("%w; say where the journal should be with --journal-dir", err)
		}
	}
	return execute.Options{
		Client: connected, Namespace: r.Namespace, BackupDir: r.backup, JournalDir: dir, Canary: r.canary, MaxFailures: r.maxFailures,
		Workers: r.workers, DryRun: r.dryRun == server, LeaseDuration: r.lease, Clock: environment.Clock, Progress: progress,
		Preflight:        func(ctx context.Context) error { return r.MayBegin(ctx, environment, phases...) },
		OlderManagerRuns: func(ctx context.Context) (string, error) { return environment.OlderManagerRuns(ctx, checks) },
		NewRewriter:      func(c client.Client) execute.Rewriter { return storage.NewRewriter(c) },
		Verify: func(ctx context.Context, part *migrate.Plan) error {
			return verify.Prove(ctx, connected, part, verify.Options{})
		},
	}, nil
}
