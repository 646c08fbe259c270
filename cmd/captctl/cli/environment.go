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

// Package cli is what every command of captctl is given, and the shape that it has.
package cli

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/clock"

	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// Environment is what a command may use of the world.
type Environment struct {
	genericiooptions.IOStreams
	Access *cluster.Access
	Clock  clock.WithTicker
	// NoColour is --no-color.
	NoColour bool
}

// NewEnvironment is the world as it is.
func NewEnvironment(streams genericiooptions.IOStreams) *Environment {
	return &Environment{
		IOStreams: streams, Access: cluster.New(streams.ErrOut), Clock: clock.RealClock{},
	}
}

// Printer prints to standard output.
func (e *Environment) Printer(format output.Format) *output.Printer {
	return output.NewPrinter(e.Out, format, e.NoColour)
}

// Progress is shown on standard error, so that it is never part of the output. A program that reads the output sees none, unless somebody
// watches it.
func (e *Environment) Progress(format output.Format) *output.Progress {
	if format.ForMachines() && !printers.IsTerminal(e.ErrOut) {
		return output.NewProgress(nil, e.Clock)
	}
	return output.NewProgress(e.ErrOut, e.Clock)
}

// Command is the shape of every command: fill in what was not given, check it, do it.
type Command interface {
	Complete(args []string) error
	Validate() error
	Run(ctx context.Context) error
}

// Run is the RunE of a command.
func Run(options Command) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if err := options.Complete(args); err != nil {
			return err
		}
		if err := options.Validate(); err != nil {
			return err
		}
		return explained(options.Run(command.Context()))
	}
}
