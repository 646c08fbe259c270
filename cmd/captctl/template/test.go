// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
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
	configuration := modules.Parse(terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: t.configuration})
	findings := validation.ValidateWorkspaceTemplate(template.typed, configuration)
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

// initTimeout is how long init may take: it may download providers.
const initTimeout = 5 * time.Minute

// tool is tofu or terraform; nil if neither is on PATH.
type tool struct{ path, title string }

// findTool finds tofu or terraform on PATH.
func findTool(ctx context.Context) (*tool, error) {
	for _, name := range []string{"tofu", "terraform"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		var reported struct {
			Version string `json:"terraform_version"`
		}
		data, err := exec.CommandContext(ctx, path, "version", "-json").Output() //nolint:gosec // Users choose it with PATH.
		if err != nil {
			return nil, fmt.Errorf("running %s version: %w", path, err)
		}
		if from := bytes.IndexByte(data, '{'); from >= 0 { // Warnings may come first. Without a version, the name is enough.
			_ = json.Unmarshal(data[from:], &reported)
		}
		return &tool{path, strings.TrimSpace(name + " " + reported.Version)}, nil
	}
	return nil, nil
}

// run runs a command in a directory, and returns its standard output. An error has its standard error.
func (t *tool) run(ctx context.Context, directory string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, t.path, arguments...) //nolint:gosec // Users choose it with PATH.
	var stderr strings.Builder
	command.Dir, command.Stderr = directory, &stderr
	command.Env = append(os.Environ(), "TF_IN_AUTOMATION=1", "TF_DATA_DIR="+filepath.Join(directory, ".terraform"))
	data, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, redact.Text(output.OneLine(stderr.String()), nil))
	}
	return data, err
}

// validate runs init and validate for the module of a template, and adds what was done.
func (t *Test) validate(ctx context.Context, tool *tool, template source[*infrav1.WorkspaceTemplate]) error {
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
		v.Tool = tool.title
		diagnostics, message, err := tool.diagnose(ctx, params, module.Text(), t.configuration)
		if err != nil {
			return err
		}
		if v.Message = message; message == "" {
			v.Result = t.addDiagnostics(template, module, diagnostics)
		}
	}
	t.Validations = append(t.Validations, v)
	return nil
}

// diagnostic of validate -json: https://developer.hashicorp.com/terraform/cli/commands/validate#json-output-format.
type diagnostic struct {
	Severity string `json:"severity"`
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	Range    struct {
		Start struct {
			Line   int `json:"line"`
			Column int `json:"column"`
		} `json:"start"`
	} `json:"range"`
}

// diagnose returns the diagnostics of a module. message is why validate was not run; empty if it was.
func (t *tool) diagnose(ctx context.Context, params terraform.WorkspaceParameters, text, configuration string) (found []diagnostic, message string, err error) {
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
	if _, err := t.run(ctx, directory, "init", "-backend=false", "-input=false", "-no-color"); err != nil {
		return nil, fmt.Sprintf("%s init failed: %v", t.title, err), ctx.Err() // The user may have interrupted it.
	}
	data, err := t.run(ctx, directory, "validate", "-json", "-no-color")
	var result struct {
		Diagnostics []diagnostic `json:"diagnostics"`
	}
	if broken := json.Unmarshal(data[max(0, bytes.IndexByte(data, '{')):], &result); broken != nil {
		return nil, "", fmt.Errorf("running %s validate: %w", t.title, errors.Join(err, broken))
	}
	return result.Diagnostics, "", nil
}

// addDiagnostics adds findings, except for those at places that have a finding already. An error in a line with a placeholder is a warning: the
// value of the variable decides.
func (t *Test) addDiagnostics(template source[*infrav1.WorkspaceTemplate], module *modules.Parsed, diagnostics []diagnostic) Result {
	result := ResultPassed
	for _, d := range diagnostics {
		start, level := d.Range.Start, validate.LevelError
		if d.Severity != "error" || module.HasPlaceholder(start.Line) {
			level = validate.LevelWarning
		} else {
			result = ResultFailed
		}
		message := redact.Text(output.OneLine(d.Summary+": "+d.Detail), nil)
		if start.Line > 0 {
			message = fmt.Sprintf("line %d, column %d: %s", start.Line, start.Column, message)
		}
		finding := validate.NewFinding(template.Object, level, modulePath, message)
		known := func(other validate.Finding) bool {
			return other.File == finding.File && other.Line == finding.Line && other.Column == finding.Column && start.Line > 0
		}
		if !slices.ContainsFunc(t.Findings, known) {
			t.Findings = append(t.Findings, finding)
		}
	}
	return result
}
