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

package change

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate/crds"
)

// CRDsOptions are the options of crds.
type CRDsOptions struct {
	*cli.Environment
	output           *output.Flag
	backup           string
	dryRun, restore  bool
	removeFinalizers []string
}

// NewCRDs is the command crds.
func NewCRDs(environment *cli.Environment) *cobra.Command {
	o := &CRDsOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "crds",
		Short: "Replace the one definition whose kind has changed, before CRDs are installed",
		Long: `The older CAPT spells the kind CaptControlPlaneTemplate, and this one CAPTControlPlaneTemplate, as
Cluster API's contract asks for. The kind of a definition can not be changed, so this command
exports the objects into a folder, verifies the export, and deletes the definition, with its
objects. That is the only DELETE that captctl ever sends. Such templates have nothing in the
cloud.

Then install this CAPT's CRDs and run the command again, with the same folder: it creates the
objects under their new kind. It finds out by itself how far it has come, and can be interrupted
and repeated at any point. If there is nothing to replace, it says so.

Exit codes: 0 deleted, created, or nothing to do, and the output says what comes next; 2 changes
are pending: it was a dry run, or this CAPT's CRDs are not installed yet; 5 interrupted, run it
again; 6 something is in the way, or a right is missing, and nothing was changed; 1 error.`,
		Example: `  # What would be done?
  captctl migrate crds --backup backup-2026-10-22 --dry-run

  # Export and delete; and after this CAPT's CRDs are installed: create
  captctl migrate crds --backup backup-2026-10-22

  # The way back, once the older definition is installed again
  captctl migrate crds --backup backup-2026-10-22 --restore`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	environment.Access.AddRateFlags(command.Flags())
	flags := command.Flags()
	flags.StringVar(&o.backup, "backup", "", "Folder of the backup; the export is in its folder "+crds.Folder+". Required.")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Change nothing, and write no file.")
	flags.BoolVar(&o.restore, "restore", false, "Only create what is exported and not there, under whichever kind is installed.")
	flags.StringArrayVar(&o.removeFinalizers, "remove-finalizer", nil, "A finalizer that is not CAPT's and may be removed from the objects all the same. May be repeated.")
	cli.CompleteFlag(command, "backup", cli.Folders)
	cli.CompleteFlag(command, "remove-finalizer", cobra.NoFileCompletions)
	return command
}

// Complete has nothing to fill in.
func (o *CRDsOptions) Complete([]string) error { return nil }

// Validate checks the flags.
func (o *CRDsOptions) Validate() error {
	if o.backup == "" {
		return errors.New("--backup is required: say where the export should be")
	}
	return errors.Join(o.output.Validate(), o.Access.ValidateRate())
}

// Run does what is left to do.
func (o *CRDsOptions) Run(ctx context.Context) error {
	config, err := o.Access.Config()
	if err != nil {
		return err
	}
	progress := o.Progress(o.output.Format())
	report, err := o.ReplaceDefinitions(ctx, crds.Options{
		Config: config, Backup: o.backup, DryRun: o.dryRun, Restore: o.restore, RemoveFinalizers: o.removeFinalizers, Clock: o.Clock, Progress: progress,
	})
	progress.Stop()
	if report == nil {
		return err
	}
	printed := o.Printer(o.output.Format()).Document(report, func(p *output.Printer) { view.Definitions(p, report) })
	if err != nil {
		return err
	}
	return printed
}
