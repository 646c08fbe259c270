// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package command is the root command of captctl, with all others.
package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/diff"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/migration"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planning"
	"github.com/capt-provider/capt/cmd/captctl/takeover"
	"github.com/capt-provider/capt/cmd/captctl/template"
	"github.com/capt-provider/capt/cmd/captctl/validate"
	"github.com/capt-provider/capt/migrate/installation"
)

const (
	// name of the program.
	name = "captctl"
	// plugin is its name as a plugin of kubectl, completer the name of the program that completes the plugin.
	plugin, completer = "kubectl-capt", "kubectl_complete-capt"
)

// New returns captctl, or the plugin of kubectl, depending on the name of the program. The arguments are those after it.
func New(program string, arguments []string, streams genericiooptions.IOStreams) *cobra.Command {
	root := newRoot(cli.NewEnvironment(streams))
	switch base := strings.TrimSuffix(filepath.Base(program), ".exe"); base {
	case plugin, completer:
		callAs(root, "kubectl capt")
		if base == completer {
			arguments = append([]string{cobra.ShellCompRequestCmd}, arguments...)
		}
	}
	root.SetArgs(arguments)
	return root
}

// usage is cobra's template with lines of at most 100 columns. Only the root lists the flags of kubectl.
const usage = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" describes a command.{{end}}{{if .HasAvailableInheritedFlags}}

"{{.Root.CommandPath}} --help" lists the flags of all commands, for example --context and --namespace.{{end}}
`

func newRoot(environment *cli.Environment) *cobra.Command {
	root := cli.NewGroup(environment, &cobra.Command{
		Use:   name,
		Short: "Manage CAPT clusters",
		Long: `captctl manages the clusters of CAPT, the Cluster API provider that creates Amazon EKS clusters with
Terraform.

It uses the kubeconfig and the connection flags of kubectl. Installed as kubectl-capt it is a
plugin: kubectl capt.`,
		Example: `  # Which Clusters are there, and in which state?
  captctl get

  # Why is a Cluster not Ready?
  captctl describe team-a/demo

  # What would an edited template change in which Cluster?
  captctl diff -f templates/eks.yaml

  # Check manifests without a cluster
  captctl validate -f manifests/ -R

  # Does everything work that CAPT needs?
  captctl check

  # What would a migration from CAPT v0.3 do?
  captctl migrate check

  # Convert manifests from v1beta1 to v1beta2
  captctl convert -f manifests/ -R --write

  # Show the version
  captctl version`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	},
		fleet.NewGet, fleet.NewDescribe, fleet.NewTree, fleet.NewReport, fleet.NewLogs, fleet.NewPause, fleet.NewResume, fleet.NewRetry, fleet.NewReconcile, fleet.NewRun, fleet.NewWait, fleet.NewKubeconfig,
		newCheck, planning.New, diff.New, validate.New, template.New, takeover.New, takeover.NewBackup, takeover.NewRestore, takeover.NewEvacuate, migration.New, migration.NewConvert, newVersion,
	)
	root.SetIn(environment.In)
	root.SetOut(environment.Out)
	root.SetErr(environment.ErrOut)
	root.SetUsageTemplate(usage)
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help shows the flags", err, command.CommandPath())
	})
	addFlags(root, environment)
	completeCompletion(root)
	explainArguments(root)
	return root
}

// explainArguments adds the usage, or a suggestion, to errors about arguments.
func explainArguments(command *cobra.Command) {
	for _, below := range command.Commands() {
		explainArguments(below)
	}
	takes := command.Args
	if takes == nil {
		return
	}
	command.SuggestionsMinimumDistance = 2
	command.Args = func(command *cobra.Command, args []string) error {
		err := takes(command, args)
		switch {
		case err == nil:
			return nil
		case !command.HasSubCommands():
			return fmt.Errorf("wrong arguments: the usage is %q; %s --help shows examples", command.UseLine(), command.CommandPath())
		}
		if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
			return fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))
		}
		return fmt.Errorf("%w; %s --help lists the commands", err, command.CommandPath())
	}
}

func addFlags(root *cobra.Command, environment *cli.Environment) {
	flags := root.PersistentFlags()
	environment.Access.AddFlags(flags)
	flags.BoolVar(&environment.NoColor, "no-color", false, "Print without color, as with the environment variable NO_COLOR or in a pipe.")
	logs := flag.NewFlagSet(name, flag.ContinueOnError)
	klog.InitFlags(logs)
	flags.AddGoFlag(logs.Lookup("v"))
	flags.Lookup("v").Usage = "Log level; 6 shows each request to the API server."
	flags.Lookup("cache-dir").DefValue = "$HOME/.kube/cache" // Help is the same on all machines.
	cli.CompleteFlag(root, "namespace", environment.Access.CompleteNamespaces())
	cli.CompleteFlag(root, "context", environment.Access.CompleteContexts)
}

type versionOptions struct{ cli.Options }

func newVersion(environment *cli.Environment) *cobra.Command {
	o := &versionOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version of captctl",
		Long: `Shows the version of captctl, the commit that it was built from, and the version of the plans that
it writes and reads. It does not connect to a cluster.`,
		Example: `  captctl version
  captctl version -o json`,
	}
	o.AddOutput(command)
	return cli.New(command, o)
}

func (o *versionOptions) Run(context.Context) error {
	v := cli.BuildVersion()
	return o.Printer().Document(v, func(p *output.Printer) {
		p.Linef("captctl %s (%s, %s)", v.Version, v.GoVersion, v.Platform)
		if p.Wide() {
			p.Linef("commit %s of %s, modified: %t", v.Commit, v.CommitTime, v.Modified)
			p.Linef("plans of %s", v.PlanVersion)
		}
	})
}

// callAs changes the name of the program in all help texts.
func callAs(root *cobra.Command, display string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: display}
	rename := func(text string) string { return strings.ReplaceAll(text, name+" ", display+" ") }
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		command.Long, command.Example = rename(command.Long), rename(command.Example)
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(root)
}

// completeCompletion adds examples to cobra's completion commands.
func completeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err) // It was added just now.
	}
	completion.Example = "  # For this shell only, with bash\n  source <(captctl completion bash)"
	for _, shell := range completion.Commands() {
		shell.Example = fmt.Sprintf("  # Print the script that %s loads\n  captctl completion %s", shell.Name(), shell.Name())
	}
}

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
