// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/installation"
)

type checkOptions struct{ cli.Options }

func newCheck(environment *cli.Environment) *cobra.Command {
	o := &checkOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "check",
		Short: "Check the installation of CAPT, Cluster API and provider-terraform",
		Long: `Checks what CAPT needs in the management cluster: the manager and its rights, the definitions, their
conversion, webhooks with their certificates, policies, the connection to Cluster API,
provider-terraform with its flags, its Pods and its queue, and the ProviderConfigs that Workspaces
use. Each problem has the way out.

The installation is compared with the manifests of this version of captctl. Nothing is written. The
checks read in all namespaces and need the rights of an administrator: a check for which you lack a
right is Unknown, says which one, and does not fail. captctl migrate check is for migrations from
CAPT v0.3, and captctl describe for one Cluster.

Exit codes: 0 no errors; 1 at least one check found an error, or the API server does not answer.`,
		Example: `  captctl check

  # Only what is not OK, for a program
  captctl check -o json | jq '.checks[] | select(.status != "OK")'`,
	}
	o.AddOutput(command)
	return cli.NewConnected(command, o)
}

// Complete leaves out the API server's warnings: reading v1beta1, which is deprecated, is intended.
func (o *checkOptions) Complete(args []string) error {
	o.Access.Warnings = io.Discard
	return o.Options.Complete(args)
}

func (o *checkOptions) Run(ctx context.Context, connected client.WithWatch) error {
	progress := o.Progress()
	report, err := installation.Run(ctx, installation.Options{Client: connected, Version: cli.BuildVersion().Version, Now: o.Clock.Now(), Progress: progress})
	progress.Stop()
	if err != nil {
		return err
	}
	report.TypeMeta = cli.TypeMeta("InstallationReport")
	if err := o.Printer().Document(report, func(p *output.Printer) { showCheck(p, report) }); err != nil {
		return err
	}
	if failed := report.Count(installation.Error); failed > 0 {
		return fmt.Errorf("%d of %s found errors, see above", failed, output.Count(len(report.Checks), "check"))
	}
	return nil
}

func showCheck(p *output.Printer, report *installation.Report) {
	const mostFindings = 10 // How many objects of a check are shown without -o wide.
	styles := map[installation.Status]output.Style{installation.OK: output.Good, installation.Warning: output.Attention, installation.Error: output.Bad, installation.Unknown: output.Attention}
	for _, check := range report.Checks {
		status := fmt.Sprintf("%-8s", check.Status)
		p.Item(status+check.Name+":", p.Paint(styles[check.Status], status)+check.Name+":", "        ", output.Plain, " "+check.Message)
		if check.Status == installation.OK && !p.Wide() {
			continue
		}
		for i, object := range check.Objects {
			if i == mostFindings && !p.Wide() {
				p.Linef("          and %d more; -o wide shows all", len(check.Objects)-i)
				break
			}
			p.Text("          ", output.Plain, output.OneLine(object))
		}
		p.Commands("          ", check.Commands)
	}
	p.Blank()
	p.Text("", output.Plain, fmt.Sprintf("%s with captctl %s: %d OK, %d Warning, %d Error, %d Unknown", output.Count(len(report.Checks), "check"), report.Version,
		report.Count(installation.OK), report.Count(installation.Warning), report.Count(installation.Error), report.Count(installation.Unknown)))
}
