// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Reference writes the documents that are made from the help and types of captctl, docs/captctl.md and docs/captctl-output.md, from what captctl
// prints, docs/captctl.svg, and from the table of reasons, docs/reasons.md.
package main

import (
	_ "embed" // For the first part of docs/captctl.md.
	"errors"
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
	all, err := documents(os.Args[1])
	for path, text := range all {
		err = errors.Join(err, os.WriteFile(filepath.Join(os.Args[1], filepath.FromSlash(path)), []byte(text), 0o644)) //nolint:gosec // The documents are public.
	}
	if err != nil {
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
	return map[string]string{"docs/captctl.svg": screen, "docs/captctl.md": commandsDocument(), "docs/captctl-output.md": schema, "docs/reasons.md": reasonsDocument()}, nil
}

//go:embed captctl.md.tmpl
var aboutCommands string

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
