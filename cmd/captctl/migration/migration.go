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

// Package migration is captctl migrate.
package migration

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/change"
	"github.com/capt-provider/capt/cmd/captctl/migration/files"
	"github.com/capt-provider/capt/cmd/captctl/migration/look"
	"github.com/capt-provider/capt/migrate"
)

// exitCodes are what people read about outcomes.
var exitCodes = []struct {
	outcome migrate.Outcome
	text    string
}{
	{migrate.Done, "done, or nothing to do"},
	{migrate.Failed, "an error; the message says what to do"},
	{migrate.Pending, "there are changes to make"},
	{migrate.NeedsDecision, "something is ambiguous or blocked, and a person has to decide"},
	{migrate.Stale, "the cluster is no longer as it was when the plan was made; nothing was written: make a new plan"},
	{migrate.Partly, "partly done: captctl migrate resume goes on, captctl migrate rollback goes back"},
	{migrate.NotPermitted, "preflight failed or a right is missing; nothing was written"},
	{migrate.NotVerified, "an invariant does not hold: captctl migrate verify says which"},
	{migrate.Locked, "another run is under way; nothing was written"},
}

const description = `Takes over a fleet that the older CAPT (v1beta1) built: without one Terraform run, one new
Workspace, or one changed cloud resource. Up to captctl migrate finalize, all of it can be taken
back.

In a real migration the commands come in this order; docs/migration.md is the runbook:
  1. Freeze the old manager: scale its Deployment to 0.
  2. captctl migrate crds       removes the one old definition whose kind has changed, after
                                exporting its objects
  3. Install this CAPT's CRDs, and its manager with --webhooks-only.
  4. captctl migrate inspect    what is there, and what is claimed by whom
     captctl migrate preflight  can it be done?
     captctl migrate plan       what is to be written; captctl migrate show prints it
     captctl migrate apply      writes it, after a backup; captctl migrate status, resume and
                                rollback tell, go on, and go back
     captctl migrate verify     did anything change that must not?
  5. captctl migrate finalize   the point of no return: v1beta1 is given up as a stored version
  6. Start the manager with its controllers.
captctl convert converts the manifests in Git, before or after.

captctl reads no Secrets, and writes neither Workspaces nor Secrets.

Exit codes, of all commands:
`

// New is the command migrate, with all below it.
func New(environment *cli.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Adopt a fleet that the older CAPT built, without touching a cloud resource",
		Long:  description + codes(),
		Example: `  # What is there?
  captctl migrate inspect

  # Plan, look at the plan, carry it out, and prove that nothing else changed
  captctl migrate plan --out plan.json
  captctl migrate show plan.json --diff
  captctl migrate apply plan.json --backup backup-2026-10-22
  captctl migrate verify plan.json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(
		look.NewInspect(environment),
		look.NewPreflight(environment),
		change.NewCRDs(environment),
		look.NewPlan(environment),
		look.NewShow(environment),
		change.NewApply(environment),
		look.NewStatus(environment),
		change.NewResume(environment),
		change.NewRollback(environment),
		look.NewVerify(environment),
		change.NewFinalize(environment),
		files.NewBackup(environment),
	)
	return command
}

func codes() string {
	var b strings.Builder
	for _, code := range exitCodes {
		fmt.Fprintf(&b, "  %d  %s\n", code.outcome, code.text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
