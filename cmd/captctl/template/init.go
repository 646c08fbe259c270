// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
)

// Purposes of a template, which determine the variables that CAPT sets.
const (
	forVPC          = "vpc"
	forControlPlane = "control-plane"
	forFargate      = "fargate-profile"
	forOther        = "other"
)

// initOptions are the options of template init.
type initOptions struct {
	*cli.Environment
	directory, name, source, purpose, scope, providerConfig string
}

func newInit(environment *cli.Environment) *cobra.Command {
	o := &initOptions{Environment: environment}
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
		RunE: cli.Run(o),
	}
	flags := command.Flags()
	flags.StringVar(&o.name, "name", "", "Name of the template. The default is that of the directory.")
	flags.StringVar(&o.source, "source", "", "Address of the module, for a template that does not have its text.")
	flags.StringVar(&o.purpose, "for", "", "Purpose of the template: "+strings.Join(purposes(), ", ")+".")
	flags.StringVar(&o.scope, "scope", string(terraform.ScopeNamespaced), "Scope of the Workspaces: Namespaced or Cluster.")
	flags.StringVar(&o.providerConfig, "provider-config", "", "Name of the ProviderConfig. The default is that of provider-terraform: default.")
	cli.CompleteFlag(command, "for", cobra.FixedCompletions(purposes(), cobra.ShellCompDirectiveNoFileComp))
	cli.CompleteFlag(command, "scope", cobra.FixedCompletions([]string{string(terraform.ScopeNamespaced), string(terraform.ScopeCluster)}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func purposes() []string { return []string{forVPC, forControlPlane, forFargate, forOther} }

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
	if o.purpose != "" && !slices.Contains(purposes(), o.purpose) {
		errs = append(errs, fmt.Errorf("--for must be one of %s, not %q", strings.Join(purposes(), ", "), o.purpose))
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
	spec.ForProvider.Source, spec.ForProvider.Module = terraform.SourceRemote, o.source
	if o.source == "" {
		if spec.ForProvider.Module, err = m.inline(); err != nil {
			return err
		}
		spec.ForProvider.Source = terraform.SourceInline
	}
	purpose := cmp.Or(o.purpose, m.purpose())
	byDefault := o.fill(template, m, purpose)
	findings := validation.ValidateWorkspaceTemplate(template)
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

// fill adds variables and outputs. It returns the variables that keep their default.
func (o *initOptions) fill(template *infrav1.WorkspaceTemplate, m *module, purpose string) (byDefault []string) {
	set := map[string][]string{
		forVPC: validation.VPCVariables(), forControlPlane: validation.ControlPlaneVariables(nil), forFargate: validation.FargateVariables(),
	}[purpose]
	params := &template.Spec.Template.Spec.ForProvider
	for _, name := range m.variableNames() {
		if m.variables[name] && !slices.Contains(set, name) {
			byDefault = append(byDefault, name)
			continue
		}
		params.Vars = append(params.Vars, terraform.Var{Key: name, Value: "${" + name + "}"})
	}
	for _, name := range m.outputNames() {
		if !m.outputs[name] && !slices.Contains(terraform.PublishedOutputs(), name) {
			template.Spec.PublishOutputs = append(template.Spec.PublishOutputs, name)
		}
	}
	return byDefault
}

// maxInline is the size up to which the text of a module becomes part of a template, in bytes. Each Workspace has a copy of it.
const maxInline = 128 << 10

// module is a Terraform module in a directory.
type module struct {
	directory string
	files     []string // Names, sorted.
	texts     map[string]string
	// variables has the names of the variables; the value is true if the variable has a default. The value of outputs is true if the output is
	// sensitive.
	variables, outputs map[string]bool
}

// readModule reads and parses the files of a module.
func readModule(directory string) (*module, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	m := &module{directory: directory, texts: map[string]string{}, variables: map[string]bool{}, outputs: map[string]bool{}}
	invalid := &cli.ListError{Title: "the module is not valid"}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".tf") && !strings.HasSuffix(name, ".tf.json") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(directory, name)) //nolint:gosec // Users name the directory.
		if err != nil {
			return nil, err
		}
		m.files, m.texts[name] = append(m.files, name), string(data)
		params := terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: string(data)}
		if strings.HasSuffix(name, ".json") {
			params.InlineFormat = terraform.FormatJSON
		}
		parsed := modules.Parse(params)
		errs, _ := parsed.Check(field.NewPath(name))
		for _, err := range errs {
			invalid.Items = append(invalid.Items, filepath.Join(directory, name)+": "+err.Detail)
		}
		if declared := parsed.Declarations(); declared != nil {
			maps.Copy(m.variables, declared.Variables)
			maps.Copy(m.outputs, declared.Outputs)
		}
	}
	switch {
	case len(invalid.Items) > 0:
		return nil, invalid
	case len(m.files) == 0:
		return nil, fmt.Errorf("%s has no files of Terraform (.tf, .tf.json)", directory)
	}
	return m, nil
}

func (m *module) variableNames() []string { return slices.Sorted(maps.Keys(m.variables)) }
func (m *module) outputNames() []string   { return slices.Sorted(maps.Keys(m.outputs)) }

// purpose is what the outputs and variables of the module are for.
func (m *module) purpose() string {
	has := func(names map[string]bool, name string) bool { _, ok := names[name]; return ok }
	switch {
	case has(m.variables, naming.ProfileVariable):
		return forFargate
	case has(m.outputs, terraform.OutputClusterEndpoint):
		return forControlPlane
	case has(m.outputs, terraform.OutputVPCID):
		return forVPC
	}
	return forOther
}

// fromDirectory matches what reads other files of the directory: an inline module is a single file.
var fromDirectory = regexp.MustCompile(`\bpath\.(module|root)\b|\b(templatefile|fileset|file[a-z0-9]*)\(|\bsource\s*=\s*"\.\.?/`)

// trailingSpace is before the ends of lines. With it, YAML would have the module on one line, with escape sequences.
var trailingSpace = regexp.MustCompile(`(?m)[ \t\r]+$`)

// inline returns the text of the module as a single file.
func (m *module) inline() (string, error) {
	const instead = "; name the address of the module with --source"
	var b strings.Builder
	for _, name := range m.files {
		text := m.texts[name]
		file := filepath.Join(m.directory, name)
		if strings.HasSuffix(name, ".json") || strings.HasSuffix(strings.TrimSuffix(name, ".tf"), "override") {
			return "", fmt.Errorf("%s cannot be combined with other files%s", file, instead)
		}
		if at := fromDirectory.FindStringIndex(text); at != nil {
			return "", fmt.Errorf("%s:%d: an inline module is a single file, and cannot read other files of its directory%s", file, 1+strings.Count(text[:at[0]], "\n"), instead)
		}
		if !strings.Contains(text, "<<") { // In a heredoc they are part of a value.
			text = trailingSpace.ReplaceAllString(text, "")
		}
		if len(m.files) > 1 {
			fmt.Fprintf(&b, "# %s\n", name)
		}
		b.WriteString(strings.TrimRight(text, "\n") + "\n")
	}
	if b.Len() > maxInline {
		return "", fmt.Errorf("the module has %d KiB, and a template can hold %d%s", b.Len()>>10, maxInline>>10, instead)
	}
	return b.String(), nil
}
