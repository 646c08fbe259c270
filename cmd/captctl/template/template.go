// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package template is captctl template.
package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/validation"
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
	content.SetDefaults()
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

// renderOptions are the options of template render.
type renderOptions struct {
	files
	variables map[string]string
	name      string
}

func newRender(environment *cli.Environment) *cobra.Command {
	o := &renderOptions{files: newFiles(environment)}
	command := &cobra.Command{
		Use:   "render -f FILENAME",
		Short: "Show the Workspace that a template renders to",
		Long: `Prints the Workspace that a WorkspaceTemplate renders to, as YAML or JSON, exactly as the manager
would write it. The files have one WorkspaceTemplate and, optionally, a WorkspaceTemplateApply that
uses it. What the webhooks would reject is an error. The webhooks' warnings are printed to standard
error, for example placeholders without a value.

Values of Secrets are not read: the Workspace has references to them.`,
		Example: `  captctl template render -f vpc.yaml --var vpc_name=demo --var region=eu-central-1
  captctl template render -f vpc.yaml -f demo-vpc-apply.yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	command.Flags().StringToStringVar(&o.variables, "var", nil, "Variable, as name=value. Overrides that of the WorkspaceTemplateApply. Can be repeated.")
	command.Flags().StringVar(&o.name, "name", "", "Name of the WorkspaceTemplateApply if the files have none. The default is that of the template.")
	o.addFlags(command)
	return command
}

// Run renders and prints.
func (o *renderOptions) Run(ctx context.Context) error {
	content, err := o.read(ctx)
	if err != nil {
		return err
	}
	template, err := theTemplate(content)
	if err != nil {
		return err
	}
	apply, err := o.apply(content, &template)
	if err != nil {
		return err
	}
	if err := o.check(ctx, content, &template, apply); err != nil {
		return err
	}
	rendered, errs := render.Workspace(render.Input{Apply: apply.typed, Template: template.typed, Name: validation.WorkspaceName(apply.typed, template.typed)})
	if len(errs) > 0 {
		return refused(template.Object, errs)
	}
	p := o.Printer(o.output.Format())
	if !o.output.Format().ForMachines() {
		p.Format = output.YAML
	}
	return p.Document(rendered.Object.Object, nil)
}

// rejected returns the errors of the schema, and documents that cannot be read.
func rejected(content *manifest.Content) error {
	var found []string
	for _, object := range content.Objects {
		for _, err := range object.Errors {
			found = append(found, located(object, err.Field, err.Detail))
		}
	}
	for _, problem := range content.Problems {
		found = append(found, problem.String())
	}
	if len(found) == 0 {
		return nil
	}
	return &cli.ListError{Title: "the files cannot be used", Items: found}
}

// refused returns the errors of rules about an object.
func refused(object *manifest.Object, errs field.ErrorList) error {
	list := &cli.ListError{Title: object.String() + " would be rejected"}
	for _, err := range errs {
		list.Items = append(list.Items, located(object, err.Field, err.Detail))
	}
	return list
}

// apply returns the WorkspaceTemplateApply of the files, or one with the variables of the flags alone. Its object is nil then.
func (o *renderOptions) apply(content *manifest.Content, template *source[*infrav1.WorkspaceTemplate]) (source[*infrav1.WorkspaceTemplateApply], error) {
	found := slices.DeleteFunc(of[*infrav1.WorkspaceTemplateApply](content), func(apply source[*infrav1.WorkspaceTemplateApply]) bool {
		key := apply.typed.TemplateKey()
		return key.Name != template.typed.Name || key.Namespace != template.typed.Namespace
	})
	switch {
	case len(found) > 1:
		return found[0], fmt.Errorf("the files have %d WorkspaceTemplateApplies of the template, but the command needs at most one; name a file with one", len(found))
	case len(found) == 0:
		name := o.name
		if name == "" {
			name = template.typed.Name
		}
		found = append(found, source[*infrav1.WorkspaceTemplateApply]{nil, &infrav1.WorkspaceTemplateApply{
			ObjectMeta: metav1.ObjectMeta{Namespace: template.typed.Namespace, Name: name},
			Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.WorkspaceTemplateReference{Name: template.typed.Name}},
		}})
	}
	variables := maps.Clone(found[0].typed.Spec.Variables)
	if variables == nil {
		variables = map[string]string{}
	}
	maps.Copy(variables, o.variables)
	found[0].typed.Spec.Variables = variables
	return found[0], nil
}

// check applies the rules of the webhooks to both objects.
func (o *renderOptions) check(ctx context.Context, content *manifest.Content, template *source[*infrav1.WorkspaceTemplate], apply source[*infrav1.WorkspaceTemplateApply]) error {
	all := content.Typed()
	if apply.Object == nil {
		all = append(all, apply.typed)
	}
	if err := o.checkOne(ctx, all, template.Object, template.typed, ""); err != nil {
		return err
	}
	return o.checkOne(ctx, all, apply.Object, apply.typed, "--var: ")
}

// checkOne applies the rules to an object. Without a file, its messages begin with a prefix.
func (o *renderOptions) checkOne(ctx context.Context, all validation.Objects, object *manifest.Object, typed any, prefix string) error {
	findings, err := validation.ValidateNew(ctx, all, typed)
	if err != nil {
		return err
	}
	for _, warning := range findings.Warnings {
		text := prefix + warning
		if object != nil {
			path, message, _ := strings.Cut(warning, ": ")
			text = located(object, path, message)
		}
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", text)
	}
	switch {
	case len(findings.Errors) == 0:
		return nil
	case object != nil:
		return refused(object, findings.Errors)
	}
	list := &cli.ListError{Title: "the variables would be rejected"}
	for _, err := range findings.Errors {
		list.Items = append(list.Items, prefix+err.Field+": "+err.Detail)
	}
	return list
}
