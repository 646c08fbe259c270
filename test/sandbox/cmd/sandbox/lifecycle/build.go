// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

func newBuildCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:       "build [binary...]",
		Short:     "Build the programs of the sandbox that are missing",
		ValidArgs: binaries.Names(),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return sandbox.Build(cmd.Context(), streams.Out, args...)
		},
	}
}
