// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// initOptions are the options of template init.
type initOptions struct {
	cli.Options
	directory, name, source, purpose, scope, providerConfig string
}

func newInit(environment *cli.Environment) *cobra.Command {
	o := &initOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "init DIRECTORY",
		Short: "Create a WorkspaceTemplate from a Terraform module",
		Long: `Prints a WorkspaceTemplate for the Terraform module in a directory. The variables that CAPT sets and
the required variables of the module get placeholders in forProvider.vars; variables with a default
keep it. Outputs that are not sensitive are published in status.

Which variables CAPT sets depends on the purpose. Without --for, an output vpc_id means a VPC, an
output cluster_endpoint a control plane, and a variable profile_name a Fargate profile.

Without --source, the text of the module is part of the template. For a module that reads files of
its directory, has modules below it, or has more than 128 KiB, --source must be the address from
which Terraform downloads the module; the directory must have the same version of it.`,
		Example: `  captctl template init modules/vpc --name small-vpc > small-vpc.yaml
  captctl template init modules/eks --source "git::https://example.com/modules.git//eks?ref=v1.2.0"`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.name, "name", "", "Name of the template. The default is that of the directory.")
	flags.StringVar(&o.source, "source", "", "Address of the module, for a template that does not have its text.")
	flags.StringVar(&o.purpose, "for", "", "Purpose of the template: "+strings.Join(manifests.Purposes(), ", ")+".")
	flags.StringVar(&o.scope, "scope", string(terraform.ScopeNamespaced), "Scope of the Workspaces: Namespaced or Cluster.")
	flags.StringVar(&o.providerConfig, "provider-config", "", "Name of the ProviderConfig. The default is that of provider-terraform: default.")
	cli.CompleteFlag(command, "for", cobra.FixedCompletions(manifests.Purposes(), cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(command, "scope", cobra.FixedCompletions([]string{string(terraform.ScopeNamespaced), string(terraform.ScopeCluster)}, cobra.ShellCompDirectiveNoFileComp))
	return cli.New(command, o)
}

// Complete takes the argument.
func (o *initOptions) Complete(args []string) error {
	directory, err := filepath.Abs(args[0])
	o.directory = args[0]
	o.name = cmp.Or(o.name, filepath.Base(directory))
	return err
}

// Validate checks the flags.
func (o *initOptions) Validate() error {
	var errs []error
	if problems := utilvalidation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("%q cannot be the name of a template: %s; set --name", o.name, problems[0]))
	}
	if o.purpose != "" && !slices.Contains(manifests.Purposes(), o.purpose) {
		errs = append(errs, fmt.Errorf("--for must be one of %s, not %q", strings.Join(manifests.Purposes(), ", "), o.purpose))
	}
	if !slices.Contains(terraform.Scopes(), terraform.Scope(o.scope)) {
		errs = append(errs, fmt.Errorf("--scope must be Namespaced or Cluster, not %q", o.scope))
	}
	return errors.Join(errs...)
}

// Run reads the module and prints the template.
func (o *initOptions) Run(context.Context) error {
	m, err := readModule(o.directory)
	if err != nil {
		return err
	}
	template := &infrav1.WorkspaceTemplate{}
	template.SetGroupVersionKind(infrav1.GroupVersion.WithKind("WorkspaceTemplate"))
	template.Name, template.Namespace = o.name, o.Access.Only()
	template.Spec.WorkspaceScope = terraform.Scope(o.scope)
	spec := &template.Spec.Template.Spec
	if o.providerConfig != "" {
		spec.ProviderConfigRef = &terraform.ProviderConfigReference{Name: o.providerConfig}
	}
	purpose, byDefault, err := m.Fill(template, o.source, o.purpose)
	if err != nil {
		return err
	}
	findings := templates.ValidateWorkspaceTemplate(template)
	if len(findings.Errors) > 0 {
		return fmt.Errorf("the template would be rejected: %w", findings.Errors.ToAggregate())
	}
	content, err := ssa.Unstructured(template)
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(content.Object)
	if err != nil {
		return err
	}
	for _, warning := range findings.Warnings {
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", warning)
	}
	fmt.Fprintf(o.ErrOut, "Template for: %s. Variables with a placeholder: %d. Variables that keep their default: %s\n",
		purpose, len(spec.ForProvider.Vars), cmp.Or(strings.Join(byDefault, ", "), "none"))
	_, err = o.Out.Write(data)
	return err
}

// readModule reads and parses the files of a module.
func readModule(directory string) (*manifests.Module, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".tf") && !strings.HasSuffix(name, ".tf.json") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(directory, name)) //nolint:gosec // Users name the directory.
		if err != nil {
			return nil, err
		}
		texts[name] = string(data)
	}
	m, invalid := manifests.ParseModule(directory, texts)
	switch {
	case len(invalid) > 0:
		return nil, &cli.ListError{Title: "the module is not valid", Items: invalid}
	case len(texts) == 0:
		return nil, fmt.Errorf("%s has no files of Terraform (.tf, .tf.json)", directory)
	}
	return m, nil
}
