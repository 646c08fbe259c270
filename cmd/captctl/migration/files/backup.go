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

// Package files has those commands of captctl migrate that work on files, and need no cluster.
package files

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/backup"
)

// BackupReport says whether a backup is as it was written.
type BackupReport struct {
	metav1.TypeMeta `json:",inline"`
	// Backup is what it is of.
	Backup *backup.About `json:"backup"`
	// Problems are files that are missing, changed or added; none if the backup is as it was written.
	Problems []backup.Problem `json:"problems,omitempty"`
}

// NewBackup is the command backup.
func NewBackup(environment *cli.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "backup",
		Short: "Look after the backup that apply makes",
		Long: `Before captctl migrate apply writes, it makes a backup in the folder of --backup: CAPT's objects,
Clusters and Workspaces with their status, a JSON document a line and a file a kind, with
checksums; and of the Secrets with Terraform's state only the versions.`,
		Example: "  captctl migrate backup verify backup-2026-10-22",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newBackupVerify(environment))
	return command
}

// BackupVerifyOptions are the options of backup verify.
type BackupVerifyOptions struct {
	*cli.Environment
	output *output.Flag

	dir string
}

func newBackupVerify(environment *cli.Environment) *cobra.Command {
	o := &BackupVerifyOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "verify FOLDER",
		Short: "Prove that a backup is as it was written",
		Long: `Compares every file of a backup with its checksum, and finds files that are missing or were added.
The cluster is not asked.

The checksums themselves can be checked, too, without captctl: sha256sum -c SHA256SUMS in the
folder.

Exit codes: 0 the backup is as it was written; 7 it is not; 1 error.`,
		Example: `  captctl migrate backup verify backup-2026-10-22

  # For a program
  captctl migrate backup verify backup-2026-10-22 -o json | jq '.problems'`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: cli.Run(o),
	}
	o.output.Add(command)
	return command
}

// Complete takes the folder.
func (o *BackupVerifyOptions) Complete(args []string) error {
	o.dir = args[0]
	return nil
}

// Validate checks the flags.
func (o *BackupVerifyOptions) Validate() error { return o.output.Validate() }

// Run compares and prints.
func (o *BackupVerifyOptions) Run(context.Context) error {
	about, err := backup.Read(o.dir)
	if err != nil {
		return err
	}
	problems, err := backup.Verify(o.dir)
	if err != nil {
		return err
	}
	report := BackupReport{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "BackupReport"}, Backup: about, Problems: problems}
	if err := o.Printer(o.output.Format()).Document(report, func(p *output.Printer) { view.Backup(p, o.dir, about, problems) }); err != nil {
		return err
	}
	if len(problems) > 0 {
		return migrate.NotVerified.Errorf("the backup in %s is not as it was written: %d files are missing, changed or added", o.dir, len(problems))
	}
	return nil
}
