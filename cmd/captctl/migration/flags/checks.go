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
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/preflight"
)

// defaultQuiet is longer than the older CAPT takes between two writes to a cluster that it is busy with.
const defaultQuiet = time.Minute

// Checks are what preflight needs to know.
type Checks struct {
	Journal
	olderManagers []string
	quiet         time.Duration

	managers []types.NamespacedName
}

// Add adds the flags to a command.
func (c *Checks) Add(command *cobra.Command, environment *cli.Environment) {
	c.Journal.Add(command, environment.Access)
	flags := command.Flags()
	flags.StringArrayVar(&c.olderManagers, "older-manager", nil, "NAMESPACE/NAME of a Deployment that runs the older CAPT, if it can not be recognised by itself. May be repeated.")
	flags.DurationVar(&c.quiet, "quiet", defaultQuiet, "For how long the older CAPT must not have written anything.")
	cli.CompleteFlag(command, "older-manager", cobra.NoFileCompletions)
}

// Validate checks the flags.
func (c *Checks) Validate() error {
	if c.Namespace == "" {
		return errors.New("--journal-namespace must not be empty")
	}
	if c.quiet <= 0 {
		return errors.New("--quiet must be more than 0, for example 1m")
	}
	c.managers = nil
	for _, manager := range c.olderManagers {
		name, err := namespacedName(manager)
		if err != nil {
			return fmt.Errorf("--older-manager %q: %w", manager, err)
		}
		c.managers = append(c.managers, name)
	}
	return nil
}

// Options of preflight, for the phases of a migration.
func (c *Checks) Options(environment *cli.Environment, progress migrate.Progress, phases ...preflight.Phase) (preflight.Options, error) {
	config, err := environment.Access.Config()
	if err != nil {
		return preflight.Options{}, err
	}
	return preflight.Options{
		Config: config, Phases: phases, JournalNamespace: c.Namespace, OlderManagers: c.managers, Quiet: c.quiet, Clock: environment.Clock,
		Progress: progress,
	}, nil
}

// MayBegin is nil if nothing stands in the way of a run. That another run has the lock is not asked here: the lock itself tells, and waits
// for one that died.
func (c *Checks) MayBegin(ctx context.Context, environment *cli.Environment, phases ...preflight.Phase) error {
	if err := c.MayBeginAlone(ctx, environment, phases...); migrate.OutcomeOf(err) != migrate.Locked {
		return err
	}
	return nil
}

// MayBeginAlone is nil if nothing stands in the way of what takes no lock, and must not be done beside a run.
func (c *Checks) MayBeginAlone(ctx context.Context, environment *cli.Environment, phases ...preflight.Phase) error {
	options, err := c.Options(environment, migrate.Silent{}, phases...)
	if err != nil {
		return err
	}
	_, err = environment.Preflight(ctx, options)
	return err
}
