// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type variablesOptions struct{ cli.Options }

func newVariables(environment *cli.Environment) *cobra.Command {
	o := &variablesOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "variables ([NAMESPACE/]NAME | -f FILENAME)",
		Short: "List the variables of a WorkspaceTemplate",
		Long: `Lists the variables of a WorkspaceTemplate of the cluster or of a file: those that its module
declares, those in spec.inputs, and its placeholders. FROM says who sets a variable: CAPT, from
fields of a CAPTCluster, CAPTControlPlane, CAPTMachinePool or MachinePool; the user, in
spec.variables; the template itself; or none, if the template does not pass it
(spec.passVariables).

The module of a Remote or Flux template cannot be read, so only spec.inputs and placeholders are
known.`,
		Example: `  captctl template variables team-a/vpc
  captctl template variables -f vpc.yaml -o wide`,
		Args: cobra.MaximumNArgs(1),
	}
	o.Takes(command, "NAME", environment.Access.CompleteTemplates())
	o.AddFiles(command, false)
	o.AddOutput(command)
	return cli.New(command, o)
}

func (o *variablesOptions) Run(ctx context.Context) error {
	template, err := o.template(ctx)
	if err != nil {
		return err
	}
	variables := modules.VariablesOf(&template.Spec, validation.IsSetByCAPT)
	return o.Printer().Document(variables, func(p *output.Printer) {
		if len(variables) == 0 {
			p.Linef("The template has no variables.")
			return
		}
		var rows output.Rows
		for _, v := range variables {
			value := v.Default
			if v.Required {
				value = "required"
			}
			rows = append(rows, []string{v.Name, v.Type, value, v.SetBy, v.Description})
		}
		p.Table([]output.Column{{Name: "NAME"}, {Name: "TYPE"}, {Name: "DEFAULT"}, {Name: "FROM"}, {Name: "DESCRIPTION", Optional: true}}, rows)
	})
}

// template returns the template of the file or of the cluster.
func (o *variablesOptions) template(ctx context.Context) (*infrav1.WorkspaceTemplate, error) {
	switch {
	case len(o.Paths) > 0 && o.Name != "":
		return nil, errors.New("name either a template of the cluster or files, not both")
	case len(o.Paths) > 0:
		content, err := readFiles(ctx, &o.Options)
		if err != nil {
			return nil, err
		}
		found, err := theTemplate(content)
		return found.typed, err
	case o.Name == "":
		return nil, errors.New("name a template of the cluster, or a file with --filename")
	}
	connected, err := o.Client()
	if err != nil {
		return nil, err
	}
	return readTemplate(ctx, &o.Options, connected)
}

func showExplained(p *output.Printer, found []render.Explained) {
	if len(found) == 0 {
		p.Linef("No placeholder is replaced, and no variable is passed.")
		return
	}
	var rows output.Rows
	for _, e := range found {
		rows = append(rows, []string{e.Field, e.Variable, e.Value, e.From})
	}
	p.Table([]output.Column{{Name: "FIELD"}, {Name: "VARIABLE"}, {Name: "VALUE"}, {Name: "FROM"}}, rows)
}
