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

// Package command is captctl: all commands, and what they have in common.
package command

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/convert"
	"github.com/capt-provider/capt/cmd/captctl/migration"
)

const (
	// name of the program.
	name = "captctl"
	// plugin is its name as a plugin of kubectl, and completer that of the program which kubectl asks for completions of it.
	plugin, completer = "kubectl-capt", "kubectl_complete-capt"
)

// New is captctl as called by a person, or as a plugin of kubectl: the name of the program tells. The arguments are those after it.
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

// usage is cobra's, but for lines that fit, and for the many flags of kubectl, which only the root shows.
const usage = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 100 | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} [command] --help" tells more about a command.{{end}}{{if .HasAvailableInheritedFlags}}

"{{.Root.CommandPath}} --help" lists the flags that all commands have, for example --context and --namespace.{{end}}
`

func newRoot(environment *cli.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   name,
		Short: "Look after clusters that CAPT runs",
		Long: `captctl looks after the clusters of CAPT, the Cluster API provider that makes Amazon EKS clusters
with Terraform.

It reads the kubeconfig that kubectl reads, and has the flags of kubectl for it. Installed as
kubectl-capt it is a plugin: kubectl capt.`,
		Example: `  # Take over a fleet that the older CAPT built
  captctl migrate inspect

  # Which captctl is this?
  captctl version`,
		Args:              cobra.NoArgs,
		RunE:              func(command *cobra.Command, _ []string) error { return command.Help() },
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	root.SetIn(environment.In)
	root.SetOut(environment.Out)
	root.SetErr(environment.ErrOut)
	root.SetUsageTemplate(usage)
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help shows the flags", err, command.CommandPath())
	})
	addFlags(root, environment)
	root.AddCommand(migration.New(environment), convert.New(environment), newVersion(environment))
	completeCompletion(root)
	explainArguments(root)
	return root
}

// explainArguments makes commands say how they are called when they are called otherwise.
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
			return fmt.Errorf("these arguments do not fit %q; %s --help has examples", command.UseLine(), command.CommandPath())
		}
		if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
			return fmt.Errorf("%w; did you mean %s?", err, strings.Join(similar, " or "))
		}
		return err
	}
}

func addFlags(root *cobra.Command, environment *cli.Environment) {
	flags := root.PersistentFlags()
	environment.Access.AddFlags(flags)
	flags.BoolVar(&environment.NoColour, "no-color", false, "Print without colour. So does the environment variable NO_COLOR, and a pipe.")
	logs := flag.NewFlagSet(name, flag.ContinueOnError)
	klog.InitFlags(logs)
	flags.AddGoFlag(logs.Lookup("v"))
	flags.Lookup("v").Usage = "Log level; 6 shows each request to the API server."
	flags.Lookup("cache-dir").DefValue = "$HOME/.kube/cache" // Help is the same on all machines.
	cli.CompleteFlag(root, "namespace", environment.Access.CompleteNamespaces())
	cli.CompleteFlag(root, "context", environment.Access.CompleteContexts)
}

// callAs makes all help speak of the program by another name.
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

// completeCompletion gives cobra's own command for completions the examples that all commands have.
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
