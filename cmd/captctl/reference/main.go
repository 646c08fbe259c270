// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Reference writes the documents that are made from the help and types of captctl, docs/captctl.md and docs/captctl-output.md, and
// from what captctl prints, docs/captctl.svg.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/cmd/captctl/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FOLDER_OF_THE_REPOSITORY")
		os.Exit(1)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// documents by their path in the repository, which is read for the comments of types.
func documents(repository string) (map[string]string, error) {
	schema, err := outputDocument(repository)
	if err != nil {
		return nil, err
	}
	screen, err := screenDocument()
	if err != nil {
		return nil, err
	}
	return map[string]string{"docs/captctl.svg": screen, "docs/captctl.md": commandsDocument(), "docs/captctl-output.md": schema}, nil
}

func write(repository string) error {
	all, err := documents(repository)
	if err != nil {
		return err
	}
	for path, text := range all {
		if err := os.WriteFile(filepath.Join(repository, filepath.FromSlash(path)), []byte(text), 0o644); err != nil { //nolint:gosec // The documents are public.
			return err
		}
	}
	return nil
}

const aboutCommands = `# captctl

<!-- Written by make generate from the help of captctl. -->

captctl manages CAPT clusters. [migration.md](migration.md) describes the migration from CAPT v0.3 step by step,
[captctl-output.md](captctl-output.md) the fields of ` + "`-o json`" + `.

## Install

` + "```" + `
make build                                              # bin/captctl
install bin/captctl /usr/local/bin/captctl
captctl version
` + "```" + `

As a plugin of kubectl it is called ` + "`kubectl capt`" + `. The second link gives kubectl its completions:

` + "```" + `
ln -s captctl /usr/local/bin/kubectl-capt
ln -s captctl /usr/local/bin/kubectl_complete-capt
` + "```" + `

For completions of captctl itself, see ` + "`captctl completion --help`" + `. Namespaces, Clusters and plans are read from the cluster.

## Common to all commands

- ` + "`-o table|wide|json|yaml`" + `: tables are for users and may change; JSON and YAML are for programs and do not.
- Output is on standard output; errors, warnings of the API server and progress are on standard error. On a terminal
  progress is a bar, elsewhere a line for every tenth of the work. With ` + "`-o json`" + ` there are no such lines.
- Color is for terminals only. ` + "`--no-color`" + `, the environment variable ` + "`NO_COLOR`" + ` or a pipe turn it off. In a terminal with 256 colors, all colors
  can be read on dark and on light backgrounds.
- Tables and texts fit the terminal: messages are broken into lines and limited, long names are shortened in the middle, and columns of less
  interest are left out. ` + "`-o wide`" + ` or a pipe shows everything.
- An error is one line that begins with ` + "`Error:`" + ` and says what to do. On a terminal it is broken between words.
- The kubeconfig is found as kubectl finds it. ` + "`captctl migrate`" + ` reads all namespaces unless ` + "`--namespace`" + ` is set; the
  namespace of the kubeconfig's context does not limit it.
`

// commandsDocument has the help of each command, as captctl prints it.
func commandsDocument() string {
	var b strings.Builder
	b.WriteString(aboutCommands)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "completion" || c.Name() == "help" {
			return
		}
		c.InitDefaultHelpFlag()
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n```\n%s\n\n%s```\n", c.CommandPath(), c.Short, c.Long, c.UsageString())
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(command.New("captctl", nil, genericiooptions.NewTestIOStreamsDiscard()))
	return b.String()
}
