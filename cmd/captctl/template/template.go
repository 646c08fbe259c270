// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package template is captctl template.
package template

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/manifest"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/rollouts"
)

// New returns captctl template.
func New(environment *cli.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "template",
		Short: "Create, test and roll out WorkspaceTemplates",
		Long: `init creates a WorkspaceTemplate from a Terraform module, render shows what a template renders to,
and test tests its module, all without a cluster. captctl diff shows what an edit changes in
Workspaces of a cluster. The other commands show and control staged rollouts (spec.rollout).`,
		Example: `  captctl template init modules/vpc > vpc.yaml
  captctl template test -f vpc.yaml
  captctl template render -f vpc.yaml --var vpc_name=demo --var region=eu-central-1

  # How far has the rollout of an edit come, and what does it wait for?
  captctl template status team-a/vpc`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newInit(environment), newRender(environment), newTest(environment))
	command.AddCommand(rollouts.New(environment)...)
	return command
}

// modulePath is the field of the module in messages.
const modulePath = "spec.template.spec.forProvider.module"

// files are the options of commands that read manifests.
type files struct {
	*cli.Environment
	output    *output.Flag
	paths     []string
	recursive bool
}

func newFiles(environment *cli.Environment) files {
	return files{Environment: environment, output: output.NewFlag()}
}

func (f *files) addFlags(command *cobra.Command) {
	cli.AddFileFlags(command, &f.paths, &f.recursive)
	f.output.Add(command)
}

// Complete has nothing to fill in.
func (f *files) Complete([]string) error { return nil }

// Validate checks the flags.
func (f *files) Validate() error {
	return errors.Join(cli.ValidatePaths(f.paths), f.output.Validate())
}

// read reads the files. Errors of the schema, and documents that cannot be read, are an error.
func (f *files) read(ctx context.Context) (*manifest.Content, error) {
	content, err := manifest.Read(ctx, f.Environment, f.paths, f.recursive)
	if err != nil {
		return nil, err
	}
	return content, rejected(content)
}

// source is an object of a manifest with a WorkspaceTemplate, or a WorkspaceTemplateApply.
type source[T any] struct {
	*manifest.Object
	typed T
}

// of returns the objects of a type.
func of[T any](content *manifest.Content) (found []source[T]) {
	for _, object := range content.Objects {
		if typed, ok := object.Typed.(T); ok {
			found = append(found, source[T]{object, typed})
		}
	}
	return found
}

// theTemplate returns the only WorkspaceTemplate of files.
func theTemplate(content *manifest.Content) (source[*infrav1.WorkspaceTemplate], error) {
	found := of[*infrav1.WorkspaceTemplate](content)
	if len(found) != 1 {
		return source[*infrav1.WorkspaceTemplate]{}, fmt.Errorf("the files have %d WorkspaceTemplates, but the command needs exactly one; name a file with one", len(found))
	}
	return found[0], nil
}

// located is a message about a field of an object, with its place.
func located(object *manifest.Object, field, message string) string {
	line, column := object.Position(field, message)
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s", object.File, line, column, object, field, message)
}
