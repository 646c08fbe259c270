// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package local plans the Workspaces of a Cluster with Terraform on this machine. Unlike the log of provider-terraform, Terraform's own text has
// values. The package builds the directory in which Terraform runs as provider-terraform does, and has no code that applies.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// Help is what users must know before they run it.
const Help = `With --local, runs terraform plan on this machine for each Workspace of a Cluster, as it is in the
management cluster, and prints Terraform's own text, which has values. Values that the module marks
as sensitive are hidden.

It needs tofu or terraform, access to the state, and the right to read the Workspaces, their
ProviderConfig, and the ConfigMaps and Secrets from which they take variables. With another version
of Terraform or of a provider than provider-terraform has (Terraform ` + modules.BundledTerraform + `), the plan may differ.

Terraform uses the credentials of your environment, for example AWS_PROFILE; the files that the
ProviderConfig has for credentials are empty. With --provider-credentials, captctl reads these files
from their Secrets. A state that is in a Secret of the management cluster (backend kubernetes with
in_cluster_config) is read with your kubeconfig.

Nothing is applied, and the state is neither locked nor changed: captctl runs init, workspace select
and plan -lock=false, and creates no Terraform workspace. The directory with the module, values and
credentials is removed at the end, also after an interruption. Planning runs code of the module and
of its providers on this machine, with your credentials: plan only templates that you trust.`

// Example has commands for the help.
const Example = `  # With values, and your own credentials
  captctl plan team-a/demo --local
  captctl plan team-a/demo --local --role controlplane --provider-credentials`

// Options of a local plan.
type Options struct {
	role, apply         string
	providerCredentials bool
	program             string
}

// AddFlags adds their flags.
func (o *Options) AddFlags(command *cobra.Command) {
	var roles []cobra.Completion
	for _, role := range overview.Roles() {
		roles = append(roles, string(role))
	}
	flags := command.Flags()
	flags.StringVar(&o.role, "role", "", "With --local: plan only what has this role in the Cluster: vpc, controlplane, fargate, machinepool or addon.")
	flags.StringVar(&o.apply, "workspacetemplateapply", "", "With --local: plan only the Workspace of the WorkspaceTemplateApply of this name.")
	flags.BoolVar(&o.providerCredentials, "provider-credentials", false, "With --local: use the credentials of the ProviderConfig, from its Secrets.")
	flags.StringVar(&o.program, "terraform", "", "With --local: path of tofu or terraform. The default is the first of them on PATH.")
	cli.CompleteFlag(command, "role", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(command, "workspacetemplateapply", cobra.NoFileCompletions)
}

// Unused is the error of a command without --local that has flags which need it.
func (o *Options) Unused() error {
	if *o != (Options{}) {
		return errors.New("--role, --workspacetemplateapply, --provider-credentials and --terraform are for --local")
	}
	return nil
}

// Validate checks the flags.
func (o *Options) Validate() error {
	if o.role != "" && !slices.Contains(overview.Roles(), overview.Role(o.role)) {
		return fmt.Errorf("--role must be one of %v, not %q", overview.Roles(), o.role)
	}
	return nil
}

// Run plans the Workspaces of a Cluster, and returns in how many of them Terraform would change something. An error of one does not keep it from
// planning the others.
func (o *Options) Run(ctx context.Context, environment *cli.Environment, reader client.Reader, objects *overview.Objects) (changed int, err error) {
	// Further signals, or an output that is closed, must not end the process before the directory is removed.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	program, err := cli.FindTerraform(ctx, o.program)
	if err == nil && program == nil {
		err = errors.New("neither tofu nor terraform is on PATH: install one of them, or set --terraform")
	}
	selected := o.selected(objects)
	if err == nil && len(selected) == 0 {
		err = fmt.Errorf("the Cluster %s has no such WorkspaceTemplateApply; captctl describe lists them", objects.Cluster.Name)
	}
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, apply := range selected {
		p := &plan{Options: o, Environment: environment, reader: reader, program: program}
		p.colored = !environment.NoColor && printers.AllowsColorOutput(environment.Out)
		title := fmt.Sprintf("WorkspaceTemplateApply %s (%s)", apply.Name, objects.RoleOf(apply))
		output.NewPrinter(environment.Out, output.Table, environment.NoColor).Text("", output.Strong, "# "+title)
		differs, err := p.run(ctx, apply)
		switch {
		case err != nil && ctx.Err() != nil:
			return changed, err
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", title, err))
		case differs:
			changed++
		}
	}
	return changed, errors.Join(failed...)
}

func (o *Options) selected(objects *overview.Objects) (found []*infrav1.WorkspaceTemplateApply) {
	for _, apply := range objects.Applies {
		if (o.role == "" || string(objects.RoleOf(apply)) == o.role) && (o.apply == "" || apply.Name == o.apply) {
			found = append(found, apply)
		}
	}
	return found
}
