// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
)

// CompleteFlag gives a flag its completion.
func CompleteFlag(command *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // The flag does not exist, or has a completion.
	}
}

// Files completes with files of these extensions.
func Files(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}
