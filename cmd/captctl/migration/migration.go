// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration is captctl migrate.
package migration

import (
	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// New returns the command migrate with its subcommands.
func New(*cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Adopt a fleet that CAPT v0.3 built, without changing a cloud resource",
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
}
