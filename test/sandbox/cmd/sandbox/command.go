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
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// errReported ends the command with a failure about which everything has been said already.
var errReported = errors.New("reported")

// defaultDir is the folder of the sandbox that a person starts. It is ignored by git.
const defaultDir = ".sandbox"

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "A real management cluster's control plane on this machine, without containers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.AddCommand(
		newBuildCommand(streams),
		newUpCommand(streams),
		newStatusCommand(streams),
		newDownCommand(streams),
		newQuickstartCommand(streams),
		newQuickstartDownCommand(streams),
		newEKSCommand(streams),
		newReapCommand(streams),
	)
	return cmd
}

// runner is the shape of every command: fill in what was not given, check it, do it.
type runner interface {
	Complete(args []string) error
	Validate() error
}

// prepare runs the two steps that come before every Run.
func prepare(r runner, args []string) error {
	if err := r.Complete(args); err != nil {
		return err
	}
	return r.Validate()
}
