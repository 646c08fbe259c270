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

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/cmd/captctl/command"
)

const aboutCommands = `# captctl

<!-- Written by make generate from the help of captctl. -->

captctl looks after clusters that CAPT runs. How a fleet of the older CAPT is taken over with it, step by step, is in
[migration.md](migration.md); the fields of what it prints with ` + "`-o json`" + ` are in [captctl-output.md](captctl-output.md).

## Install it

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

For completions of captctl itself, see ` + "`captctl completion --help`" + `. They ask the cluster for namespaces and plans.

## What all commands have in common

- ` + "`-o table|wide|json|yaml`" + `: tables are for people and may change; JSON and YAML are for programs and do not.
- Output is on standard output; errors, warnings of the API server and progress are on standard error. On a terminal
  progress is a bar, elsewhere a line for every tenth of the work. With ` + "`-o json`" + ` there are no such lines.
- Colour is for terminals only. ` + "`--no-color`" + `, the environment variable ` + "`NO_COLOR`" + ` or a pipe turn it off.
- An error is one line that begins with ` + "`Error:`" + ` and says what to do.
- The kubeconfig is found as by kubectl. The namespace of its context is of no account: commands look at all namespaces
  unless ` + "`--namespace`" + ` is given.
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
