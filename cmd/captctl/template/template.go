// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package template is captctl template. The rules of staged rollouts are in api/rollout.
package template

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/manifests"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// New returns captctl template.
func New(environment *cli.Environment) *cobra.Command {
	return cli.NewGroup(environment, &cobra.Command{
		Use:   "template",
		Short: "Create, test and roll out WorkspaceTemplates",
		Long: `init creates a WorkspaceTemplate from a Terraform module, variables lists what a template takes,
render shows what it renders to, and test tests its module, all without a cluster. captctl diff
shows what an edit changes in Workspaces of a cluster. The other commands show and control staged
rollouts (spec.rollout).`,
		Example: `  captctl template init modules/vpc > vpc.yaml
  captctl template test -f vpc.yaml
  captctl template render -f vpc.yaml --var vpc_name=demo --var region=eu-central-1

  # How far has the rollout of an edit come, and what does it wait for?
  captctl template status team-a/vpc`,
	}, newInit, newVariables, newRender, newTest, newList, newStatus, newPlan, newApprove, newApproveChange, newPause, newResume, newRollback)
}

func readFiles(ctx context.Context, o *cli.Options) (*manifests.Content, error) {
	content, err := o.ValidManifests(ctx, "the files cannot be used", "")
	if err == nil {
		content.SetDefaults()
	}
	return content, err
}

// source is an object of a manifest with a WorkspaceTemplate, or a WorkspaceTemplateApply.
type source[T any] struct {
	*manifests.Object
	typed T
}

func of[T any](content *manifests.Content) (found []source[T]) {
	for _, object := range content.Objects {
		if typed, ok := object.Typed.(T); ok {
			found = append(found, source[T]{object, typed})
		}
	}
	return found
}

// theTemplate returns the only WorkspaceTemplate of files.
func theTemplate(content *manifests.Content) (source[*infrav1.WorkspaceTemplate], error) {
	found := of[*infrav1.WorkspaceTemplate](content)
	if len(found) != 1 {
		return source[*infrav1.WorkspaceTemplate]{}, fmt.Errorf("the files have %d WorkspaceTemplates, but the command needs exactly one; name a file with one", len(found))
	}
	return found[0], nil
}

type renderOptions struct {
	cli.Options
	variables map[string]string
	name      string
	explain   bool
}

func newRender(environment *cli.Environment) *cobra.Command {
	o := &renderOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "render -f FILENAME",
		Short: "Show the Workspace that a template renders to",
		Long: `Prints the Workspace that a WorkspaceTemplate renders to, as YAML or JSON, exactly as the manager
would write it. The files have one WorkspaceTemplate and, optionally, a WorkspaceTemplateApply that
uses it. What the webhooks would reject is an error. The webhooks' warnings are printed to standard
error, for example placeholders without a value.

Values of Secrets are not read: the Workspace has references to them.`,
		Example: `  captctl template render -f vpc.yaml --var vpc_name=demo --var region=eu-central-1
  captctl template render -f vpc.yaml -f demo-vpc-apply.yaml

  # What is replaced, and what is passed to the module?
  captctl template render -f vpc.yaml -f demo-vpc-apply.yaml --explain`,
	}
	command.Flags().BoolVar(&o.explain, "explain", false, "Instead of the Workspace, list each placeholder that is replaced and each variable that is passed to the module.")
	command.Flags().StringToStringVar(&o.variables, "var", nil, "Variable, as name=value. Overrides that of the WorkspaceTemplateApply. Can be repeated.")
	command.Flags().StringVar(&o.name, "name", "", "Name of the WorkspaceTemplateApply if the files have none. The default is that of the template.")
	o.AddFiles(command, true)
	o.AddOutput(command)
	return cli.New(command, o)
}

func (o *renderOptions) Run(ctx context.Context) error {
	content, err := readFiles(ctx, &o.Options)
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
	in := render.Input{Apply: apply.typed, Template: template.typed, Name: validation.WorkspaceName(apply.typed, template.typed)}
	rendered, errs := render.Workspace(in)
	if len(errs) > 0 {
		return refused(template.Object, errs)
	}
	p := o.Printer()
	if o.explain {
		found := render.Explain(in)
		return p.Document(found, func(p *output.Printer) { showExplained(p, found) })
	}
	if !o.Format().ForMachines() {
		p.Format = output.YAML
	}
	return p.Document(rendered.Object.Object, nil)
}

// refused returns the errors of rules about an object.
func refused(object *manifests.Object, errs field.ErrorList) error {
	list := &cli.ListError{Title: object.String() + " would be rejected"}
	for _, err := range errs {
		list.Items = append(list.Items, object.Located(err.Field, err.Detail))
	}
	return list
}

// apply returns the WorkspaceTemplateApply of the files, or one with the variables of the flags alone. Its object is nil then.
func (o *renderOptions) apply(content *manifests.Content, template *source[*infrav1.WorkspaceTemplate]) (source[*infrav1.WorkspaceTemplateApply], error) {
	found := slices.DeleteFunc(of[*infrav1.WorkspaceTemplateApply](content), func(apply source[*infrav1.WorkspaceTemplateApply]) bool {
		key := apply.typed.TemplateKey()
		return key.Name != template.typed.Name || key.Namespace != template.typed.Namespace
	})
	switch {
	case len(found) > 1:
		return found[0], fmt.Errorf("the files have %d WorkspaceTemplateApplies of the template, but the command needs at most one; name a file with one", len(found))
	case len(found) == 0:
		found = append(found, source[*infrav1.WorkspaceTemplateApply]{nil, &infrav1.WorkspaceTemplateApply{
			ObjectMeta: metav1.ObjectMeta{Namespace: template.typed.Namespace, Name: cmp.Or(o.name, template.typed.Name)},
			Spec:       infrav1.WorkspaceTemplateApplySpec{TemplateRef: infrav1.WorkspaceTemplateReference{Name: template.typed.Name}},
		}})
	}
	spec := &found[0].typed.Spec
	if spec.Variables == nil {
		spec.Variables = infrav1.Variables{}
	}
	maps.Copy(spec.Variables, infrav1.TextVariables(o.variables))
	return found[0], nil
}

// check applies the rules of the webhooks to both objects.
func (o *renderOptions) check(ctx context.Context, content *manifests.Content, template *source[*infrav1.WorkspaceTemplate], apply source[*infrav1.WorkspaceTemplateApply]) error {
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
func (o *renderOptions) checkOne(ctx context.Context, all validation.Objects, object *manifests.Object, typed any, prefix string) error {
	findings, err := validation.ValidateNew(ctx, all, typed)
	if err != nil {
		return err
	}
	for _, warning := range findings.Warnings {
		text := prefix + warning
		if object != nil {
			path, message, _ := strings.Cut(warning, ": ")
			text = object.Located(path, message)
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

type initOptions struct {
	cli.Options
	directory, name, source, purpose, scope, providerConfig string
}

func newInit(environment *cli.Environment) *cobra.Command {
	o := &initOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "init DIRECTORY",
		Short: "Create a WorkspaceTemplate from a Terraform module",
		Long: `Prints a WorkspaceTemplate for the Terraform module in a directory. CAPT passes the variables that
the module declares, with the values of CAPT and of users: standard error has their names. Outputs
that are not sensitive are published in status.

Which variables CAPT sets depends on the purpose. Without --for, an output vpc_id means a VPC, an
output cluster_endpoint a control plane, and a variable profile_name a Fargate profile.

Without --source, the text of the module is part of the template. For a module that reads files of
its directory, has modules below it, or has more than 128 KiB, --source must be the address from
which Terraform downloads the module; the directory must have the same version of it. The template
then has the variables of the module in spec.inputs. Remove those that users must not set.`,
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

func (o *initOptions) Complete(args []string) error {
	directory, err := filepath.Abs(args[0])
	o.directory = args[0]
	o.name = cmp.Or(o.name, filepath.Base(directory))
	return err
}

func (o *initOptions) Validate() error {
	problems := utilvalidation.IsDNS1123Subdomain(o.name)
	return errors.Join(
		cli.When(len(problems) > 0, "%q cannot be the name of a template: %s; set --name", o.name, strings.Join(problems, "; ")),
		cli.When(o.purpose != "" && !slices.Contains(manifests.Purposes(), o.purpose), "--for must be one of %s, not %q", strings.Join(manifests.Purposes(), ", "), o.purpose),
		cli.When(!slices.Contains(terraform.Scopes(), terraform.Scope(o.scope)), "--scope must be Namespaced or Cluster, not %q", o.scope))
}

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
	filled, err := m.Fill(template, o.source, o.purpose)
	if err != nil {
		return err
	}
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
	for _, warning := range append(filled.Warnings, findings.Warnings...) {
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", warning)
	}
	fmt.Fprintf(o.ErrOut, "Template for: %s. Variables that CAPT sets: %s. Variables that users must set: %s. Variables with a default: %s\n",
		filled.Purpose, listed(filled.SetByCAPT), listed(filled.Required), listed(filled.Optional))
	_, err = o.Out.Write(data)
	return err
}

func listed(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

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

// Test is the result of captctl template test.
type Test struct {
	metav1.TypeMeta `json:",inline"`
	Templates       int                `json:"templates"`   // Templates is how many templates were tested.
	Findings        manifests.Findings `json:"findings"`    // Findings are sorted by file and line.
	Validations     []Validation       `json:"validations"` // Validations has what was done with tofu or terraform, by template.
}

// Validation is what was done with tofu or terraform for a template.
type Validation struct {
	Template string `json:"template"`
	Tool     string `json:"tool,omitempty"` // Tool is the program and its version.
	// Result is Passed, Failed or NotRun.
	Result Result `json:"result"`
	// Message is why it was not run.
	Message string `json:"message,omitempty"`
}

// Result of a validation.
type Result string

// Results.
const (
	ResultPassed Result = "Passed" // The program found no errors.
	ResultFailed Result = "Failed" // The program found errors, which are among the findings.
	ResultNotRun Result = "NotRun" // The program was not run; the message has the reason.
)

type testOptions struct {
	cli.Options
	providerConfiguration string
}

func newTest(environment *cli.Environment) *cobra.Command {
	o := &testOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "test -f FILENAME",
		Short: "Check the modules of templates for what Terraform would reject",
		Long: `Checks WorkspaceTemplates with the rules of the webhooks. In addition to captctl validate, it is an
error if Terraform would reject the module of a template: if it uses syntax or functions that are
newer than Terraform ` + modules.BundledTerraform + `, which provider-terraform bundles, refers to a variable, resource, data
source or module that it does not declare, or if the template sets a variable or publishes an output
that the module does not declare. What a ProviderConfig declares, which Terraform sees next to the
module, is named with --provider-configuration.

If tofu or terraform is on PATH, it also runs init (without a backend) and validate for modules that
are part of a template. init may download providers and modules. If it fails, for example without a
network, validate is not run, which is no error. The output shows what was run.

Exit codes: 0 no errors; 1 errors, or a file cannot be read.`,
		Example: `  captctl template test -f vpc.yaml
  captctl template test -f templates/ -R -o json`,
	}
	command.Flags().StringVar(&o.providerConfiguration, "provider-configuration", "", "File with the Terraform code of the ProviderConfig (its spec.configuration), which modules can refer to.")
	o.AddFiles(command, true)
	o.AddOutput(command)
	return cli.New(command, o)
}

func (o *testOptions) Run(ctx context.Context) error {
	content, err := readFiles(ctx, &o.Options)
	if err != nil {
		return err
	}
	found := of[*infrav1.WorkspaceTemplate](content)
	if len(found) == 0 {
		return errors.New("the files have no WorkspaceTemplate")
	}
	configuration := ""
	if o.providerConfiguration != "" {
		data, err := o.ReadFile(o.providerConfiguration)
		if err != nil {
			return err
		}
		configuration = string(data)
	}
	tool, err := cli.FindTerraform(ctx, "")
	if err != nil {
		return err
	}
	test := &Test{TypeMeta: cli.TypeMeta("TemplateTest"), Templates: len(found), Findings: manifests.Findings{}, Validations: []Validation{}}
	for _, template := range found {
		test.Findings.CheckTemplate(template.Object, template.typed, configuration)
		if err := test.validate(ctx, tool, template, configuration); err != nil {
			return err
		}
	}
	test.Findings.Sort()
	if err := o.Printer().Document(test, test.show); err != nil {
		return err
	}
	if failed := test.Findings.Errors(); failed > 0 {
		return fmt.Errorf("%s found", output.Count(failed, "error"))
	}
	return nil
}

func (t *Test) show(p *output.Printer) {
	p.Findings(t.Findings)
	for _, v := range t.Validations {
		text := map[Result]string{ResultPassed: v.Tool + " validate found no errors", ResultFailed: v.Tool + " validate found errors", ResultNotRun: "tofu or terraform validate was not run: " + v.Message}[v.Result]
		p.Text("", output.Plain, v.Template+": "+output.OneLine(text))
	}
	if slices.ContainsFunc(t.Findings, func(f manifests.Finding) bool { return strings.Contains(f.Message, modules.NotDeclaredNote) }) {
		p.Text("", output.Plain, "If the ProviderConfig declares what a module refers to, name its Terraform code: --provider-configuration FILE")
	}
	p.Linef("%s tested: %s", output.Count(t.Templates, "template"), output.Count(len(t.Findings), "finding"))
}

// run runs a command in a directory, and returns its standard output. An error has its standard error.
func run(ctx context.Context, t *cli.Terraform, directory string, arguments ...string) ([]byte, error) {
	const initTimeout = 5 * time.Minute // How long init may take: it may download providers.
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	var stdout bytes.Buffer
	var stderr strings.Builder
	err := t.Run(ctx, func(command *exec.Cmd) {
		command.Dir, command.Stdout, command.Stderr = directory, &stdout, &stderr
		command.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "TF_DATA_DIR="+filepath.Join(directory, ".terraform"))
	}, arguments...)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, redact.Text(output.OneLine(stderr.String()), nil))
	}
	return stdout.Bytes(), err
}

// validate runs init and validate for the module of a template, and adds what was done.
func (t *Test) validate(ctx context.Context, tool *cli.Terraform, template source[*infrav1.WorkspaceTemplate], configuration string) error {
	v := Validation{Template: template.String(), Result: ResultNotRun}
	params := template.typed.Spec.Template.Spec.ForProvider
	module := modules.ParseTemplate(&template.typed.Spec)
	switch {
	case tool == nil:
		v.Message = "neither tofu nor terraform is on PATH"
	case params.Source != terraform.SourceInline:
		v.Message = "the template has only the address of the module, not its text"
	case !module.IsValid():
		v.Message = "the module has syntax errors"
	default:
		v.Tool = tool.Title
		diagnostics, message, err := diagnose(ctx, tool, params, module.Text(), configuration)
		if err != nil {
			return err
		}
		if v.Message = message; message == "" {
			v.Result = ResultPassed
			if t.Findings.AddDiagnostics(template.Object, module, diagnostics) {
				v.Result = ResultFailed
			}
		}
	}
	t.Validations = append(t.Validations, v)
	return nil
}

// diagnose returns the diagnostics of a module. message is why validate was not run; empty if it was.
func diagnose(ctx context.Context, t *cli.Terraform, params terraform.WorkspaceParameters, text, configuration string) (found []manifests.Diagnostic, message string, err error) {
	directory, err := os.MkdirTemp("", "captctl-template-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(directory) //nolint:errcheck // It is a temporary directory.
	name := "main.tf"
	if params.InlineFormat == terraform.FormatJSON {
		name = "main.tf.json"
	}
	for name, text := range map[string]string{name: text, "provider-configuration.tf": configuration} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			return nil, "", err
		}
	}
	if _, err := run(ctx, t, directory, "init", "-backend=false", "-input=false", "-no-color"); err != nil {
		return nil, fmt.Sprintf("%s init failed: %v", t.Title, err), ctx.Err() // The user may have interrupted it.
	}
	data, err := run(ctx, t, directory, "validate", "-json", "-no-color")
	var result struct {
		Diagnostics []manifests.Diagnostic `json:"diagnostics"`
	}
	if broken := json.Unmarshal(data[max(0, bytes.IndexByte(data, '{')):], &result); broken != nil {
		return nil, "", fmt.Errorf("running %s validate: %w", t.Title, errors.Join(err, broken))
	}
	return result.Diagnostics, "", nil
}

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
