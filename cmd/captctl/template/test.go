// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/manifest"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/validate"
	"github.com/capt-provider/capt/migrate"
)

// Test is the result of captctl template test.
type Test struct {
	metav1.TypeMeta `json:",inline"`
	Templates       int                `json:"templates"`   // Templates is how many templates were tested.
	Findings        []validate.Finding `json:"findings"`    // Findings are sorted by file and line.
	Validations     []Validation       `json:"validations"` // Validations has what was done with tofu or terraform, by template.

	configuration string
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

// testOptions are the options of template test.
type testOptions struct {
	files
	providerConfiguration string
}

func newTest(environment *cli.Environment) *cobra.Command {
	o := &testOptions{files: newFiles(environment)}
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
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	command.Flags().StringVar(&o.providerConfiguration, "provider-configuration", "", "File with the Terraform code of the ProviderConfig (its spec.configuration), which modules can refer to.")
	o.addFlags(command)
	return command
}

// Run tests and prints.
func (o *testOptions) Run(ctx context.Context) error {
	content, err := o.read(ctx)
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
	tool, err := findTool(ctx)
	if err != nil {
		return err
	}
	test := &Test{
		configuration: configuration,
		TypeMeta:      metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "TemplateTest"},
		Templates:     len(found), Findings: []validate.Finding{}, Validations: []Validation{},
	}
	for i := range found {
		test.check(found[i])
		if err := test.validate(ctx, tool, found[i]); err != nil {
			return err
		}
	}
	slices.SortStableFunc(test.Findings, func(a, b validate.Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if err := o.Printer(o.output.Format()).Document(test, test.show); err != nil {
		return err
	}
	if failed := validate.Errors(test.Findings); failed > 0 {
		return fmt.Errorf("%s found", output.Count(failed, "error"))
	}
	return nil
}

// ofModule matches the fields whose warnings are what Terraform rejects.
var ofModule = regexp.MustCompile(`^(spec\.publishOutputs|spec\.template\.spec\.forProvider\.(module|vars|varmap))\b`)

// check applies the rules. Warnings about the module are errors, unless values of variables decide.
func (t *Test) check(template source[*infrav1.WorkspaceTemplate]) {
	configuration := modules.ParseTemplate(terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: t.configuration})
	findings := templates.ValidateWorkspaceTemplate(template.typed, configuration)
	for _, err := range findings.Errors {
		t.add(template.Object, validate.LevelError, err.Field, err.Detail)
	}
	for _, warning := range findings.Warnings {
		path, message, _ := strings.Cut(warning, ": ")
		level := validate.LevelWarning
		if ofModule.MatchString(path) && !strings.HasSuffix(message, modules.PlaceholderNote) {
			level = validate.LevelError
		}
		t.add(template.Object, level, path, message)
	}
}

func (t *Test) add(object *manifest.Object, level validate.Level, path, message string) {
	t.Findings = append(t.Findings, validate.NewFinding(object, level, path, message))
}

// show prints the findings, and what was run.
func (t *Test) show(p *output.Printer) {
	validate.Show(p, t.Findings)
	for _, v := range t.Validations {
		text := map[Result]string{ResultPassed: v.Tool + " validate found no errors", ResultFailed: v.Tool + " validate found errors", ResultNotRun: "tofu or terraform validate was not run: " + v.Message}[v.Result]
		p.Text("", output.Plain, v.Template+": "+output.OneLine(text))
	}
	if slices.ContainsFunc(t.Findings, func(f validate.Finding) bool { return strings.Contains(f.Message, modules.NotDeclaredNote) }) {
		p.Text("", output.Plain, "If the ProviderConfig declares what a module refers to, name its Terraform code: --provider-configuration FILE")
	}
	p.Linef("%s tested: %s", output.Count(t.Templates, "template"), output.Count(len(t.Findings), "finding"))
}
